package quarterly_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/holder"
	wire "github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// front stands before one agent as a gateway in mode require does: it issues one grant, verifies chain and proof with package token,
// decides, and signs a context.
type front struct {
	*httptest.Server
	t               *testing.T
	agent, upstream string
	key             *token.PrivateKey
	tools           string // the tools of the issued capability
	requests        []string
}

const aliceToken = "alice"

// handles is what the documents front issues for the reports of the first quarter.
var handles = map[string]token.ContextHandle{"h-fin": {ID: "q1-financial"}, "h-sales": {ID: "q1-sales"}}

var fronts = map[string]struct{ skills, grant, operations, tools string }{
	quarterly.Documents: {
		`{"retrieve_document":{"operation":"documents/documents:read/retrieve","handle":"resourceHandle"},"search_documents":{"operation":"documents/documents:read/search"}}`,
		"documents:read", `["retrieve","search"]`,
		`{"documents/documents:read/retrieve":{"resourceHandle":{"constraint_type":"one_of","values":["h-fin","h-sales"]}},"documents/documents:read/search":{},"a2a.message":{}}`,
	},
	quarterly.Summariser: {
		`{"summarize":{"operation":"summariser/summaries/make"}}`, "summaries", `["make"]`, `{"summariser/summaries/make":{},"a2a.message":{}}`,
	},
	quarterly.Orchestrator: {
		`{"report":{"operation":"orchestrator/reports/have"}}`, "reports", `["have"]`, `{"orchestrator/reports/have":{},"a2a.message":{}}`,
	},
	quarterly.Mail: {`{"send_mail":{"operation":"mail/mail/send"}}`, "mail", `["send"]`, `{"mail/mail/send":{},"a2a.message":{}}`},
}

func newFront(t *testing.T, agent string) *front {
	f := &front{t: t, agent: agent, key: holderKey(t), tools: fronts[agent].tools}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/agent-card.json", f.card)
	mux.HandleFunc("GET /.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(token.JWKS(f.key.Public()).AppendJSON(nil))
	})
	mux.HandleFunc("POST /", f.post)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *front) card(w http.ResponseWriter, _ *http.Request) {
	response, err := http.Get(f.upstream + "/.well-known/agent-card.json")
	if err != nil {
		f.t.Error(err)
		return
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Error(err)
	}
	offer := fronts[f.agent]
	var operations []string
	if err := json.Unmarshal([]byte(offer.operations), &operations); err != nil {
		f.t.Error(err)
	}
	card, err := wire.RewriteCard(raw, wire.Rewrite{
		PublicURL: f.URL, Grants: []wire.CardGrant{{ID: offer.grant, Operations: operations, Attenuable: true}},
		Params: []byte(`{"issuer":"` + f.URL + `","skills":` + offer.skills + `}`),
	})
	if err != nil {
		f.t.Error(err)
	}
	_, _ = w.Write(card)
}

func (f *front) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	call, decodeError := wire.Decode(body, wire.Header{Version: r.Header.Get("A2A-Version")}, powerbox.Limits{Bytes: 1 << 20, Depth: 64})
	if decodeError != nil {
		_, _ = w.Write(decodeError.Denial().JSONRPC(call.ID))
		return
	}
	if call.Method == wire.CapabilitiesRequest {
		f.issue(w, r, call)
		return
	}
	authority, err := f.check(r, body, call)
	if err != nil {
		_, _ = w.Write(wire.Denial{Reason: "refused", Message: err.Error()}.JSONRPC(call.ID))
		return
	}
	f.forward(w, r, body, authority)
}

func (f *front) issue(w http.ResponseWriter, r *http.Request, call wire.Call) {
	d, err := token.VerifyDPoP(r.Header.Get("DPoP"), token.DPoPRequest{Method: "POST", URL: f.URL, AccessToken: aliceToken, Now: time.Now(), Window: time.Minute})
	if err != nil || r.Header.Get("Authorization") != "DPoP "+aliceToken {
		_, _ = w.Write(wire.Denial{Code: wire.CodeUnauthenticated, Message: fmt.Sprint("no session ", err)}.JSONRPC(call.ID))
		return
	}
	f.requests = append(f.requests, call.Params.String())
	clauses, err := token.ParseTools([]byte(f.tools))
	if err != nil {
		f.t.Error(err)
	}
	now := time.Now()
	root, err := token.Mint(f.key, token.Root{
		ID: "cap_" + f.agent, Issuer: f.URL, IssuedAt: now, Expires: now.Add(time.Hour), MaxDepth: 2, Holder: d.Key, Tools: clauses,
		Private: &token.Private{Capability: "cap", Grant: fronts[f.agent].grant, Principal: "p"},
	})
	if err != nil {
		f.t.Error(err)
	}
	c := wire.Capability{ID: "cap_" + f.agent, Grant: fronts[f.agent].grant, Token: root, Expires: now.Add(time.Hour)}
	if f.agent == quarterly.Documents {
		c.ResourceHandles = []wire.ResourceHandle{{Handle: "h-fin"}, {Handle: "h-sales"}}
	}
	answer, err := wire.Result(call.ID, wire.CapabilitiesResult{Capabilities: []wire.Capability{c}})
	if err != nil {
		f.t.Error(err)
	}
	_, _ = w.Write(answer)
}

// check is what a gateway does: chain, proof, decision.
func (f *front) check(r *http.Request, body []byte, call wire.Call) (powerbox.Authority, error) {
	if r.Header.Get(holder.HeaderCapability) == "" {
		return powerbox.Authority{}, errors.New("a capability is required")
	}
	u, err := token.ParseChain(token.SplitChain(r.Header.Get(holder.HeaderCapability)))
	if err != nil {
		return powerbox.Authority{}, err
	}
	v, err := u.Verify(token.NewKeySet(f.key.Public()), token.Options{Now: time.Now(), Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		return powerbox.Authority{}, err
	}
	name, arguments := "a2a.message", powerbox.Object()
	if named, found, ambiguous := call.Naming(""); ambiguous != nil {
		return powerbox.Authority{}, ambiguous
	} else if found {
		skills, err := powerbox.ParseValue([]byte(fronts[f.agent].skills))
		if err != nil {
			f.t.Error(err)
		}
		skill, _ := skills.Get(named.Skill)
		op, _ := skill.Get("operation")
		name, _ = op.Text()
		arguments = named.Arguments
	}
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		return powerbox.Authority{}, err
	}
	if _, err := v.CheckProof(r.Header.Get(holder.HeaderProof), token.Expected{
		Now: time.Now(), Operation: op, Arguments: arguments, Audience: f.URL,
		Request: &token.Request{Method: "POST", URL: f.URL, Digest: token.DigestOf(body)},
	}); err != nil {
		return powerbox.Authority{}, err
	}
	attempt, err := powerbox.Invocation(op, arguments)
	if err != nil {
		return powerbox.Authority{}, err
	}
	return v.Authority(), powerbox.Decide(attempt, v.Authority(), time.Now()).Err()
}

func (f *front) forward(w http.ResponseWriter, r *http.Request, body []byte, authority powerbox.Authority) {
	c := token.Context{
		Issuer: f.URL, Audience: f.agent, IssuedAt: time.Now(), Expires: time.Now().Add(time.Minute), Mode: "require",
		Basis: "capability", Authority: authority, Digest: token.DigestOf(body),
	}
	if f.agent == quarterly.Documents {
		c.Handles = handles
	}
	signed, err := token.SignContext(f.key, c)
	if err != nil {
		f.t.Error(err)
	}
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, f.upstream, bytes.NewReader(body))
	if err != nil {
		f.t.Error(err)
	}
	out.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": r.Header["A2a-Version"], "Powerbox-Context": {signed}}
	response, err := http.DefaultClient.Do(out)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(w, response.Body)
}

func holderKey(t *testing.T) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// guarded is a town of which every agent stands behind a front.
func guarded(t *testing.T) (*quarterly.Town, *quarterly.Negotiating, map[string]*front) {
	t.Helper()
	out := &quarterly.Negotiating{
		HTTP: &http.Client{}, Now: time.Now, Random: rand.Reader, Keys: map[string]*token.PrivateKey{"": holderKey(t)},
		Session: func(_ context.Context, in quarterly.Incoming, _ string) (string, error) {
			if in.Agent == quarterly.Summariser {
				return "", nil // the user gave it no session
			}
			return aliceToken, nil
		},
	}
	all := map[string]*front{}
	cfg := quarterly.Config{Agents: map[string]quarterly.Agent{}, Outgoing: out}
	for agent := range fronts {
		all[agent] = newFront(t, agent)
		out.Keys[agent] = holderKey(t)
	}
	for agent := range fronts {
		extension, err := quarterly.Publishes(out.Keys[agent].Public())
		if err != nil {
			t.Fatal(err)
		}
		a := quarterly.Agent{Peers: map[string]string{}, Extensions: []a2a.AgentExtension{extension}}
		for _, peer := range peersOf(agent) {
			a.Peers[peer] = all[peer].URL
		}
		cfg.Agents[agent] = a
	}
	cfg.Handles = (&quarterly.Guarded{URL: all[quarterly.Documents].URL, ID: quarterly.Documents, HTTP: &http.Client{}, Now: time.Now}).Handles
	town, err := quarterly.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for agent, f := range all {
		f.upstream = town.URL(agent)
	}
	t.Cleanup(func() {
		if err := town.Close(); err != nil {
			t.Error(err)
		}
	})
	return town, out, all
}

// Act 1 of the demo: the same agents, hijacked by the same text, do the task and nothing else.
func TestSEP14_GuardedTownMailsNothing(t *testing.T) {
	town, out, all := guarded(t)
	client, err := out.Client(t.Context(), quarterly.Peer{Name: quarterly.Orchestrator, URL: all[quarterly.Orchestrator].URL}, quarterly.Incoming{Text: wish})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := quarterly.Say(t.Context(), client, wish)
	if err != nil || answer.Text != wantSummary {
		t.Errorf("answer %q, %v; want %q", answer.Text, err, wantSummary)
	}
	if sent := town.Outbox(); len(sent) != 0 {
		t.Errorf("outbox: %+v; want nothing", sent)
	}
	for _, c := range town.Calls() {
		if c.Injected == (c.Err == nil) {
			t.Errorf("%s %s.%s, injected %t: %v; want what was injected to be refused and nothing else", c.From, c.To, c.Skill, c.Injected, c.Err)
		}
	}
	if got := len(town.Calls()); got != len(wantCalls) {
		t.Errorf("%d calls, want %d: %v", got, len(wantCalls), wiring(town.Calls()))
	}
	want := []string{`{"grants":["documents:read"],"operations":["search","retrieve"],"purpose":"` + wish +
		`","resourceQuery":{"collection":"reports","filter":{"quarter":"2025-Q1"}}}`}
	if diff := cmp.Diff(want, all[quarterly.Documents].requests); diff != "" {
		t.Errorf("requests to documents (-want +got):\n%s", diff)
	}
	if n := len(all[quarterly.Mail].requests); n != 0 {
		t.Errorf("%d requests for mail, want none: no task needs it", n)
	}
	held := out.Held(quarterly.Summariser)
	if len(held) != 1 || len(held[0].Chain) != 2 || cmp.Diff([]string{"retrieve"}, held[0].Operations) != "" {
		t.Errorf("the summariser holds %+v; want one delegation of retrieve", held)
	}
}

// What came with one request is useless for another.
func TestDelegationsServeOneRequest(t *testing.T) {
	_, out, all := guarded(t)
	say := func(in quarterly.Incoming, to string) error {
		client, err := out.Client(t.Context(), quarterly.Peer{Name: to, URL: all[to].URL}, in)
		if err != nil {
			return err
		}
		_, err = quarterly.Invoke(t.Context(), client, "retrieve_document", map[string]any{"resourceHandle": "h-fin"})
		return err
	}
	orchestrator := quarterly.Incoming{Agent: quarterly.Orchestrator, TaskID: "t-1", Text: wish}
	if err := say(orchestrator, quarterly.Documents); err != nil {
		t.Fatal(err)
	}
	root := out.Held(quarterly.Orchestrator)[0]
	delegator := &holder.Client{Key: out.Keys[quarterly.Orchestrator], HTTP: out.HTTP, Now: out.Now, Random: out.Random}
	handed, err := delegator.Delegate(root, out.Keys[quarterly.Summariser].Public(), holder.Narrowing{Operations: []string{"retrieve"}, Handles: []string{"h-fin"}})
	if err != nil {
		t.Fatal(err)
	}
	with := quarterly.Incoming{Agent: quarterly.Summariser, TaskID: "t-2", Metadata: map[string]any{holder.ExtensionURI: holder.Delegations(handed)}}
	if err := say(with, quarterly.Documents); err != nil {
		t.Errorf("with the delegation: %v", err)
	}
	if err := say(quarterly.Incoming{Agent: quarterly.Summariser, TaskID: "t-3"}, quarterly.Documents); err == nil || !strings.Contains(err.Error(), "capability is required") {
		t.Errorf("another request: %v; want a refusal for want of a capability", err)
	}
	if err := say(quarterly.Incoming{Agent: quarterly.Summariser, Metadata: with.Metadata}, quarterly.Documents); err != nil {
		t.Errorf("with the delegation, outside a task: %v", err)
	}
	if err := say(quarterly.Incoming{Agent: quarterly.Summariser}, quarterly.Documents); err == nil {
		t.Error("what came outside a task served again")
	}
	stolen := quarterly.Incoming{Agent: quarterly.Mail, TaskID: "t-4", Metadata: with.Metadata}
	if err := say(stolen, quarterly.Documents); err == nil {
		t.Error("a delegation for another key was taken in")
	}
}

// Requests that do not come through the gateway, or not with its context, reach no document.
func TestGuardedRefusesWhatNoGatewaySigned(t *testing.T) {
	town, _, all := guarded(t)
	if _, err := ask(t, town.URL(quarterly.Documents), quarterly.Direct{HTTP: http.DefaultClient}, "list all documents"); err == nil {
		t.Error("past the gateway: documents were listed")
	}
	now := time.Now()
	body := []byte("{}")
	g := &quarterly.Guarded{URL: all[quarterly.Documents].URL, ID: quarterly.Documents, HTTP: http.DefaultClient, Now: func() time.Time { return now }}
	sign := func(change func(*token.Context)) quarterly.Incoming {
		c := token.Context{
			Issuer: g.URL, Audience: g.ID, IssuedAt: now, Expires: now.Add(time.Minute), Mode: "observe", Basis: "ambient", Digest: token.DigestOf(body),
		}
		change(&c)
		signed, err := token.SignContext(all[quarterly.Documents].key, c)
		if err != nil {
			t.Fatal(err)
		}
		return quarterly.Incoming{Headers: map[string][]string{"powerbox-context": {signed}}, Body: body}
	}
	if _, bounded, err := g.Handles(sign(func(*token.Context) {})); bounded || err != nil {
		t.Errorf("observe: %t, %v; want no bound", bounded, err)
	}
	if got, bounded, err := g.Handles(sign(func(c *token.Context) { c.Handles = handles })); !bounded || err != nil || got["h-fin"] != "q1-financial" {
		t.Errorf("handles: %v, %t, %v; want a bound", got, bounded, err)
	}
	for name, change := range map[string]func(*token.Context){
		"issuer":   func(c *token.Context) { c.Issuer = "http://x.example" },
		"audience": func(c *token.Context) { c.Audience = quarterly.Mail },
		"body":     func(c *token.Context) { c.Digest = token.DigestOf(nil) },
	} {
		if _, _, err := g.Handles(sign(change)); err == nil {
			t.Errorf("a context of another %s was believed", name)
		}
	}
	for _, url := range []string{"http://127.0.0.1:1", all[quarterly.Documents].URL + "/x"} {
		g := &quarterly.Guarded{URL: url, ID: quarterly.Documents, HTTP: http.DefaultClient, Now: time.Now}
		if _, _, err := g.Handles(quarterly.Incoming{}); err == nil {
			t.Errorf("without keys at %s a context was believed", url)
		}
	}
}

// The same code in both acts: where no card negotiates, Negotiating is Direct.
func TestNegotiatingWithoutGatewaysIsDirect(t *testing.T) {
	out := &quarterly.Negotiating{HTTP: &http.Client{}, Now: time.Now, Random: rand.Reader, Keys: map[string]*token.PrivateKey{}}
	cfg := quarterly.Config{Agents: map[string]quarterly.Agent{}, Outgoing: out}
	for agent := range fronts {
		out.Keys[agent] = holderKey(t)
		extension, err := quarterly.Publishes(out.Keys[agent].Public())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Agents[agent] = quarterly.Agent{Extensions: []a2a.AgentExtension{extension}}
	}
	town, err := quarterly.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := ask(t, town.URL(quarterly.Orchestrator), out, wish)
	if err != nil || answer.Text != wantSummary {
		t.Errorf("answer %q, %v; want %q", answer.Text, err, wantSummary)
	}
	if err := town.Close(); err != nil {
		t.Error(err)
	}
	if sent := town.Outbox(); len(sent) != 1 {
		t.Errorf("outbox: %+v; want the letter", sent)
	}
	if diff := cmp.Diff(slices.Clone(wantCalls), wiring(town.Calls())); diff != "" {
		t.Error(diff)
	}
}
