package holder_test

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func noClose(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

// The recipient reads the one report with its own key and can do nothing else.
func TestSEP13_Delegate(t *testing.T) {
	a, c, summariser := newAgent(t), newClient(t), newClient(t)
	to, cap1 := held(t, c, a)
	handed, err := c.Delegate(cap1, summariser.Key.Public(), holder.Narrowing{Operations: []string{"retrieve"}, Handles: []string{"h-1"}})
	if err != nil {
		t.Fatal(err)
	}
	w := holder.NewWallet(summariser.Key.Public())
	if err := w.Receive(map[string]any{holder.ExtensionURI: holder.Delegations(handed)}, now); err != nil {
		t.Fatal(err)
	}
	got := w.Of(a.URL, now)
	if _, err := c.Delegate(cap1, c.Key.Public(), holder.Narrowing{}); err == nil || !strings.Contains(err.Error(), "same key") {
		t.Errorf("handed to the own key: %v; want a refusal", err)
	}
	links := mustParse(t, handed.Chain).Describe()
	if d := cmp.Diff([]string{a.URL}, links[len(links)-1].Audience); d != "" || links[0].Draft != token.Draft02 {
		t.Errorf("the audience of what is handed over (-want +got):\n%s", d)
	}
	if len(got) != 1 || cmp.Diff([]string{"retrieve"}, got[0].Operations) != "" || got[0].Grant != "documents:read" {
		t.Fatalf("received %+v; want retrieve of documents:read", got)
	}
	for args, allowed := range map[string]bool{`{"resourceHandle":"h-1"}`: true, `{"resourceHandle":"h-2"}`: false, `{"id":"salaries"}`: false} {
		_, err := summariser.Invoke(t.Context(), to, got[0], "retrieve_document", value(t, args))
		if (err == nil) != allowed || err != nil && !errors.Is(err, powerbox.ErrDenied) {
			t.Errorf("retrieve %s: %v; want allowed %t", args, err, allowed)
		}
	}
	if _, err := summariser.Invoke(t.Context(), to, got[0], "search_documents", powerbox.Object()); !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("search: %v; want a denial", err)
	}
	if _, err := c.Invoke(t.Context(), to, got[0], "retrieve_document", value(t, `{"resourceHandle":"h-1"}`)); !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("the delegating holder with the recipient's chain: %v; want a denial", err)
	}
	if _, err := summariser.Delegate(got[0], newKey(t).Public(), holder.Narrowing{}); !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("passed on again: %v; want a denial", err)
	}
}

func mustParse(t *testing.T, chain []string) token.Unverified {
	t.Helper()
	u, err := token.ParseChain(chain)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestSEP12_NarrowRefusesWhatIsWider(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	_, cap1 := held(t, c, a)
	for name, n := range map[string]holder.Narrowing{
		"operation that is not there":    {Operations: []string{"delete"}},
		"handle that is not there":       {Handles: []string{"h-3"}},
		"operation that takes no handle": {Operations: []string{"retrieve", "shred"}, Handles: []string{"h-1"}},
		"later":                          {Expires: now.Add(2 * time.Hour)},
		"deeper":                         {Depth: 4},
	} {
		if got, err := c.Narrow(cap1, n); err == nil {
			t.Errorf("%s: %+v; want an error", name, got)
		}
	}
	if _, err := c.Delegate(cap1, token.PublicKey{}, holder.Narrowing{}); err == nil {
		t.Error("delegated to nobody")
	}
	if _, err := newClient(t).Narrow(cap1, holder.Narrowing{}); !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("narrowed by somebody else: %v; want a denial", err)
	}
}

// A capability that may not be passed on says so, whatever is narrowed.
func TestNarrowSaysWhereAChainEnds(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	_, cap1 := held(t, c, a)
	last, err := c.Narrow(cap1, holder.Narrowing{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Narrow(last, holder.Narrowing{Operations: []string{"search"}})
	if !errors.Is(err, powerbox.ErrDenied) || !strings.Contains(err.Error(), "narrowed or delegated no further") {
		t.Errorf("%v; want a refusal that names the depth", err)
	}
}

// An operation that takes a handle and none of those that are kept is gone.
func TestNarrowDropsOperationsWithoutTheirHandles(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	const opDelete = "documents/documents:read/delete"
	a.answer = func(_ string, _ powerbox.Value, key token.PublicKey) string {
		return `"result":{"capabilities":[` + capabilityJSON("cap_1", a.mint(t, "cap_1", key, func(r *token.Root) {
			more, err := token.ParseTools([]byte(`{"` + opDelete + `":{"resourceHandle":{"constraint_type":"one_of","values":["h-2"]}}}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Tools = append(r.Tools, more...)
		})) + `]}`
	}
	got, err := c.Request(t.Context(), discover(t, c, a), holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "x"})
	if err != nil {
		t.Fatal(err)
	}
	one, err := c.Narrow(got[0], holder.Narrowing{Handles: []string{"h-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"retrieve", "search"}, one.Operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// Where there is one resource, its handle is the only value and no list of one.
func TestNarrowToTheOnlyHandle(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	a.answer = func(_ string, _ powerbox.Value, key token.PublicKey) string {
		return `"result":{"capabilities":[` + capabilityJSON("cap_1", a.mint(t, "cap_1", key, func(r *token.Root) {
			only, err := token.ParseTools([]byte(`{"` + opRetrieve + `":{"resourceHandle":{"constraint_type":"exact","value":"h-1"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Tools = only
		})) + `]}`
	}
	got, err := c.Request(t.Context(), discover(t, c, a), holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "x"})
	if err != nil {
		t.Fatal(err)
	}
	one, err := c.Narrow(got[0], holder.Narrowing{Handles: []string{"h-1"}})
	if err != nil || cmp.Diff([]string{"retrieve"}, one.Operations) != "" {
		t.Errorf("%v, %v", one.Operations, err)
	}
	if _, err := c.Narrow(got[0], holder.Narrowing{Handles: []string{"h-2"}}); err == nil {
		t.Error("narrowed to a handle that is another one")
	}
}

// What narrowing leaves never permits what it was narrowed from does not.
func TestNarrowIsNeverWider(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	_, cap1 := held(t, c, a)
	calls := map[string][]string{
		opRetrieve: {`{"resourceHandle":"h-1"}`, `{"resourceHandle":"h-2"}`, `{"resourceHandle":"h-3"}`, `{}`},
		opSearch:   {`{}`, `{"query":"x"}`}, "a2a.message": {`{}`}, "documents/documents:read/delete": {`{}`},
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := holder.Narrowing{Depth: rapid.IntRange(0, 3).Draw(rt, "depth")}
		if rapid.Bool().Draw(rt, "operations") {
			n.Operations = rapid.SampledFrom([][]string{{"retrieve"}, {"search"}, {"retrieve", "search"}, {opRetrieve}, {}}).Draw(rt, "kept")
		}
		if rapid.Bool().Draw(rt, "handles") {
			n.Handles = rapid.SampledFrom([][]string{{"h-1"}, {"h-2"}, {"h-1", "h-2"}}).Draw(rt, "handle")
		}
		got, err := c.Narrow(cap1, n)
		if err != nil {
			return
		}
		for name, all := range calls {
			for _, args := range all {
				if got.Permits(operation(t, name), value(t, args), now) && !cap1.Permits(operation(t, name), value(t, args), now) {
					rt.Fatalf("%+v permits %s %s, its parent does not", n, name, args)
				}
			}
		}
	})
}

func TestWalletPicksTheNarrowest(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	_, wide := held(t, c, a)
	one, err := c.Narrow(wide, holder.Narrowing{Operations: []string{"retrieve"}, Handles: []string{"h-1"}})
	if err != nil {
		t.Fatal(err)
	}
	short, err := c.Narrow(wide, holder.Narrowing{Expires: now.Add(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	reference := holder.Capability{ID: "ref", Agent: a.URL, Grant: "documents:read", Operations: []string{"search"}, Expires: now.Add(time.Hour)}
	for _, order := range [][]holder.Capability{{wide, one, reference}, {reference, one, wide}} {
		w := holder.NewWallet(c.Key.Public())
		if err := w.Add(order...); err != nil {
			t.Fatal(err)
		}
		for args, want := range map[string]string{`{"resourceHandle":"h-1"}`: one.ID, `{"resourceHandle":"h-2"}`: wide.ID} {
			if got, ok := w.Pick(a.URL, operation(t, opRetrieve), value(t, args), now); !ok || got.ID != want {
				t.Errorf("%s: %s, %t; want %s", args, got.ID, ok, want)
			}
		}
		if got, ok := w.Pick(a.URL, operation(t, opSearch), powerbox.Object(), now); !ok || got.ID != wide.ID {
			t.Errorf("search: %s, %t; want the chain, not the reference", got.ID, ok)
		}
		for _, agent := range []string{"http://other.example", ""} {
			if _, ok := w.Pick(agent, operation(t, opSearch), powerbox.Object(), now); ok {
				t.Errorf("a capability of another agent was picked for %q", agent)
			}
		}
		if _, ok := w.Pick(a.URL, operation(t, opSearch), powerbox.Object(), now.Add(time.Hour)); ok || !w.Expires().Equal(now.Add(time.Hour)) {
			t.Error("an expired capability was picked")
		}
	}
	w := holder.NewWallet(c.Key.Public())
	if err := w.Add(short, wide); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.Pick(a.URL, operation(t, opSearch), powerbox.Object(), now); got.ID != short.ID {
		t.Errorf("picked %s; want the one that ends first", got.ID)
	}
}

func TestWalletRefuses(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	_, wide := held(t, c, a)
	w := holder.NewWallet(newKey(t).Public())
	under := func(v any) map[string]any { return map[string]any{holder.ExtensionURI: v} }
	for name, metadata := range map[string]map[string]any{
		"bound to another key": under(holder.Delegations(wide)),
		"other agent":          under(map[string]any{"delegations": []any{map[string]any{"agent": "http://x.example", "chain": wide.Chain}}}),
		"no chain":             under(map[string]any{"delegations": []any{map[string]any{"agent": a.URL}}}),
		"no list":              under(map[string]any{"delegations": "all"}),
		"unreadable":           under(map[string]any{"delegations": []any{func() {}}}),
		"too many":             under(map[string]any{"delegations": make([]any, 65)}),
	} {
		if err := w.Receive(metadata, now); err == nil || len(w.Of(a.URL, now)) != 0 {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
	for _, metadata := range []map[string]any{nil, under("x"), under(map[string]any{"skill": "x"})} {
		if err := w.Receive(metadata, now); err != nil {
			t.Errorf("%v: %v; want nothing", metadata, err)
		}
	}
	mine := holder.NewWallet(c.Key.Public())
	if err := mine.Receive(under(map[string]any{"delegations": []any{map[string]any{"agent": "http://x.example", "chain": wide.Chain}}}), now); err == nil {
		t.Error("a chain was taken for one of another agent")
	}
	if err := mine.Receive(under(holder.Delegations(wide)), now); err != nil {
		t.Error(err)
	}
	own := &holder.Wallet{}
	var last error
	for range 65 {
		last = own.Add(wide)
	}
	for i := range 65 {
		last = errors.Join(last, own.Add(holder.Capability{Agent: strings.Repeat("x", i+1)}))
	}
	if last == nil || len(own.Of(a.URL, now)) != 64 {
		t.Errorf("%v, %d held; want a full wallet", last, len(own.Of(a.URL, now)))
	}
}

func TestKeyFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.json")
	made, err := holder.NewKeyFile(path, token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	got, err := holder.LoadKey(path)
	if err != nil || got.Public() != made.Public() {
		t.Fatalf("%v, %v; want the key that was made", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	if _, err := holder.NewKeyFile(path, token.Ed25519, rand.Reader); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v; want the file that exists to be left alone", err)
	}
	if _, err := holder.NewKeyFile(path, token.Ed25519, strings.NewReader("")); err == nil {
		t.Error("a key was made of nothing")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o700} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := holder.LoadKey(path); err == nil || !strings.Contains(err.Error(), "0600") {
			t.Errorf("mode %o: %v; want a refusal that names 0600", mode, err)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("secret-text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.LoadKey(bad); err == nil || strings.Contains(err.Error(), "secret-text") {
		t.Errorf("%v; want an error that does not quote the file", err)
	}
	for _, path := range []string{bad + "-absent", t.TempDir()} {
		if _, err := holder.LoadKey(path); err == nil {
			t.Errorf("%s was a key", path)
		}
	}
}

func TestWalletForgetsWhatHasExpired(t *testing.T) {
	w := holder.NewWallet(newKey(t).Public())
	for i := range 200 {
		at := now.Add(time.Duration(i) * time.Hour)
		w.Forget(at)
		if err := w.Add(holder.Capability{ID: "cap", Agent: "http://a.example", Expires: at.Add(time.Minute)}); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
	}
	if all := w.All(now); len(all) != 1 {
		t.Errorf("holds %d", len(all))
	}
}
