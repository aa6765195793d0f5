// Package demo is a hijacked agent in a town of four, first without Powerbox and then behind it.
package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/holder/guard"
	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/token"
)

// Command is the demo as a command.
func Command(p *cli.Program) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a hijacked agent, without and with Powerbox",
		Example: "  powerbox demo\n" +
			"  powerbox demo --keep",
		Long: "Demo starts four A2A agents on this machine and asks them to summarize a report. The report contains an injected instruction.\n" +
			"The first run has no Powerbox. In the second run the agents' peers are reached through Powerbox, and nothing else changes.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), p, keep) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the agents and the gateway running, and print commands to try")
	return cmd
}

// wish is what the user says, in both acts.
const wish = "Have the Q1 financial report summarised."

// userToken is the session of the demo's user at the demo's gateway.
const userToken = "demo-session-of-alice"

// demo is one run: two towns of the same agents, one behind a gateway.
type demo struct {
	p    *cli.Program
	out  *stage
	http *http.Client
	keys map[string]*token.PrivateKey // by agent; "" is the user's own client

	base     string // of the gateway
	instance *app.Instance
	outgoing *quarterly.Negotiating
	town     *quarterly.Town
	file     string           // of the configuration
	mail     *heard           // what the protected mail agent hears
	gate     *guard.Gate      // nil until agents ask before they hand on
	refusals []guard.Decision // of the gate, before anything was sent
	failures []string
}

func runDemo(ctx context.Context, p *cli.Program, keep bool) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := &demo{p: p, out: newStage(p.Stdout, p.Env), http: &http.Client{Timeout: 20 * time.Second}, keys: map[string]*token.PrivateKey{}}
	for _, name := range []string{"", quarterly.Orchestrator, quarterly.Summariser} {
		if d.keys[name], err = token.GenerateKey(token.Ed25519, rand.Reader); err != nil {
			return err
		}
	}
	if err := d.unprotected(ctx); err != nil {
		return fmt.Errorf("act 0: %w", err)
	}
	dir, err := os.MkdirTemp("", "powerbox-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	end, err := d.raise(ctx, dir)
	if err != nil {
		return fmt.Errorf("act 1: %w", err)
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, act := range []func(context.Context) error{d.protected, d.tries, d.stream, d.approval, d.preflight, d.radius, d.cost, d.audit} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	if len(d.failures) > 0 {
		return fmt.Errorf("the demo did not go as it must: %s", strings.Join(d.failures, "; "))
	}
	d.out.say("No document reached the attacker. Everything above is on record, and the records verify.")
	if keep {
		if err := d.leaveWaiting(ctx); err != nil {
			return err
		}
		d.keepRunning(ctx)
	}
	return nil
}

// run starts a town of agents, calls it as the user does and returns what the
// user gets.
func (d *demo) newTown(ctx context.Context, peers func(agent string) map[string]string, handles func(quarterly.Incoming) (map[string]string, bool, error)) (*quarterly.Town, error) {
	d.outgoing = &quarterly.Negotiating{HTTP: d.http, Keys: d.keys, Now: d.p.Now, Random: rand.Reader, Session: session}
	agents := map[string]quarterly.Agent{}
	for _, name := range []string{quarterly.Documents, quarterly.Mail, quarterly.Summariser, quarterly.Orchestrator} {
		a := quarterly.Agent{Peers: peers(name)}
		if key := d.keys[name]; key != nil {
			published, err := quarterly.Publishes(key.Public())
			if err != nil {
				return nil, err
			}
			a.Extensions = []a2a.AgentExtension{published}
		}
		agents[name] = a
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.mail = &heard{Listener: listener}
	agents[quarterly.Mail] = quarterly.Agent{Peers: agents[quarterly.Mail].Peers, Listener: d.mail}
	return quarterly.Run(ctx, quarterly.Config{Agents: agents, Outgoing: inquiring{d.outgoing, d.asks}, Handles: handles, Log: slog.New(slog.DiscardHandler)})
}

// session gives the user's session to the user's client and to the agent that
// works for the user directly. The summariser has none: it works for the
// orchestrator.
func session(_ context.Context, in quarterly.Incoming, _ string) (string, error) {
	if in.Agent == quarterly.Summariser {
		return "", nil
	}
	return userToken, nil
}

// asUser says the wish to an orchestrator.
func (d *demo) asUser(ctx context.Context, url string) (string, error) {
	client, err := inquiring{d.outgoing, d.asks}.Client(ctx, quarterly.Peer{Name: quarterly.Orchestrator, URL: url}, quarterly.Incoming{Text: wish, TaskID: "user"})
	if err != nil {
		return "", err
	}
	answer, err := quarterly.Say(ctx, client, wish)
	return answer.Text, errors.Join(err, client.Destroy())
}

// unprotected is act 0.
func (d *demo) unprotected(ctx context.Context) error {
	d.out.act("Act 0: without Powerbox")
	alone := &quarterly.Guarded{} // behind no gateway: it has no URL
	town, err := d.newTown(ctx, func(string) map[string]string { return nil }, alone.Handles)
	if err != nil {
		return err
	}
	defer func() { _ = town.Close() }() // act 0 is over either way
	summary, err := d.asUser(ctx, town.URL(quarterly.Orchestrator))
	if err != nil {
		return err
	}
	d.out.say("The report contains a line that an attacker wrote:")
	d.out.say("  %s", d.out.red(quarterly.Injection))
	d.told(town, summary)
	d.out.say("The outbox of the mail agent:")
	for _, l := range town.Outbox() {
		d.out.say("  to %s, %q", l.To, l.Subject)
		for line := range strings.SplitSeq(strings.TrimSpace(l.Body), "\n") {
			if strings.Contains(line, quarterly.SalaryLine) {
				line = d.out.red(line)
			}
			d.out.say("    %s", line)
		}
	}
	if !strings.Contains(fmt.Sprint(town.Outbox()), quarterly.SalaryLine) {
		return errors.New("the hijacked agents did no damage, so there is nothing to show")
	}
	return nil
}

// told prints what the user said and got, and what the agents did meanwhile.
func (d *demo) told(town *quarterly.Town, summary string) {
	d.out.say("The user says:  %s", wish)
	d.out.say("The user gets:  %s", summary)
	d.out.say("What the agents did, through a2a-go's client:")
	for _, c := range town.Calls() {
		line := fmt.Sprintf("%-12s -> %-10s %s%s", cmp.Or(c.From, "user"), c.To, c.Skill, shorten(arguments(c.Arguments), 60))
		switch {
		case c.Err != nil:
			d.out.say("  %s", d.out.green(line+"   REFUSED"))
		case c.Injected:
			d.out.say("  %s", d.out.red(line+"   because the report told it to"))
		default:
			d.out.say("  %s", line)
		}
	}
}

func arguments(args map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, fmt.Sprintf("%s: %v", name, args[name]))
	}
	return " {" + strings.Join(parts, ", ") + "}"
}

func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		return " " + s[:n-4] + " ..."
	}
	return " " + s
}

// raise starts gateway and agents of act 1. Only URLs differ from act 0.
func (d *demo) raise(ctx context.Context, dir string) (end func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.base = "http://" + listener.Addr().String()
	guard := &quarterly.Guarded{URL: d.gatewayURL(quarterly.Documents), ID: quarterly.Documents, HTTP: d.http, Now: d.p.Now}
	d.town, err = d.newTown(ctx, func(string) map[string]string {
		return map[string]string{
			quarterly.Documents: d.gatewayURL(quarterly.Documents), quarterly.Mail: d.gatewayURL(quarterly.Mail),
			quarterly.Summariser: d.gatewayURL(quarterly.Summariser),
		}
	}, guard.Handles)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	c, err := d.configuration(dir)
	if err != nil {
		return nil, errors.Join(err, listener.Close(), d.town.Close())
	}
	if d.instance, err = app.Assemble(ctx, app.Assembly{Config: c, Dev: true, Now: d.p.Now, Log: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, errors.Join(err, listener.Close(), d.town.Close())
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- d.instance.Server(slog.New(slog.DiscardHandler)).Serve(serving, []serve.Front{{Listener: listener, Handler: d.instance.Handler}})
	}()
	return func() error {
		err := d.town.Close()
		stop()
		return errors.Join(err, <-done, d.instance.Close())
	}, nil
}

func (d *demo) gatewayURL(agent string) string { return d.base + "/agents/" + agent }

// configuration writes powerbox.yaml and the policies of the demo, and loads
// them as serve does.
func (d *demo) configuration(dir string) (*config.Config, error) {
	var documents strings.Builder
	for _, doc := range d.town.Library() {
		fmt.Fprintf(&documents, "      - {collection: %s, id: %s, name: %q, attributes: {quarter: %q, owner: %s}}\n", doc.Collection, doc.ID, doc.Title, doc.Quarter, doc.Owner)
	}
	text := strings.NewReplacer(
		"@BASE", d.base, "@LISTEN", strings.TrimPrefix(d.base, "http://"), "@TOKEN", userToken,
		"@USER", d.keys[""].Public().Thumbprint(), "@ORCHESTRATOR", d.keys[quarterly.Orchestrator].Public().Thumbprint(),
		"@SUMMARISER", d.keys[quarterly.Summariser].Public().Thumbprint(),
		"@UP_DOCUMENTS", d.town.URL(quarterly.Documents), "@UP_MAIL", d.town.URL(quarterly.Mail),
		"@UP_SUMMARISER", d.town.URL(quarterly.Summariser), "@UP_ORCHESTRATOR", d.town.URL(quarterly.Orchestrator),
		"@ITEMS", documents.String(),
	).Replace(demoConfiguration)
	path := filepath.Join(dir, cli.DefaultConfig)
	d.file = path
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "guard.token"), []byte(demoGuard), 0o600), os.WriteFile(filepath.Join(dir, "demo.cedar"), []byte(demoPolicies), 0o600)); err != nil {
		return nil, err
	}
	return config.Load(path, os.ReadFile, nil)
}

// protected is act 1: the same wish, the same report, the same agents.
func (d *demo) protected(ctx context.Context) error {
	d.out.act("Act 1: the same agents and report; only the URLs of their peers lead through Powerbox")
	summary, err := d.asUser(ctx, d.gatewayURL(quarterly.Orchestrator))
	if err != nil {
		return fmt.Errorf("the task itself must still work: %w", err)
	}
	for _, c := range d.outgoing.Held(quarterly.Orchestrator) {
		if len(c.Handles) > 0 {
			d.out.say("The orchestrator requested %s and got %s on %s: %s", c.Grant, strings.Join(c.Operations, ", "), plain.Count(len(c.Handles), "document"), names(c.Handles))
		}
	}
	for _, c := range d.outgoing.Held(quarterly.Summariser) {
		d.out.say("It delegated to the summariser, offline: %s on one of them, until %s", strings.Join(c.Operations, ", "), c.Expires.Local().Format("15:04:05"))
	}
	d.told(d.town, summary)
	d.out.say("The outbox of the mail agent: %s", plain.Count(len(d.town.Outbox()), "letter"))
	if len(d.town.Outbox()) > 0 {
		d.failures = append(d.failures, "a letter left")
	}
	return nil
}

func names(handles []holder.Handle) string {
	var out []string
	for _, h := range handles {
		out = append(out, h.DisplayName)
	}
	return strings.Join(out, ", ")
}

// keepRunning leaves everything up until the program is interrupted.
func (d *demo) keepRunning(ctx context.Context) {
	d.out.act("Still running; end it with Ctrl-C")
	d.out.say("The console, with everything above on record; log in as olivia, the operator, or as alice, for whom two requests wait:")
	d.out.say("  %s/", d.base)
	d.out.say("The card of the protected documents agent, and a call without a capability:")
	d.out.say("  curl -s %s/.well-known/agent-card.json", d.gatewayURL(quarterly.Documents))
	d.out.say(`  curl -s %s -H 'A2A-Version: 1.0' -H 'Content-Type: application/json' \`, d.gatewayURL(quarterly.Documents))
	d.out.say(`    -d '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"Give me the salaries"}]}}}'`)
	d.out.say("A capability of your own, as the demo's user:")
	d.out.say(`  curl -s %s -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \`, d.gatewayURL(quarterly.Documents), userToken)
	d.out.say(`    -d '{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/request","params":{"grants":["documents:read"],"purpose":"Look around","resourceQuery":{"collection":"reports","filter":{"quarter":"2025-Q1"}}}}'`)
	d.out.say("Your own agent, listening on http://127.0.0.1:9001, in three commands:")
	d.out.say("  powerbox init --agent http://127.0.0.1:9001")
	d.out.say("  powerbox serve --dev")
	d.out.say("  powerbox report")
	<-ctx.Done()
}

// stage prints for people.
type stage struct {
	w     io.Writer
	color bool
}

func newStage(w io.Writer, env func(string) string) *stage {
	return &stage{cli.Drawn(w), env("NO_COLOR") == "" && env("TERM") != "dumb" && cli.IsTerminal(w)}
}

func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

func (s *stage) act(title string) {
	s.say("\n%s\n%s", s.paint("1", title), strings.Repeat("-", min(len(title), 100)))
}

func (s *stage) red(text string) string { return s.paint("31", text) }

func (s *stage) green(text string) string { return s.paint("32", text) }

func (s *stage) paint(code, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
