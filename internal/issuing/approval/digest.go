package approval

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approved"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Digest names everything that a question shows to anyone who judges it: another
// question, or this one after someone else has narrowed it, has another digest
// (ATK-49).
func Digest(q Question) string {
	shown := map[string]any{
		"id": q.ID, "kind": q.Kind, "agent": q.Agent, "principal": q.Principal, "holder": q.Holder, "requester": q.Requester, "purpose": q.Purpose,
		"matters": q.Matters, "until": q.Until.UTC(), "expires": q.Expires.UTC(), "left": q.Chosen, "answers": q.Answers,
	}
	if q.Client != nil {
		shown["client"] = q.Client
	}
	return digest("question", shown)
}

// AnswerDigest names exactly what an answer would do: all of what it approves, the
// question as it was shown, in which language, and who answers. It is what a passkey signs (AAP-A7,
// ATK-46).
func (d *Desk) AnswerDigest(q Question, who Person, a Answer) (string, error) {
	who.Present, who.Fresh = true, true // whether the person is, is asked when the answer is given
	chosen, err := narrowed(q, who, a, d.config.Now())
	if err != nil {
		return "", err
	}
	return q.answerDigest(who, a, chosen), nil
}

func (q Question) answerDigest(who Person, a Answer, left issuer.Chosen) string {
	given := approved.Approved{}
	if a.Approve {
		given = q.approves(left)
	}
	members := map[string]any{"question": Digest(q), "by": who.Principal, "approve": a.Approve, "approved": given.Digest(), "reason": a.Reason}
	if a.Language != "" {
		members["language"] = a.Language
	}
	return digest("answer", members)
}

// approves is the part of the question that is approved. Everything
// stands in it, also if no person removed a part.
func (q Question) approves(left issuer.Chosen) approved.Approved {
	out := approved.Approved{
		Question: q.ID, Request: q.Key, Agent: q.Agent, Recipient: q.Holder, Principal: q.Principal,
		Asker: approved.Asker{Name: q.Requester, Purpose: q.Purpose}, Shown: Digest(q),
	}
	for _, m := range q.Matters {
		p := approved.Part{Grant: m.Grant, Until: earlier(q.Until, m.Until, left.Until)}
		of := func(some map[string][]string, name string) bool {
			names, narrowed := some[m.Grant]
			return !narrowed || slices.Contains(names, name)
		}
		for _, op := range m.Operations {
			if of(left.Operations, op.Name) {
				p.Operations = append(p.Operations, approved.Operation{Name: op.Name, Limits: op.Limits})
			}
		}
		for _, r := range m.Resources {
			if of(left.Resources, r.ID) {
				p.Resources = append(p.Resources, r.ID)
			}
		}
		if len(p.Operations) > 0 {
			out.Parts = append(out.Parts, p)
		}
	}
	return out
}

// earlier is the first of some ends, of which zero is none.
func earlier(ends ...time.Time) time.Time {
	var first time.Time
	for _, t := range ends {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// yes is the approved part: nothing unless all have approved. A question that an earlier
// version kept says it by its rest.
func (q Question) yes() approved.Approved {
	switch {
	case q.State != issuer.StateApproved:
		return approved.Approved{}
	case q.Approved.Question == "":
		return q.approves(q.Chosen)
	}
	return q.Approved
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
