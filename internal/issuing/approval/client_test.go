package approval_test

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// TestQuestionsOfAClientAreCountedForEachPerson: too many questions for one person through a
// client takes nothing from the client's other people. A holder alone is counted whole.
func TestQuestionsOfAClientAreCountedForEachPerson(t *testing.T) {
	asker := func(principal string, c *issuer.Client) string {
		return approval.Question{Holder: "client:x", Principal: principal, Client: c}.Asker()
	}
	through := &issuer.Client{ID: "x"}
	if asker("user:alice", through) == asker("user:bob", through) {
		t.Error("two people of a client are counted as one")
	}
	if asker("user:alice", nil) != asker("user:bob", nil) {
		t.Error("a holder that asks by itself is counted apart for each user")
	}
}
