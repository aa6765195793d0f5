package provider_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
	"github.com/powerbox-project/powerbox/internal/store/storetest"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

var noon = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

const (
	bankURL  = "https://bank.example"
	location = bankURL + "/capability/execute"
	outside  = "https://statements.example/run"
)

// noRules is a policy that the tests here never ask.
type noRules struct{}

func (noRules) Permits(identity.Caller, string, string, string, *catalogue.Item) issuer.Ruling {
	return issuer.Ruling{}
}
func (noRules) Digest() string { return "none" }

// unvetoed leaves what people granted to them.
type unvetoed struct{}

func (unvetoed) Veto(context.Context, *gate.Call, gate.Held) string { return "" }
func (unvetoed) Digest() string                                     { return "none" }

// service is the backend of the provider.
type service struct {
	did    []provider.Execution
	answer provider.Result
	err    error
	before func() // runs before it is done
}

func (s *service) Execute(_ context.Context, e provider.Execution) (provider.Result, error) {
	if s.before != nil {
		s.before()
	}
	s.did = append(s.did, e)
	return s.answer, s.err
}

func (s *service) Poll(context.Context, provider.Execution, string) (provider.Result, error) {
	return s.answer, s.err
}

// keySets are the key sets that hosts and agents publish, by their addresses.
type keySets map[string][]token.PublicKey

func (k keySets) Key(_ context.Context, url, id string) (token.PublicKey, error) {
	for _, key := range k[url] {
		if key.Thumbprint() == id {
			return key, nil
		}
	}
	return token.PublicKey{}, errors.New("no such key")
}

// town is a provider over a real store, with its own clock.
type town struct {
	t        testing.TB
	now      time.Time
	store    *sqlite.Store
	issuer   *issuer.Issuer
	issuing  issuer.Config
	provider *provider.Provider
	config   provider.Config
	service  *service
	sets     keySets
}

func shape(t testing.TB, text string) powerbox.Shape {
	t.Helper()
	s, err := agentauth.Options{}.ParseConstraints(value(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func value(t testing.TB, text string) powerbox.Value {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func capabilities(t testing.TB) []provider.Capability {
	return []provider.Capability{
		{Name: "balance", Description: "See the balance", Sensitivity: provider.Read, Default: true, Public: true},
		{Name: "accounts", Description: "List all accounts", Sensitivity: provider.Read, Autonomous: true},
		{Name: "transfer", Description: "Move money", Sensitivity: provider.Write, Constraints: shape(t, `{"amount":{"max":1000}}`)},
		{Name: "close", Description: "Close the account", Sensitivity: provider.High},
		{Name: "audit", Description: "For nobody", Sensitivity: provider.Read, Blocked: true},
		{Name: "statement", Description: "Elsewhere", Sensitivity: provider.Read, Location: outside},
	}
}

// migrated has the schema of every town's store.
var migrated = storetest.Migrated{Migrate: sqlite.Migrate}

func newTown(t testing.TB, change ...func(*provider.Config)) *town {
	t.Helper()
	w := &town{t: t, now: noon, service: &service{answer: provider.Result{Data: powerbox.Object(), HasData: true}}, sets: keySets{}}
	_, recordKey, _ := ed25519.GenerateKey(rand.Reader)
	signer, err := evidence.NewEd25519Signer(recordKey)
	w.must(err)
	_, logKey, _ := ed25519.GenerateKey(rand.Reader)
	checkpoint, _, err := evidence.NewLogSigner("example.org/log", logKey)
	w.must(err)
	w.store, err = sqlite.Open(t.Context(), sqlite.Config{
		Path: migrated.Path(t), Signer: signer, Origin: "example.org/log", Checkpoint: checkpoint, Random: rand.Reader,
	})
	w.must(err)
	t.Cleanup(func() { _ = w.store.Close() })
	sealer, err := catalogue.NewSealer(make([]byte, catalogue.SealKeyBytes))
	w.must(err)
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	w.must(err)
	now, log := func() time.Time { return w.now }, slog.New(slog.DiscardHandler)
	w.issuing = issuer.Config{
		Store: w.store, Policy: noRules{}, Sealer: sealer, Recorder: "serve", Pairwise: make([]byte, 32), MaximumLifetime: time.Hour, Now: now, Random: rand.Reader, Log: log,
		Agents: []*issuer.Agent{{ID: "bank", URL: bankURL, Signer: func() token.Signer { return key }}},
	}
	w.config = provider.Config{
		Store: w.store, Agent: "bank", Name: "Bank", URL: bankURL, ExecutePath: "/capability/execute", Capabilities: capabilities(t),
		Modes:    []string{agentauth.Delegated, agentauth.Autonomous},
		AnyHost:  true,
		Clocks:   provider.Clocks{Session: 30 * time.Minute, Maximum: 4 * time.Hour, Absolute: 12 * time.Hour},
		Approval: 10 * time.Minute, Interval: 5 * time.Second, CodeKey: make([]byte, 32),
		Administrator: func(p string, _ []string) bool { return p == root.Principal }, Keys: w.sets, Backend: w.service, Now: now, Random: rand.Reader, Log: log,
	}
	for _, f := range change {
		f(&w.config)
	}
	w.restart()
	return w
}

func (w *town) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// restart makes issuer and provider anew over the same store.
func (w *town) restart() {
	w.t.Helper()
	var err error
	w.issuer, err = issuer.New(w.t.Context(), w.issuing)
	w.must(err)
	w.config.Issuer, w.config.Started = w.issuer, w.now
	w.config.Capabilities = slices.Clone(w.config.Capabilities)
	w.config.Gate = &gate.Gate{
		Chains: gate.Chains{}, References: api.OnRecord{Resolver: api.References{Issuer: w.issuer}, Issuer: w.issuer}, Recorder: api.Recorder{Store: w.store},
		Revocations: w.issuer, Policy: unvetoed{}, Replay: gate.NewMemory(100), RecorderID: "serve",
		NewID: func() (string, error) { return w.issuer.NewID("rec_") }, Now: w.config.Now, Log: w.config.Log,
	}
	w.provider, err = provider.New(w.config)
	w.must(err)
}

// The people.
var (
	alice = peopletest.Person(people.Claim{Principal: "user:alice", Fresh: true, Present: true})
	bob   = peopletest.Person(people.Claim{Principal: "user:bob", Fresh: true, Present: true})
	root  = peopletest.Person(people.Claim{Principal: "user:root", Fresh: true, Present: true})
)

// okp is a key of a host or an agent.
type okp struct {
	private ed25519.PrivateKey
	public  token.PublicKey
}

func (w *town) key() okp {
	w.t.Helper()
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	w.must(err)
	public, err := agentauth.ParseKey(value(w.t, `{"kty":"OKP","crv":"Ed25519","x":"`+base64.RawURLEncoding.EncodeToString(pub)+`"}`))
	w.must(err)
	return okp{private, public}
}

func (k okp) jwk() map[string]any {
	var out map[string]any
	_ = json.Unmarshal(k.public.JWK().AppendJSON(nil), &out) // it has just been written
	return out
}

type claims = map[string]any

// sign makes a token. A nil claim takes one away; "head" is merged with the header.
func (w *town) sign(k okp, typ string, all ...claims) string {
	c := claims{"iat": w.now.Unix(), "exp": w.now.Unix() + 60, "jti": rand.Text()}
	head := claims{"alg": "EdDSA", "typ": typ}
	for _, one := range all {
		maps.Copy(c, one)
	}
	if more, ok := c["head"].(claims); ok {
		maps.Copy(head, more)
		delete(c, "head")
	}
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	h, _ := json.Marshal(head)
	b, _ := json.Marshal(c)
	input := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(b)
	return input + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.private, []byte(input)))
}

// host is a token of a host.
func (w *town) host(k okp, more ...claims) string {
	return w.sign(k, agentauth.TypeHost, append([]claims{{"iss": k.public.Thumbprint(), "aud": bankURL, "host_public_key": k.jwk()}}, more...)...)
}

// bearer is a token that came alone.
func bearer(token string) provider.Presented {
	return provider.Presented{Token: token, Scheme: "Bearer"}
}

// link has a person link a host to a user, and answer for it if they are present.
func link(t testing.TB, p *provider.Provider, who provider.Person, host, user string) error {
	_, err := p.LinkHost(t.Context(), who, provider.Link{Host: host, User: user, AtOnce: who.Present || who.Unsafe})
	return err
}

// member is an agent under a host.
type member struct {
	w         *town
	host, key okp
	id        string
	code      string
}

// token is a token of the agent for executions.
func (m *member) token(more ...claims) string {
	return m.w.sign(m.key, agentauth.TypeAgent, append([]claims{{"iss": m.host.public.Thumbprint(), "sub": m.id, "aud": location}}, more...)...)
}

// session is the agent, authenticated for its audience.
func (m *member) session(more ...claims) (provider.Session, error) {
	return m.w.provider.AuthenticateAgent(m.w.t.Context(), bearer(m.token(more...)), provider.Once, location, bankURL)
}

// hosted is the agent's host, authenticated.
func (w *town) hosted(k okp, more ...claims) provider.HostSession {
	w.t.Helper()
	s, err := w.provider.AuthenticateHost(w.t.Context(), w.host(k, more...), true)
	w.must(err)
	return s
}

func asked(names ...string) []provider.Asked {
	var out []provider.Asked
	for _, n := range names {
		out = append(out, provider.Asked{Name: n})
	}
	return out
}

// register registers an agent.
func (w *town) register(host okp, mode string, wanted ...provider.Asked) (*member, provider.AgentState, error) {
	w.t.Helper()
	m := &member{w: w, host: host, key: w.key()}
	out, err := w.provider.Register(w.t.Context(), w.hosted(host, claims{"agent_public_key": m.key.jwk()}), provider.Registration{Name: "Tester", Mode: mode, Capabilities: wanted})
	m.id = out.Agent.ID
	if out.Challenge != nil {
		m.code = out.Challenge.Code
	}
	return m, out, err
}

// approve answers the open question of a code whole.
func (w *town) approve(who provider.Person, code string) (provider.AgentState, error) {
	w.t.Helper()
	q, err := w.provider.ByCode(w.t.Context(), who, code)
	if err != nil {
		return provider.AgentState{}, err
	}
	var a provider.Answer
	for _, g := range q.Grants {
		a.Decisions = append(a.Decisions, provider.Decision{Grant: g.ID, Approve: true})
	}
	return w.provider.Answer(w.t.Context(), who, q.Approval.ID, a)
}

// active registers an agent and has it approved by alice.
func (w *town) active(names ...string) *member {
	w.t.Helper()
	m, _, err := w.register(w.key(), agentauth.Delegated, asked(names...)...)
	w.must(err)
	_, err = w.approve(alice, m.code)
	w.must(err)
	return m
}

// execute executes a capability with a fresh token.
func (m *member) execute(name, arguments string, more ...claims) error {
	m.w.t.Helper()
	s, err := m.session(more...)
	if err != nil {
		return err
	}
	_, err = m.w.provider.Execute(m.w.t.Context(), s, provider.Call{Capability: name, Arguments: value(m.w.t, arguments), Received: []byte(arguments)})
	return err
}

func (m *member) standing() provider.AgentState {
	m.w.t.Helper()
	out, err := m.w.provider.Status(m.w.t.Context(), m.w.hosted(m.host), m.id)
	m.w.must(err)
	return out
}

// code is the code of a refusal, "" for none.
func code(err error) agentauth.Code {
	var e *agentauth.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return agentauth.Code("another error: " + err.Error())
}

// want fails unless an error has that code.
func (w *town) want(what string, err error, want agentauth.Code) {
	w.t.Helper()
	if code(err) != want {
		w.t.Errorf("%s: %v; want %q", what, err, want)
	}
}
