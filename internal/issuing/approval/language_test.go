package approval

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// TestLanguageIsSigned names in what a passkey signs the language in which the question was
// shown. What the page is about is the same in every language.
func TestLanguageIsSigned(t *testing.T) {
	q, who := Question{ID: "ask_1", Agent: "mail"}, Person{}
	digests := map[string]string{}
	for _, language := range []string{"", "en", "de"} {
		digest := q.answerDigest(who, Answer{Approve: true, Seen: Digest(q), Language: language}, issuer.Chosen{})
		if before, ok := digests[digest]; ok {
			t.Errorf("an answer in %q and one in %q have the same digest", language, before)
		}
		digests[digest] = language
	}
}
