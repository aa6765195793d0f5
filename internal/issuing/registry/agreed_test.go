package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// rows is a store of one listing.
type rows struct {
	one    *Listing
	fail   error
	writes int
	before func() // what another node does before the next change
}

func (r *rows) Listing(string) (Listing, error) {
	if r.one == nil {
		return Listing{}, issuer.ErrNotFound
	}
	l := *r.one
	l.Agreed = slices.Clone(l.Agreed)
	return l, nil
}
func (r *rows) Listings() ([]Listing, error)                               { return nil, nil }
func (*rows) Append(evidence.Record) (s evidence.Sealed, err error)        { return s, nil }
func (r *rows) PutListing(l Listing) error                                 { r.one = &l; r.writes++; return nil }
func (*rows) ForgetListing(string) error                                   { return nil }
func (r *rows) ViewRegistry(_ context.Context, f func(Reader) error) error { return f(r) }
func (r *rows) UpdateRegistry(_ context.Context, f func(Tx) error) error {
	if r.fail != nil {
		return r.fail
	}
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return f(r)
}

// watched is an Agreed with what it stopped.
func watched(r *rows) (a *Agreed, stopped map[string]bool, current *string) {
	stopped, current = map[string]bool{}, new(string)
	set := func(to bool) func(context.Context, string, string, string) error {
		return func(_ context.Context, _, digest, reason string) error {
			if reason == "" || len(reason) > 1024 {
				return fmt.Errorf("the reason has %d bytes", len(reason))
			}
			stopped[digest] = to
			return nil
		}
	}
	return &Agreed{Store: r, Stop: set(true), Go: set(false), Current: func(_, digest string) { *current = digest }}, stopped, current
}

func cardWith(skills ...string) []byte {
	var all []string
	for _, s := range skills {
		all = append(all, fmt.Sprintf(`{"id":%q,"name":%q,"description":%q,"tags":["t"]}`, s, s, s))
	}
	return []byte(`{"name":"A","description":"d","version":"1","supportedInterfaces":[{"url":"https://a.example/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[` + strings.Join(all, ",") + `]}`)
}

// Consent is for capabilities issued under narrower cards then, and for that card: what
// is issued later under a narrower one, and a card that is wider still, need another.
func TestCARD13_WhatConsentIsFor(t *testing.T) {
	store := &rows{}
	a, stopped, current := watched(store)
	see := func(card []byte) string {
		t.Helper()
		if err := a.Seen(t.Context(), "a", card); err != nil {
			t.Fatal(err)
		}
		return *current
	}
	want := func(when string, digests ...string) {
		t.Helper()
		for digest, is := range stopped {
			if is != slices.Contains(digests, digest) {
				t.Errorf("%s: %s is stopped: %t", when, digest, is)
			}
		}
	}
	one, two, three := cardWith("read"), cardWith("read", "write"), cardWith("read", "write", "pay")
	first := see(one)
	want("the first card")
	second := see(two)
	want("a wider one", first)
	if _, err := a.Consent(t.Context(), "a", first, "user:carol"); err == nil {
		t.Error("consent to another card than that of now")
	}
	if said, err := a.Consent(t.Context(), "a", second, "user:carol"); err != nil || len(said) != 1 || said[0].Issued != first {
		t.Errorf("consent: %+v, %v", said, err)
	}
	want("after consent")
	if _, err := a.Consent(t.Context(), "a", second, "user:carol"); err == nil {
		t.Error("consent to what does not wait")
	}
	see(three)
	want("one that is wider still", first, second)
	narrow := see(cardWith("write"))
	want("a narrower one", first)
	see(two)
	want("the one that was consented to, after something was issued under a narrower one", narrow)

	// It is the same after a start, where something is kept that broke off, too.
	again, stoppedThen, _ := watched(store)
	if err := again.Seen(t.Context(), "a", two); err != nil {
		t.Fatal(err)
	}
	if !stoppedThen[narrow] || stoppedThen[first] || stoppedThen[second] {
		t.Errorf("after a start: %v", stoppedThen)
	}

	// What cannot be kept is not used, and what cannot be read is wider.
	store.fail = errors.New("the disk is full")
	if err := a.Seen(t.Context(), "a", three); err == nil || *current != second {
		t.Errorf("a card that is not on record is used: %v", err)
	}
	store.fail = nil
	see([]byte(`{"name":"A","Name":"B"}`))
	if !stopped[first] || !stopped[second] || !stopped[narrow] {
		t.Errorf("a card that cannot be relied on: %v", stopped)
	}
}

// Two processes see to one agent: what one of them saw before says nothing when the
// other saw another card since.
func TestCARD13_AnotherNodeSeesACard(t *testing.T) {
	store := &rows{}
	a, stopped, current := watched(store)
	b, _, _ := watched(store)
	see := func(who *Agreed, card []byte) {
		t.Helper()
		if err := who.Seen(t.Context(), "a", card); err != nil {
			t.Fatal(err)
		}
	}
	narrow, wide := cardWith("read"), cardWith("read", "write")
	see(a, narrow)
	first := *current
	see(a, wide)
	second := *current
	see(b, narrow)
	if err := a.Load(t.Context(), []string{"a", "another"}); err != nil || *current != first {
		t.Errorf("issues with %s in view, %v; want %s", *current, err, first)
	}
	stopped[first] = false // as the other one had it
	see(a, wide)
	if !stopped[first] || *current != second {
		t.Errorf("the wide card, after another node saw the narrow one: %v", stopped)
	}
	see(b, narrow)
	stopped[first] = false
	see(a, wide) // which was not told of the narrow one
	if !stopped[first] {
		t.Error("the wide card, after another node saw the narrow one that it did not tell of")
	}
	see(b, narrow)
	see(b, wide) // and ends before it has seen to what stops
	if err := a.Load(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	stopped[first] = false
	see(a, wide)
	if !stopped[first] {
		t.Error("the wide card, which another node saw before it ended")
	}
	writes := store.writes
	see(a, wide)
	if store.writes != writes {
		t.Error("a card that is known is written again")
	}
}

// The cards that are kept of an agent are bounded.
func TestCARD13_CardsAreBounded(t *testing.T) {
	store := &rows{}
	a, stopped, current := watched(store)
	var first string
	for n := range maxAgreed + 8 {
		// Nothing of it is wider: the same skill with another name of the card.
		card := []byte(strings.Replace(string(cardWith("read")), `"version":"1"`, fmt.Sprintf(`"version":"1.%d"`, n), 1))
		if err := a.Seen(t.Context(), "a", card); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = *current
		}
		if stopped[first] != (n >= maxAgreed) {
			t.Fatalf("after %d cards what was issued under the first is stopped: %t", n+1, stopped[first])
		}
	}
	// One that comes again is not the next to go.
	oldest := store.one.Agreed[0]
	if err := a.Seen(t.Context(), "a", oldest.Card); err != nil {
		t.Fatal(err)
	}
	if err := a.Seen(t.Context(), "a", cardWith("read")); err != nil || stopped[oldest.Digest] {
		t.Errorf("what was issued under the card of just now stops: %v", err)
	}
	if n := len(store.one.Agreed); n != maxAgreed {
		t.Errorf("%d cards are kept; want %d", n, maxAgreed)
	}
}

// Where two nodes see cards at once each takes note of what the other one did: no card
// is forgotten that did not stop, and what the last card widens stops.
func TestCARD13_TwoNodesSeeCardsAtOnce(t *testing.T) {
	store := &rows{}
	one, stopped, _ := watched(store)
	two := &Agreed{Store: store, Stop: one.Stop, Go: one.Go, Current: func(string, string) {}}
	version := func(n int, skills ...string) []byte {
		return []byte(strings.Replace(string(cardWith(skills...)), `"version":"1"`, fmt.Sprintf(`"version":"1.%d"`, n), 1))
	}
	seen := map[string]bool{}
	for n := range maxAgreed {
		if err := one.Seen(t.Context(), "a", version(n, "read")); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range store.one.Agreed {
		seen[k.Digest] = true
	}
	store.before = func() {
		if err := two.Seen(t.Context(), "a", version(100, "read")); err != nil {
			t.Error(err)
		}
	}
	if err := one.Seen(t.Context(), "a", version(101, "read", "write")); err != nil {
		t.Fatal(err)
	}
	if store.one.Current != digestOf(version(101, "read", "write")) || len(store.one.Agreed) != maxAgreed {
		t.Errorf("%d cards, the current one is %s", len(store.one.Agreed), store.one.Current)
	}
	for _, k := range store.one.Agreed {
		delete(seen, k.Digest)
		if want := k.Digest != store.one.Current; stopped[k.Digest] != want {
			t.Errorf("what was issued under %s is stopped: %t", k.Digest, stopped[k.Digest])
		}
	}
	if len(seen) != 2 {
		t.Errorf("%d cards are forgotten; want 2", len(seen))
	}
	for digest := range seen {
		if !stopped[digest] {
			t.Errorf("nobody looks after %s, and what was issued under it goes on", digest)
		}
	}
}
