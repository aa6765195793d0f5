package console

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
)

// Questions are the questions of agents, and the answers of people.
type Questions interface {
	Questions(ctx context.Context, who provider.Person) ([]provider.Question, error)
	Question(ctx context.Context, who provider.Person, id string) (provider.Question, error)
	ByCode(ctx context.Context, who provider.Person, code string) (provider.Question, error)
	Answer(ctx context.Context, who provider.Person, id string, answer provider.Answer) (provider.AgentState, error)
}

// States says what has become of questions and grants.
type States interface {
	// Open reports whether a question can be approved.
	Open(q provider.Question) bool
	// Over is why a question ended without an answer, "" for one that was answered or can
	// be.
	Over(q provider.Question) string
	// Remains reports whether anything can be done under a grant by now.
	Remains(g provider.Grant) bool
}

// Digests name what a page showed and what a passkey signs.
type Digests interface {
	Digest(q provider.Question) string
	AnswerDigest(q provider.Question, who provider.Person, answer provider.Answer) (string, error)
	LinkDigest(l provider.Linking, who provider.Person, atOnce bool) string
	GrantDigest(who provider.Person, agent string, asked provider.Asked) string
}

// Offers are the capabilities that agents can have.
type Offers interface {
	Capability(name string) *provider.Capability
	Offered() []*provider.Capability
	// Entails are the capabilities that an answer gives beside the requested ones.
	Entails(q provider.Question) []*provider.Capability
	// Withheld are the defaults that agents of a host have to ask for.
	Withheld(h provider.Host) []*provider.Capability
}

// Hosts are the hosts that people link to themselves.
type Hosts interface {
	ToLink(ctx context.Context, who provider.Person, host, user string) (provider.Linking, error)
	LinkHost(ctx context.Context, who provider.Person, link provider.Link) (provider.Linking, error)
	Unlink(ctx context.Context, who provider.Person, host string) (agents int, err error)
	RevokeHostAs(ctx context.Context, who provider.Person, host string) (agents int, err error)
}

// Agents are the agents that people have, and their grants.
type Agents interface {
	Overview(ctx context.Context, who provider.Person) ([]provider.Overview, error)
	GrantAs(ctx context.Context, who provider.Person, agent string, asked provider.Asked) (provider.Grant, error)
	RevokeGrantAs(ctx context.Context, who provider.Person, agent, capability string) (ended int, err error)
	RevokeAgentAs(ctx context.Context, who provider.Person, agent string) error
	ForgetAgentAs(ctx context.Context, who provider.Person, agent string) error
}

// Activity is what agents did and can do in a person's name, and how long it is kept.
type Activity interface {
	Activity(ctx context.Context, who provider.Person) ([]provider.Action, error)
	Held(ctx context.Context, who provider.Person) ([]issuer.Capability, error)
	History(ctx context.Context, who provider.Person, q provider.Question) ([]provider.Action, error)
	Retention() time.Duration
}

// Desk has the questions that policy and configuration leave to people.
type Desk interface {
	Questions(ctx context.Context, who approval.Person) (own, review []approval.Question, err error)
	Question(ctx context.Context, who approval.Person, id string) (approval.Question, error)
	Answer(ctx context.Context, who approval.Person, id string, a approval.Answer) (approval.Question, error)
	AnswerDigest(q approval.Question, who approval.Person, a approval.Answer) (string, error)
}

// Approvals are the approvals that people gave at the desk.
type Approvals interface {
	Approvals(ctx context.Context, who approval.Person) ([]approval.Approval, error)
	Revoke(ctx context.Context, who approval.Person, id string) (approval.Question, error)
	Revocable(ctx context.Context, who approval.Person, q approval.Question) (bool, error)
}

// Passkeys are the passkeys of people.
type Passkeys interface {
	Passkeys(ctx context.Context, principal string) ([]provider.Passkey, error)
	Passkey(ctx context.Context, id []byte) (provider.Passkey, error)
	AddPasskey(ctx context.Context, who provider.Person, key provider.Passkey) error
	UsedPasskey(ctx context.Context, id []byte, credential []byte) error
	RemovePasskey(ctx context.Context, who provider.Person, id []byte) error
}

// People says whose login counts, and lets administrators change that.
type People interface {
	Recognize(ctx context.Context, c people.Claim) (provider.Person, error)
	Administrator(who provider.Person) bool
	People(ctx context.Context) ([]provider.Known, error)
	SetPersonAs(ctx context.Context, who provider.Person, principal string, state people.State, reason string) error
	LogOutAs(ctx context.Context, who provider.Person, principal, reason string) error
}

// Provider are the parts that one Agent Auth provider has.
type Provider struct {
	Questions Questions
	States    States
	Digests   Digests
	Offers    Offers
	Hosts     Hosts
	Agents    Agents
	Activity  Activity
	Passkeys  Passkeys
	People    People
}

// Of returns the parts of a provider.
func Of(p *provider.Provider) Provider {
	return Provider{Questions: p, States: p, Digests: p, Offers: p, Hosts: p, Agents: p, Activity: p, Passkeys: p, People: p}
}
