package issuer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Anything that is not on record, what another holds and ids that no holder can have get the
// same answer, and it is on record who asked.
func TestSEP5_AnIDTellsNothing(t *testing.T) {
	w := newTown(t)
	alice, eve := caller(t, "user:alice"), caller(t, "user:alice")
	c := w.read(alice)
	w.now = c.Expires.Add(time.Minute) // and so nothing of it is told either
	message := ""
	for _, q := range []struct {
		name, id string
		caller   identity.Caller
		chain    string // in which the refusal is recorded, "" for none
	}{
		{"unknown", "cap_0", eve, "powerbox"},
		{"empty", "", eve, "powerbox"},
		{"another's", c.ID, eve, "documents"},
		{"no holder", c.ID, identity.Caller{Principal: "user:alice", Agent: "orchestrator"}, "documents"},
		{"no holder, unknown", "cap_0", identity.Caller{Principal: "user:alice", Agent: "orchestrator"}, "powerbox"},
		{"nobody", "cap_0", identity.Caller{}, ""},
	} {
		before := w.last().ID
		_, err := w.issuer.Held(t.Context(), q.caller, q.id)
		var r *issuer.Refusal
		if !errors.As(err, &r) || r.Code != issuer.CodeCapabilityUnknown || message != "" && r.Error() != message {
			t.Fatalf("SEP-5 %s: %v; want %q", q.name, err, message)
		}
		message = r.Error()
		last := w.last()
		if q.chain == "" {
			if last.ID != before || r.Record != "" {
				t.Errorf("%s: recorded as %+v", q.name, last)
			}
			continue
		}
		if last.ID != r.Record || last.AgentID != q.chain || last.ActionType != "capability.use" || last.Decision != evidence.Deny ||
			!strings.Contains(string(last.Intent.Details), `"`+q.id+`"`) {
			t.Errorf("%s: refused as %q, recorded as %+v", q.name, r.Record, last)
		}
	}
	// At narrowing too, where a zero capability meets a caller without holder.
	_, err := w.issuer.Narrow(t.Context(), "", identity.Caller{Principal: "user:alice"}, "cap_0", issuer.Narrowing{})
	if refusal(t, err) != issuer.CodeCapabilityUnknown {
		t.Errorf("SEP-12 %v", err)
	}
}

// TestPagesOfCapabilitiesInForce: pages have the newest first, without those that were revoked
// or have expired, and a name selects the capabilities that were issued to it.
func TestPagesOfCapabilitiesInForce(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	alice.Agent = "desk"
	first, revoked, third := w.read(alice), w.read(caller(t, "user:alice")), w.read(caller(t, "user:alice"))
	if _, err := w.issuer.RevokeAsOperator(t.Context(), "user:carol", issuer.Target{ID: revoked.ID}); err != nil {
		t.Fatal(err)
	}
	pages := func(q issuer.LiveQuery) (ids []string) {
		for {
			page, next, err := w.issuer.InForce(t.Context(), q)
			if err != nil || len(page) > q.Limit {
				t.Fatalf("a page of %d: %v", len(page), err)
			}
			for _, c := range page {
				ids = append(ids, c.ID)
			}
			if next == "" {
				return ids
			}
			q.Before = next
		}
	}
	for name, c := range map[string]struct {
		query issuer.LiveQuery
		want  []string
	}{
		"all, one a page":   {issuer.LiveQuery{Limit: 1}, []string{third.ID, first.ID}},
		"all, two a page":   {issuer.LiveQuery{Limit: 2}, []string{third.ID, first.ID}},
		"all on one page":   {issuer.LiveQuery{Limit: 9}, []string{third.ID, first.ID}},
		"of a name":         {issuer.LiveQuery{Limit: 1, Holder: "desk"}, []string{first.ID}},
		"of a holder":       {issuer.LiveQuery{Limit: 1, Holder: third.Holder}, []string{third.ID}},
		"of another holder": {issuer.LiveQuery{Limit: 1, Holder: "key:other"}, nil},
		"for a user":        {issuer.LiveQuery{Limit: 9, Principal: "user:bob"}, nil},
	} {
		if got := pages(c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
	w.now = third.Expires
	if got := pages(issuer.LiveQuery{Limit: 9}); got != nil {
		t.Errorf("after they have expired: %v; want none", got)
	}
	if _, _, err := w.issuer.InForce(t.Context(), issuer.LiveQuery{Limit: 1, Before: "cap_0"}); !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("before an unknown id: %v; want ErrNotFound", err)
	}
}
