package holder_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func TestDiscover(t *testing.T) {
	a := newAgent(t)
	got := discover(t, newClient(t), a)
	want := holder.Agent{
		Base: a.URL, Name: "documents", URL: a.URL, Negotiates: true, Issuer: a.URL, Holder: a.holder.Public(),
		Grants: []holder.Grant{
			{ID: "documents:old", Operations: []string{"retrieve", "search"}, Legacy: true},
			{ID: "documents:read", Description: "Read", Operations: []string{"retrieve", "search"}, Attenuable: true},
		},
		Skills: map[string]holder.Skill{
			"retrieve_document": {Operation: operation(t, opRetrieve), Handle: "resourceHandle"},
			"search_documents":  {Operation: operation(t, opSearch)},
		},
	}
	exact := cmp.Comparer(func(a, b powerbox.Operation) bool { return a == b })
	keys := cmp.Comparer(func(a, b token.PublicKey) bool { return a == b })
	cards := cmp.Comparer(func(_, _ agentcard.Card) bool { return true }) // the card itself is agentcard's matter
	if got.Card().Name() != want.Name {
		t.Errorf("the card is that of %q", got.Card().Name())
	}
	if diff := cmp.Diff(want, got, exact, keys, cards, cmp.AllowUnexported(holder.Agent{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiscoverAnAgentThatDoesNotNegotiate(t *testing.T) {
	for name, extensions := range map[string]string{
		"no extension":    `[]`,
		"holder key only": `[{"uri":"` + holder.ExtensionURI + `","params":{"holder":` + newKey(t).Public().JWK().String() + `}}]`,
	} {
		c := newClient(t)
		c.HTTP = answering(`{"name":"x","url":"http://a.example/","capabilities":{"extensions":` + extensions + `}}`)
		got, err := c.Discover(t.Context(), "http://a.example")
		if err != nil || got.Negotiates || got.Holder.IsZero() == (name != "no extension") {
			t.Errorf("%s: %+v, %v; want an agent that does not negotiate", name, got, err)
		}
	}
}

// A card that would have proofs made for someone else is refused, and so is
// one that cannot be understood.
func TestDiscoverRefuses(t *testing.T) {
	for name, params := range map[string]string{
		"issuer elsewhere":      `{"issuer":"http://victim.example"}`,
		"issuer of a like name": `{"issuer":"http://a.exam"}`,
		"issuer below":          `{"issuer":"http://a.example/x/y"}`,
		"issuer no URL":         `{"issuer":"documents"}`,
		"issuer a number":       `{"issuer":1}`,
		"skill without name":    `{"issuer":"http://a.example","skills":{"read":{}}}`,
		"grant without id":      `{"issuer":"http://a.example","capabilityGrants":[{}]}`,
		"holder key private":    `{"issuer":"http://a.example","holder":` + string(newKey(t).JWK()) + `}`,
		"twice":                 `{"issuer":"http://a.example","issuer":"http://victim.example"}`,
	} {
		c := newClient(t)
		c.HTTP = answering(`{"name":"x","url":"http://a.example/x","capabilities":{"extensions":[{"uri":"` + holder.ExtensionURI + `","params":` + params + `}]}}`)
		if got, err := c.Discover(t.Context(), "http://a.example"); err == nil {
			t.Errorf("%s: %+v; want an error", name, got)
		}
	}
}

// roundTrip is an HTTP client's transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answering(body string) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: noClose(body), Request: r}, nil
	})}
}

func TestSEP4_Request(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	var params powerbox.Value
	a.answer = func(method string, p powerbox.Value, key token.PublicKey) string {
		if method != "a2a/capabilities/request" || key != c.Key.Public() {
			t.Errorf("method %q with key %s; want a request with the client's key", method, key)
		}
		params = p
		return `"result":{"capabilities":[` + capabilityJSON("cap_1", a.mint(t, "cap_1", key, nil)) + `,` + capabilityJSON("cap_2", "cap_2") + `]}`
	}
	to := discover(t, c, a)
	grants, operations, err := to.Needs("retrieve_document", "search_documents")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Request(t.Context(), to, holder.RequestParams{
		Grants: grants, Operations: operations, Purpose: "summarise", Expires: now.Add(time.Minute), Task: "t-1", Push: true,
		Query: value(t, `{"collection":"reports","filter":{"quarter":"2025-Q1"}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := value(t, `{"grants":["documents:read"],"operations":["retrieve","search"],"purpose":"summarise","expires":"2027-01-15T08:01:00Z",
		"task":"t-1","push":true,"resourceQuery":{"collection":"reports","filter":{"quarter":"2025-Q1"}}}`)
	// Needs goes by the qualified operation, so the legacy grant is not asked for.
	if diff := cmp.Diff(want.String(), params.String()); diff != "" {
		t.Errorf("params (-want +got):\n%s", diff)
	}
	if len(got) != 2 || len(got[0].Chain) != 1 || got[1].Chain != nil || got[0].Handles[1].DisplayName != "Q1 Sales" || got[0].RevocationID != "rv_1" {
		t.Errorf("capabilities %+v; want one with a chain and one by reference", got)
	}
}

func TestSEP3_AnAttenuableGrantIsPreferred(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	a.params = `` // the grants of the card: documents:old is legacy, documents:read has the same operations
	var asked string
	a.answer = func(_ string, p powerbox.Value, _ token.PublicKey) string {
		grants, _ := p.Get("grants")
		asked = grants.String()
		return `"result":{"capabilities":[]}`
	}
	to := discover(t, c, a)
	for _, operations := range [][]string{nil, {"search"}, {"shred"}} {
		if _, err := c.Request(t.Context(), to, holder.RequestParams{Grants: []string{"documents:old"}, Operations: operations, Purpose: "x"}); err != nil {
			t.Fatal(err)
		}
		want := `["documents:read"]`
		if operations != nil && operations[0] == "shred" {
			want = `["documents:old"]`
		}
		if asked != want {
			t.Errorf("operations %v: asked for %s; want %s", operations, asked, want)
		}
	}
}

func TestRequestRefusesWhatIsNotForUs(t *testing.T) {
	a, other := newAgent(t), newAgent(t)
	c := newClient(t)
	for name, tok := range map[string]func(key token.PublicKey) string{
		"other holder": func(token.PublicKey) string { return a.mint(t, "cap_1", newKey(t).Public(), nil) },
		"other issuer": func(key token.PublicKey) string { return other.mint(t, "cap_1", key, nil) },
		"expired": func(key token.PublicKey) string {
			return a.mint(t, "cap_1", key, func(r *token.Root) { r.IssuedAt, r.Expires = now.Add(-time.Hour), now })
		},
		"no token": func(token.PublicKey) string { return "x" },
	} {
		a.answer = func(_ string, _ powerbox.Value, key token.PublicKey) string {
			return `"result":{"capabilities":[` + capabilityJSON("cap_1", tok(key)) + `]}`
		}
		if got, err := c.Request(t.Context(), discover(t, c, a), holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "x"}); err == nil {
			t.Errorf("%s: %+v; want an error", name, got)
		}
	}
}

func TestDeniedAndOtherErrors(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to := discover(t, c, a)
	request := func(answer string) error {
		a.answer = func(string, powerbox.Value, token.PublicKey) string { return answer }
		_, err := c.Request(t.Context(), to, holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "x"})
		return err
	}
	var denied *holder.Denied
	err := request(`"error":` + errorJSON(errors.New("no")))
	want := holder.Denied{Code: "refused", Missing: []string{"x"}, Message: "no", Fix: "ask", DecisionID: "d-1"}
	if !errors.As(err, &denied) || !errors.Is(err, powerbox.ErrDenied) || cmp.Diff(want, *denied) != "" {
		t.Errorf("%v; want %v", err, &want)
	}
	var called *holder.CallError
	for answer, want := range map[string]holder.CallError{
		`"error":{"code":-32602,"message":"bad","data":[{"metadata":{"code":"params"}}]}`: {RPC: -32602, Code: "params", Message: "bad"},
		`"error":{"code":-32601,"message":"what","data":"text"}`:                          {RPC: -32601, Message: "what"},
	} {
		if err := request(answer); !errors.As(err, &called) || errors.Is(err, powerbox.ErrDenied) || cmp.Diff(want, *called) != "" {
			t.Errorf("%v; want %v, which is no denial", err, &want)
		}
	}
	var pending *holder.Pending
	if err := request(`"result":{"pending":{"id":"p","approvalUrl":"http://x/approve/p","interval":5}}`); !errors.As(err, &pending) ||
		*pending != (holder.Pending{ID: "p", ApprovalURL: "http://x/approve/p", Interval: 5}) {
		t.Errorf("%v; want a pending request", err)
	}
	for _, answer := range []string{`"x":1`, `"result":[1]`, `"result":nonsense`} {
		if err := request(answer); err == nil {
			t.Errorf("answer {%s} was understood", answer)
		}
	}
}

func TestSEP10_Invoke(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	result, err := c.Invoke(t.Context(), to, cap1, "retrieve_document", value(t, `{"resourceHandle":"h-1"}`))
	if err != nil || string(result) != `{"ok":true}` {
		t.Errorf("%s, %v; want the result", result, err)
	}
	_, err = c.Invoke(t.Context(), to, cap1, "retrieve_document", value(t, `{"resourceHandle":"h-3"}`))
	if !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("SEP-15 another handle: %v; want a denial", err)
	}
	if _, err = c.Invoke(t.Context(), to, cap1, "delete_document", powerbox.Object()); err == nil || len(a.bodies) != 3 {
		t.Errorf("a skill that maps to nothing: %v, %d calls; want an error and no call", err, len(a.bodies))
	}
}

func TestSEP17_InvokeByReference(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to := discover(t, c, a)
	a.answer = func(method string, p powerbox.Value, key token.PublicKey) string {
		id, _ := p.Get("capabilityId")
		if got, _ := id.Text(); method != "a2a/skill/invoke" || got != "cap_2" || key != c.Key.Public() {
			t.Errorf("%s with %s; want a2a/skill/invoke with cap_2", method, p)
		}
		return `"result":{"ok":true}`
	}
	reference := holder.Capability{ID: "cap_2", Agent: a.URL, Grant: "documents:read", Operations: []string{"retrieve"}, Expires: now.Add(time.Hour)}
	if _, err := c.Invoke(t.Context(), to, reference, "retrieve_document", value(t, `{"resourceHandle":"h-1"}`)); err != nil {
		t.Fatal(err)
	}
	if !reference.Permits(operation(t, opRetrieve), powerbox.Object(), now) || reference.Permits(operation(t, opSearch), powerbox.Object(), now) {
		t.Error("a reference permits its operations and no other")
	}
	if _, err := c.Narrow(reference, holder.Narrowing{}); err == nil {
		t.Error("a reference was narrowed offline")
	}
}

func TestSEP12_AttenuateRevokeList(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	if _, err := c.Attenuate(t.Context(), to, cap1, holder.Attenuation{Handles: []string{"h-1"}, Operations: []string{"retrieve"}, Expires: now.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	body := string(a.bodies[len(a.bodies)-1])
	for _, part := range []string{
		`"method":"a2a/capabilities/attenuate"`, `"capabilityId":"cap_1"`,
		`"constraints":{"expires":"2027-01-15T08:01:00Z","operations":["retrieve"],"resourceHandles":["h-1"]}`,
	} {
		if !strings.Contains(body, part) {
			t.Errorf("body %s; want %s in it", body, part)
		}
	}
	if got, err := c.List(t.Context(), to); err != nil || len(got) != 1 {
		t.Errorf("list: %v, %v; want one", got, err)
	}
	a.answer = func(method string, p powerbox.Value, _ token.PublicKey) string {
		if method != "a2a/capabilities/revoke" || p.String() != `{"revocationId":"rv_1"}` {
			t.Errorf("%s %s; want a revocation of rv_1", method, p)
		}
		return `"result":{"revocationId":"rv_1"}`
	}
	if err := c.Revoke(t.Context(), to, cap1); err != nil {
		t.Error(err)
	}
	derived, err := c.Narrow(cap1, holder.Narrowing{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Revoke(t.Context(), to, derived); err == nil {
		t.Error("what was derived offline has no revocation id and was revoked")
	}
}

func TestWithoutSessionNothingIsRequested(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to := discover(t, c, a)
	c.Session = nil
	if _, err := c.Request(t.Context(), to, holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "x"}); err == nil || len(a.bodies) != 0 {
		t.Errorf("%v, %d calls; want an error and no call", err, len(a.bodies))
	}
	to.Negotiates = false
	c.Session = newClient(t).Session
	if _, err := c.List(t.Context(), to); err == nil {
		t.Error("an agent that does not negotiate was asked")
	}
	if _, err := (&holder.Client{}).List(t.Context(), to); err == nil {
		t.Error("a client without a key worked")
	}
}
