package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPU3_HistoryIsForWhoMayAnswer: the history of an agent is shown only to the
// person who may answer for it.
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

// TestAAPP6_TokensNameWhatTheSchemaRequires: a token of a constrained grant admits calls with the
// arguments that the schema requires, and none without them.
func TestAAPP6_TokensNameWhatTheSchemaRequires(t *testing.T) {
	w := newTown(t, func(c *provider.Config) {
		c.Tokens = provider.Tokens{Enabled: true, Lifetime: time.Hour, Depth: 1}
		for n := range c.Capabilities {
			if c.Capabilities[n].Name == "transfer" {
				c.Capabilities[n].Input = value(t, `{"type":"object","properties":{"amount":{"type":"number"},"to":{"type":"string"}},"required":["amount","to"]}`)
			}
		}
	})
	m := w.active("transfer")
	s, err := m.session(claims{"aud": bankURL})
	w.must(err)
	issued, err := w.provider.IssueTokens(t.Context(), s, provider.TokenRequest{Capabilities: []string{"transfer"}})
	if err != nil || len(issued) != 1 {
		t.Fatalf("%v %v", issued, err)
	}
	op, err := powerbox.ParseOperation("bank/agent-auth/transfer")
	w.must(err)
	for arguments, want := range map[string]bool{`{"amount":5,"to":"bob"}`: true, `{"amount":5}`: false, `{"amount":5000,"to":"bob"}`: false} {
		attempt, err := powerbox.Invocation(op, value(t, arguments))
		w.must(err)
		if got := powerbox.Decide(attempt, issued[0].Authority, w.now).Allowed; got != want {
			t.Errorf("AAP-P6 %s: %t", arguments, got)
		}
	}
}
