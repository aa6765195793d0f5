package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/powerbox-project/powerbox/token"
)

// cardTool runs what the JavaScript SDK has for card signatures.
func cardTool(t *testing.T, stdin []byte, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"card.mjs"}, args...)...)
	cmd.Dir = "jsclient"
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s", stderrOf(err))
	}
	return out, err
}

// TestCARD15_SignedAgain has the SDK of another language verify the signature
// that the card of a protected agent has: it is the gateway's, of that very card.
func TestCARD15_SignedAgain(t *testing.T) {
	w := start(t, options{})
	for _, path := range []string{"", "/skills/search_documents"} {
		url := w.agentURL("documents") + path + cardPath
		out, err := cardTool(t, nil, "verify", url, w.agentURL("documents")+"/.well-known/jwks.json")
		if err != nil || !strings.Contains(string(out), "verified") {
			t.Errorf("CARD-15 %s: %v\n%s", url, err, w.get(url))
		}
		// One that was changed on its way is noticed.
		changed := bytes.Replace(w.get(url), []byte(w.url), []byte("http://127.0.0.1:9"), 1)
		srv := httptest.NewServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) { _, _ = r.Write(changed) }))
		if _, err := cardTool(t, nil, "verify", srv.URL, w.agentURL("documents")+"/.well-known/jwks.json"); err == nil {
			t.Errorf("CARD-15 a changed card verifies")
		}
		srv.Close()
	}
}

// TestCARD15_PinnedRoots has agents whose cards the SDK signed: one that is
// pinned is served, and one that was changed, or signed by another key, whatever
// URL for that key it names, is not used at all.
func TestCARD15_PinnedRoots(t *testing.T) {
	key, other := newKey(t), newKey(t)
	jwk := func(k *token.PrivateKey, kid string) string {
		return strings.Replace(string(k.JWK()), "{", `{"kid":"`+kid+`",`, 1)
	}
	agent := newStock(t, "search_documents")
	plain := (&town{t: t}).get(agent.url + cardPath)
	sign := func(k *token.PrivateKey, kid, jku string) []byte {
		out, err := cardTool(t, plain, "sign", jwk(k, kid), jku)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	keys := httptest.NewServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) {
		_, _ = r.Write(token.JWKS(other.Public()).AppendJSON(nil))
	}))
	defer keys.Close()
	pinned, err := json.Marshal(map[string]any{"keys": []json.RawMessage{json.RawMessage(strings.Replace(string(key.Public().JWK().AppendJSON(nil)), "{", `{"kid":"card-1",`, 1))}})
	if err != nil {
		t.Fatal(err)
	}
	good := sign(key, "card-1", "")
	for name, c := range map[string]struct {
		card []byte
		want int
	}{
		"signed by the pinned key":               {good, http.StatusOK},
		"changed after that":                     {bytes.Replace(good, []byte("Keeps documents"), []byte("Keeps secrets"), 1), http.StatusBadGateway},
		"another URL after that":                 {bytes.Replace(good, []byte("/invoke"), []byte("/other"), 1), http.StatusBadGateway},
		"not signed":                             {plain, http.StatusBadGateway},
		"signed by another key of that name":     {sign(other, "card-1", ""), http.StatusBadGateway},
		"signed by a key at a URL that it names": {sign(other, other.Public().Thumbprint(), keys.URL), http.StatusBadGateway},
	} {
		t.Run("CARD-15 "+name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) { _, _ = r.Write(c.card) }))
			defer srv.Close()
			w := start(t, options{agent: "    card_keys: pinned.json", files: map[string]string{"pinned.json": string(pinned)}})
			w.again(func() { w.rewrite("powerbox.yaml", w.documents.url, srv.URL) })
			res, err := http.Get(w.agentURL("documents") + cardPath)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != c.want {
				t.Errorf("%d; want %d\n%s", res.StatusCode, c.want, w.log)
			}
		})
	}
}

// TestCARD15_WhatIsNotSignedIsNotUsed: the signature of a card of 1.0 is not
// about the addresses that 0.3 has. A pinned card leads nowhere by them.
func TestCARD15_WhatIsNotSignedIsNotUsed(t *testing.T) {
	key := newKey(t)
	signed, err := cardTool(t, []byte(newRawAgent(t).cardText("")), "sign", strings.Replace(string(key.JWK()), "{", `{"kid":"card-1",`, 1), "")
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer evil.Close()
	added := strings.Replace(string(signed), "{", `{"url":"`+evil.URL+`","protocolVersion":"0.3.0","preferredTransport":"JSONRPC",`, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) { _, _ = r.Write([]byte(added)) }))
	defer srv.Close()
	pinned := `{"keys":[` + strings.Replace(string(key.Public().JWK().AppendJSON(nil)), "{", `{"kid":"card-1",`, 1) + `]}`
	w := start(t, options{mode: "observe", agent: "    card_keys: pinned.json", files: map[string]string{"pinned.json": pinned}})
	w.again(func() { w.rewrite("powerbox.yaml", w.documents.url, srv.URL) })
	if card := w.get(w.agentURL("documents") + cardPath); strings.Contains(string(card), "0.3.0") {
		t.Errorf("CARD-15 the card served has what nobody signed: %s", card)
	}
	res, err := http.Post(w.agentURL("documents"), "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if reached.Load() > 0 {
		t.Error("CARD-15 a call went where nobody signed that it goes")
	}
}

// TestCARD16_CachedByETag asks again for a card that did not change.
func TestCARD16_CachedByETag(t *testing.T) {
	w := start(t, options{})
	url := w.agentURL("documents") + cardPath
	first, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Body.Close()
	tag := first.Header.Get("ETag")
	if tag == "" || !strings.Contains(first.Header.Get("Cache-Control"), "max-age") {
		t.Fatalf("CARD-16 %v", first.Header)
	}
	for given, want := range map[string]int{tag: http.StatusNotModified, `"x", ` + tag: http.StatusNotModified, `"x"`: http.StatusOK} {
		req, _ := http.NewRequest(http.MethodGet, url, nil)
		req.Header.Set("If-None-Match", given)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("CARD-16 If-None-Match %s: %d; want %d", given, res.StatusCode, want)
		}
	}
}

// TestSEP1_ExtendedCardsOfEveryBinding asks for the extended card everywhere: it
// leads through the gateway, like the public one.
func TestSEP1_ExtendedCardsOfEveryBinding(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, mode: "prefer"})
		a := w.caller(aliceToken).send("documents", rpc("GetExtendedAgentCard", map[string]any{}))
		allowed(t, a)
		for _, private := range []string{w.documents.url, strings.TrimPrefix(w.documents.url, "http://")} {
			if strings.Contains(string(a.Raw), private) {
				t.Errorf("SEP-1 it leads past the gateway: %s", a.Raw)
			}
		}
		if text := string(a.Raw); !strings.Contains(text, w.agentURL("documents")) || !strings.Contains(text, extension) || strings.Contains(text, "signatures") != (on.version != "0.3") {
			t.Errorf("SEP-1 %s", a.Raw)
		}
	})
}
