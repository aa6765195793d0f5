package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/app/remote"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

const gatewayLong = "The gateway decides without asking the server and keeps records on its own disk until the server has them. It follows the\n" +
	"revocation feed: without news for the time of the lease, it denies everything that it enforces. Enroll it first. The\n" +
	"agent's gateway_url in the server's configuration is its public address."

func newGateway(p *cli.Program) *cobra.Command {
	var o remote.Options
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run a remote gateway in front of one agent",
		Long:  gatewayLong,
		Example: "  powerbox gateway token --agent documents > token          # an operator, at the server\n" +
			"  powerbox gateway enroll --server https://powerbox.example.org --token-file token\n" +
			"  powerbox gateway --listen 0.0.0.0:8701 --upstream http://127.0.0.1:9001\n" +
			"  powerbox gateway --mcp-exec -- npx -y @modelcontextprotocol/server-filesystem /srv/files",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.MCP.Command = args
			if err := checkGateway(o); err != nil {
				return cli.Usage(err)
			}
			if o.MCP.Stdio && !cmd.Flags().Changed("listen") {
				o.Listen = "127.0.0.1:0" // hosts start several
			}
			defer serve.Tune(p.Env)()
			o.MCP.Read = func(file string) (holder.Capability, error) { return p.ReadCapability(file, "") }
			return remote.Run(cmd.Context(), remote.Process{Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Now: p.Now}, o)
		},
	}
	cmd.Flags().StringVar(&o.State, "state", remote.DefaultState, "`directory` of the gateway's keys and records")
	cmd.Flags().StringVar(&o.Passphrase, "passphrase-file", "", "`file` with the passphrase under which its keys are encrypted")
	cmd.Flags().StringVar(&o.Credential, "credential-file", "", "`file` with the operator's secret for the agent, which is added to decided calls (docs/how-to/credentials.md)")
	cmd.Flags().StringVar(&o.Listen, "listen", proxy.GatewayListen, "`address` to listen on, host:port")
	cmd.Flags().StringVar(&o.Upstream, "upstream", "", "`URL` of the agent, if it differs from the server's configuration")
	cmd.Flags().StringVar(&o.GRPC, "grpc-listen", "", "`address` for gRPC, host:port; default: no gRPC")
	cmd.Flags().StringVar(&o.Address, "grpc-address", "", "`address` that clients use for gRPC; default that of --grpc-listen")
	cmd.Flags().DurationVar(&o.Lazy, "lazy", 0, "poll for revocations at this interval, at most half of the lease, instead of an open stream; 0 for a stream")
	cmd.Flags().DurationVar(&o.Lease, "lease", feed.MaxLease, "how long to serve without news of revocations; at most 30s")
	cmd.Flags().StringArrayVar(&o.Feeds, "feed", nil, "`URL` of a relay of the feed (powerbox relay) to follow rather than the server, the server is the fallback; repeat it for several, the first is preferred")
	cmd.Flags().StringVar(&o.FeedToken, "feed-token-file", "", "`file` with the bearer token that is shown to the relays")
	cmd.Flags().BoolVar(&o.Dev, "dev", false, "admit the built-in users of a server that runs with --dev; NOT SAFE outside experiments")
	cmd.Flags().StringVar(&o.Telemetry.Listen, "telemetry", "", "`address` of the metrics for Prometheus, host:port, as telemetry.listen of a server")
	cmd.Flags().StringVar((*string)(&o.TLS.Certificate), "tls-certificate", "", "PEM `file` with the gateway's certificate chain; default: no TLS. The file is read again when it changes")
	cmd.Flags().StringVar((*string)(&o.TLS.Key), "tls-key", "", "PEM `file` with its private key")
	cmd.Flags().StringVar((*string)(&o.TLS.ClientCA), "client-ca", "", "PEM `file` with the authorities for client certificates")
	cmd.Flags().StringSliceVar(&o.Proxies.Trusted, "trusted-proxy", nil, "`networks` of proxies in front of the gateway that are trusted to name the addresses of their clients, as proxies.trusted of a server")
	cmd.Flags().StringVar(&o.Proxies.Address, "proxy-address", peer.ForwardedFor, "header or protocol that names the address: x-forwarded-for, forwarded or proxy-protocol")
	cmd.Flags().BoolVar(&o.Telemetry.Traces, "traces", false, "send a span of every call to the address in OTEL_*")
	cmd.Flags().BoolVar(&o.Telemetry.Logs, "logs", false, "send the log to the address in OTEL_*, and to standard error as before")
	cmd.Flags().StringVar(&o.Door.Listen, "door-listen", "", "`address` at which another gateway asks for decisions, host:port; default: no door (docs/how-to/other-gateways.md)")
	cmd.Flags().StringVar(&o.Door.Path, "door-path", "", "`path` at which that gateway has the agent; default /agents/ID")
	cmd.Flags().StringVar(&o.Door.Token, "door-token-file", "", "`file` with the token that it shows, needed beyond loopback")
	cmd.Flags().BoolVar(&o.Door.Certificates, "door-peer-certificates", false, "believe the client certificates that it reports; needs --door-token-file")
	cmd.Flags().BoolVar(&o.Door.GRPCOnly, "door-grpc-only", false, "that gateway asks over gRPC alone: answers come sooner, and HTTP is not answered")
	cmd.Flags().BoolVar(&o.MCP.Exec, "mcp-exec", false, "run the command after -- for every session: an MCP server on standard input and output")
	cmd.Flags().StringSliceVar(&o.MCP.Env, "mcp-env", nil, "`names` of variables of the environment that the command gets beside "+strings.Join(remote.Given, ", "))
	cmd.Flags().IntVar(&o.MCP.Sessions, "mcp-sessions", 32, "maximum number of open sessions, each with its own process")
	cmd.Flags().IntVar(&o.MCP.Share, "mcp-client-sessions", 0, "how many of these sessions one client may have, under all its capabilities; 0 for a quarter")
	cmd.Flags().BoolVar(&o.MCP.Stdio, "stdio", false, "serve one client on standard input and output, for hosts that start their servers as commands")
	cmd.Flags().StringVar(&o.MCP.Capability, "capability", "", "with --stdio, capability `file` that the host's calls are made under; read again for every message")
	cmd.Flags().StringVar(&o.MCP.Key, "key", "", "with --stdio, `file` with the holder's key")
	cmd.AddCommand(newGatewayToken(p), newGatewayEnroll(p), newGatewayList(p), newGatewayClose(p), newGatewaySpool(p), newGatewayAcceptOlder(p))
	return cmd
}

// checkGateway reports flags that do not go together.
func checkGateway(o remote.Options) error {
	if err := o.MCP.Check(); err != nil {
		return err
	}
	if o.MCP.Stdio && o.TLS.Key != "" {
		return errors.New("--stdio speaks to a gateway without TLS, on loopback")
	}
	if err := o.Door.Check(o.MCP.Exec); err != nil {
		return err
	}
	if err := remote.CheckFeeds(o.Feeds); err != nil {
		return fmt.Errorf("--feed: %w", err)
	}
	if (o.TLS.Certificate == "") != (o.TLS.Key == "") || o.TLS.ClientCA != "" && o.TLS.Key == "" {
		return errors.New("want --tls-certificate and --tls-key together, and --client-ca only with them")
	}
	if _, err := serve.ProxiesOf(o.Proxies); err != nil {
		return fmt.Errorf("--trusted-proxy, --proxy-address: %w", err)
	}
	return nil
}

func newGatewayToken(p *cli.Program) *cobra.Command {
	var agent string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:     "token --agent ID",
		Short:   "Create a token that enrolls one gateway",
		Example: "  powerbox gateway token --agent documents --ttl 15m > token",
	}
	v := p.OperatorVerb(cmd)
	cmd.Flags().StringVar(&agent, "agent", "", "`id` of the agent that the gateway is in front of (required)")
	cli.AgentFlag(cmd, "agent")
	cmd.Flags().DurationVar(&ttl, "ttl", 15*time.Minute, "how long the token can be used")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if agent == "" {
			return cli.Usage(errors.New("--agent is missing; want the id of the agent that the gateway is in front of"))
		}
		type enrolls struct {
			Token   string    `json:"token"`
			Agent   string    `json:"agent"`
			Expires time.Time `json:"expires"`
		}
		return cli.Show(cmd.Context(), v, cli.Post("/v1/gateway-tokens", map[string]any{"agent": agent, "ttl": int(ttl.Seconds())}), func(t enrolls) error {
			cli.Printf(p.Stdout, "%s\n", t.Token)
			cli.Printf(p.Stderr, "it enrols one gateway of %s, once, until %s\n", t.Agent, plain.Time(t.Expires))
			return nil
		})
	}
	return cmd
}

func newGatewayEnroll(p *cli.Program) *cobra.Command {
	var server, file, state, algorithm, passphrase, signer string
	var unless bool
	cmd := &cobra.Command{
		Use:     "enroll --server URL --token-file FILE",
		Short:   "Enroll this gateway at its server",
		Example: "  powerbox gateway enroll --server https://powerbox.example.org --token-file token",
		Long: "The gateway creates its keys on this machine. The token contains the fingerprint of the server's key, which the gateway\n" +
			"pins. To rotate the keys, enroll with a new state directory and close the old gateway.",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().StringVar(&server, "server", "", "`URL` of the server, its issuer.url (required)")
	cmd.Flags().StringVar(&file, "token-file", "", "`file` with the token, - is standard input (required)")
	cmd.Flags().StringVar(&state, "state", remote.DefaultState, "`directory` for the gateway's keys and records")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase under which its keys will be encrypted")
	cmd.Flags().StringVar(&signer, "signer-file", "", "`file` that says where its signing keys are kept that are not files; the gateway remembers it (docs/how-to/keys.md)")
	cmd.Flags().BoolVar(&unless, "unless-enrolled", false, "do nothing if the state is already enrolled, for scripts that run before every start")
	cmd.Flags().StringVar(&algorithm, "algorithm", evidence.Ed25519, "`algorithm` that signs records: Ed25519, ES256 or ML-DSA-87 (for long retention)")
	cli.Values(cmd, "algorithm", "Ed25519", "ES256", "ML-DSA-87")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if server == "" || file == "" {
			return cli.Usage(errors.New("want --server URL and --token-file FILE"))
		}
		if err := cli.SafeForToken(server); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(state, "enrolment.json")); err == nil && unless {
			cli.Printf(p.Stderr, "%s is enrolled already\n", state)
			return nil
		}
		data, err := p.ReadFile(file)
		if err != nil {
			return err
		}
		fingerprint, secret, ok := issuer.SplitGatewayToken(string(data))
		if !ok {
			return cli.Usage(fmt.Errorf("%s does not contain a token from powerbox gateway token", file))
		}
		if _, err := os.Stat(filepath.Join(state, "enrolment.json")); err == nil {
			return fmt.Errorf("%s is enrolled already; want another --state", state)
		}
		keys, err := remote.OpenKeys(state, passphrase, signer, p.Now)
		if err != nil {
			return err
		}
		defer keys.Ring.Close()
		if signer, err = absolute(signer); err != nil {
			return err
		}
		kept, err := enrol(cmd.Context(), keys, server, fingerprint, secret, algorithm, signer)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintJSON(kept)
		}
		cli.Printf(p.Stdout, "enrolled %s in front of %s\n", kept.Gateway, kept.Agent)
		return nil
	}
	return cmd
}

// absolute is a file as it is found from every folder, "" for none.
func absolute(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	return filepath.Abs(file)
}

// enrol makes the keys known to the server whose key has that fingerprint, and
// keeps what it says.
func enrol(ctx context.Context, k *remote.Keys, server, fingerprint, secret, algorithm, signerFile string) (remote.Enrolment, error) {
	_, key, err := k.Ring.Evidence(algorithm, "gateway")
	if err != nil {
		return remote.Enrolment{}, cli.Usage(err)
	}
	record, err := json.Marshal(key)
	if err != nil {
		return remote.Enrolment{}, err
	}
	e, err := link.Enroll(ctx, outbound.New(outbound.Configured()).Transport(), server, fingerprint, k.Own,
		link.Enrolment{Secret: secret, Record: string(record), Context: k.Context.Public().JWK().String()})
	if err != nil {
		return remote.Enrolment{}, err
	}
	kept := remote.Enrolment{Server: e.Server, Gateway: e.Gateway, Agent: e.Agent, Feed: e.Feed, Signs: algorithm, Signer: signerFile, Keys: k.Ring.Used()}
	return kept, k.Keep(kept)
}

func newGatewayList(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List enrolled gateways with their last reported state",
		Example: "  powerbox gateway list",
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get("/v1/gateways"), func(all []cli.GatewayStatus) error {
			w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
			cli.Printf(w, "GATEWAY\tAGENT\tENROLLED\tHEARD\tVERSION\tREVOCATIONS\tUNSENT\n")
			p.Empty(len(all), "no gateway is enrolled")
			for _, g := range all {
				heard, version, revocations, unsent := condition(g)
				cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.ID, g.Agent, plain.Time(g.Enrolled), heard, version, revocations, unsent)
			}
			return w.Flush()
		})
	}
	return cmd
}

// condition is when it was heard of, its version, how far it enforces revocations and how
// many records it still has to send.
func condition(g cli.GatewayStatus) (heard, version, revocations, unsent string) {
	switch {
	case g.Closed != nil:
		return "closed " + plain.Time(*g.Closed), "", "", ""
	case g.Heard == nil:
		return "not within an hour", "", "", ""
	}
	revocations = "all"
	if g.Heard.Behind > 0 {
		revocations = fmt.Sprintf("%d behind", g.Heard.Behind)
	}
	return plain.Time(g.Heard.At), cmp.Or(g.Heard.Version, "unknown"), revocations, strconv.FormatInt(g.Heard.Unsent, 10)
}

func newGatewayClose(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "close GATEWAY", Short: "Close a gateway, so that the server rejects it",
		Example: "  powerbox gateway close gw_...",
		Args:    cobra.ExactArgs(1),
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return cli.Show(cmd.Context(), v, cli.Delete("/v1/gateways/"+url.PathEscape(args[0])), func(g cli.GatewayStatus) error {
			cli.Printf(p.Stdout, "closed %s of %s\n", g.ID, g.Agent)
			return nil
		})
	}
	return cmd
}
