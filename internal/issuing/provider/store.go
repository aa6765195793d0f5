package provider

import (
	"context"
	"encoding/json"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/approved"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Host is the environment that agents run in (section 3.1).
type Host struct {
	ID         string // "hst_..."
	Name       string // in its own words; decides nothing
	Thumbprint string // of the key that it signs with now: iss of its tokens
	Key        json.RawMessage
	KeysURL    string // where its keys are, "" for an inline key
	User       string // the principal that it is linked to, such as user:alice, "" for none
	// Vouched reports that the one who linked it to its user, or let it in as that of a user, was
	// present: its agents have defaults that change something, too (AAP-A7).
	Vouched   bool `json:",omitempty"`
	Defaults  []string
	OwnList   bool // Defaults are its own; otherwise it has the provider's
	Status    agentauth.Status
	From      string // address from which it registered, as the connection said; "" for none knows
	Created   time.Time
	Activated time.Time // zero while it never was
	LastUsed  time.Time
	Updated   time.Time
}

// Agent is one agent under a host (section 3.2).
type Agent struct {
	ID         string // "agt_..."
	Host       string
	User       string // whom it acts for, "" for none
	Name       string
	Mode       string
	Thumbprint string
	Key        json.RawMessage
	KeysURL    string
	KeyID      string // in the key set at KeysURL
	Reason     string // in its own words
	Status     agentauth.Status
	Clocks     Clocks // those that it was registered under
	// Claim is the state of the question who takes over: "" without a question, pending,
	// denied or claimed.
	Claim agentauth.Status `json:",omitempty"`
	// Unasked is why no person is asked any more about an agent that still waits, "" while
	// someone is.
	Unasked   string `json:",omitempty"`
	Created   time.Time
	Activated time.Time
	LastUsed  time.Time
	Updated   time.Time
}

// Clocks are the durations of section 2.4.
type Clocks struct {
	Session  time.Duration // without a request
	Maximum  time.Duration // from the last activation
	Absolute time.Duration // from its creation
}

// at returns the state of a at a moment (AAP-L5): stored, or by the clocks.
func (a Agent) at(now time.Time) agentauth.Status {
	switch {
	case terminal(a.Status):
		return a.Status
	case !now.Before(a.Created.Add(a.Clocks.Absolute)):
		return agentauth.Revoked // whether it acts or waits (AAP-L3)
	case a.Status == agentauth.Pending:
		return agentauth.Pending
	case a.Status == agentauth.Expired, !now.Before(a.expires()):
		return agentauth.Expired
	}
	return agentauth.Active
}

// expires is when a stops to be active unless a request comes.
func (a Agent) expires() time.Time {
	used := a.LastUsed
	if a.Activated.After(used) {
		used = a.Activated
	}
	end := used.Add(a.Clocks.Session)
	for _, other := range []time.Time{a.Activated.Add(a.Clocks.Maximum), a.Created.Add(a.Clocks.Absolute)} {
		if other.Before(end) {
			end = other
		}
	}
	return end
}

// Grant is one capability that an agent has, asked for or was refused (section 3.3).
// While it is active there is a capability on record for it.
type Grant struct {
	ID          string // "grt_..."
	Agent       string
	Capability  string // by its name
	Status      agentauth.Status
	Constraints json.RawMessage `json:",omitempty"` // as on the wire; nil for none
	GrantedBy   string
	DeniedBy    string
	Reason      string
	Record      string    // id of the capability on record, "" before it was active
	Expires     time.Time // zero for no end of its own
	Created     time.Time
	Updated     time.Time
}

// Kind is the subject of an approval.
type Kind string

// The kinds of approval.
const (
	ForRegistration Kind = "register"
	ForCapability   Kind = "request"
	ForReactivation Kind = "reactivate"
	ForClaim        Kind = "claim"
)

// Approval is a question to a person (section 7). It is answered once.
type Approval struct {
	ID       string // "apr_..."
	Code     []byte // keyed hash of the user code, nil where there is none
	Kind     Kind
	Method   string
	Agent    string
	Host     string
	User     string   // who is to answer, "" for anyone who has the code
	Grants   []string // the grants that are asked for
	Reason   string
	Message  string // binding_message
	From     string // address that it was asked from, as the connection said; "" for none knows
	Status   agentauth.Status
	By       string // who answered
	Attempts int
	Created  time.Time
	Expires  time.Time
	Answered time.Time
	// Ended is why it ended without an answer, "" where it did not.
	Ended string `json:",omitempty"`
	// Approved is the whole of the answer; the zero value for a denial.
	Approved approved.Approved
}

// Open reports whether the approval can be answered.
func (a Approval) Open(now time.Time) bool {
	return a.Status == agentauth.Pending && now.Before(a.Expires)
}

// Job is an execution that continues behind (AAP-E3).
type Job struct {
	ID         string // "job_..."
	Agent      string
	Capability string
	Decided    evidence.Record // that allowed it
	StatusURL  string          // of the backend
	Done       bool
	Created    time.Time
}

// Store keeps hosts, agents, grants, approvals and jobs, with evidence in the same
// transaction. Durability and errors are those of [issuer.Store].
type Store interface {
	UpdateProvider(ctx context.Context, change func(tx Tx) error) error
	ViewProvider(ctx context.Context, read func(r Reader) error) error
}

// Reader reads one snapshot. Anything that is not there is [issuer.ErrNotFound].
type Reader interface {
	HostReader
	AgentReader
	GrantReader
	ApprovalReader
	PasskeyReader
	PeopleReader
	TokenReader
}

// Tx changes state within one transaction. Every Put stores a new thing or a new state
// of it.
type Tx interface {
	issuer.Tx
	Reader
	HostWriter
	GrantWriter
	PeopleWriter
	TokenWriter
}

// HostReader reads hosts.
type HostReader interface {
	Host(id string) (Host, error)
	// HostByKey returns the host whose key has that thumbprint.
	HostByKey(thumbprint string) (Host, error)
	HostByKeysURL(url string) (Host, error)
	// Hosts returns the hosts of a user, or all with "", newest first.
	Hosts(user string) ([]Host, error)
}

// AgentReader reads agents under hosts.
type AgentReader interface {
	HostAgent(id string) (Agent, error)
	HostAgentByKey(host, thumbprint string) (Agent, error)
	HostAgents(host string) ([]Agent, error)
}

// GrantReader reads grants, and executions that continue.
type GrantReader interface {
	Grant(id string) (Grant, error)
	// Grants returns the grants of an agent, oldest first.
	Grants(agent string) ([]Grant, error)
	// Capability returns the capability on record of a grant.
	Capability(id string) (issuer.Capability, error)
	Job(id string) (Job, error)
}

// ApprovalReader reads questions to people.
type ApprovalReader interface {
	Approval(id string) (Approval, error)
	// ApprovalByCode returns the newest approval of that code.
	ApprovalByCode(code []byte) (Approval, error)
	// PendingApprovals returns those that are not answered, newest first.
	PendingApprovals() ([]Approval, error)
}

// PasskeyReader reads passkeys.
type PasskeyReader interface {
	Passkey(id []byte) (Passkey, error)
	// Passkeys returns those of a principal, oldest first.
	Passkeys(principal string) ([]Passkey, error)
	AllPasskeys() ([]Passkey, error)
}

// PeopleReader reads accounts of people, and what happened to them.
type PeopleReader interface {
	// Account returns the stored account of a person, and Accounts those of all.
	Account(principal string) (people.Account, error)
	Accounts() ([]people.Account, error)
	// Records returns a part of the records, newest first.
	Records(q issuer.RecordQuery) (issuer.RecordPage, error)
}

// TokenReader reads which tokens were used, and invitations.
type TokenReader interface {
	// UsedToken reports whether [TokenWriter.UseToken] was called with that id.
	UsedToken(id string) (bool, error)
	// UsedTokens reports whether any is stored.
	UsedTokens() (bool, error)
	// Invitation returns the invitation of a host by the hash of its token.
	Invitation(hash []byte) (Invitation, error)
}

// HostWriter changes hosts and the agents under them.
type HostWriter interface {
	PutHost(h Host) error
	PutHostAgent(a Agent) error
	// ForgetAgent removes an agent with its grants, approvals and jobs, and ForgetHost
	// a host without agents.
	ForgetAgent(id string) error
	ForgetHost(id string) error
}

// GrantWriter changes grants, questions to people and executions that continue.
type GrantWriter interface {
	PutGrant(g Grant) error
	PutApproval(a Approval) error
	PutJob(j Job) error
	// ForgetGrant removes a grant, and ForgetAnswered the questions and jobs from before
	// a moment.
	ForgetGrant(id string) error
	ForgetAnswered(before time.Time) error
}

// PeopleWriter changes passkeys and accounts of people.
type PeopleWriter interface {
	PutPasskey(p Passkey) error
	ForgetPasskey(id []byte) error
	PutAccount(a people.Account) error
}

// TokenWriter remembers tokens that were used, and invitations.
type TokenWriter interface {
	// UseToken remembers that a token was used, until then, and forgets those whose
	// time is over by now.
	UseToken(id string, until, now time.Time) error
	// PutInvitation stores an invitation, ForgetInvitation removes it, and
	// ForgetInvitations all that are over.
	PutInvitation(hash []byte, v Invitation) error
	ForgetInvitation(hash []byte) error
	ForgetInvitations(now time.Time) error
}
