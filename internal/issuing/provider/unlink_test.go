package provider_test

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestATK64_QuestionsOfAnUnlinkedHost asks a user about an agent that acts on its own
// under the user's host, and then unlinks the host. The former user is asked nothing any
// more, and answers nothing.
func TestATK64_QuestionsOfAnUnlinkedHost(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	auto, out, err := w.register(m.host, agentauth.Autonomous, asked("transfer")...)
	w.must(err)
	if out.Status != agentauth.Pending || out.Challenge == nil {
		t.Fatalf("the agent is %s with %+v; want a question", out.Status, out.Challenge)
	}
	w.must(second(w.provider.Unlink(t.Context(), alice, out.Host.ID)))
	if open, err := w.provider.Questions(t.Context(), alice); err != nil || len(open) != 0 {
		t.Errorf("ATK-64 the former user is still asked %d questions, %v", len(open), err)
	}
	_, err = w.provider.Answer(t.Context(), alice, out.Challenge.Approval.ID, provider.Answer{Decisions: []provider.Decision{{Grant: out.Grants[0].ID, Approve: true}}})
	if err == nil {
		t.Error("ATK-64 the former user has answered")
	}
	if s := w.look(auto.id); s.Status != agentauth.Pending {
		t.Errorf("ATK-64 the agent is %s; want pending", s.Status)
	}
}
