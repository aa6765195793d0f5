package setup

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/operate"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// keys looks at what only this server may know.
func (d *doctor) keys() {
	dir := filepath.Join(string(d.config.Issuer.Directory), "keys")
	keys, err := operate.ListKeys(dir, d.Program.Now())
	if err != nil {
		d.find("keys", warning, "start the server once: "+d.start(), "%v", err)
		return
	}
	var oldest time.Time
	there := map[string]bool{}
	for _, k := range keys {
		there[k.Name] = true
		if k.Problem != "" {
			d.find("keys", broken, fmt.Sprintf("chmod 600 %s, restore it from a backup, or replace it with powerbox keys replace %s", k.File, k.Name), "%s: %s", k.Name, k.Problem)
		}
		if info, err := os.Stat(k.File); err == nil && (oldest.IsZero() || info.ModTime().Before(oldest)) {
			oldest = info.ModTime()
		}
	}
	wanted := []string{"operator", "handles", "pairwise", keyring.EvidenceName(d.config.Evidence.Algorithm), "checkpoint", "feed"}
	for _, a := range d.config.Agents {
		wanted = append(wanted, "agent-"+a.ID)
	}
	if missing := slices.DeleteFunc(wanted, func(name string) bool { return there[name] }); len(missing) > 0 {
		d.find("keys", warning, "start the server once; if it ran before, restore the files from a backup, or replace them with powerbox keys replace", "%s: there is no %s yet", dir, strings.Join(missing, ", "))
	}
	if len(keys) > 0 {
		d.ok("keys", "%s in %s, the oldest from %s", plain.Count(len(keys), "key"), dir, oldest.UTC().Format(time.DateOnly))
	}
}

// The times of a durable write from which on calls suffer, and from which on a
// server is not of much use.
const (
	slowSync = 20 * time.Millisecond
	deadSync = 200 * time.Millisecond
)

// syncs is how many writes are measured, within syncBudget.
const (
	syncs      = 200
	syncBudget = 2 * time.Second
)

// store measures what every record waits for.
func (d *doctor) store() {
	dir := string(d.config.Issuer.Directory)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		d.find("evidence", warning, "start the server once: "+d.start(), "%s does not exist yet", dir)
		return
	}
	times, err := syncTimes(dir, d.Now)
	if err != nil {
		d.find("evidence", broken, fmt.Sprintf("make %s writable for the server's user, and check that the disk has room", dir), "no record can be written: %v", err)
		return
	}
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	told := fmt.Sprintf("a durable write in %s takes %s (p50), %s (p99)", dir, p50.Round(time.Microsecond), p99.Round(time.Microsecond))
	switch {
	case p50 > deadSync:
		d.find("evidence", broken, "move issuer.directory to a local disk; network and shared disks are not for it", "%s; no call can be faster", told)
	case p50 > slowSync || p99 > deadSync:
		d.find("evidence", warning, "use a faster disk: every decision waits for it, although many share one write", "%s", told)
	default:
		d.ok("evidence", "%s", told)
	}
}

// witnesses warns that an older copy would go unnoticed.
func (d *doctor) witnesses() {
	if n := len(d.config.Evidence.Witnesses); n > 0 {
		d.ok("witness", "%s, of which %d must agree", plain.Count(n, "witness"), d.config.Evidence.Quorum)
		return
	}
	d.find("witness", warning, "have another party run a witness, and name it in evidence.witnesses: docs/how-to/witness.md",
		"no witness is configured: a store that was restored from an older copy starts, without its last records and revocations")
}

// degraded lists the agents whose calls continue without a record.
func (d *doctor) degraded() {
	for _, a := range d.config.Agents {
		if a.Degraded.Calls != "none" {
			d.find("evidence", warning, "take agents.degraded away once whatever it is for is over",
				"%s: while records cannot be written, %s go on without, for %s at a time", a.ID, a.Degraded.Calls, a.Degraded.For)
		}
	}
}

// syncTimes are those of some durable writes, sorted.
func syncTimes(dir string, now func() time.Time) ([]time.Duration, error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for begun := now(); len(times) < syncs && (len(times) == 0 || now().Sub(begun) < syncBudget); {
		begin := now()
		_, err = f.Write(make([]byte, 1024))
		if err = errors.Join(err, f.Sync()); err != nil {
			break
		}
		times = append(times, now().Sub(begin))
	}
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	sorting.Sort(times, cmp.Compare[time.Duration])
	return times, err
}

// itself asks the server at issuer.url whether it is the server of this
// configuration: it must have the keys that are here, and the agents.
func (d *doctor) itself(ctx context.Context, base string) {
	var asked, known, other bool
	for _, a := range d.config.Agents {
		file := filepath.Join(string(d.config.Issuer.Directory), "keys", "agent-"+a.ID+".jwk")
		own, err := operate.PublicThumbprint("agent-"+a.ID, file)
		if err != nil || own == operate.SealedKey {
			continue // keys says so, or cannot tell
		}
		at, check, mend := base, "issuer url", "have issuer.url be the address under which clients reach this server, and start it again"
		if a.GatewayURL != "" {
			at, check, mend = a.GatewayURL, "gateway url", "start the gateway: powerbox gateway; if it runs, agents.gateway_url of "+a.ID+" is not how it is reached"
		}
		address := strings.TrimSuffix(at, "/") + "/agents/" + a.ID + "/.well-known/jwks.json"
		body, err := d.body(ctx, address)
		asked = asked || at == base
		if err != nil {
			d.find(check, broken, mend, "%s is not answered as it would be there: %v", address, err)
			continue
		}
		if !strings.Contains(string(body), own) {
			other = other || at == base
			d.find(check, broken, "look who answers there; the address has to lead to the server with the keys in issuer.directory, or to a gateway that is enrolled there",
				"%s is answered with other keys than those here: callers are not talking to this server", address)
			continue
		}
		known = known || at == base
		d.ok(check, "%s has the keys of %s that are here", at, a.ID)
	}
	if !other && (known || !asked) { // a stranger is not told the operator's token
		d.operated(ctx, base)
	}
}

// operated holds the agents that the server has against those configured.
func (d *doctor) operated(ctx context.Context, base string) {
	token, err := cli.OperatorToken(d.config)
	if !d.config.Operators.Token { // switched off; the doctor has no session of a person
		return
	}
	if err != nil || cli.SafeForToken(base) != nil {
		return
	}
	op := &cli.Operator{Base: base, Token: token, HTTP: d.http, Now: d.Now}
	agents, err := op.Agents(ctx)
	if err != nil {
		d.find("server", broken, "restart it with this configuration, or use the directory that it uses", "it does not take the operator's token of %s: %v", d.config.Issuer.Directory, err)
		return
	}
	for _, a := range agents {
		if a.Unrecorded > 0 {
			d.find("evidence", broken, "make issuer.directory writable and give it room; the server then records how many they were", "%s: %s went on without a record", a.ID, plain.Count(int(a.Unrecorded), "call"))
		}
	}
	var here, there []string
	for _, a := range d.config.Agents {
		here = append(here, a.ID+" "+a.Upstream)
	}
	for _, a := range agents {
		there = append(there, a.ID+" "+a.Upstream)
	}
	slices.Sort(here)
	slices.Sort(there)
	d.enrolled(ctx, op)
	if !slices.Equal(here, there) {
		d.find("server", warning, "restart it, so that it reads the configuration", "it runs with other agents than the file has: %s", strings.Join(there, ", "))
	}
}

// enrolled looks for gateways that no client is led to, and for those that say nothing.
func (d *doctor) enrolled(ctx context.Context, op *cli.Operator) {
	var gateways []cli.GatewayStatus
	if err := op.Get(ctx, "/v1/gateways", &gateways); err != nil {
		d.find("gateways", broken, "its log says why", "the server does not list them: %v", err)
		return
	}
	for _, a := range d.config.Agents {
		if a.GatewayURL == "" && slices.ContainsFunc(gateways, func(g cli.GatewayStatus) bool { return g.Agent == a.ID && g.Closed == nil }) {
			d.find("gateway url", warning, fmt.Sprintf("set agents.gateway_url of %s to where its gateway is reached, or end it: powerbox gateway close", a.ID),
				"a gateway is enrolled in front of %s, whose card leads clients to the server, not to it", a.ID)
		}
	}
	for _, g := range gateways {
		if g.Closed == nil && g.Heard == nil {
			d.find("gateways", warning, "start it, or end it: powerbox gateway close "+g.ID, "%s in front of %s was not heard of within an hour, or since the server started", g.ID, g.Agent)
		}
	}
}

// tls looks at the certificate that the server speaks with.
func (d *doctor) tls() {
	files := d.config.Issuer.TLS
	if files.Certificate == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(string(files.Certificate), string(files.Key))
	if err != nil {
		d.find("tls", broken, "correct the files of issuer.tls: the server does not start with these, and a running server keeps the previous ones", "%v", err)
		return
	}
	end := pair.Leaf.NotAfter.UTC().Format(time.DateOnly)
	switch left := pair.Leaf.NotAfter.Sub(d.Now()); {
	case left <= 0:
		d.find("tls", broken, "renew it; the server reads the files again automatically", "the certificate %s ended on %s", files.Certificate, end)
	case left < renewSoon:
		d.find("tls", warning, "renew it; the server reads the files again automatically", "the certificate %s ends on %s", files.Certificate, end)
	default:
		d.ok("tls", "the certificate %s is good until %s", files.Certificate, end)
	}
}

// renewSoon is how long before its end a certificate should have been renewed.
const renewSoon = 7 * 24 * time.Hour

// body is what an address answers, where it is well.
func (d *doctor) body(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := d.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	data, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP status %s", response.Status)
	}
	if err == nil && !json.Valid(data) {
		err = errors.New("the answer is not JSON")
	}
	return data, err
}
