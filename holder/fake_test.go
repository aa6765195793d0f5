package holder_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

var now = time.Unix(1_800_000_000, 0)

func clock() time.Time { return now }

// agent is a protected agent: its issuing key, its card, and what it saw. It
// verifies with package token what a gateway would verify.
type agent struct {
	*httptest.Server
	issuer *token.PrivateKey
	holder *token.PrivateKey // published on its card
	params string            // more members of the extension's params, with a comma in front
	tenant string            // that the card names; "" for none
	answer func(method string, params powerbox.Value, key token.PublicKey) string
	want   string // operation that the proof must name, "" for that of the skill

	bodies [][]byte
	failed error
}

const session = "access-of-alice"

func newAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{issuer: newKey(t), holder: newKey(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"documents","supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":%q},
			{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"0.3"}],
			"capabilities":{"extensions":[{"uri":%q,"params":{"issuer":%q,"holder":%s,
			"skills":{"retrieve_document":{"operation":"documents/documents:read/retrieve","handle":"resourceHandle"},
				"search_documents":{"operation":"documents/documents:read/search"}},
			"capabilityGrants":[{"id":"documents:old","operations":["retrieve","search"],"legacy":true},
				{"id":"documents:read","description":"Read","operations":["retrieve","search"],"attenuable":true}]%s}}]}}`,
			a.URL, a.tenant, a.URL, holder.ExtensionURI, a.URL, a.holder.Public().JWK(), a.params)
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.bodies = append(a.bodies, body)
		answer, err := a.serve(r, body)
		if a.failed = err; err != nil {
			answer = `"error":` + errorJSON(err)
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"1",%s}`, answer)
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func errorJSON(err error) string {
	message, _ := json.Marshal(err.Error())
	return fmt.Sprintf(`{"code":-31403,"message":%s,"data":[{"metadata":{"code":"refused","missing":"[\"x\"]",`+
		`"decision":"d-1","fix":"ask","retryable":"false"}}]}`, message)
}

// serve verifies what came and answers.
func (a *agent) serve(r *http.Request, body []byte) (string, error) {
	call, decodeError := a2a.Decode(body, a2a.Header{Version: r.Header.Get("A2A-Version")}, powerbox.Limits{Bytes: 1 << 20, Depth: 64})
	if decodeError != nil {
		return "", decodeError
	}
	if r.Header.Get(holder.HeaderCapability) != "" {
		return `"result":{"ok":true}`, a.verify(r, body, call)
	}
	access, ok := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
	if !ok || access != session {
		return "", fmt.Errorf("no capability and no session")
	}
	d, err := token.VerifyDPoP(r.Header.Get("DPoP"), token.DPoPRequest{
		Method: r.Method, URL: a.URL + r.URL.Path, AccessToken: access, Now: now, Window: time.Second,
	})
	if err != nil {
		return "", err
	}
	return a.answer(call.Wire, call.Params, d.Key), nil
}

// verify is what a gateway does with a chain: chain, proof, decision.
func (a *agent) verify(r *http.Request, body []byte, call a2a.Call) error {
	u, err := token.ParseChain(token.SplitChain(r.Header.Get(holder.HeaderCapability)))
	if err != nil {
		return err
	}
	v, err := u.Verify(token.NewKeySet(a.issuer.Public()), token.Options{Now: now, Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		return err
	}
	name, arguments := a.want, powerbox.Object()
	if name == "" {
		named, _, ambiguous := call.Naming("")
		if ambiguous != nil {
			return ambiguous
		}
		name = map[string]string{"retrieve_document": opRetrieve, "search_documents": opSearch}[named.Skill]
		arguments = named.Arguments
	} else if call.Task != "" {
		arguments = powerbox.Object(powerbox.Member{Name: "task", Value: powerbox.String(call.Task)})
	}
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		return err
	}
	if _, err := v.CheckProof(r.Header.Get(holder.HeaderProof), token.Expected{
		Now: now, Operation: op, Arguments: arguments, Audience: a.URL,
		Request: &token.Request{Method: r.Method, URL: a.URL, Digest: token.DigestOf(body)},
	}); err != nil {
		return err
	}
	attempt, err := powerbox.Invocation(op, arguments)
	if err != nil {
		return err
	}
	return powerbox.Decide(attempt, v.Authority(), now).Err()
}

const (
	opRetrieve = "documents/documents:read/retrieve"
	opSearch   = "documents/documents:read/search"
	tools      = `{"` + opRetrieve + `":{"resourceHandle":{"constraint_type":"one_of","values":["h-1","h-2"]}},"` + opSearch + `":{},` +
		`"a2a.message":{},"a2a.task.read":{},"a2a.task.cancel":{}}`
)

// mint issues a root token.
func (a *agent) mint(t *testing.T, id string, key token.PublicKey, change func(*token.Root)) string {
	t.Helper()
	clauses, err := token.ParseTools([]byte(tools))
	if err != nil {
		t.Fatal(err)
	}
	r := token.Root{
		ID: id, Issuer: a.URL, IssuedAt: now, Expires: now.Add(time.Hour), MaxDepth: 4, Holder: key, Tools: clauses,
		Private: &token.Private{Capability: id, Grant: "documents:read", Principal: "p-1"},
	}
	if change != nil {
		change(&r)
	}
	root, err := token.Mint(a.issuer, r)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func capabilityJSON(id, tok string) string {
	return fmt.Sprintf(`{"id":%q,"grant":"documents:read","token":%q,"resourceHandles":[{"handle":"h-1","displayName":"Q1 Financial"},`+
		`{"handle":"h-2","displayName":"Q1 Sales"}],"operations":["retrieve","search"],"expires":%q,"revocationId":"rv_1","principal":"p-1"}`,
		id, tok, now.Add(time.Hour).UTC().Format(time.RFC3339))
}

// issues answers every method with one capability for the caller's key.
func (a *agent) issues(t *testing.T) {
	a.answer = func(_ string, _ powerbox.Value, key token.PublicKey) string {
		return `"result":{"capabilities":[` + capabilityJSON("cap_1", a.mint(t, "cap_1", key, nil)) + `]}`
	}
}

func newKey(t testing.TB) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newClient(t testing.TB) *holder.Client {
	t.Helper()
	return &holder.Client{
		Key: newKey(t), HTTP: http.DefaultClient, Now: clock, Random: rand.Reader,
		Session: func(context.Context, string) (string, error) { return session, nil },
	}
}

func discover(t *testing.T, c *holder.Client, a *agent) holder.Agent {
	t.Helper()
	found, err := c.Discover(t.Context(), a.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// held is one capability of the agent, asked for.
func held(t *testing.T, c *holder.Client, a *agent) (holder.Agent, holder.Capability) {
	t.Helper()
	a.issues(t)
	to := discover(t, c, a)
	got, err := c.Request(t.Context(), to, holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return to, got[0]
}

func value(t testing.TB, text string) powerbox.Value {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func operation(t testing.TB, name string) powerbox.Operation {
	t.Helper()
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		t.Fatal(err)
	}
	return op
}
