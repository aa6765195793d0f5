package holder

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// restarted is a gateway that answers its first calls with these headers.
type restarted struct {
	outcome, reason string
	denials         int
	proofs          []string
}

func (g *restarted) RoundTrip(r *http.Request) (*http.Response, error) {
	g.proofs = append(g.proofs, r.Header.Get("DPoP"))
	if body, err := io.ReadAll(r.Body); err != nil || !bytes.Contains(body, []byte("SendMessage")) {
		return nil, errors.New("the call has another body")
	}
	h := http.Header{"Content-Type": {"application/json"}}
	text := `{"jsonrpc":"2.0","id":1,"result":{}}`
	if len(g.proofs) <= g.denials {
		h.Set("Powerbox-Outcome", g.outcome)
		h.Set("Powerbox-Reason", g.reason)
		text = `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// TestATK83_SignedAgainOnce repeats a call with a new proof where the gateway says that
// nothing was executed and that it was started after the proof: once, and for no other
// reason.
func TestATK83_SignedAgainOnce(t *testing.T) {
	for name, c := range map[string]struct {
		gateway restarted
		calls   int
	}{
		"started after the proof":      {restarted{outcome: "denied", reason: "proof_before_start", denials: 1}, 2},
		"never a third time":           {restarted{outcome: "denied", reason: "proof_before_start", denials: 5}, 2},
		"a proof that was used":        {restarted{outcome: "denied", reason: "proof_replayed", denials: 1}, 1},
		"a call that was forwarded":    {restarted{outcome: "forwarded", reason: "proof_before_start", denials: 1}, 1},
		"a call with unknown outcome":  {restarted{outcome: "unknown", reason: "proof_before_start", denials: 1}, 1},
		"a call that needs no second":  {restarted{}, 1},
		"a denial for another reason":  {restarted{outcome: "denied", reason: "revoked", denials: 1}, 1},
		"a denial without any outcome": {restarted{reason: "proof_before_start", denials: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := token.GenerateKey(token.Ed25519, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			g := c.gateway
			client := &Client{Key: key, HTTP: &http.Client{Transport: &g}, Random: rand.Reader, Now: func() time.Time { return time.Unix(1_800_000_000, 999_000_000) }, Session: func(context.Context, string) (string, error) { return "session", nil }}
			agent := Agent{Base: "https://a.example", URL: "https://a.example/", Issuer: "https://a.example", Negotiates: true}
			transport := &Transport{Base: &g, Client: client, Agent: agent}
			body := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}}`
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, agent.URL, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("A2A-Version", "1.0")
			answer, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if len(g.proofs) != c.calls {
				t.Errorf("%d calls; want %d", len(g.proofs), c.calls)
			}
			if c.calls == 2 && (g.proofs[0] == "" || g.proofs[0] == g.proofs[1]) {
				t.Errorf("the proof is not a new one: %q", g.proofs)
			}
		})
	}
}
