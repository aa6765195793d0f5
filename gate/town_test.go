package gate

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

var at = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

const agentURL = "https://gate.example/agents/documents"

// ledger is a recorder in memory over the real chain.
type ledger struct {
	signer evidence.Signer
	head   evidence.Head
	sealed []evidence.Sealed
	broken error
}

func (l *ledger) Record(_ context.Context, r evidence.Record) (evidence.Sealed, error) {
	if l.broken != nil {
		return evidence.Sealed{}, l.broken
	}
	s, err := evidence.Seal(l.head, r, l.signer)
	if err == nil {
		l.head.Sequence, l.head.Hash = l.head.Sequence+1, s.Hash()
		l.sealed = append(l.sealed, s)
	}
	return s, err
}

// revoked are ids that have been revoked.
type revoked map[string]bool

func (r revoked) Revoked(id string) bool { return r[id] }
func (r revoked) Ended(of, name string, issued time.Time) bool {
	return r[of+" "+name] && !issued.After(at)
}
func (r revoked) Frozen(id string) bool     { return r["frozen "+id] }
func (r revoked) Stale(reads bool) bool     { return r["stale"] && (!reads || !r["extended"]) }
func (r revoked) RevocationSequence() int64 { return int64(len(r)) }
func (r revoked) Changed() <-chan struct{}  { return nil }

// veto is a policy that says no for a reason, or "" for yes.
type veto string

func (v veto) Veto(context.Context, *Call, Held) string { return string(v) }
func (v veto) Digest() string                           { return "policy-1" }

// onRecord resolves references.
type onRecord map[string]Held

func (o onRecord) Resolve(_ context.Context, _ *Call, p Presented, _ time.Time) (Held, error) {
	h, ok := o[p.Reference]
	switch {
	case p.Reference == "cap_unreachable":
		return Held{}, errors.New("the store is gone")
	case !ok:
		return Held{}, &Refusal{[]evidence.Reason{{Code: CodeCapabilityUnknown, Message: "no such capability"}}}
	}
	return h, nil
}

// town is a gate with one agent behind it and one caller before it.
type town struct {
	t       *testing.T
	gate    *Gate
	now     time.Time
	issuer  *token.PrivateKey
	holder  *token.PrivateKey
	ledger  *ledger
	revoked revoked
	records onRecord
	target  Target
	log     *strings.Builder
	ids     int
}

func key(t *testing.T, name string) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, &repeat{[]byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// repeat is a source of the same bytes over and over.
type repeat struct{ b []byte }

func (r *repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.b[i%len(r.b)]
	}
	return len(p), nil
}

func newTown(t *testing.T) *town {
	t.Helper()
	seed := sha256.Sum256([]byte("evidence"))
	signer, err := evidence.NewEd25519Signer(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	w := &town{t: t, now: at, issuer: key(t, "issuer"), holder: key(t, "holder"), revoked: revoked{}, records: onRecord{}, log: &strings.Builder{}}
	w.ledger = &ledger{signer: signer}
	w.target = Target{
		ID: "documents", URL: agentURL, Anchors: token.NewKeySet(w.issuer.Public()),
		Caps: authority(t, "read", "search", "a2a.message"), Required: operations(t, "read"), Links: 16,
	}
	w.gate = &Gate{
		Chains:     Chains{Memo: token.NewMemo(1 << 20), Revocations: w.revoked, Started: at.Add(-time.Minute)},
		References: w.records, Recorder: w.ledger, Revocations: w.revoked, Policy: veto(""), Replay: NewMemory(100),
		RecorderID: "serve", NewID: func() (string, error) { w.ids++; return fmt.Sprintf("rec_%d", w.ids), nil },
		Now: func() time.Time { return w.now }, Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	return w
}

func operations(t *testing.T, names ...string) []powerbox.Operation {
	t.Helper()
	var out []powerbox.Operation
	for _, name := range names {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, op)
	}
	return out
}

// authority has operations with any arguments; "read=h" takes the one handle h.
func authority(t *testing.T, names ...string) powerbox.Authority {
	t.Helper()
	a, err := powerbox.NewAuthority(powerbox.Window{From: at.Add(-time.Hour), Until: at.Add(time.Hour)}, 3, clauses(t, names...)...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func clauses(t *testing.T, names ...string) []powerbox.Clause {
	t.Helper()
	var out []powerbox.Clause
	for _, text := range names {
		name, handle, constrained := strings.Cut(text, "=")
		shape := powerbox.AnyArguments()
		if constrained {
			var err error
			shape, err = powerbox.NewShape(powerbox.RestNone, powerbox.Field{
				Name: "handle", Constraint: powerbox.OneOf{Values: []powerbox.Value{powerbox.String(handle)}}, Required: true,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, powerbox.Clause{Pattern: powerbox.ExactPattern(operations(t, name)[0]), Shape: shape})
	}
	return out
}

// try is an invocation.
func try(t *testing.T, name string, members ...powerbox.Member) powerbox.Attempt {
	t.Helper()
	a, err := powerbox.Invocation(operations(t, name)[0], powerbox.Object(members...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func handle(h string) powerbox.Member {
	return powerbox.Member{Name: "handle", Value: powerbox.String(h)}
}

// call is an attempt at the agent by the caller that holds the key.
func (w *town) call(mode Mode, attempts ...powerbox.Attempt) *Call {
	return &Call{
		Target: &w.target, Mode: mode, Attempts: attempts, Action: "a2a.SendMessage", Handle: "handle",
		Caller:  Caller{Principal: "pw_alice", Holder: "key:" + w.holder.Public().Thumbprint()},
		Origin:  func(string) string { return "orchestrator" },
		Request: token.Request{Method: "POST", URL: agentURL, Digest: token.DigestOf([]byte("{}"))},
	}
}

// minted is a root token for the holder.
func (w *town) minted(tools []powerbox.Clause, change ...func(*token.Root)) string {
	w.t.Helper()
	r := token.Root{
		ID: "cap_2", Issuer: agentURL, IssuedAt: at.Add(-time.Minute), Expires: at.Add(time.Hour), MaxDepth: 3, Holder: w.holder.Public(), Tools: tools,
		Private: &token.Private{Capability: "cap_1/cap_2", Grant: "documents:read", Principal: "pw_alice"},
	}
	for _, c := range change {
		c(&r)
	}
	compact, err := token.Mint(w.issuer, r)
	if err != nil {
		w.t.Fatal(err)
	}
	return compact
}

// present proves a call with a chain of one token.
func (w *town) present(c *Call, compact string, change ...func(*token.Proof)) *Call {
	w.t.Helper()
	op, args := proves(c)
	w.ids++
	p := token.Proof{
		ID: fmt.Sprintf("proof-%d", w.ids), IssuedAt: w.now, TokenID: "cap_2", TokenHash: token.DigestOf([]byte(compact[:strings.LastIndexByte(compact, '.')])), Operation: op.String(), Arguments: args, Audience: agentURL, Request: &c.Request,
	}
	for _, ch := range change {
		ch(&p)
	}
	proof, err := p.Sign(w.holder, token.Draft02)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Presented = append(c.Presented, Presented{Chain: []string{compact}, Proof: proof})
	return c
}

func (w *town) check(c *Call) Verdict {
	w.t.Helper()
	v, err := w.gate.Check(context.Background(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func codes(v Verdict) []string {
	var out []string
	for _, r := range v.Reasons {
		out = append(out, r.Code)
	}
	return out
}
