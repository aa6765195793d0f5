package provider_test

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPU3_HistoryIsForWhoMayAnswer: what an agent did is shown to the person who may answer for
// it, and to nobody else.
func TestAAPU3_HistoryIsForWhoMayAnswer(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	w.must(m.execute("balance", `{}`))
	q := provider.Question{}
	q.Agent.ID, q.Host.User, q.Agent.User = m.id, alice.Principal, alice.Principal
	if seen, err := w.provider.History(t.Context(), alice, q); err != nil || len(seen) == 0 {
		t.Errorf("AAP-U3 alice sees %v %v", seen, err)
	}
	seen, err := w.provider.History(t.Context(), bob, q)
	w.want("AAP-U3 another person", err, agentauth.CodeNotFound)
	if len(seen) != 0 {
		t.Errorf("AAP-U3 another person sees %v", seen)
	}
}

// TestAAPP6_NarrowingIsRead: constraints of a person that cannot be read narrow nothing and
// approve nothing.
func TestAAPP6_NarrowingIsRead(t *testing.T) {
	w := newTown(t)
	m, _, err := w.register(w.key(), agentauth.Delegated, asked("transfer")...)
	w.must(err)
	q, err := w.provider.ByCode(t.Context(), alice, m.code)
	w.must(err)
	answer := provider.Answer{Decisions: []provider.Decision{{Grant: q.Grants[0].ID, Approve: true, Constraints: value(t, `{"amount":{"max":"many"}}`)}}}
	if _, err := w.provider.Answer(t.Context(), alice, q.Approval.ID, answer); err == nil || strings.Contains(err.Error(), "nothing of") {
		t.Errorf("AAP-P6 constraints that cannot be read are taken for some: %v", err)
	}
	if _, err := m.session(); err == nil {
		t.Error("AAP-P6 the agent is active")
	}
}

// TestChecksOfOutputs: a listing says of an output schema whether results are held to it.
func TestChecksOfOutputs(t *testing.T) {
	w := newTown(t, func(c *provider.Config) {
		schema := value(t, `{"type":"object"}`)
		c.Capabilities = append(c.Capabilities,
			provider.Capability{Name: "checked", Description: "d", Sensitivity: provider.Read, Output: schema},
			provider.Capability{Name: "elsewhere", Description: "d", Sensitivity: provider.Read, Output: schema, Location: "https://elsewhere.example/run"})
	})
	want := map[string]string{"checked": provider.ChecksResults, "elsewhere": provider.ChecksNothing, "balance": ""}
	for _, c := range w.provider.Offered() {
		if checks, ok := want[c.Name]; ok && c.Checks() != checks {
			t.Errorf("%s: %q; want %q", c.Name, c.Checks(), checks)
		}
		delete(want, c.Name)
	}
	if len(want) != 0 {
		t.Errorf("not offered: %v", want)
	}
}
