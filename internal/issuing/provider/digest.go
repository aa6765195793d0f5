package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/approved"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// shownGrant is a grant as it goes into a digest.
type shownGrant struct {
	Grant       string          `json:"grant"`
	Capability  string          `json:"capability"`
	Says        string          `json:"says"`
	Sensitivity Sensitivity     `json:"sensitivity"`
	Status      string          `json:"status"`
	Constraints json.RawMessage `json:"constraints,omitempty"`
	Until       time.Time       `json:"until,omitzero"`
	// Pages take names and currencies of arguments from the schema, and say how often a
	// grant can be used.
	Input json.RawMessage   `json:"input,omitempty"`
	Uses  int               `json:"uses,omitempty"`
	Sum   map[string]string `json:"sum,omitempty"`
}

func (p *Provider) shown(grants []Grant) []shownGrant {
	out := make([]shownGrant, 0, len(grants))
	for _, g := range grants {
		one := shownGrant{Grant: g.ID, Capability: g.Capability, Status: string(g.Status), Constraints: g.Constraints, Until: g.Expires.UTC()}
		if c := p.capabilities[g.Capability]; c != nil {
			one.Says, one.Sensitivity, one.Uses = c.Description, c.Sensitivity, c.Budgets.Uses
			if c.Input.Kind() != powerbox.KindNull {
				one.Input = c.Input.AppendJSON(nil)
			}
			for field, most := range c.Budgets.Sum {
				if one.Sum == nil {
					one.Sum = map[string]string{}
				}
				one.Sum[field] = most.String()
			}
		}
		out = append(out, one)
	}
	return out
}

// Digest names everything that a question shows to anyone who judges it: another
// question, or this one after something about it has changed, has another digest
// (ATK-49).
func (p *Provider) Digest(q Question) string {
	return digest("question", map[string]any{
		"approval": q.Approval.ID, "kind": q.Approval.Kind, "reason": q.Approval.Reason, "message": q.Approval.Message, "from": q.Approval.From, "host_from": q.Host.From, "expires": q.Approval.Expires.UTC(),
		"agent": q.Agent.ID, "agent_name": q.Agent.Name, "agent_key": q.Agent.Thumbprint, "mode": q.Agent.Mode,
		"host": q.Host.ID, "host_name": q.Host.Name, "host_key": q.Host.Thumbprint, "host_status": q.Host.Status, "user": q.user(),
		"grants": p.shown(q.Grants), "held": p.shown(q.Held), "entails": p.shown(p.entailed(q)), "claimed": named(q.Claimed),
	})
}

// named are agents as they go into a digest.
func named(agents []Agent) [][2]string {
	out := make([][2]string, 0, len(agents))
	for _, a := range agents {
		out = append(out, [2]string{a.ID, a.Name})
	}
	return out
}

// entailed are the grants of [Provider.Entails], in the form that goes into a digest.
func (p *Provider) entailed(q Question) (out []Grant) {
	for _, c := range p.Entails(q) {
		out = append(out, Grant{Capability: c.Name})
	}
	return out
}

// AnswerDigest names exactly the effect of an answer: the question as it was shown, and in
// which language, the person who answers, and every grant that comes into force, with its chosen constraints
// and end. A passkey signs it (AAP-A7, ATK-46).
func (p *Provider) AnswerDigest(q Question, who Person, answer Answer) (string, error) {
	q.Grants = slices.Clone(q.Grants)
	who.Present = true // whether the person is, is asked when the answer is given
	approved, err := p.decided(&q, who, answer)
	if err != nil {
		return "", err
	}
	return p.answerDigest(q, who, answer, approved), nil
}

func (p *Provider) answerDigest(decided Question, who Person, answer Answer, approved map[string]bool) string {
	out := []string{}
	for _, g := range decided.Grants {
		if !approved[g.ID] {
			out = append(out, g.ID)
			if why := answer.why(g.ID); why != "" {
				out[len(out)-1] += "\n" + why
			}
		}
	}
	members := map[string]any{
		"question": answer.Seen, "by": who.Principal, "deny": answer.Deny, "approved": p.approves(decided, who, answer, approved).Digest(), "denied": out, "reason": answer.Reason,
	}
	if answer.Language != "" {
		members["language"] = answer.Language
	}
	return digest("answer", members)
}

// approves returns the whole of an answer: every capability with its limits and its end.
// It is empty for a denial.
func (p *Provider) approves(decided Question, who Person, answer Answer, grants map[string]bool) approved.Approved {
	if answer.Deny {
		return approved.Approved{}
	}
	out := approved.Approved{
		Question: decided.Approval.ID, Agent: p.config.Agent, Recipient: holder(decided.Agent.ID), Principal: decided.user(),
		Asker: approved.Asker{Host: decided.Host.ID, Key: decided.Agent.Thumbprint, Purpose: decided.Approval.Reason}, Shown: answer.Seen,
	}
	if decided.links() {
		out.Principal = who.Principal
	}
	for _, g := range decided.Grants {
		if grants[g.ID] {
			out.Parts = append(out.Parts, approved.Part{Grant: g.ID, Operations: []approved.Operation{{Name: g.Capability, Limits: g.Constraints}}, Until: p.until(decided.Agent, g)})
		}
	}
	return out
}

// GrantDigest names the effect of GrantAs.
func (p *Provider) GrantDigest(who Person, agent string, asked Asked) string {
	return digest("grant", map[string]any{"by": who.Principal, "agent": agent, "capability": asked.Name, "constraints": asked.Constraints, "lasts": asked.Lasts.String(), "says": p.shown([]Grant{{Capability: asked.Name}})})
}

// digest is the SHA-256 of the kind and the members of a thing as JSON with sorted
// names, in base64url.
func digest(kind string, members map[string]any) string {
	data, err := json.Marshal([]any{"powerbox " + kind, members})
	if err != nil {
		panic("provider: what is digested is not JSON: " + err.Error()) // only texts, times and stored JSON
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// errChanged refuses an answer to another question than the person has seen.
func errChanged() error {
	return agentauth.Errorf(agentauth.CodeChanged, "the request has changed since it was shown; look at it again")
}
