package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// defaultState is where a gateway keeps its keys and what the server does not
// have yet.
const defaultState = "powerbox-gateway"

// gatewayListen is where a gateway listens unless told otherwise.
const gatewayListen = "127.0.0.1:8701"

// gatewayOptions are the flags of a gateway that runs.
type gatewayOptions struct {
	state      string
	passphrase string // file
	listen     string
	upstream   string
	grpc       string // where gRPC is taken, "" for nowhere
	address    string // where clients reach that; "" for grpc
	lease      time.Duration
	lazy       time.Duration
	feeds      []string // relays of the feed
	feedToken  string   // file with what is shown to them
	dev        bool
	metrics    string // address of the metrics, "" for none
	tls        config.TLS
	proxies    config.Proxies
	traces     bool
	mcp        mcpOptions
}

func newGateway(p *program) *cobra.Command {
	var o gatewayOptions
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run a gateway apart from the server, in front of one agent",
		Long: "The gateway decides by itself, keeps its records on its own disk until the server has them, and follows the\n" +
			"feed of revocations: without news for the time of the lease it denies everything that it enforces. Enrol it\n" +
			"first. The agent's gateway_url in the server's configuration says where it is reached.",
		Example: "  powerbox gateway token --agent documents > token          # an operator, at the server\n" +
			"  powerbox gateway enroll --server https://powerbox.example.org --token-file token\n" +
			"  powerbox gateway --listen 0.0.0.0:8701 --upstream http://127.0.0.1:9001\n" +
			"  powerbox gateway --mcp-exec -- npx -y @modelcontextprotocol/server-filesystem /srv/files",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.mcp.command = args
			if err := o.mcp.check(); err != nil {
				return usage(err)
			}
			if o.mcp.stdio && o.tls.Key != "" {
				return usage(errors.New("--stdio speaks to a gateway without TLS, on loopback"))
			}
			if o.mcp.stdio && !cmd.Flags().Changed("listen") {
				o.listen = "127.0.0.1:0" // hosts start several
			}
			if err := checkFeeds(o.feeds); err != nil {
				return usage(fmt.Errorf("--feed: %w", err))
			}
			if (o.tls.Certificate == "") != (o.tls.Key == "") || o.tls.ClientCA != "" && o.tls.Key == "" {
				return usage(errors.New("want --tls-certificate and --tls-key together, and --client-ca only with them"))
			}
			if _, err := proxiesOf(o.proxies); err != nil {
				return usage(fmt.Errorf("--trusted-proxy, --proxy-address: %w", err))
			}
			defer tune(p.env)()
			o.mcp.read = func(file string) (holder.Capability, error) { return p.readCapability(file, "") }
			return runGateway(cmd.Context(), process{stdin: p.stdin, stdout: p.stdout, stderr: p.stderr, now: p.now}, o)
		},
	}
	cmd.Flags().StringVar(&o.state, "state", defaultState, "`directory` of the gateway's keys and records")
	cmd.Flags().StringVar(&o.passphrase, "passphrase-file", "", "`file` with the passphrase under which its keys are encrypted")
	cmd.Flags().StringVar(&o.listen, "listen", gatewayListen, "`address` to listen on, host:port")
	cmd.Flags().StringVar(&o.upstream, "upstream", "", "`URL` of the agent behind, where it is another than in the server's configuration")
	cmd.Flags().StringVar(&o.grpc, "grpc-listen", "", "`address` to take gRPC on, host:port; without it gRPC is not taken")
	cmd.Flags().StringVar(&o.address, "grpc-address", "", "`address` that clients use for gRPC; default that of --grpc-listen")
	cmd.Flags().DurationVar(&o.lazy, "lazy", 0, "learn of revocations by asking so often, at most half of the lease, and hold no stream open; 0 for at once")
	cmd.Flags().DurationVar(&o.lease, "lease", feed.MaxLease, "how long to go on without news of revocations; at most 30s")
	cmd.Flags().StringArrayVar(&o.feeds, "feed", nil, "`URL` of a relay of the feed (powerbox relay) to follow rather than the server, which is asked where no relay can be followed; repeat it for several, the first is preferred")
	cmd.Flags().StringVar(&o.feedToken, "feed-token-file", "", "`file` with the bearer token that is shown to the relays")
	cmd.Flags().BoolVar(&o.dev, "dev", false, "admit the built-in users of a server that runs with --dev; NOT SAFE outside experiments")
	cmd.Flags().StringVar(&o.metrics, "telemetry", "", "`address` of the metrics for Prometheus, host:port, as telemetry.listen of a server")
	cmd.Flags().StringVar((*string)(&o.tls.Certificate), "tls-certificate", "", "PEM `file` with the gateway's certificate chain; without it TLS is not spoken. Read again when it changes")
	cmd.Flags().StringVar((*string)(&o.tls.Key), "tls-key", "", "PEM `file` with its private key")
	cmd.Flags().StringVar((*string)(&o.tls.ClientCA), "client-ca", "", "PEM `file` with the authorities for client certificates")
	cmd.Flags().StringSliceVar(&o.proxies.Trusted, "trusted-proxy", nil, "`networks` of proxies in front of the gateway that are believed about the addresses of their clients, as proxies.trusted of a server")
	cmd.Flags().StringVar(&o.proxies.Address, "proxy-address", peer.ForwardedFor, "how they tell an address: x-forwarded-for, forwarded or proxy-protocol")
	cmd.Flags().BoolVar(&o.traces, "traces", false, "make a span of every call and send it to where OTEL_* says")
	cmd.Flags().BoolVar(&o.mcp.exec, "mcp-exec", false, "run the command behind -- for every session, an MCP server that speaks by its standard input and output")
	cmd.Flags().StringSliceVar(&o.mcp.env, "mcp-env", nil, "`names` of variables of the environment that the command gets beside "+strings.Join(given, ", "))
	cmd.Flags().IntVar(&o.mcp.sessions, "mcp-sessions", 32, "how many sessions, and so processes, may be open at once")
	cmd.Flags().IntVar(&o.mcp.share, "mcp-client-sessions", 0, "how many of them one client may have, also under several capabilities; 0 for a quarter")
	cmd.Flags().BoolVar(&o.mcp.stdio, "stdio", false, "take one client by our own standard input and output, for hosts that start their servers as commands")
	cmd.Flags().StringVar(&o.mcp.capability, "capability", "", "with --stdio, capability `file` that the host's calls are made under; read again for every message")
	cmd.Flags().StringVar(&o.mcp.key, "key", "", "with --stdio, `file` with the holder's key")
	cmd.AddCommand(newGatewayToken(p), newGatewayEnroll(p), newGatewayList(p), newGatewayClose(p), newGatewaySpool(p), newGatewayAcceptOlder(p))
	return cmd
}

func newGatewayToken(p *program) *cobra.Command {
	var agent string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:     "token --agent ID",
		Short:   "Make a token that enrols one gateway of an agent, once",
		Example: "  powerbox gateway token --agent documents --ttl 15m > token",
	}
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.Flags().StringVar(&agent, "agent", "", "`id` of the agent that the gateway is in front of; required")
	cmd.Flags().DurationVar(&ttl, "ttl", 15*time.Minute, "how long the token can be used")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if agent == "" {
			return usage(errors.New("--agent is missing; want the id of the agent that the gateway is in front of"))
		}
		op, err := p.operator(o)
		if err != nil {
			return err
		}
		var t struct {
			Token   string    `json:"token"`
			Agent   string    `json:"agent"`
			Expires time.Time `json:"expires"`
		}
		if err := op.call(cmd.Context(), http.MethodPost, "/v1/gateway-tokens", map[string]any{"agent": agent, "ttl": int(ttl.Seconds())}, &t); err != nil {
			return err
		}
		if *output == "json" {
			return p.printJSON(t)
		}
		fmt.Fprintln(p.stdout, t.Token)
		fmt.Fprintf(p.stderr, "it enrols one gateway of %s, once, until %s\n", t.Agent, shortTime(t.Expires))
		return nil
	}
	return cmd
}

// enrolment is what a gateway keeps of its enrolment.
type enrolment struct {
	Server  string        `json:"server"`
	Gateway string        `json:"gateway"`
	Agent   string        `json:"agent"`
	Feed    signed.Public `json:"feed"`
	Signs   string        `json:"record_algorithm,omitempty"` // of its records; absent for Ed25519
	// Keys are the ids of the gateway's keys by their files; absent where an earlier
	// version enrolled it.
	Keys map[string]string `json:"keys,omitempty"`
}

// known are the keys that an enrolled gateway must have.
func (e enrolment) known() map[string]string {
	if len(e.Keys) > 0 {
		return e.Keys
	}
	return map[string]string{"gateway.secret": "", "agent-context.jwk": "", keyring.EvidenceName(e.algorithm()) + ".secret": ""}
}

// adviseEnrolling says what to do when a gateway has lost its key.
func (e enrolment) adviseEnrolling(string) string {
	return fmt.Sprintf("if it is lost for good, close the gateway at the server (powerbox gateway close %s) and enrol a new --state (powerbox gateway enroll). "+
		"Records that this gateway has not sent stay in its spool folder: powerbox gateway spool check", e.Gateway)
}

// algorithm is that of the signatures of the gateway's records.
func (e enrolment) algorithm() string {
	if e.Signs == "" {
		return evidence.Ed25519
	}
	return e.Signs
}

func newGatewayEnroll(p *program) *cobra.Command {
	var server, file, state, algorithm, passphrase string
	var unless bool
	cmd := &cobra.Command{
		Use:   "enroll --server URL --token-file FILE",
		Short: "Make this gateway known to its server, with keys that are made here",
		Long:  "The token holds the fingerprint of the server's key, which is pinned. To rotate the keys enrol a new state\nand close the old gateway.",
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&server, "server", "", "`URL` of the server, its issuer.url; required")
	cmd.Flags().StringVar(&file, "token-file", "", "`file` with the token, - for standard input; required")
	cmd.Flags().StringVar(&state, "state", defaultState, "`directory` that the gateway's keys and records will be in")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase under which its keys will be encrypted")
	cmd.Flags().BoolVar(&unless, "unless-enrolled", false, "do nothing where the state is enrolled already, for whoever runs it before every start")
	cmd.Flags().StringVar(&algorithm, "algorithm", evidence.Ed25519, "`algorithm` that signs records: Ed25519, ES256 or ML-DSA-87, which a server with long retention wants")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if server == "" || file == "" {
			return usage(errors.New("want --server URL and --token-file FILE"))
		}
		if err := safeForToken(server); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(state, "enrolment.json")); err == nil && unless {
			fmt.Fprintf(p.stderr, "%s is enrolled already\n", state)
			return nil
		}
		data, err := p.readFile(file)
		if err != nil {
			return err
		}
		fingerprint, secret, ok := issuer.SplitGatewayToken(string(data))
		if !ok {
			return usage(fmt.Errorf("%s holds no token of powerbox gateway token", file))
		}
		if _, err := os.Stat(filepath.Join(state, "enrolment.json")); err == nil {
			return fmt.Errorf("%s is enrolled already; want another --state", state)
		}
		keys, err := openGatewayKeys(state, passphrase)
		if err != nil {
			return err
		}
		kept, err := keys.enrol(cmd.Context(), server, fingerprint, secret, algorithm)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.printJSON(kept)
		}
		fmt.Fprintf(p.stdout, "enrolled %s in front of %s\n", kept.Gateway, kept.Agent)
		return nil
	}
	return cmd
}

// enrol makes the keys known to the server whose key has that fingerprint, and
// keeps what it says.
func (k *gatewayKeys) enrol(ctx context.Context, server, fingerprint, secret, algorithm string) (enrolment, error) {
	_, key, err := k.ring.Evidence(algorithm, "gateway")
	if err != nil {
		return enrolment{}, usage(err)
	}
	record, err := json.Marshal(key)
	if err != nil {
		return enrolment{}, err
	}
	e, err := link.Enroll(ctx, outbound.New(upstreamPolicy()).Transport(), server, fingerprint, k.own,
		link.Enrolment{Secret: secret, Record: string(record), Context: k.context.Public().JWK().String()})
	if err != nil {
		return enrolment{}, err
	}
	kept := enrolment{Server: e.Server, Gateway: e.Gateway, Agent: e.Agent, Feed: e.Feed, Signs: algorithm, Keys: k.ring.Used()}
	return kept, k.keep(kept)
}

func newGatewayList(p *program) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the gateways that were ever enrolled, and what the open ones last said of themselves"}
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op, err := p.operator(o)
		if err != nil {
			return err
		}
		var all []gatewayStatus
		if err := op.get(cmd.Context(), "/v1/gateways", &all); err != nil {
			return err
		}
		if *output == "json" {
			return p.printJSON(all)
		}
		w := tabwriter.NewWriter(p.visible(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "GATEWAY\tAGENT\tENROLLED\tHEARD\tVERSION\tREVOCATIONS\tUNSENT")
		for _, g := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.ID, g.Agent, shortTime(g.Enrolled), g.condition())
		}
		return w.Flush()
	}
	return cmd
}

// gatewayStatus is a gateway as the server tells it.
type gatewayStatus struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Key      string     `json:"key"`
	Enrolled time.Time  `json:"enrolled"`
	Closed   *time.Time `json:"closed,omitempty"`
	Heard    *struct {
		At       time.Time `json:"at"`
		Version  string    `json:"version"`
		Unsent   int64     `json:"unsent"`
		Sequence int64     `json:"sequence"`
		Behind   int64     `json:"behind"`
	} `json:"heard,omitempty"`
}

// condition is when it was heard of, its version, how far it enforces revocations and how
// many records it still has to send, parted by tabs.
func (g gatewayStatus) condition() string {
	switch {
	case g.Closed != nil:
		return "closed " + shortTime(*g.Closed) + "\t\t\t"
	case g.Heard == nil:
		return "not within an hour\t\t\t"
	}
	revocations := "all"
	if g.Heard.Behind > 0 {
		revocations = fmt.Sprintf("%d behind", g.Heard.Behind)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%d", shortTime(g.Heard.At), cmp.Or(g.Heard.Version, "unknown"), revocations, g.Heard.Unsent)
}

func newGatewayClose(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "close GATEWAY", Short: "End a gateway: nothing of it is believed from now on", Args: cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		op, err := p.operator(o)
		if err != nil {
			return err
		}
		var g gatewayStatus
		if err := op.call(cmd.Context(), http.MethodDelete, "/v1/gateways/"+url.PathEscape(args[0]), nil, &g); err != nil {
			return err
		}
		if *output == "json" {
			return p.printJSON(g)
		}
		fmt.Fprintf(p.stdout, "closed %s of %s\n", g.ID, g.Agent)
		return nil
	}
	return cmd
}

// openGatewayKeys makes or reads the keys of a gateway, in a directory that is
// its owner's alone.
func openGatewayKeys(state, passphraseFile string) (*gatewayKeys, error) {
	passphrase, err := readPassphrase(passphraseFile)
	if err != nil {
		return nil, fmt.Errorf("--passphrase-file: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(state)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %o); run chmod 700 %s", state, info.Mode().Perm(), state)
	}
	ring, err := keyring.Open(filepath.Join(state, "keys"), rand.Reader, passphrase)
	if err != nil {
		return nil, err
	}
	k := &gatewayKeys{state: state, ring: ring}
	if err := k.expect(); err != nil {
		return nil, err
	}
	if k.own, err = ring.Gateway(); err != nil {
		return nil, err
	}
	if k.context, err = ring.Agent("context"); err != nil {
		return nil, err
	}
	return k, nil
}

// expect has the keys of an enrolled gateway be those that it was enrolled with.
func (k *gatewayKeys) expect() error {
	if _, err := os.Stat(filepath.Join(k.state, "enrolment.json")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	e, err := k.enrolled()
	if err != nil {
		return err
	}
	k.ring.Advice = e.adviseEnrolling
	return k.ring.Expect(e.known())
}

func (k *gatewayKeys) keep(e enrolment) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(k.state, "enrolment.json")
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// enrolled reads what was kept.
func (k *gatewayKeys) enrolled() (enrolment, error) {
	var e enrolment
	name := filepath.Join(k.state, "enrolment.json")
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return e, fmt.Errorf("there is no %s; enrol the gateway first with powerbox gateway enroll", name)
	}
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	return e, err
}

// listenOn opens the address of a gateway.
func listenOn(p process, o gatewayOptions, l net.Listener) error {
	if o.dev && !loopback(l.Addr()) {
		return errors.Join(errors.New("--dev listens on loopback addresses only"), l.Close())
	}
	if o.dev {
		fmt.Fprintln(p.stderr, "NOT SAFE: --dev admits built-in users with fixed tokens. Use it for experiments on this machine only.")
	}
	return nil
}
