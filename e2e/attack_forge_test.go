package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/token"
)

// attack is one try that must fail for that reason.
type attack struct {
	name, reason string
	try          func() answer
}

// repel makes the tries of an attack: each is refused with its reason, reaches
// no agent and, where anybody is known or a capability was shown, is on record.
func (w *town) repel(t *testing.T, attacks ...attack) {
	t.Helper()
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			before := len(w.documents.got()) + len(w.mail.got())
			answered := a.try()
			if answered.reason() != a.reason {
				t.Errorf("reason %q; want %q\n%s", answered.reason(), a.reason, answered.Raw)
			}
			if n := len(w.documents.got()) + len(w.mail.got()) - before; n > 0 {
				t.Errorf("%d calls reached an agent", n)
			}
			if d := w.decided(answered); d.Decision != "DENY" || !d.has(a.reason) && !d.has("task_foreign") {
				t.Errorf("the record says %s %+v", d.Decision, d.Powerbox.Reasons)
			}
		})
	}
}

// parts takes a compact token apart.
func parts(t *testing.T, compact string) (header, payload, signature string) {
	t.Helper()
	p := strings.Split(compact, ".")
	if len(p) != 3 {
		t.Fatalf("%d parts", len(p))
	}
	out := make([]string, 3)
	for i := range p {
		b, err := base64.RawURLEncoding.DecodeString(p[i])
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(b)
	}
	return out[0], out[1], out[2]
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// signedBy is a compact JWS with any header and payload, under an honest
// signature.
func signedBy(t *testing.T, key *token.PrivateKey, header, payload string) string {
	t.Helper()
	input := b64(header) + "." + b64(payload)
	signature, err := key.Sign([]byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + b64(string(signature))
}

// hmacBy is a compact JWS whose "signature" is an HMAC under public bytes.
func hmacBy(secret []byte, header, payload string) string {
	input := b64(header) + "." + b64(payload)
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(input))
	return input + "." + b64(string(m.Sum(nil)))
}

// changed replaces one piece of a text and fails where it is not there.
func changed(t *testing.T, s, before, after string) string {
	t.Helper()
	if !strings.Contains(s, before) {
		t.Fatalf("%q is not in %s", before, s)
	}
	return strings.Replace(s, before, after, 1)
}

// search presents a chain, well-formed or not, for search_documents, which needs
// no arguments, by the method of the extension and by a message.
func (c *caller) search(chain ...string) answer {
	c.w.t.Helper()
	p := proven{chain: chain, operation: opSearch, tokenID: "unknown"}
	var claims struct {
		ID string `json:"jti"`
	}
	if s := strings.Split(chain[len(chain)-1], "."); len(s) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(s[1])
		if json.Unmarshal(payload, &claims) == nil && claims.ID != "" {
			p.tokenID = claims.ID
		}
	}
	invoked := c.present("documents", invoke("search_documents", nil, ""), p)
	sent := c.present("documents", data("search_documents", nil), p)
	if invoked.reason() != sent.reason() {
		c.w.t.Errorf("invoked: %s\nsent: %s", invoked.Raw, sent.Raw)
	}
	return sent
}

// forget empties what an agent keeps of what reached it.
func (s *stock) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// newBait starts a server that must get no request. It answers with text and
// reports its requests.
func newBait(t *testing.T, asked chan<- string, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// with sends a body with a chain and a proof of one's own making.
func (c *caller) with(agent string, body []byte, chain []string, proof string) answer {
	c.w.t.Helper()
	return c.w.post(c.w.agentURL(agent), body, http.Header{
		"Powerbox-Capability": {token.JoinChain(chain)}, "Powerbox-Proof": {proof},
	})
}

// searching makes an honest call of search_documents and returns its body and
// headers.
func (c *caller) searching(chain ...string) ([]byte, http.Header) {
	c.w.t.Helper()
	body := data("search_documents", nil)
	return body, c.proof("documents", body, proven{chain: chain, operation: opSearch})
}
