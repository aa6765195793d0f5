package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// exits runs a verb of the program against the town's server and returns what
// it printed and how it ended.
func (w *town) exits(args ...string) (out, talk string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), binary, append(args, "-c", filepath.Join(w.dir, "powerbox.yaml"))...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		w.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// dies is what a dry run lists.
func (w *town) dies(args ...string) []string {
	w.t.Helper()
	var said struct {
		Count int `json:"count"`
		Dies  []struct {
			ID     string `json:"id"`
			Holder string `json:"holder"`
		} `json:"dies"`
	}
	if err := json.Unmarshal([]byte(w.run(append([]string{"revoke", "--dry-run", "--output", "json"}, args...)...)), &said); err != nil {
		w.t.Fatal(err)
	}
	ids := []string{}
	for _, d := range said.Dies {
		if d.Holder == "" {
			w.t.Errorf("%s has no holder", d.ID)
		}
		ids = append(ids, d.ID)
	}
	if said.Count != len(ids) {
		w.t.Errorf("%d are counted and %d listed", said.Count, len(ids))
	}
	slices.Sort(ids)
	return ids
}

func sorted(ids ...string) []string { slices.Sort(ids); return ids }

// hands derives a link for another holder, offline.
func (c *caller) hands(to *caller, chain ...string) []string {
	c.w.t.Helper()
	return c.keepFor(to.key.Public(), chain, func(tool powerbox.Clause) (powerbox.Clause, bool) { return tool, true })
}

// holds writes a capability file as powerbox narrow does.
func (w *town) holds(chain []string) string {
	w.t.Helper()
	data, err := json.Marshal(map[string]any{"capabilities": []map[string]any{{
		"id": claim(w.t, chain[len(chain)-1], "jti"), "agent": w.agentURL("documents"), "grant": "documents:read", "operations": []string{"search"},
		"handles": []any{}, "expires": time.Now().Add(time.Hour).Format(time.RFC3339), "chain": chain,
	}}})
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.t.TempDir(), "capability.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// TestEXT15_ALinkAndAllAfterIt: a link that was derived offline, and never seen,
// is revoked by showing its chain. Its maker, its holder, the user or an operator
// can do so. The link ends with all its descendants, and the links before it stay.
func TestEXT15_ALinkAndAllAfterIt(t *testing.T) { onStores(t, tryEXT15ALinkAndAllAfterIt) }

func tryEXT15ALinkAndAllAfterIt(t *testing.T) {
	w := start(t, options{})
	alice, mallory := w.caller(aliceToken), w.caller(bobToken)
	root := alice.reports()
	made := func() (first, second []string, b, c *caller) {
		b, c = w.caller(""), w.caller("")
		first = alice.hands(b, root.Token)
		return first, b.hands(c, first...), b, c
	}
	show := func(by *caller, chain []string, more map[string]any) answer {
		return by.call("documents", "a2a/capabilities/revoke", merged(map[string]any{"chain": chain}, more))
	}
	proof := func(by *caller, about, chain []string) map[string]any {
		u, err := token.ParseChain(chain)
		if err != nil {
			t.Fatal(err)
		}
		shown := u.Describe()
		compact, err := token.SignProof(about, by.key, token.Proof{
			ID: nonce(), IssuedAt: time.Now(), Operation: "a2a.capability", Audience: w.agentURL("documents"),
			Arguments: value(t, map[string]any{"id": shown[len(shown)-1].Hash}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]any{"proof": compact}
	}
	for name, revoke := range map[string]func(first, second []string, b, c *caller) answer{
		"EXT-15 by whoever handed it on":    func(first, _ []string, _, _ *caller) answer { return show(alice.withKey(), first, nil) },
		"EXT-15 by its own holder":          func(first, _ []string, b, _ *caller) answer { return show(b, first, nil) },
		"EXT-15 by the user with any key":   func(first, _ []string, _, _ *caller) answer { return show(w.caller(aliceToken), first, nil) },
		"EXT-15 by a proof of its ancestor": func(first, _ []string, _, c *caller) answer { return show(c, first, proof(alice, first[:1], first)) },
		"EXT-15 by an operator": func(first, _ []string, _, _ *caller) answer {
			w.run("revoke", "--capability", w.holds(first))
			return answer{}
		},
		"EXT-15 from the command line of its maker": func(first, _ []string, _, _ *caller) answer {
			key := w.keyFile("alice.jwk", alice.key)
			w.run("revoke", "--capability", w.holds(first), "--key", key)
			return answer{}
		},
	} {
		first, second, b, c := made()
		under := func(by *caller, chain []string) answer {
			return by.present("documents", data("search_documents", nil), proven{chain: chain, operation: opSearch})
		}
		allowed(t, under(b, first))
		allowed(t, under(c, second))
		// No holder revokes links before or beside its own.
		for what, a := range map[string]answer{
			"a descendant":               show(c, first, nil),
			"a stranger":                 show(mallory, first, nil),
			"a stranger with a proof":    show(mallory, first, proof(mallory, first[:1], first)),
			"the proof of another link":  show(mallory, first, proof(alice, second[:1], second)),
			"a descendant with a proof":  show(mallory, first, proof(c, second, first)),
			"a chain that does not hold": show(b, []string{first[0], first[1] + "x"}, nil),
			"at another agent":           mallory.call("mail", "a2a/capabilities/revoke", merged(map[string]any{"chain": first}, proof(alice, first[:1], first))),
		} {
			if a.reason() != "capability_unknown" {
				t.Errorf("EXT-15 %s: %s", what, a.Raw)
			}
		}
		allowed(t, under(b, first))
		if a := revoke(first, second, b, c); a.Error != nil {
			t.Errorf("%s: %s", name, a.Raw)
		}
		for what, a := range map[string]answer{"the link": under(b, first), "the one after it": under(c, second)} {
			if a.reason() != "revoked" {
				t.Errorf("%s, %s: %s", name, what, a.Raw)
			}
		}
		allowed(t, under(alice, []string{root.Token}))
	}
}

// withKey is the caller with its key alone, without the user's session.
func (c *caller) withKey() *caller { return &caller{c.w, c.key, ""} }

// TestEXT15_Bulk ends everything of an issuer, a holder, a delegator and a user
// in one event each, regardless of their number. Capabilities issued afterwards
// are valid, and those of others stay.
func TestEXT15_Bulk(t *testing.T) { onStores(t, tryEXT15Bulk) }

func tryEXT15Bulk(t *testing.T) {
	planner := newKey(t)
	w := start(t, options{extra: named(t, map[string]*token.PrivateKey{"planner": planner})})
	key := func(c *caller) string { return "key:" + c.key.Public().Thumbprint() }
	for name, c := range map[string]struct {
		flags func(alice, b *caller) []string
		// what ends: the root of alice and its child on record, what alice handed
		// to b, what b handed on to c, what bob has
		root, handed, further, other bool
	}{
		"EXT-15 an issuer's epoch":      {func(_, _ *caller) []string { return []string{"--issued-by", "documents"} }, true, true, true, true},
		"EXT-15 all of a holder":        {func(a, _ *caller) []string { return []string{"--held-by", key(a)} }, true, true, true, false},
		"EXT-15 all of a later holder":  {func(_, b *caller) []string { return []string{"--held-by", key(b)} }, false, true, true, false},
		"EXT-15 all of a named agent":   {func(_, _ *caller) []string { return []string{"--held-by", "agent:planner"} }, true, true, true, false},
		"EXT-15 all from a delegator":   {func(a, _ *caller) []string { return []string{"--delegated-by", key(a)} }, false, true, true, false},
		"EXT-15 all from a later one":   {func(_, b *caller) []string { return []string{"--delegated-by", key(b)} }, false, false, true, false},
		"EXT-15 all from a named agent": {func(_, _ *caller) []string { return []string{"--delegated-by", "agent:planner"} }, false, true, true, false},
		"EXT-15 all of a user":          {func(_, _ *caller) []string { return []string{"--for", "user:alice"} }, true, true, true, false},
	} {
		alice, b, further, bob := w.caller(aliceToken), w.caller(""), w.caller(""), w.caller(bobToken)
		alice.key = newKey(t)
		if strings.Contains(name, "named") {
			alice.key = planner
		}
		under := func(by *caller, chain ...string) answer {
			return by.present("documents", data("search_documents", nil), proven{chain: chain, operation: opSearch})
		}
		var root, theirs granted
		// An event also covers capabilities issued earlier in the same second.
		eventually(t, atOnce, func() string { return name + ": what is issued afterwards is revoked" }, func() bool {
			root, theirs = alice.reports(), bob.reports()
			return under(alice, root.Token).Error == nil && under(bob, theirs.Token).Error == nil
		})
		child := capabilities(t, alice.attenuate(root.ID, map[string]any{"operations": []string{"search"}}))[0]
		handed := alice.hands(b, root.Token)
		again := b.hands(further, handed...)
		all := func(want func(ended bool, what string, a answer)) {
			want(c.root, "the root", under(alice, root.Token))
			want(c.root, "its child", under(alice, child.Token))
			want(c.root, "its child by reference", alice.send("documents", invoke("search_documents", nil, child.ID)))
			want(c.handed, "what was handed on", under(b, handed...))
			want(c.further, "what was handed on again", under(further, again...))
			want(c.other, "somebody else's", under(bob, theirs.Token))
		}
		all(func(_ bool, what string, a answer) {
			if a.Error != nil {
				t.Fatalf("%s, %s before: %s", name, what, a.Raw)
			}
		})
		flags := c.flags(alice, b)
		listed := w.dies(flags...)
		for id, ended := range map[string]bool{root.ID: c.root, child.ID: c.root, theirs.ID: c.other} {
			if slices.Contains(listed, id) != ended {
				t.Errorf("%s: the dry run lists %v", name, listed)
			}
		}
		before := w.sequence()
		w.run(append([]string{"revoke"}, flags...)...)
		if after := w.sequence(); after != before+1 {
			t.Errorf("%s: %d events; want one", name, after-before)
		}
		all(func(ended bool, what string, a answer) {
			if ended != (a.reason() == "revoked") || !ended && a.Error != nil {
				t.Errorf("%s, %s: %s", name, what, a.Raw)
			}
		})
		if left := w.dies(flags...); len(left) > 0 {
			t.Errorf("%s: a second dry run lists %v", name, left)
		}
	}
	// It stays over a restart, and an unknown capability cannot be revoked.
	alice := w.settled(aliceToken)
	root := alice.reports()
	w.run("revoke", "--for", "user:alice")
	w.again(func() {})
	w.settle(alice)
	if a := alice.search(root.Token); a.reason() != "revoked" {
		t.Errorf("EXT-15 after a restart: %s", a.Raw)
	}
	for _, wrong := range [][]string{
		{"--issued-by", "nobody"},
		{"--held-by", "agent:nobody"},
		{"--delegated-by", "nothing"},
		{"--for", "agent:planner"},
		{"--issued-by", "documents", "--for", "user:alice"},
		{},
		{"cap_1", "--for", "user:alice"},
	} {
		if out, talk, code := w.exits(append([]string{"revoke"}, wrong...)...); code == 0 || out != "" || talk == "" {
			t.Errorf("revoke %v: %d %s", wrong, code, out)
		}
	}
}

// sequence is how many events the feed has.
func (w *town) sequence() int64 {
	w.t.Helper()
	var k struct {
		Sequence int64 `json:"sequence"`
	}
	if err := json.Unmarshal([]byte(w.run("feed", "key", "--output", "json")), &k); err != nil {
		w.t.Fatal(err)
	}
	return k.Sequence
}

// TestEXT15_ASubtree ends a capability on record with its descendants in one
// event; the dry run lists them and changes nothing.
func TestEXT15_ASubtree(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	root, other := alice.reports(), alice.reports()
	one := capabilities(t, alice.attenuate(root.ID, map[string]any{"operations": []string{"search"}}))[0]
	two := capabilities(t, alice.attenuate(one.ID, map[string]any{"operations": []string{"search"}}))[0]
	beside := capabilities(t, alice.attenuate(root.ID, map[string]any{"operations": []string{"search"}}))[0]
	if got := w.dies(root.ID); !slices.Equal(got, sorted(root.ID, one.ID, two.ID, beside.ID)) {
		t.Errorf("EXT-15 of the root: %v", got)
	}
	if got := w.dies(one.RevocationID); !slices.Equal(got, sorted(one.ID, two.ID)) {
		t.Errorf("EXT-15 of a child: %v", got)
	}
	if text := w.run("revoke", "--dry-run", one.ID); !strings.Contains(text, "2 on record would end") || !strings.Contains(text, two.ID) {
		t.Errorf("EXT-15 in words: %s", text)
	}
	allowed(t, alice.search(two.Token))
	w.run("revoke", one.ID)
	if n := w.sequence(); n != 1 {
		t.Errorf("EXT-15 %d events; want one", n)
	}
	for _, dead := range []granted{one, two} {
		if a := alice.search(dead.Token); a.reason() != "revoked" {
			t.Errorf("EXT-15 %s: %s", dead.ID, a.Raw)
		}
	}
	for _, alive := range []granted{root, beside, other} {
		allowed(t, alice.search(alive.Token))
	}
	if got := w.dies(root.ID); !slices.Equal(got, sorted(root.ID, beside.ID)) {
		t.Errorf("EXT-15 what is dead is listed: %v", got)
	}
}

// waited is what revoke --wait says.
type waited struct {
	Sequence int64 `json:"sequence"`
	Reached  struct {
		Done     bool `json:"done"`
		Gateways []struct {
			ID       string `json:"id"`
			Has      bool   `json:"has"`
			Sequence int64  `json:"sequence"`
		} `json:"gateways"`
	} `json:"reached"`
}

// TestEXT16_WaitUntilEverybodyHasIt: when revoke --wait returns, every gateway
// denies; one that hangs is named, and its lease is over.
func TestEXT16_WaitUntilEverybodyHasIt(t *testing.T) { onStores(t, tryEXT16WaitUntilEverybodyHasIt) }

func tryEXT16WaitUntilEverybodyHasIt(t *testing.T) {
	w, all := startRemote(t, 2, options{}, "--lease", "3s")
	alice := w.caller(aliceToken)
	wait := func(want int, args ...string) waited {
		t.Helper()
		began := time.Now()
		out, talk, code := w.exits(append([]string{"revoke", "--wait", "--output", "json"}, args...)...)
		var said waited
		if err := json.Unmarshal([]byte(out), &said); err != nil || code != want || !said.Reached.Done || len(said.Reached.Gateways) != 2 {
			t.Fatalf("EXT-16 %v: exit code %d, want %d: %s%s", args, code, want, out, talk)
		}
		t.Logf("revoke --wait %v: %v", args, time.Since(began).Round(time.Millisecond))
		return said
	}
	at := func(r *replica, held granted) answer {
		body := data("search_documents", map[string]any{})
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		return w.post("http://"+r.address+"/agents/documents", body, h)
	}
	held, other := alice.reports(), alice.reports()
	for _, r := range all {
		allowed(t, at(r, held))
		allowed(t, at(r, other))
	}
	said := wait(0, held.ID)
	for n, r := range all {
		if g := said.Reached.Gateways[n]; !g.Has || g.Sequence < said.Sequence {
			t.Errorf("EXT-16 gateway %d: %+v", n, g)
		}
		if a := at(r, held); a.reason() != "revoked" {
			t.Errorf("EXT-16 gateway %d after the wait: %s\n%s", n, a.Raw, r.log)
		}
		allowed(t, at(r, other))
	}
	// In bulk it is the same.
	wait(0, "--for", "user:alice")
	for n, r := range all {
		if a := at(r, other); a.reason() != "revoked" {
			t.Errorf("EXT-15 gateway %d after a bulk: %s\n%s", n, a.Raw, r.log)
		}
	}
	// One that hangs is waited for until its lease is over, and then named.
	standStill(t, all[1].process.Process)
	lagged := wait(5, "cap_unknown", "--unrecorded")
	if err := all[1].process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var lags []string
	for _, g := range lagged.Reached.Gateways {
		if !g.Has {
			lags = append(lags, g.ID)
		}
	}
	if len(lags) != 1 || !strings.Contains(all[1].log.String(), lags[0]) {
		t.Errorf("EXT-16 %v lag", lags)
	}
	// One that was closed is not waited for.
	w.run("gateway", "close", lags[0])
	if out, talk, code := w.exits("revoke", "--wait", "cap_another", "--unrecorded"); code != 0 || strings.Contains(out, lags[0]) || !strings.Contains(out, "has it") {
		t.Errorf("EXT-16 with a closed gateway: %d %s%s", code, out, talk)
	}
	if _, talk, code := w.exits("revoke", "--wait", "--dry-run", "cap_1"); code != 2 {
		t.Errorf("EXT-16 waiting for nothing: %d %s", code, talk)
	}
	for _, path := range []string{"/v1/revocations/0/gateways", "/v1/revocations/99/gateways", "/v1/revocations/x/gateways"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+w.secret())
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}

// TestEXT17_LazyGateway: where the operator of a gateway says so, it asks now and
// then, holds no stream open, and denies when its lease is over. By default, and
// beyond half of the lease, it does not.
func TestEXT17_LazyGateway(t *testing.T) {
	w, all := startRemote(t, 1, options{}, "--lease", "4s", "--lazy", "500ms")
	alice := w.caller(aliceToken)
	held, other := alice.reports(), alice.reports()
	allowed(t, alice.looksUp(held))
	out, talk, code := w.exits("revoke", "--wait", held.ID)
	if code != 0 || !strings.Contains(out, "has it") {
		t.Fatalf("EXT-17 %d %s%s", code, out, talk)
	}
	if a := alice.looksUp(held); a.reason() != "revoked" {
		t.Errorf("EXT-17 after it has asked: %s", a.Raw)
	}
	allowed(t, alice.looksUp(other))
	killed(t, w.process)
	eventually(t, patience, func() string { return "EXT-17 calls go on after the lease is over" }, func() bool { return alice.looksUp(other).reason() == "revocations_stale" })
	if strings.Contains(all[0].log.String(), "/v1/feed?after") {
		t.Errorf("EXT-17 it follows the stream: %s", all[0].log)
	}
	refused := exec.CommandContext(t.Context(), binary, "gateway", "--state", all[0].state, "--listen", "127.0.0.1:0", "--dev", "--lazy", "16s")
	w.boot()
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "want at most 15s") {
		t.Errorf("EXT-17 beyond half of the lease: %v %s", err, out)
	}
}
