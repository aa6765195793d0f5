package capability

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/proxy/attach"
)

const attachLong = `Attach runs beside one agent or client in any language, and holds its key. Use these addresses in the agent:

  http://127.0.0.1:8790/agents/NAME     in place of the protected agent NAME: its card leads every SDK here
  HTTP_PROXY=http://127.0.0.1:8790      for the agent's own http URLs; https cannot be signed in a tunnel
  one port per agent                    for gRPC (in the configuration)
  a Unix socket                         to request, narrow, delegate and present capabilities (--socket)

Attach adds to every call a capability that permits it, and a proof. Bodies and responses are not changed. With
--purpose it requests missing capabilities. With an inbound side in the configuration, each capability is bound to the
task of its call. docs/how-to/attach.md describes every key of the configuration.`

const attachExample = `  powerbox attach --card http://127.0.0.1:8700/agents/documents --key holder.jwk --session-file alice.session \
    --purpose 'Summarize the quarter'
  powerbox attach --card https://powerbox.example.org/agents/documents --key holder.jwk --capability capability.json
  powerbox attach --config attach.yaml
  curl --unix-socket attach.sock http://attach/v1/request -d '{"agent": "documents", "skills": ["search_documents"], "purpose": "Find Q1"}'`

// attachFlags say what the configuration does not.
type attachFlags struct {
	file, key, session, listen, socket, secret, purpose string
	cards, capabilities                                 []string
}

func newAttach(p *cli.Program) *cobra.Command {
	var f attachFlags
	cmd := &cobra.Command{
		Use:   "attach --card URL ... --key FILE | --config FILE",
		Short: "Run a proxy that adds capability and proof to an agent's calls",
		Long:  attachLong, Example: attachExample, Args: cobra.NoArgs,
	}
	output := cli.OutputFlag(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.cards, "card", nil, "`URL` of a protected agent or of its card; may be repeated")
	flags.StringVarP(&f.file, "config", "c", "", "configuration `file`, see docs/how-to/attach.md")
	flags.StringVar(&f.key, "key", "", "`file` with the agent's key, from powerbox keys new")
	flags.StringVar(&f.session, "session-file", "", "`file` with the user's access token, read again for every request")
	flags.StringVar(&f.listen, "listen", "", "loopback `address` to listen on (default 127.0.0.1:8790)")
	flags.StringVar(&f.socket, "socket", "", "Unix socket `file` to create, with mode 0600")
	flags.StringVar(&f.secret, "secret-file", "", "`file` to write a secret to; every client must send it in Proxy-Authorization")
	flags.StringSliceVar(&f.capabilities, "capability", nil, "capability `file`, as powerbox request writes it; may be repeated")
	flags.StringVar(&f.purpose, "purpose", "", "request the capabilities that calls to the agents of --card need, for this purpose")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.config()
		if err != nil {
			return err
		}
		defer serve.LimitMemory(p.Env)()
		return runAttach(cmd.Context(), p, c, *output)
	}
	return cmd
}

// config is the configuration of the file with the flags over it.
func (f attachFlags) config() (*config.Attach, error) {
	c := &config.Attach{Listen: "127.0.0.1:8790"}
	if f.file != "" {
		var err error
		if c, err = config.LoadAttach(f.file, os.ReadFile); err != nil {
			return nil, err
		}
	}
	for text, to := range map[*string]*config.Path{&f.key: &c.Key, &f.session: &c.SessionFile, &f.socket: &c.Socket, &f.secret: &c.SecretFile} {
		if *text != "" {
			*to = config.Path(*text)
		}
	}
	if f.listen != "" {
		c.Listen = f.listen
	}
	for _, name := range f.capabilities {
		c.Capabilities = append(c.Capabilities, config.Path(name))
	}
	for _, card := range f.cards {
		a := config.AttachAgent{Name: path.Base(attach.CardBase(card)), Card: card}
		if f.purpose != "" {
			a.Request = []config.AttachRequest{{Purpose: f.purpose}}
		}
		c.Agents = append(c.Agents, a)
	}
	switch {
	case len(c.Agents) == 0:
		return nil, cli.Usage(errors.New("there is no agent to call; name one with --card URL or in --config FILE"))
	case c.Key == "":
		return nil, cli.Usage(errors.New("--key is missing; make a key with: powerbox keys new holder.jwk"))
	case f.purpose != "" && len(f.cards) == 0:
		return nil, cli.Usage(errors.New("--purpose is for the agents of --card; in the configuration every request has its own"))
	}
	return c, nil
}

// runAttach runs until ctx ends, and then lets calls that are under way finish.
func runAttach(ctx context.Context, p *cli.Program, c *config.Attach, output string) error {
	log := slog.New(slog.NewJSONHandler(p.Stderr, nil))
	settings, err := attachSettings(p, c, log)
	if err != nil {
		return err
	}
	if c.SecretFile != "" {
		settings.Secret = rand.Text()
		if err := cli.WriteSecret(string(c.SecretFile), settings.Secret); err != nil {
			return err
		}
		defer func() { _ = os.Remove(string(c.SecretFile)) }() // no client uses it any more
	}
	a, err := attach.New(settings)
	if err != nil {
		return cli.Usage(err)
	}
	if !awaited(ctx, a.InboundFrom().Sub(p.Now())) {
		return nil
	}
	fronts, where, err := attachFronts(ctx, a, c, log)
	if err != nil {
		return err
	}
	if c.Socket != "" {
		defer func() { _ = os.Remove(string(c.Socket)) }() // the listener is closed
	}
	for name, problem := range a.Check(ctx) {
		if errors.Is(problem, attach.ErrMCP) {
			return errors.Join(cli.Usage(fmt.Errorf("agent %q: %w", name, problem)), serve.CloseAll(fronts))
		}
		if errors.Is(problem, attach.ErrNoAgent) {
			return errors.Join(fmt.Errorf("agent %q: %w%s", name, problem, agentsHere(p, c, name)), serve.CloseAll(fronts))
		}
		log.WarnContext(ctx, "an agent's card cannot be read yet", slog.String("agent", name), slog.Any("error", problem))
	}
	if err := printAttached(p, where, output); err != nil {
		return errors.Join(err, serve.CloseAll(fronts))
	}
	return serve.RunAll(ctx, fronts)
}

// awaited waits until contexts are good, which takes less than a second: the gateway then
// knows of a call in this time that the agent has not got it. It returns false if ctx ends
// before.
func awaited(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// agentsHere names the agents of the server's configuration, if the file is on this machine.
func agentsHere(p *cli.Program, c *config.Attach, name string) string {
	at := slices.IndexFunc(c.Agents, func(a config.AttachAgent) bool { return a.Name == name })
	own, err := p.LoadConfig(cli.DefaultConfig)
	if err != nil || at < 0 || !strings.HasPrefix(c.Agents[at].Card, own.Issuer.URL+"/") {
		return "; correct the URL. powerbox mode lists the agents at the server"
	}
	var ids []string
	for _, a := range own.Agents {
		ids = append(ids, a.ID)
	}
	return fmt.Sprintf("; %s configures [%s]", cli.DefaultConfig, strings.Join(ids, ", "))
}

// attachSettings are what the configuration makes of the process.
func attachSettings(p *cli.Program, c *config.Attach, log *slog.Logger) (attach.Config, error) {
	key, err := cli.LoadKey(string(c.Key))
	if err != nil {
		return attach.Config{}, err
	}
	client := &holder.Client{Key: key, HTTP: cli.NewHTTPClient(), Now: p.Now, Random: rand.Reader}
	if token := p.Env(cli.SessionEnv); token != "" {
		client.Session = func(context.Context, string) (string, error) { return token, nil }
	}
	if c.SessionFile != "" {
		if _, err := p.Session(cli.HolderFlags{SessionFile: string(c.SessionFile)}); err != nil {
			return attach.Config{}, err
		}
		client.Session = func(context.Context, string) (string, error) {
			return p.Session(cli.HolderFlags{SessionFile: string(c.SessionFile)})
		}
	}
	calls := outbound.New(outbound.Configured())
	out := attach.Config{Client: client, Transport: calls.Transport(), HTTP2: calls.HTTP2(), Log: log}
	for _, name := range c.Capabilities {
		held, err := p.ReadCapabilities(string(name))
		if err != nil {
			return out, err
		}
		for _, h := range held {
			if !slices.ContainsFunc(c.Agents, func(a config.AttachAgent) bool { return attach.CardBase(a.Card) == strings.TrimRight(h.Agent, "/") }) {
				log.Warn("a capability is of an agent that is not attached, by its URL", slog.String("file", string(name)), slog.String("agent", h.Agent))
			}
		}
		out.Held = append(out.Held, held...)
	}
	for _, a := range c.Agents {
		out.Peers = append(out.Peers, attachPeer(a))
	}
	out.Plans = config.Declared(c.Plans)
	if in := c.Inbound; in.Listen != "" {
		out.Inbound = &attach.Inbound{ID: in.ID, Agent: in.Agent, Forward: in.Forward, URL: in.URL}
	}
	return out, nil
}

func attachPeer(a config.AttachAgent) attach.Peer {
	out := attach.Peer{Name: a.Name, Card: a.Card, GRPC: a.GRPC, GRPCUpstream: a.GRPCUpstream, Floor: a.Floor}
	for _, r := range a.Request {
		out.Rules = append(out.Rules, attach.Rule{Skills: r.Skills, Lifetime: r.Lifetime, Tasks: r.Tasks, Request: holder.RequestParams{
			Grants: r.Grants, Operations: r.Operations, Purpose: r.Purpose, Query: r.Query, Push: r.Push, Card: r.Card,
		}})
	}
	for _, h := range a.Hand {
		out.Hand = append(out.Hand, attach.Hand(h))
	}
	return out
}

// attached is where the process is reached.
type attached struct {
	Proxy   string            `json:"proxy"`
	Agents  map[string]string `json:"agents"` // cards, by name
	GRPC    map[string]string `json:"grpc,omitempty"`
	Socket  string            `json:"socket,omitempty"`
	Inbound string            `json:"inbound,omitempty"`
}

// attachLimits are the connections that one address of attach may have, in all and of one
// client address.
var attachLimits = config.Limits{Connections: 1024, PerAddress: 128}

// attachFronts opens every address. After an error none of them is open.
func attachFronts(ctx context.Context, a *attach.Attach, c *config.Attach, log *slog.Logger) ([]serve.Front, attached, error) {
	where := attached{Agents: map[string]string{}, GRPC: map[string]string{}}
	var fronts []serve.Front
	listen := func(what, address string, handler http.Handler) (net.Listener, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		limits := attachLimits
		if what != "inbound.listen" {
			limits.PerAddress = 0 // all are this machine
		}
		fronts = append(fronts, serve.Front{Listener: serve.Limited(serve.Shedding(l, false, log), nil, limits), Handler: handler})
		if what != "inbound.listen" && !serve.Loopback(l.Addr()) {
			return nil, cli.Usage(fmt.Errorf("%s is %s; want a loopback address: every program that reaches it acts as the agent", what, address))
		}
		return l, nil
	}
	main, err := listen("listen", c.Listen, a.Handler())
	if err != nil {
		return nil, where, errors.Join(err, serve.CloseAll(fronts))
	}
	where.Proxy = "http://" + main.Addr().String()
	for _, agent := range c.Agents {
		where.Agents[agent.Name] = where.Proxy + "/agents/" + url.PathEscape(agent.Name) + "/.well-known/agent-card.json"
		if agent.GRPC == "" {
			continue
		}
		handler, err := a.GRPC(agent.Name)
		if err == nil {
			_, err = listen("agents, "+agent.Name+", grpc", agent.GRPC, handler)
		}
		if err != nil {
			return nil, where, errors.Join(err, serve.CloseAll(fronts))
		}
		where.GRPC[agent.Name] = agent.GRPC
	}
	if c.Inbound.Listen != "" {
		if _, err := listen("inbound.listen", c.Inbound.Listen, a.Inbound()); err != nil {
			return nil, where, errors.Join(err, serve.CloseAll(fronts))
		}
		where.Inbound = c.Inbound.URL
	}
	if c.Socket != "" {
		l, err := serve.ListenSocket(ctx, string(c.Socket))
		if err != nil {
			return nil, where, errors.Join(err, serve.CloseAll(fronts))
		}
		fronts, where.Socket = append(fronts, serve.Front{Listener: l, Handler: a.API()}), string(c.Socket)
	}
	return fronts, where, nil
}

func printAttached(p *cli.Program, where attached, output string) error {
	if output == "json" {
		return p.PrintJSON(where)
	}
	for name, card := range where.Agents {
		cli.Printf(p.Stdout, "agent    %s  %s\n", name, strings.TrimSuffix(card, "/.well-known/agent-card.json"))
	}
	for name, address := range where.GRPC {
		cli.Printf(p.Stdout, "grpc     %s  %s\n", name, address)
	}
	cli.Printf(p.Stdout, "proxy    %s\n", where.Proxy)
	if where.Socket != "" {
		cli.Printf(p.Stdout, "socket   %s\n", where.Socket)
	}
	if where.Inbound != "" {
		cli.Printf(p.Stdout, "inbound  %s\n", where.Inbound)
	}
	return nil
}
