package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
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
	*program
	config   *config.Config
	http     *http.Client
	findings []finding
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{check, healthy, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) find(check, status, remedy, format string, args ...any) {
	d.findings = append(d.findings, finding{check, status, fmt.Sprintf(format, args...), remedy})
}

func newDoctor(p *program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the set-up, each with its remedy: exit 1 if something is broken",
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", defaultConfig, "configuration `file`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &doctor{program: p, http: newHTTPClient()}
		d.examine(cmd.Context(), file)
		return d.print(*output)
	}
	return cmd
}

func (d *doctor) examine(ctx context.Context, file string) {
	c, err := d.loadConfig(file)
	if err != nil {
		for _, problem := range problemTexts(err) {
			d.find("configuration", broken, "mend the line; docs/configuration.md has all settings", "%s", problem)
		}
		return
	}
	d.config = c
	d.ok("configuration", "%s loads: %d agents", file, len(c.Agents))
	d.keys()
	d.policies()
	d.store()
	d.identity()
	d.server(ctx)
	for _, a := range c.Agents {
		d.agent(ctx, a)
	}
}

func (d *doctor) keys() {
	keys, err := listKeys(filepath.Join(string(d.config.Issuer.Directory), "keys"))
	if err != nil {
		d.find("keys", warning, "start the server once: powerbox serve", "%v", err)
		return
	}
	for _, k := range keys {
		if k.Problem != "" {
			d.find("keys", broken, fmt.Sprintf("chmod 600 %s, or restore it from a backup", k.File), "%s: %s", k.Name, k.Problem)
		}
	}
	d.ok("keys", "%d keys in %s", len(keys), d.config.Issuer.Directory)
}

func (d *doctor) policies() {
	loaded, err := engineOf(d.config)
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			d.find("policies", broken, "mend the policy or the catalogue", "%s", line)
		}
		return
	}
	files, err := config.Files(d.config.Policies)
	if err != nil || len(files) == 0 {
		d.find("policies", warning, "add a policy file to policies; see powerbox explain policy", "there are no policies, so that nothing can be granted to anybody")
		return
	}
	d.ok("policies", "%d files, %s", len(files), loaded.engine.Digest())
}

// slowSync is the time of a durable write from which on calls suffer.
const slowSync = 50 * time.Millisecond

// store measures what every record waits for.
func (d *doctor) store() {
	dir := string(d.config.Issuer.Directory)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		d.find("evidence", warning, "start the server once: powerbox serve", "%s does not exist yet", dir)
		return
	}
	took, err := syncTime(dir, d.now)
	switch {
	case err != nil:
		d.find("evidence", broken, fmt.Sprintf("make %s writable for the server's user, and check that the disk has room", dir), "no record can be written: %v", err)
	case took > slowSync:
		d.find("evidence", warning, "use a faster disk: every decision waits for it", "a durable write takes %s", took.Round(time.Microsecond))
	default:
		d.ok("evidence", "a durable write in %s takes %s", dir, took.Round(time.Microsecond))
	}
}

// syncTime is the median of a few durable writes.
func syncTime(dir string, now func() time.Time) (time.Duration, error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return 0, err
	}
	var times []time.Duration
	for range 5 {
		begin := now()
		_, err = f.Write(make([]byte, 1024))
		if err = errors.Join(err, f.Sync()); err != nil {
			break
		}
		times = append(times, now().Sub(begin))
	}
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return 0, err
	}
	slices.SortFunc(times, cmp.Compare[time.Duration])
	return times[len(times)/2], nil
}

func (d *doctor) identity() {
	if len(d.config.Identity.Dev) > 0 {
		d.find("identity", warning, "configure identity.providers before this is more than an experiment", "there are built-in users, so that the server needs --dev")
	}
	if len(d.config.Identity.Providers)+len(d.config.Identity.Dev) == 0 {
		d.find("identity", warning, "configure identity.providers", "no sessions are believed, so that nobody can request a capability")
	}
}

// clockLimit is how far clocks may differ before proofs come close to being
// refused.
const clockLimit = 10 * time.Second

// server looks at the running server, where there is one.
func (d *doctor) server(ctx context.Context) {
	base := d.config.Issuer.URL
	if u, err := url.Parse(base); err == nil && u.Scheme == "http" && !loopbackHost(u.Hostname()) {
		d.find("issuer url", broken, "use https, or a loopback address", "%s has no TLS: sessions and handles could be read on the way", base)
	}
	response, begin, err := d.head(ctx, base+"/readyz")
	if err != nil {
		d.find("server", warning, "start it: powerbox serve; if it runs, issuer.url is not how it is reached", "%s does not answer: %v", base, err)
		return
	}
	if response.StatusCode != http.StatusOK {
		d.find("server", broken, "its log says why", "%s answers, but is not ready: HTTP status %s", base, response.Status)
		return
	}
	d.ok("server", "%s is ready", base)
	d.clock(response.Header.Get("Date"), begin)
	d.headers(ctx, base)
}

func (d *doctor) head(ctx context.Context, address string, headers ...string) (*http.Response, time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, time.Time{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	begin := d.now()
	response, err := d.http.Do(request)
	if err != nil {
		return nil, begin, err
	}
	return response, begin, response.Body.Close()
}

func (d *doctor) clock(date string, begin time.Time) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		d.find("clock", warning, "let whatever stands in front of the server keep its Date header", "the server does not tell the time")
		return
	}
	if off := theirs.Sub(begin).Abs(); off > clockLimit {
		d.find("clock", broken, "synchronise both clocks, with NTP for instance", "the server's clock and this one differ by %s; proofs are refused beyond %s",
			off.Round(time.Second), d.config.Defaults.ProofWindow)
		return
	}
	d.ok("clock", "the server's clock and this one agree within %s", clockLimit)
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
	client := outbound.New(outbound.Policy{AllowLoopback: true, AllowPrivate: outbound.PrivateNetworks(), MaxBytes: a2a.MaxCardBytes})
	raw, _, err := client.Get(ctx, strings.TrimRight(a.Upstream, "/")+"/.well-known/agent-card.json", "application/json")
	if err != nil {
		d.find(check, broken, "start the agent, or mend agents.upstream", "its card cannot be read: %v", err)
		return
	}
	card, err := a2a.ReadCard(raw)
	if err == nil && card.URL == "" {
		err = a2a.ErrNoJSONRPC
	}
	if err != nil {
		d.find(check, broken, "have the agent offer JSON-RPC, and a card as A2A has it", "its card: %v", err)
		return
	}
	if card.Signed {
		d.find(check, warning, "tell clients that pin the agent's signature", "its card is signed; the signature is taken off, since the card that clients see is another")
	}
	d.skills(check, a, card)
}

func (d *doctor) skills(check string, a config.Agent, card a2a.CardView) {
	mapped := map[string]bool{}
	good := true
	for _, s := range d.config.Skills[a.ID] {
		mapped[s.Skill] = true
		if !slices.Contains(card.Skills, s.Skill) {
			good = false
			d.find(check, broken, fmt.Sprintf("remove it from skills.%s, or mend its name", a.ID), "skill %q is configured, but not in the card any more", s.Skill)
		}
	}
	for _, skill := range card.Skills {
		if !mapped[skill] {
			good = false
			d.find(check, warning, fmt.Sprintf("map it in skills.%s; until then nobody can be granted it", a.ID), "skill %q of the card maps to no operation", skill)
		}
	}
	if good {
		d.ok(check, "its card and the configuration agree: %d skills at %s", len(card.Skills), card.URL)
	}
}

func (d *doctor) print(output string) error {
	var status error
	if slices.ContainsFunc(d.findings, func(f finding) bool { return f.Status == broken }) {
		status = &exitStatus{code: exitError}
	}
	if output == "json" {
		return errors.Join(d.printJSON(d.findings), status)
	}
	w := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	for _, f := range d.findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\tremedy: %s\n", f.Remedy)
		}
	}
	return errors.Join(w.Flush(), status)
}
