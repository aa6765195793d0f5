package approval

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuer"
)

// Digest names everything that a question shows to whoever judges it: another
// question, or this one after somebody else has narrowed it, has another digest
// (ATK-49).
func Digest(q Question) string {
	return digest("question", map[string]any{
		"id": q.ID, "kind": q.Kind, "agent": q.Agent, "principal": q.Principal, "holder": q.Holder, "requester": q.Requester, "purpose": q.Purpose,
		"matters": q.Matters, "until": q.Until.UTC(), "expires": q.Expires.UTC(), "left": q.Chosen, "answers": q.Answers,
	})
}

// AnswerDigest names exactly what an answer would do: the question as it was
// shown, who answers, and what is left of it. It is what a passkey signs (AAP-A7,
// ATK-46).
func (d *Desk) AnswerDigest(q Question, who Person, a Answer) (string, error) {
	who.Present, who.Fresh = true, true // whether the person is, is asked when the answer is given
	chosen, err := narrowed(q, who, a)
	if err != nil {
		return "", err
	}
	return answerDigest(q, who, a, chosen), nil
}

func answerDigest(q Question, who Person, a Answer, left issuer.Chosen) string {
	left.Until = left.Until.UTC().Truncate(time.Second)
	return digest("answer", map[string]any{"question": Digest(q), "by": who.Principal, "approve": a.Approve, "left": left, "reason": a.Reason})
}

// digest is the SHA-256 of the kind and the members of a thing as JSON with sorted
// names, in base64url.
func digest(kind string, members map[string]any) string {
	data, err := json.Marshal([]any{"powerbox approval " + kind, members})
	if err != nil {
		panic("approval: what is digested is not JSON: " + err.Error()) // only texts, times and lists of them
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
