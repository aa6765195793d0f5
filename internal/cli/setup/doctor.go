package setup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/operate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// The states of a finding.
const (
	healthy = "ok"
	warning = "warning"
	broken  = "broken"
)

// finding is one thing that doctor looked at.
type finding struct {
	Check   string `json:"check"`
	Status  string `json:"status"` // ok, warning or broken
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// doctor gathers findings.
type doctor struct {
	*cli.Program
	config   *config.Config
	http     *http.Client
	findings []finding
	past     bool // whether to try the ways past the gateway
	clocked  bool // whether a clock was compared
}

// start is the command that starts the server of the configuration.
func (d *doctor) start() string {
	if len(d.config.Identity.Dev) > 0 {
		return "powerbox serve --dev"
	}
	return "powerbox serve"
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{check, healthy, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) find(check, status, remedy, format string, args ...any) {
	d.findings = append(d.findings, finding{check, status, fmt.Sprintf(format, args...), remedy})
}

func newDoctor(p *cli.Program) *cobra.Command {
	var file string
	var bypass bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems in the setup and name their remedies",
		Example: "  powerbox doctor\n" +
			"  powerbox doctor -c powerbox.yaml --bypass",
		Long: "Doctor checks the configuration, the keys, the policies, the disk, the running server, the clocks and the agents. Each\n" +
			"finding is ok, warning or broken, and names its remedy. Doctor exits with 1 if something is broken, and with 0 otherwise.\n" +
			"With --bypass it also tries, without a credential, whether the agents accept calls past the gateway.",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	cmd.Flags().BoolVar(&bypass, "bypass", false, "try to reach the agents past the gateway, at the addresses in their cards")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &doctor{Program: p, http: cli.NewHTTPClient(), past: bypass}
		d.examine(cmd.Context(), file)
		return d.print(*output)
	}
	return cmd
}

func (d *doctor) examine(ctx context.Context, file string) {
	c, err := d.LoadConfig(file)
	if errors.Is(err, os.ErrNotExist) {
		d.find("configuration", broken, "name it with -c, or make one: powerbox init --agent URL for an A2A agent, powerbox init --mcp URL or powerbox init --mcp -- COMMAND for an MCP server", "%v", errors.Unwrap(err))
		return
	}
	if err != nil {
		for _, problem := range operate.ProblemTexts(err) {
			d.find("configuration", broken, "correct the line; docs/reference/configuration.md has all settings", "%s", problem)
		}
		return
	}
	d.config = c
	d.ok("configuration", "%s loads: %s", file, plain.Count(len(c.Agents), "agent"))
	d.keys()
	d.policies()
	d.store()
	d.tls()
	d.witnesses()
	d.degraded()
	d.identity()
	d.server(ctx)
	for _, a := range c.Agents {
		d.agent(ctx, a)
	}
}

func (d *doctor) policies() {
	loaded, err := operate.EngineOf(d.config)
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			d.find("policies", broken, "correct the policy or the catalogue", "%s", line)
		}
		return
	}
	files, err := config.Files(d.config.Policies)
	if err != nil || len(files) == 0 {
		d.find("policies", warning, "add a policy file to policies; see powerbox explain policy", "%s, so that nothing can be granted", noPolicies(d.config.Policies))
		return
	}
	for _, pattern := range d.config.Policies {
		if found, _ := config.Files([]config.Path{pattern}); len(found) == 0 { // the same patterns were read above
			d.find("policies", warning, "correct the pattern, or remove it from policies", "no file matches %s", pattern)
		}
	}
	d.ok("policies", "%s, %s", plain.Count(len(files), "file"), loaded.Engine.Digest())
}

func noPolicies(patterns []config.Path) string {
	if len(patterns) == 0 {
		return "there are no policies"
	}
	return fmt.Sprintf("no file fits policies: %v", patterns)
}

func (d *doctor) identity() {
	if len(d.config.Identity.Dev) > 0 {
		d.find("identity", warning, "configure identity.providers before this is more than an experiment", "there are built-in users, so that the server needs --dev")
	}
	if len(d.config.Identity.Providers)+len(d.config.Identity.Dev) == 0 {
		d.find("identity", warning, "configure identity.providers", "no identity provider is configured, so that no user can request a capability")
	}
}

// clockLimit is how far clocks may differ before proofs come close to being
// refused.
const clockLimit = 10 * time.Second

// server looks at the running server, where there is one.
func (d *doctor) server(ctx context.Context) {
	base := d.config.Issuer.URL
	if u, err := url.Parse(base); err == nil && u.Scheme == "http" && !cli.LoopbackHost(u.Hostname()) {
		d.find("issuer url", broken, "use https, or a loopback address", "%s has no TLS: sessions and handles could be read on the way", base)
	}
	response, begin, err := d.head(ctx, base+"/readyz")
	if err != nil {
		remedy := "start it: " + d.start() + "; if it runs, correct issuer.url: it is not reachable there"
		if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
			remedy = cli.Unanswered(err)
		}
		d.find("server", warning, remedy, "%s does not answer: %v", base, err)
		return
	}
	if response.StatusCode != http.StatusOK {
		d.find("server", broken, "its log says why", "%s answers, but is not ready: HTTP status %s", base, response.Status)
		return
	}
	d.ok("server", "%s is ready", base)
	d.clock("the server's", response.Header.Get("Date"), begin)
	d.headers(ctx, base)
	d.itself(ctx, base)
}

func (d *doctor) head(ctx context.Context, address string, headers ...string) (*http.Response, time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, time.Time{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	begin := d.Now()
	response, err := d.http.Do(request)
	if err != nil {
		return nil, begin, err
	}
	return response, begin, response.Body.Close()
}

// clock compares this machine's clock with what another one says, once.
func (d *doctor) clock(whose, date string, begin time.Time) {
	if d.clocked {
		return
	}
	theirs, err := http.ParseTime(date)
	if err != nil {
		d.find("clock", warning, "let whatever stands in between keep the Date header", "%s clock is not told: the answer has no Date", whose)
		return
	}
	d.clocked = true
	if off := theirs.Sub(begin).Abs(); off > clockLimit {
		d.find("clock", broken, "synchronise both clocks, with NTP for instance", "%s clock and this one differ by %s; proofs are refused beyond %s",
			whose, off.Round(time.Second), d.config.Defaults.ProofWindow)
		return
	}
	d.ok("clock", "%s clock and this one agree within %s", whose, clockLimit)
}

// headerBudget is what a chain and its proof may need in headers.
const headerBudget = 8 << 10

func (d *doctor) headers(ctx context.Context, base string) {
	response, _, err := d.head(ctx, base+"/livez", "Powerbox-Capability", strings.Repeat("x", headerBudget))
	if err != nil || response.StatusCode != http.StatusOK {
		d.find("headers", broken, "raise the header limit of whatever stands in front of the server", "%d bytes of headers do not get through to the server", headerBudget)
		return
	}
	d.ok("headers", "%d bytes of headers get through", headerBudget)
}

// agent holds an agent's card against its configuration.
func (d *doctor) agent(ctx context.Context, a config.Agent) {
	check := "agent " + a.ID
	if a.Protocol == "local" {
		d.ok(check, "inside a program, which asks for decisions")
		return
	}
	client, err := d.way(a)
	if err != nil {
		d.find(check, broken, "correct the files of agents[].tls", "%v", err)
		return
	}
	if a.Protocol == "mcp" {
		d.mcpServer(ctx, check, client.Transport(), a)
		return
	}
	begin := d.Now()
	raw, header, err := client.Get(ctx, strings.TrimRight(a.Upstream, "/")+"/.well-known/agent-card.json", "application/json")
	if err != nil {
		d.find(check, broken, "start the agent, or correct agents[].upstream", "its card cannot be read: %v", err)
		return
	}
	d.clock("the agent's", header.Get("Date"), begin)
	card, err := a2a.ReadCard(raw)
	if err == nil && !card.Protectable() {
		err = a2a.ErrNoInterface
	}
	if err != nil {
		d.find(check, broken, "have the agent offer one of them, and a card in the form of A2A", "its card: %v", err)
		return
	}
	if card.Signed {
		d.find(check, warning, "set agents.card_keys to have it verified here, and tell clients that pin the agent's key", "its card is signed; the card that clients see is another, and signed by this gateway")
	}
	d.hosts(ctx, check, a, card)
	d.skills(check, a, card)
	if d.past {
		d.bypass(ctx, a, card)
	}
}

// hosts looks where the card leads calls. To a host that no operator named they continue
// public addresses alone (ATK-15).
func (d *doctor) hosts(ctx context.Context, check string, a config.Agent, card a2a.CardView) {
	named := gateway.Agent{Behind: gateway.Behind{Upstream: a.Upstream, GRPCUpstream: a.GRPC.Upstream, UpstreamHosts: a.UpstreamHosts}}
	seen := map[string]bool{}
	for _, at := range card.Interfaces {
		address := at.URL
		if !strings.Contains(address, "://") {
			address = "https://" + address // gRPC has host and port
		}
		u, err := url.Parse(address)
		if err != nil || seen[u.Host] || named.Names(u) {
			continue
		}
		seen[u.Host] = true
		if err := outbound.Strangers().Check(ctx, address); err != nil {
			d.find(check, broken, fmt.Sprintf("where it is the agent's, list %q in agents.upstream_hosts", u.Hostname()),
				"its card leads calls to %s, which is neither at the host of agents.upstream nor public: %v", at.URL, err)
		}
	}
}

// way is how the server reaches an agent.
func (d *doctor) way(a config.Agent) (*outbound.Client, error) {
	if a.TLS == (config.UpstreamTLS{}) {
		policy := outbound.Configured()
		policy.MaxBytes = a2a.MaxCardBytes
		return outbound.New(policy), nil
	}
	own := &proxy.Upstream{}
	_, err := own.Source(a).Read(true)
	return own.Client.Load(), err
}

func (d *doctor) skills(check string, a config.Agent, card a2a.CardView) {
	mapped := map[string]bool{}
	good := true
	for _, s := range d.config.Skills[a.ID] {
		mapped[s.Skill] = true
		if !slices.Contains(card.Skills, s.Skill) {
			good = false
			d.find(check, broken, fmt.Sprintf("remove it from skills.%s, or correct its name", a.ID), "skill %q is configured, but not in the card any more", s.Skill)
		}
	}
	for _, skill := range card.Skills {
		if !mapped[skill] {
			good = false
			d.find(check, warning, fmt.Sprintf("map it in skills.%s; until then it cannot be granted", a.ID), "skill %q of the card maps to no operation", skill)
		}
	}
	if good {
		d.ok(check, "its card and the configuration agree: %s at %s", plain.Count(len(card.Skills), "skill"), card.Interfaces[0].URL)
	}
}

func (d *doctor) print(output string) error {
	var status error
	if slices.ContainsFunc(d.findings, func(f finding) bool { return f.Status == broken }) {
		status = cli.Exit(cli.ExitError, nil)
	}
	if output == "json" {
		return errors.Join(d.PrintJSON(d.findings), status)
	}
	w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range d.findings {
		cli.Printf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.Message)
		if f.Remedy != "" {
			cli.Printf(w, "\t\tremedy: %s\n", f.Remedy)
		}
	}
	return errors.Join(w.Flush(), status)
}
