package gateway_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// at is the time of the town. It is later than that of the machine, since bodies are
// given a deadline by it.
var at = time.Date(2100, 1, 15, 8, 0, 0, 0, time.UTC)

// town is a gateway with a gate, and an agent behind it, in this process. The agent
// "notes" has the skills read_note and delete_note.
type town struct {
	t       *testing.T
	url     string // of the agent at the gateway
	mode    gate.Mode
	scope   []string // operations of the assistant; nil where no scopes are configured
	ledger  *ledger
	agent   *behind
	gateway *gateway.Gateway
	away    func() // makes the agent unreachable
}

// ledger seals records and keeps them in memory. It fails on demand.
type ledger struct {
	mu      sync.Mutex
	signer  evidence.Signer
	head    evidence.Head
	records []evidence.Record
	full    bool
}

func (k *ledger) Record(_ context.Context, r evidence.Record) (evidence.Sealed, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.full {
		return evidence.Sealed{}, errors.New("no space left on device")
	}
	s, err := evidence.Seal(k.head, r, k.signer)
	if err == nil {
		k.head.Sequence, k.head.Hash = k.head.Sequence+1, s.Hash()
		k.records = append(k.records, s.Record())
	}
	return s, err
}

// written returns the records so far.
func (k *ledger) written() []evidence.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]evidence.Record(nil), k.records...)
}

// behind is the agent. It keeps what reached it.
type behind struct {
	mu     sync.Mutex
	bodies []string
	header http.Header
}

func (b *behind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		card := map[string]any{
			"name": "Notes", "description": "Keeps notes", "version": "1.0.0", "capabilities": map[string]any{},
			"supportedInterfaces": []any{
				map[string]any{"url": "http://" + r.Host + "/invoke", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
				map[string]any{"url": "http://" + r.Host + "/invoke", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
				map[string]any{"url": "http://" + r.Host + "/invoke", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
			},
			"defaultInputModes": []any{"text"}, "defaultOutputModes": []any{"text"},
			"skills": []any{
				map[string]any{"id": "read_note", "name": "Read", "description": "Reads", "tags": []any{}},
				map[string]any{"id": "delete_note", "name": "Delete", "description": "Deletes", "tags": []any{}},
			},
		}
		_ = json.NewEncoder(w).Encode(card)
		return
	}
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.bodies, b.header = append(b.bodies, string(body)), r.Header.Clone()
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":"done"}]}}}`)
}

// got returns the bodies that reached the agent, and the headers of the last request.
func (b *behind) got() ([]string, http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.bodies...), b.header
}

// known authenticates by name: "Bearer assistant" is the configured caller assistant.
type known struct{}

func (known) Authenticate(r *http.Request, _ string, _ time.Time) (identity.Caller, bool, error) {
	switch r.Header.Get("Authorization") {
	case "":
		return identity.Caller{}, false, nil
	case "Bearer assistant":
		return identity.Caller{Agent: "assistant", Holder: identity.Holder{ID: "key:assistant"}}, true, nil
	}
	return identity.Caller{}, false, nil // a token for the agent, which is not ours
}

// The town issues nothing, revokes nothing and asks no policy.
type (
	noIssuing     struct{ gateway.Issuing }
	noDelegating  struct{ gateway.Delegating }
	noResources   struct{ gateway.Resources }
	noRevocations struct{}
	noPolicy      struct{}
	noCapability  struct{}
	tasks         struct{}
)

func (noRevocations) Revoked(string) bool                  { return false }
func (noRevocations) Ended(string, string, time.Time) bool { return false }
func (noRevocations) Frozen(string) bool                   { return false }
func (noRevocations) Stale(bool) bool                      { return false }
func (noRevocations) RevocationSequence() int64            { return 0 }
func (noRevocations) Changed() <-chan struct{}             { return nil }

func (noPolicy) Veto(context.Context, *gate.Call, gate.Held) string { return "" }
func (noPolicy) Digest() string                                     { return "" }

func (noCapability) Resolve(context.Context, *gate.Call, gate.Presented, time.Time) (gate.Held, error) {
	return gate.Held{}, &gate.Refusal{Reasons: []evidence.Reason{{Code: gate.CodeCapabilityUnknown, Message: "no such capability"}}}
}

func (tasks) Owner(context.Context, string, string, string) (o gateway.Owner, known bool, err error) {
	return o, false, nil
}

func (tasks) Bind(_ context.Context, _, _, _ string, o gateway.Owner) (gateway.Owner, error) {
	return o, nil
}
func (tasks) End(context.Context, string, string, string) error { return nil }

// fetcher fetches cards.
type fetcher struct{}

func (fetcher) GetChanged(ctx context.Context, address, _, _ string) (body []byte, header http.Header, changed bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, false, err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, nil, false, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return body, resp.Header, true, err
}

func operation(t *testing.T, name string) powerbox.Operation {
	t.Helper()
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// authority permits operations at any time from an hour before [at].
func authority(t *testing.T, names []string) powerbox.Authority {
	t.Helper()
	var clauses []powerbox.Clause
	for _, name := range append([]string{"a2a.message"}, names...) {
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(operation(t, name)), Shape: powerbox.AnyArguments()})
	}
	a, err := powerbox.NewAuthority(powerbox.Window{From: at.Add(-time.Hour), Until: at.Add(time.Hour)}, 3, clauses...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newTown(t *testing.T, mode gate.Mode, scope ...string) *town {
	t.Helper()
	return newTownWith(t, mode, scope, func(*gateway.Config) {})
}

// newTownWith is newTown with a changed configuration.
func newTownWith(t *testing.T, mode gate.Mode, scope []string, change func(*gateway.Config)) *town {
	t.Helper()
	signer, err := evidence.NewEd25519Signer(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	w := &town{t: t, mode: mode, scope: scope, ledger: &ledger{signer: signer}, agent: &behind{}}
	upstream := httptest.NewServer(w.agent)
	t.Cleanup(upstream.Close)
	front := httptest.NewUnstartedServer(nil)
	w.url = "http://" + front.Listener.Addr().String() + "/agents/notes"
	config := w.config(upstream.URL)
	change(&config)
	if w.gateway, err = gateway.New(config); err != nil {
		t.Fatal(err)
	}
	w.away = upstream.Close
	front.Config.Handler = w.gateway
	front.Start()
	t.Cleanup(front.Close)
	return w
}

func (w *town) config(upstream string) gateway.Config {
	key, err := token.GenerateKey(token.Ed25519, bytes.NewReader(make([]byte, 64)))
	if err != nil {
		w.t.Fatal(err)
	}
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	pages, err := cipher.NewGCM(block)
	if err != nil {
		w.t.Fatal(err)
	}
	now := func() time.Time { return at }
	ids := 0
	var mu sync.Mutex
	log := slog.New(slog.DiscardHandler)
	scoped := func() func(origin, agent string) powerbox.Authority {
		if w.scope == nil {
			return nil
		}
		return func(origin, _ string) powerbox.Authority {
			if origin != "assistant" {
				return powerbox.Authority{}
			}
			return authority(w.t, w.scope)
		}
	}
	return gateway.Config{
		Agents: []gateway.Agent{{
			ID: "notes", URL: w.url, Behind: gateway.Behind{Upstream: upstream},
			Identities: gateway.Identities{
				Keys: func() token.KeySet { return token.NewKeySet(key.Public()) }, Published: func() []byte { return []byte(`{"keys":[]}`) }, Signer: func() token.Signer { return key },
			},
			Offered: gateway.Offered{
				Skills: map[string]gateway.Skill{
					"read_note":   {Operation: operation(w.t, "notes/notes:read/read_note"), Shape: powerbox.AnyArguments()},
					"delete_note": {Operation: operation(w.t, "notes/notes:write/delete_note"), Write: true, Shape: powerbox.AnyArguments()},
				},
				Grants:   []a2a.CardGrant{{ID: "notes:read", Operations: []string{"read_note"}}, {ID: "notes:write", Operations: []string{"delete_note"}}},
				Required: []powerbox.Operation{operation(w.t, "notes/notes:read/read_note"), operation(w.t, "notes/notes:write/delete_note")},
			},
			Enforced: gateway.Enforced{DenyStatus: http.StatusOK, Canary: 100},
		}},
		Gate: &gate.Gate{
			Chains: noCapability{}, References: noCapability{}, Recorder: w.ledger, Revocations: noRevocations{}, Policy: noPolicy{}, RecorderID: "serve", Now: now, Log: log,
			NewID: func() (string, error) {
				mu.Lock()
				defer mu.Unlock()
				ids++
				return fmt.Sprintf("rec_%d", ids), nil
			},
		},
		Identity: known{}, Issuing: noIssuing{}, Tasks: tasks{}, Resources: noResources{}, Cards: fetcher{},
		Network: gateway.Network{
			Transport: http.DefaultTransport, HTTP2: http.DefaultTransport, Public: http.DefaultTransport, PublicHTTP2: http.DefaultTransport,
			PushAddress: func(context.Context, string, bool) error { return errors.New("no events") },
			PushPost: func(context.Context, string, bool, http.Header, []byte) (int, error) {
				return 0, errors.New("no events")
			},
		},
		Answers: gateway.Answers{
			Delegating: noDelegating{},
			Mode:       func(context.Context, string) (gate.Mode, error) { return w.mode, nil }, Scope: scoped,
			Origin:    func(holder string) string { return strings.TrimPrefix(holder, "key:") },
			Pseudonym: func(string, string) string { return "pw_1" }, Redact: func(powerbox.Value) []byte { return nil },
		},
		Limits: gateway.Limits{BodyLimit: 4096, BodyTime: time.Minute}, Pages: pages, Now: now, Log: log,
	}
}

// answer is what a caller gets.
type answer struct {
	status int
	header http.Header
	body   string
	code   string // of the denial, "" for none
}

// post sends a body to the agent through the gateway. Headers are pairs of name and value.
func (w *town) post(path, body string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	for n := 0; n+1 < len(headers); n += 2 {
		req.Header.Set(headers[n], headers[n+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var told struct {
		Error struct {
			Data []struct{ Metadata struct{ Code string } }
		}
	}
	_ = json.Unmarshal(text, &told) // a text that is not JSON has no code
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(text)}
	if len(told.Error.Data) > 0 {
		a.code = told.Error.Data[0].Metadata.Code
	}
	return a
}

// message is a SendMessage with a part.
func message(part string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[` + part + `]}}}`
}

// calls names a skill in a data part.
func calls(skill string) string {
	return message(`{"data":{"skill":"` + skill + `","arguments":{"title":"a"}}}`)
}
