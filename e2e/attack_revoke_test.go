package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestATK142_BulkRevocationsAndClocks issues capabilities while the clock of the server is 20 s
// ahead, sets it back, and revokes them in bulk. An event ends all of them, at the server and at
// a remote gateway.
func TestATK142_BulkRevocationsAndClocks(t *testing.T) {
	onStores(t, tryATK142BulkRevocationsAndClocks)
}

func tryATK142BulkRevocationsAndClocks(t *testing.T) {
	w, gateways := startRemote(t, 1, options{})
	ahead := w.moves(gateways)
	alice, bob, carl := w.settled(aliceToken), w.settled(bobToken), w.settled(aliceToken)
	bob.key, carl.key = newKey(t), newKey(t)
	ahead("20s")
	ofAlice, ofBob := alice.reports(), bob.reports()
	ofCarl := carl.reports()
	handed := carl.hands(alice, ofCarl.Token)
	mail := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob about the figures"})[0]
	ahead("0s")
	under := func(by *caller, chain ...string) answer {
		return by.present("documents", data("search_documents", nil), proven{chain: chain, operation: opSearch})
	}
	for what, a := range map[string]answer{"alice": under(alice, ofAlice.Token), "bob": under(bob, ofBob.Token), "handed on": under(alice, handed...)} {
		if a.Error != nil {
			t.Fatalf("before, %s: %s", what, a.Raw)
		}
	}
	key := func(c *caller) string { return "key:" + c.key.Public().Thumbprint() }
	for _, c := range []struct {
		flags []string
		id    string
		ended func() answer
	}{
		{[]string{"--issued-by", "mail"}, mail.ID, nil},
		{[]string{"--held-by", key(bob)}, ofBob.ID, func() answer { return under(bob, ofBob.Token) }},
		{[]string{"--delegated-by", key(carl)}, "", func() answer { return under(alice, handed...) }},
		{[]string{"--for", "user:alice"}, ofAlice.ID, func() answer { return under(alice, ofAlice.Token) }},
	} {
		if c.id != "" && !slices.Contains(w.dies(c.flags...), c.id) {
			t.Errorf("ATK-142 %v: the dry run does not list %s", c.flags, c.id)
		}
		w.must(append([]string{"revoke", "--wait"}, c.flags...)...)
		if left := w.dies(c.flags...); len(left) > 0 {
			t.Errorf("ATK-142 %v: a second dry run lists %v", c.flags, left)
		}
		if c.ended == nil {
			continue
		}
		if a := c.ended(); a.reason() != "revoked" {
			t.Errorf("ATK-142 %v: the call: %s; want revoked", c.flags, a.Raw)
		}
	}
	ahead("20s") // as it is some seconds later
	if a := under(alice, ofAlice.Token); a.reason() != "revoked" {
		t.Errorf("ATK-142 when the time of the capability has come: %s; want revoked", a.Raw)
	}
}

// TestATK143_ACallThatWaitsForACredential revokes a capability, and freezes its user, while an
// allowed call waits for the operator's credential. The agent does not get the call.
func TestATK143_ACallThatWaitsForACredential(t *testing.T) {
	for name, stop := range map[string]struct {
		reason string
		do     func(w *town, held granted)
	}{
		"revoked": {"revoked", func(w *town, held granted) { w.must("revoke", held.ID) }},
		"frozen":  {"frozen", func(w *town, _ granted) { w.must("freeze", "user:alice", "--reason", "a test") }},
	} {
		t.Run(name, func(t *testing.T) {
			asked, good := make(chan struct{}, 1), make(chan struct{})
			tokens := httpServer(t, func(rw http.ResponseWriter, _ *http.Request) {
				asked <- struct{}{}
				<-good
				rw.Header().Set("Content-Type", "application/json")
				fmt.Fprint(rw, `{"access_token": "a-token-of-the-operator", "token_type": "Bearer", "expires_in": 3600}`)
			})
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte("a-secret-of-the-client\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			w := start(t, options{agent: fmt.Sprintf("    credential: {oauth: {token_url: %q, client_id: powerbox, client_secret_file: %q}}\n", tokens, secret)})
			alice := w.caller(aliceToken)
			held := alice.reports()
			said := make(chan answer, 1)
			go func() { said <- alice.search(held.Token) }()
			<-asked
			stop.do(w, held)
			close(good)
			a := <-said
			if a.reason() != stop.reason || len(w.documents.got()) != 0 {
				t.Errorf("ATK-143 %s while it waited: %s; the agent got %d calls; want %s and 0", name, a.Raw, len(w.documents.got()), stop.reason)
			}
			bundle, _ := w.bundle()
			if !strings.Contains(string(bundle), fmt.Sprintf(`"told":%q`, stop.reason)) {
				t.Errorf("ATK-143 no outcome says that the caller was told %s", stop.reason)
			}
		})
	}
}

// TestATK144_ABodyThatComesSlowlyToAnotherNode begins a call at one node, revokes its capability
// at another one, and sends the rest of the call then. It is decided after the revocation.
func TestATK144_ABodyThatComesSlowlyToAnotherNode(t *testing.T) {
	asGiven(t)
	n := startNodes(t, 2, options{})
	alice := n.caller(aliceToken)
	for round := range 8 {
		n.on(0)
		held := alice.reports()
		body := data("search_documents", nil)
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		h.Set("Content-Type", "application/json")
		h.Set("A2A-Version", "1.0")
		rest, begin := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.agentURL("documents"), rest)
		if err != nil {
			t.Fatal(err)
		}
		r.Header, r.ContentLength = h, int64(len(body))
		said := make(chan []byte, 1)
		go func() {
			response, err := n.at(1).Do(r)
			if err != nil {
				said <- []byte(err.Error())
				return
			}
			defer func() { _ = response.Body.Close() }()
			raw, _ := io.ReadAll(response.Body)
			said <- raw
		}()
		if _, err := begin.Write(body[:10]); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(200+37*round) * time.Millisecond) // the node has looked before, and looks again now and then
		n.each[0].operator(http.MethodPost, "/v1/revocations", map[string]any{"target": held.ID})
		if _, err := begin.Write(body[10:]); err != nil {
			t.Fatal(err)
		}
		_ = begin.Close()
		if raw := <-said; !bytes.Contains(raw, []byte(`"revoked"`)) {
			t.Errorf("ATK-144 round %d: a call whose end came after the revocation: %s", round, raw)
		}
	}
}

// TestATK145_ALoginIsFinishedOnce brings the callback of a finished login again, with its cookie,
// before and after a restart. The provider takes a code as often as it comes.
func TestATK145_ALoginIsFinishedOnce(t *testing.T) {
	asGiven(t)
	at := "localhost:" + freePort(t)
	var mu sync.Mutex
	var tokens []byte
	idp := openIDProviderBehind(t, "powerbox", "http://"+at+"/login/callback", func(provider http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/token") {
				provider.ServeHTTP(rw, r)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if tokens == nil {
				first := &inMemory{header: http.Header{}}
				provider.ServeHTTP(first, r)
				if json.Valid(first.Bytes()) {
					tokens = first.Bytes()
				}
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(tokens)
		})
	})
	b := serveBank(t, at, "", fmt.Sprintf(`identity:
  providers: [{issuer: %q}]
approvals:
  login: {issuer: %[1]q, client_id: powerbox, client_secret: secret-of-the-bank, scopes: [profile]}
`, idp))
	v := b.visitorFrom("127.0.0.1")
	_, where := v.begins()
	home, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	cookies := v.http.Jar.Cookies(home.URL)
	status, callback := v.finishes(where)
	if status != http.StatusOK {
		t.Fatalf("the login: HTTP %d", status)
	}
	again := func(when string) {
		t.Helper()
		other := b.visitorFrom("127.0.0.1")
		other.http.Jar.SetCookies(home.URL, cookies)
		status, text := other.get(strings.TrimPrefix(callback, b.url))
		if status == http.StatusOK || slices.ContainsFunc(other.http.Jar.Cookies(home.URL), func(c *http.Cookie) bool { return strings.HasSuffix(c.Name, "powerbox-session") }) {
			t.Errorf("ATK-145 %s: HTTP %d %s; want a refusal without a session", when, status, text)
		}
	}
	again("a login that was finished")
	if err := b.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = b.process.Wait()
	b.run(exec.Command(binary, "serve", "--config", filepath.Join(b.dir, "powerbox.yaml")), b.url)
	again("after a restart")
}

// inMemory is an answer in memory.
type inMemory struct {
	bytes.Buffer
	header http.Header
}

// Header implements [http.ResponseWriter].
func (h *inMemory) Header() http.Header { return h.header }

// WriteHeader implements [http.ResponseWriter].
func (*inMemory) WriteHeader(int) {}
