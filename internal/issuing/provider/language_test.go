package provider_test

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestLanguageIsSigned has a passkey sign an answer on a German page: the same answer on an
// English one is another. What the page is about is the same in every language.
func TestLanguageIsSigned(t *testing.T) {
	w := newTown(t)
	out, err := w.more(w.active("balance"), provider.Asked{Name: "accounts"})
	w.must(err)
	ap := out.Challenge.Approval
	q, err := w.provider.Question(t.Context(), alice, ap.ID)
	w.must(err)
	a := provider.Answer{Seen: w.provider.Digest(q), Language: "de", Decisions: []provider.Decision{{Grant: ap.Grants[0], Approve: true}}}
	a.Proof, err = w.provider.AnswerDigest(q, alice, a)
	w.must(err)
	a.Language = "en"
	w.want("a signature for another language", second(w.provider.Answer(t.Context(), alice, ap.ID, a)), agentauth.CodeChanged)
	a.Language = "de"
	w.want("the signed language", second(w.provider.Answer(t.Context(), alice, ap.ID, a)), "")
}
