package issuer_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// member is a gateway with the keys that it has itself.
type member struct {
	issuer.Gateway
	signer evidence.Signer
	head   evidence.Head
}

func seeded(t *testing.T, b byte) signed.Key {
	t.Helper()
	k, err := signed.NewKey(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (w *town) enroll(b byte) *member {
	w.t.Helper()
	text, _, err := w.issuer.GatewayToken(w.t.Context(), "operator", "documents", time.Minute, seeded(w.t, 9).Public())
	if err != nil {
		w.t.Fatal(err)
	}
	_, secret, ok := issuer.SplitGatewayToken(text)
	if !ok {
		w.t.Fatalf("no token: %s", text)
	}
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, 32))
	signer, err := evidence.NewEd25519Signer(private)
	if err != nil {
		w.t.Fatal(err)
	}
	g, err := w.issuer.Enroll(w.t.Context(), secret, recordKey(w.t, seeded(w.t, b).Public()), issuer.Gateway{Key: seeded(w.t, b+1).Public()})
	if err != nil {
		w.t.Fatal(err)
	}
	return &member{g, signer, evidence.Genesis(evidence.ChainID{b})}
}

// seals n records of the member's chain.
func (m *member) seals(t *testing.T, n int, change ...func(*evidence.Record)) [][]byte {
	t.Helper()
	var out [][]byte
	for range n {
		r := evidence.Record{
			ID: fmt.Sprintf("rec_%s_%d", m.ID, m.head.Sequence), AgentID: m.Agent, ActionType: "a2a.SendMessage", Intent: evidence.Intent{Operation: "read"},
			Decision: evidence.Allow, Time: noon, Details: evidence.Details{Recorder: m.ID},
		}
		for _, c := range change {
			c(&r)
		}
		s, err := evidence.Seal(m.head, r, m.signer)
		if err != nil {
			t.Fatal(err)
		}
		m.head, out = s.Head(), append(out, s.Bytes())
	}
	return out
}

func TestATK36_EnrolmentTokensAreUsedOnceInTime(t *testing.T) {
	w := newTown(t)
	key := seeded(t, 1).Public()
	make1 := func(life time.Duration) string {
		text, _, err := w.issuer.GatewayToken(t.Context(), "operator", "documents", life, key)
		if err != nil {
			t.Fatal(err)
		}
		fingerprint, secret, ok := issuer.SplitGatewayToken(text)
		if !ok || fingerprint != key.ID() {
			t.Fatalf("token %s", text)
		}
		return secret
	}
	used, late := make1(time.Minute), make1(time.Minute)
	with := func(secret string, key signed.Public) error {
		_, err := w.issuer.Enroll(t.Context(), secret, recordKey(t, key), issuer.Gateway{Key: key})
		return err
	}
	// Each with a key that no gateway has, so that the token alone is at fault.
	keys := byte(1)
	try := func(secret string) error {
		keys++
		return with(secret, seeded(t, keys).Public())
	}
	if err := with(used, key); err != nil {
		t.Fatal(err)
	}
	if r := w.last(); r.ActionType != "gateway.enroll" || r.AgentID != "powerbox" || !strings.Contains(string(r.Intent.Details), `"agent":"documents"`) {
		t.Errorf("record: %+v", r)
	}
	var e *issuer.TargetError
	if err := try(used); !errors.As(err, &e) {
		t.Errorf("ATK-36 a second time: %v", err)
	}
	twice := make1(time.Minute)
	if err := with(twice, key); !errors.As(err, &e) || !strings.Contains(e.Message, "the key is that of gateway gw_") {
		t.Errorf("ATK-36 a key that a gateway has: %v", err)
	}
	w.now = w.now.Add(time.Minute)
	for name, secret := range map[string]string{"used": used, "late": late, "unknown": "x", "empty": ""} {
		if err := try(secret); !errors.As(err, &e) || !strings.Contains(e.Message, "the token is unknown, was used or has expired") {
			t.Errorf("ATK-36 %s: %v", name, err)
		}
	}
	for _, life := range []time.Duration{0, -1, 25 * time.Hour} {
		if _, _, err := w.issuer.GatewayToken(t.Context(), "operator", "documents", life, key); err == nil {
			t.Errorf("a token for %v", life)
		}
	}
	if _, _, err := w.issuer.GatewayToken(t.Context(), "operator", "nobody", time.Minute, key); err == nil {
		t.Error("a token for an agent that is not there")
	}
	for _, text := range []string{"", "pbgw1_", "pbgw1_a", "pbgw1_.b", "pbgw2_a.b", used} {
		if _, _, ok := issuer.SplitGatewayToken(text); ok {
			t.Errorf("%q is a token", text)
		}
	}
}

// Records that are shipped go into the log in the order of their chain, once; a
// shipment that holds anything else is refused as a whole.
func TestEXT24_ShippedRecords(t *testing.T) {
	w := newTown(t)
	m, other := w.enroll(1), w.enroll(3)
	first := m.seals(t, 3)
	ship := func(of *member, records [][]byte) (int64, error) {
		return w.issuer.Ship(t.Context(), of.Gateway, records, nil)
	}
	for range 2 { // the answer may have been lost
		if next, err := ship(m, first); err != nil || next != 3 {
			t.Fatalf("shipped: %d, %v", next, err)
		}
	}
	if next, err := ship(m, append(first[1:], m.seals(t, 1)...)); err != nil || next != 4 {
		t.Errorf("overlapping: %d, %v", next, err)
	}
	kept := m.head
	fresh := func() *member { return &member{m.Gateway, m.signer, evidence.Genesis(evidence.ChainID{8})} }
	forked := member{m.Gateway, m.signer, evidence.Genesis(evidence.ChainID{1})}
	for name, c := range map[string]struct {
		of      *member
		records func() [][]byte
	}{
		"a gap": {m, func() [][]byte { m.seals(t, 1); return m.seals(t, 1) }},
		"a gap within": {m, func() [][]byte {
			first := m.seals(t, 1)
			m.seals(t, 1)
			return append(first, m.seals(t, 1)...)
		}},
		"another's records": {other, func() [][]byte { return first }},
		"another agent's": {m, func() [][]byte {
			return fresh().seals(t, 1, func(r *evidence.Record) { r.ID, r.AgentID = "rec_new_1", "mail" })
		}},
		"another recorder's": {m, func() [][]byte {
			return fresh().seals(t, 1, func(r *evidence.Record) { r.ID, r.Details.Recorder = "rec_new_2", "other" })
		}},
		"an id that is taken": {m, func() [][]byte { return m.seals(t, 1, func(r *evidence.Record) { r.ID = w.last().ID }) }},
		"an id twice":         {m, func() [][]byte { return m.seals(t, 2, func(r *evidence.Record) { r.ID = "rec_twice" }) }},
		"a fork":              {m, func() [][]byte { return forked.seals(t, 1, func(r *evidence.Record) { r.Decision = evidence.Deny }) }},
		"another chain": {m, func() [][]byte {
			c := member{m.Gateway, m.signer, evidence.Genesis(evidence.ChainID{7})}
			return c.seals(t, 1)
		}},
		"under another's key":    {m, func() [][]byte { c := member{m.Gateway, other.signer, m.head}; return c.seals(t, 1) }},
		"a record that was bent": {m, func() [][]byte { return [][]byte{bytes.Replace(m.seals(t, 1)[0], []byte("ALLOW"), []byte("DENY"), 1)} }},
		"ATK-70 an erasure": {m, func() [][]byte {
			return m.seals(t, 1, func(r *evidence.Record) { r.Details.Erased = []string{w.last().ID} })
		}},
		"no record": {m, func() [][]byte { return [][]byte{[]byte("{}")} }},
	} {
		before := w.last().ID
		next, err := ship(c.of, c.records())
		if err == nil {
			t.Errorf("%s: taken up to %d", name, next)
		}
		if gap := errors.Is(err, issuer.ErrGap); gap != (name == "a gap") || gap && next != 4 {
			t.Errorf("%s: %v, and %d comes next", name, err, next)
		}
		if strings.HasPrefix(name, "an id") && !errors.Is(err, issuer.ErrNotNext) {
			t.Errorf("%s breaks the batch: %v", name, err)
		}
		if w.last().ID != before {
			t.Errorf("%s: something of it is stored", name)
		}
		m.head = kept
	}
	if next, err := ship(m, m.seals(t, 2)); err != nil || next != 6 {
		t.Errorf("afterwards: %d, %v", next, err)
	}
	if next, err := ship(other, other.seals(t, 2)); err != nil || next != 2 {
		t.Errorf("the other one: %d, %v", next, err)
	}
	// A gateway that was closed is on record as closed.
	if _, err := w.issuer.CloseGateway(t.Context(), "operator", m.ID); err != nil || w.last().ActionType != "gateway.close" {
		t.Errorf("closed: %v", err)
	}
	if _, err := w.issuer.CloseGateway(t.Context(), "operator", m.ID); err == nil {
		t.Error("closed twice")
	}
	all, err := w.issuer.Gateways(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("gateways: %+v, %v", all, err)
	}
	for _, g := range all {
		if g.Closed.IsZero() == (g.ID == m.ID) {
			t.Errorf("gateway %s is closed: %t", g.ID, !g.Closed.IsZero())
		}
	}
}

// recordKey is a key of gateways as one that signs records.
func recordKey(t *testing.T, key signed.Public) evidence.Key {
	t.Helper()
	out, err := evidence.NewKey(ed25519.PublicKey(key.Bytes()), "gateway")
	if err != nil {
		t.Fatal(err)
	}
	return out
}
