package approval

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approved"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
)

// Kind is what a question is about.
type Kind string

// The kinds.
const (
	ForCapability Kind = "capability" // a request for capabilities
	ForCall       Kind = "call"       // one call, which is held back
)

// Question is one question to people. It is changed by their answers alone.
type Question struct {
	ID        string // "ask_..."
	Kind      Kind
	Key       string // of a request; "" for a call
	Agent     string // the protected agent
	Principal string // the user behind, "" for none
	Holder    string // the caller
	Requester string // its configured name, "" for none
	Purpose   string // in its own words
	Matters   []issuer.Matter
	Until     time.Time // latest requested end; zero for a call
	Needs     []Need
	State     issuer.State
	Answers   []Given
	Chosen    issuer.Chosen // the rest after the answers so far
	// Approved is the approved part, once all have approved.
	Approved approved.Approved
	Reason   string   // for which it was denied
	Issued   []string // capabilities that it was used for
	Revoking
	Cause
	Created time.Time
	Expires time.Time
	Ended   time.Time // zero while it is open
	Told    []string  // who was told of it, by the name of a way
	// Client sent the person here, nil for none, and Refreshed is how many refresh tokens
	// of the approval were used.
	Client    *issuer.Client `json:",omitempty"`
	Refreshed int            `json:",omitempty"`
}

// Cause is the call that led to a question, as records name it.
type Cause struct {
	Record string // of the decision that led to it, "" for none
	Trace  string // id of the trace that it is part of, "" for none
	Task   string `json:",omitempty"` // that stands for the held call, "" for a request
	Tenant string `json:",omitempty"` // of the agent, in which that task is, "" for none
}

// Revoking says how revocations bear on an approval.
type Revoking struct {
	// TakenBack is who revoked the approval, "" for none.
	TakenBack string `json:",omitempty"`
	// Revocations is how far revocations were known when all had approved. Clocks of nodes differ.
	Revocations int64 `json:",omitempty"`
}

// Asker is the name under which the questions of a holder are counted. A client of many
// people is counted for each of them: none of them has its questions refused for others.
func (q Question) Asker() string {
	if q.Client == nil {
		return q.Holder
	}
	return q.Holder + " for " + q.Principal
}

// Need is one group of people of whom some must approve.
type Need struct {
	Self      bool     `json:",omitempty"` // the user behind; it is a confirmation
	Who       []string `json:",omitempty"` // principals
	Groups    []string `json:",omitempty"`
	People    int      // how many of them
	Delegates []string `json:",omitempty"` // principals who may answer as well, after a while
	After     time.Duration
}

// Given is one person's answer.
type Given struct {
	By      string
	Approve bool
	At      time.Time
	Digest  string // of the answer
	Passkey string // that signed it, "" for none
	Counts  []int  // the needs that it counts for
}

// Person is who answers.
type Person = people.Person

// Answer is a person's word.
type Answer struct {
	Approve bool
	Chosen  issuer.Chosen
	Reason  string // told to the caller
	// Seen is the [Digest] of the page that was shown, "" if there was no page. A question
	// that has changed since is not answered.
	Seen string
	// Language is the one in which a page showed the question, "" where there was no page.
	// What the passkey signs names it (ADR 131).
	Language string
	// Proof is the [Desk.AnswerDigest] that a passkey signed, "" for none, and Passkey
	// which one it was.
	Proof, Passkey string
}

// Open reports whether a question can be answered.
func (q Question) Open(now time.Time) bool {
	return q.State == issuer.StatePending && now.Before(q.ends())
}

// At is the state at a moment: an unanswered question has expired.
func (q Question) At(now time.Time) issuer.State {
	if q.State == issuer.StatePending && !now.Before(q.ends()) {
		return issuer.StateExpired
	}
	return q.State
}

// Writes reports whether the requested authority changes something.
func (q Question) Writes() bool {
	return slices.ContainsFunc(q.Matters, func(m issuer.Matter) bool {
		return slices.ContainsFunc(m.Operations, func(o issuer.Operation) bool { return o.Write })
	})
}

// review reports whether a question is one to reviewers: someone else than the
// user behind has to answer.
func (q Question) review() bool {
	return slices.ContainsFunc(q.Needs, func(n Need) bool { return !n.Self })
}

// Call is a call that is held back until people have answered: the bytes, and
// whose they are.
type Call struct {
	Question string
	Agent    string
	Tenant   string `json:",omitempty"` // of the agent, in which the call was made; "" for none
	Task     string // by which the caller asks for its state
	Context  string
	Owner    issuer.Owner
	State    CallState
	// Request is the call as the gateway needs it to be made: opaque here. It is gone
	// once the call was made or cannot be made any more.
	Request []byte
	// Gateway is the id of the remote gateway that has the bytes and
	// makes the call, "" for the server's own, which has them here.
	Gateway string `json:",omitempty"`
	// Lost says that the gateway has not told in time what became of the call. It can
	// do so later.
	Lost   bool   `json:",omitempty"`
	Digest string // of its bytes
	// Parent, Under and Through are what it came under; see [issuer.Once].
	Parent         string
	Under, Through []string
	Authority      json.RawMessage
	Capability     string // given for it, "" before that
	Decision       string // id of the record of its being made
	Answer         []byte // of the agent behind, as JSON
	Text           string // why it failed
	Updated        time.Time
}

// CallState is what has become of a call.
type CallState string

// The states of a call. One that is being made when the server ends has an
// unknown outcome.
const (
	CallWaits     CallState = "waits"
	CallApproved  CallState = "approved"
	CallBeingMade CallState = "being_made"
	CallMade      CallState = "made"
	CallFailed    CallState = "failed"
	CallCancelled CallState = "cancelled"
)

// Store keeps questions and calls, with evidence in the same transaction.
// Durability and errors are those of [issuer.Store].
type Store interface {
	UpdateApprovals(ctx context.Context, change func(tx Tx) error) error
	ViewApprovals(ctx context.Context, read func(r Reader) error) error
}

// Reader reads one snapshot. Anything that is not there is [issuer.ErrNotFound].
type Reader interface {
	QuestionReader
	CallReader
	issuer.AccountReader
	Outbox
}

// QuestionReader reads questions.
type QuestionReader interface {
	Question(id string) (Question, error)
	// QuestionByKey returns the newest question of a key.
	QuestionByKey(key string) (Question, error)
	// Questions returns those in a state, oldest first, expired ones among those that
	// are pending.
	Questions(state issuer.State) ([]Question, error)
	// QuestionsOf returns how many questions of a holder were made since a time, and
	// how many of those were denied.
	QuestionsOf(holder string, since time.Time) (made, denied int, err error)
}

// CallReader reads held calls.
type CallReader interface {
	Capability(id string) (issuer.Capability, error)
	HeldCall(question string) (Call, error)
	HeldCallByTask(agent, task string) (Call, error)
	// HeldCalls returns the calls in a state, oldest first.
	HeldCalls(state CallState) ([]Call, error)
	// HeldTasksOf returns the tasks of an owner's held calls in a tenant of an agent,
	// newest first, limit at the most.
	HeldTasksOf(agent, tenant string, owner issuer.Owner, limit int) ([]string, error)
}

// Tx changes state within one transaction.
type Tx interface {
	issuer.Tx
	Reader
	Writer
	OutboxTx
}

// Writer changes questions and held calls. Every Put stores a new thing or what has become
// of it.
type Writer interface {
	PutQuestion(q Question) error
	PutHeldCall(c Call) error
	// ForgetQuestions forgets what ended before a time, with its calls.
	ForgetQuestions(before time.Time) error
}
