package holder_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

var errBroken = errors.New("broken today")

// What the client is made of can fail; then nothing is sent, or nothing is
// believed.
func TestFailuresOfWhatTheClientIsMadeOf(t *testing.T) {
	a := newAgent(t)
	c := newClient(t)
	to, cap1 := held(t, c, a)
	calls := len(a.bodies)
	use := func(c *holder.Client) error {
		_, err := c.List(t.Context(), to)
		_, invoked := c.Invoke(t.Context(), to, cap1, "search_documents", powerbox.Object())
		_, narrowed := c.Narrow(cap1, holder.Narrowing{})
		r, made := http.NewRequest(http.MethodPost, to.URL, strings.NewReader(message(`{"text":"go"}`, "")))
		if made != nil {
			t.Fatal(made)
		}
		response, sent := (&holder.Transport{Client: c, Agent: to, Capability: cap1}).RoundTrip(r)
		if response != nil {
			_ = response.Body.Close()
		}
		for what, err := range map[string]error{"list": err, "invoke": invoked, "narrow": narrowed, "transport": sent} {
			if err == nil {
				t.Errorf("%s worked", what)
			}
		}
		return err
	}
	random := *c
	random.Random = iotest.ErrReader(errBroken)
	if err := use(&random); !errors.Is(err, errBroken) {
		t.Errorf("random: %v", err)
	}
	// Enough for the id of the call, and not for that of its proof.
	random.Random = io.LimitReader(strings.NewReader(strings.Repeat("x", 20)), 20)
	if _, err := random.List(t.Context(), to); err == nil {
		t.Error("a proof was made without an id")
	}
	late := *c
	late.Now = func() time.Time { return now.Add(2 * time.Hour) }
	late.Session = nil
	if err := use(&late); err == nil || !strings.Contains(err.Error(), "session") {
		t.Errorf("without session: %v", err)
	}
	if len(a.bodies) != calls {
		t.Errorf("%d calls were made", len(a.bodies)-calls)
	}
	session := *c
	session.Session = func(context.Context, string) (string, error) { return "", errBroken }
	if _, err := session.List(t.Context(), to); !errors.Is(err, errBroken) {
		t.Errorf("session: %v", err)
	}
	if use(&holder.Client{}) == nil {
		t.Error("a client without a key worked")
	}
	if _, err := (&holder.Client{}).Discover(t.Context(), a.URL); err == nil {
		t.Error("a client without a key looked at a card")
	}
}

func TestFailuresOfTheNetwork(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, _ := held(t, c, a)
	answer := func(status int, body io.Reader, err error) *http.Client {
		return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(body), Request: r}, nil
		})}
	}
	for name, client := range map[string]*http.Client{
		"no answer":   answer(0, nil, errBroken),
		"broken body": answer(200, iotest.ErrReader(errBroken), nil),
		"not JSON":    answer(502, strings.NewReader("<html>"), nil),
		"not found":   answer(404, strings.NewReader("{}"), nil),
		"endless":     answer(200, io.LimitReader(spaces{}, 17<<20), nil),
	} {
		c.HTTP = client
		if _, err := c.List(t.Context(), to); err == nil {
			t.Errorf("list, %s: no error", name)
		}
		if _, err := c.Discover(t.Context(), a.URL); err == nil {
			t.Errorf("discover, %s: no error", name)
		}
	}
	bad := to
	bad.URL = "http://%zz"
	if _, err := c.List(t.Context(), bad); err == nil {
		t.Error("a URL that is none was called")
	}
	if _, err := c.Discover(t.Context(), "http://%zz"); err == nil {
		t.Error("a URL that is none was asked for a card")
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestDiscoverRefusesCardsThatAreNone(t *testing.T) {
	c := newClient(t)
	deep := strings.Repeat("[", 80) + strings.Repeat("]", 80)
	for _, card := range []string{`[]`, `{"name":"x"}`, `{"name":"x","url":"http://a.example","x":` + deep + `}`} {
		c.HTTP = answering(card)
		if _, err := c.Discover(t.Context(), "http://a.example"); err == nil {
			t.Errorf("%.60s: no error", card)
		}
	}
}

func TestNeeds(t *testing.T) {
	skill := func(name string) holder.Skill { return holder.Skill{Operation: operation(t, name)} }
	a := holder.Agent{
		Grants: []holder.Grant{{ID: "g", Operations: []string{"*"}}, {ID: "h", Operations: []string{"x", "y"}}},
		Skills: map[string]holder.Skill{"all": skill("a/g/anything"), "x": skill("a/h/x"), "y": skill("a/h/y"), "lost": skill("a/i/x")},
	}
	grants, operations, err := a.Needs("all", "x", "y", "x")
	if err != nil || cmp.Diff([]string{"g", "h"}, grants) != "" || cmp.Diff([]string{"anything", "x", "y"}, operations) != "" {
		t.Errorf("%v, %v, %v; want g and h with anything, x and y", grants, operations, err)
	}
	for _, name := range []string{"lost", "none"} {
		if _, _, err := a.Needs(name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAttenuationAnswersOneCapability(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	for _, answer := range []string{`"result":{"capabilities":[]}`, `"error":` + errorJSON(errBroken)} {
		a.answer = func(string, powerbox.Value, token.PublicKey) string { return answer }
		if _, err := c.Attenuate(t.Context(), to, cap1, holder.Attenuation{Operations: []string{"search"}}); err == nil {
			t.Errorf("{%s}: no error", answer)
		}
	}
}

// A client at the URL of one skill sends nothing but content; the proof is for
// the skill that the URL stands for.
func TestTransportAtTheURLOfASkill(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	to.URL = a.URL + "/skills/search_documents"
	seen := make(chan string, 1)
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		seen <- r.Header.Get(holder.HeaderProof)
		return &http.Response{StatusCode: http.StatusOK, Body: noClose(`{}`)}, nil
	})
	client := &http.Client{Transport: &holder.Transport{Base: base, Client: c, Agent: to, Capability: cap1}}
	body := message(`{"text":"go"}`, "")
	if _, err := post(t, client, to.URL, body); err != nil {
		t.Fatal(err)
	}
	u, err := token.ParseChain(cap1.Chain)
	if err != nil {
		t.Fatal(err)
	}
	v, err := u.Verify(token.NewKeySet(a.issuer.Public()), token.Options{Now: now, Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.CheckProof(<-seen, token.Expected{
		Now: now, Operation: operation(t, opSearch), Arguments: powerbox.Object(), Audience: a.URL,
		Request: &token.Request{Method: "POST", URL: to.URL, Digest: token.DigestOf([]byte(body))},
	}); err != nil {
		t.Error(err)
	}
}

func TestTransportRefusesWhatItCannotSign(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	calls := len(a.bodies)
	transport := &holder.Transport{Client: c, Agent: to, Capability: cap1}
	send := func(transport *holder.Transport, body io.Reader) error {
		r, err := http.NewRequest(http.MethodPost, to.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if response != nil {
			_ = response.Body.Close()
		}
		return err
	}
	two := `{"data":{"skill":"search_documents"}},{"data":{"skill":"retrieve_document"}}`
	for name, body := range map[string]io.Reader{
		"no body":      nil,
		"broken body":  iotest.ErrReader(errBroken),
		"endless body": io.LimitReader(spaces{}, 17<<20),
		"two skills":   strings.NewReader(message(two, "")),
	} {
		if err := send(transport, body); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
	if err := send(&holder.Transport{Agent: to}, strings.NewReader(message(`{"text":"go"}`, ""))); err == nil {
		t.Error("signed without a client")
	}
	if len(a.bodies) != calls {
		t.Errorf("%d calls were made", len(a.bodies)-calls)
	}
	plain := &holder.Transport{Client: c, Agent: holder.Agent{URL: a.URL}}
	if err := send(plain, strings.NewReader("{}")); err != nil || len(a.bodies) != calls+1 {
		t.Errorf("an agent that does not negotiate: %v; want the call as it is", err)
	}
}

// A caller that brings its own session keeps it.
func TestTransportLeavesAuthorizationAlone(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, _ := held(t, c, a)
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") != "Bearer own" || r.Header.Get("DPoP") != "" {
			t.Errorf("headers %v; want the caller's own session", r.Header)
		}
		return &http.Response{StatusCode: http.StatusOK, Body: noClose(`{}`)}, nil
	})
	r, err := http.NewRequest(http.MethodPost, to.URL, strings.NewReader(message(`{"text":"go"}`, "")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer own")
	response, err := (&holder.Transport{Base: base, Client: c, Agent: to}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestWalletListsEverything(t *testing.T) {
	w := holder.NewWallet(newKey(t).Public())
	b := holder.Capability{ID: "b", Agent: "http://b.example", Expires: now.Add(time.Hour)}
	a := holder.Capability{ID: "a", Agent: "http://a.example", Expires: now.Add(time.Minute)}
	if err := w.Add(b, a); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]holder.Capability{a, b}, w.All(now)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]holder.Capability{b}, w.All(now.Add(time.Minute))); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsSayWhatTheyAre(t *testing.T) {
	for want, err := range map[string]error{
		"denied (refused): no":       &holder.Denied{Code: "refused", Message: "no"},
		"error -32602 (params): bad": &holder.CallError{RPC: -32602, Code: "params", Message: "bad"},
		"error -32601: what":         &holder.CallError{RPC: -32601, Message: "what"},
		"request p waits for approval at http://x/p; ask again after 5 s": &holder.Pending{ID: "p", ApprovalURL: "http://x/p", Interval: 5},
	} {
		if err.Error() != want {
			t.Errorf("%q; want %q", err, want)
		}
	}
}

func TestCardParamsPublishTheKey(t *testing.T) {
	key := newKey(t).Public()
	params, err := holder.CardParams(key)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"holder": map[string]any{"kty": "OKP", "crv": "Ed25519", "x": textOf(t, key.JWK(), "x")}}
	if diff := cmp.Diff(want, params); diff != "" {
		t.Error(diff)
	}
}

func textOf(t *testing.T, v powerbox.Value, name string) string {
	t.Helper()
	m, _ := v.Get(name)
	s, ok := m.Text()
	if !ok {
		t.Fatalf("%s has no %s", v, name)
	}
	return s
}
