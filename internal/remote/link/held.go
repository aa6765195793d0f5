package link

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// HeldCall is what the server is told of a call that this gateway holds back: what
// people judge, and what the capability for it is made from. The bytes stay at the
// gateway; of them the server has the digest (ADR 76).
type HeldCall struct {
	Task       string          `json:"task"` // id of the task that stands for it, which the gateway chose
	Tenant     string          `json:"tenant,omitempty"`
	Context    string          `json:"context,omitempty"`
	Owner      Owner           `json:"owner"`
	Principal  string          `json:"principal,omitempty"` // the caller's user
	Holder     string          `json:"holder"`
	Requester  string          `json:"requester,omitempty"` // its configured name
	Purpose    string          `json:"purpose,omitempty"`
	Operations []HeldOperation `json:"operations"`
	Resource   string          `json:"resource,omitempty"`
	Name       string          `json:"name,omitempty"`      // of the resource
	Arguments  json.RawMessage `json:"arguments,omitempty"` // JSON object
	Key        string          `json:"key,omitempty"`       // by which a call is found that its caller keeps
	Digest     string          `json:"digest"`              // of the bytes
	Parent     string          `json:"parent,omitempty"`    // capability on record that it came under
	Under      []string        `json:"under,omitempty"`
	Through    []string        `json:"through,omitempty"`
	Authority  json.RawMessage `json:"authority"`
	Decision   string          `json:"decision"` // id of the gateway's record
	Trace      string          `json:"trace,omitempty"`
}

// HeldOperation is one operation that a held call is, or could be, about.
type HeldOperation struct {
	Name  string `json:"name"` // qualified
	Write bool   `json:"write,omitempty"`
}

// HeldTask is what has become of a held call, as the one who made it is told.
type HeldTask struct {
	Question string          `json:"question,omitempty"`
	Task     string          `json:"task,omitempty"`
	Context  string          `json:"context,omitempty"`
	State    a2a.OwnState    `json:"state,omitempty"`
	Text     string          `json:"text,omitempty"`
	URL      string          `json:"url,omitempty"`
	Expires  time.Time       `json:"expires,omitzero"`
	Updated  time.Time       `json:"updated,omitzero"`
	Decision string          `json:"decision,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"` // of the agent behind
	Denied   string          `json:"denied,omitempty"` // code of a no to a call that its caller keeps
}

// Ruling is what people said of a call that a gateway holds back.
type Ruling struct {
	Task       string `json:"task"`
	Waits      bool   `json:"waits,omitempty"`      // not answered yet
	Capability string `json:"capability,omitempty"` // for this one call, "" where it is not to be made
}

// HeldResult is what came of a call that was made.
type HeldResult struct {
	Failed   bool            `json:"failed,omitempty"`
	Decision string          `json:"decision,omitempty"`
	Text     string          `json:"text,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
}

// What HeldQuery asks for.
const (
	HeldAsk     = "ask"     // people are asked about Call
	HeldTell    = "tell"    // what has become of Task, at whichever gateway of the agent
	HeldList    = "list"    // the held calls of Owner in Tenant
	HeldCancel  = "cancel"  // Task is withdrawn
	HeldRulings = "rulings" // of Tasks, which this gateway holds
	HeldBegin   = "begin"   // this gateway makes Task now
	HeldMade    = "made"    // what came of Task

	// The same of calls that their callers keep, by the key of Call. Any gateway of the
	// agent makes one.
	HeldFind      = "kept/find"
	HeldAskKept   = "kept/ask"
	HeldBeginKept = "kept/begin"
	HeldMadeKept  = "kept/made"
)

// HeldQuery is a request about calls that are held back.
type HeldQuery struct {
	Do     string      `json:"do"`
	Call   *HeldCall   `json:"call,omitempty"`
	Task   string      `json:"task,omitempty"`
	Tasks  []string    `json:"tasks,omitempty"`
	Tenant string      `json:"tenant,omitempty"`
	Owner  Owner       `json:"owner"`
	Result *HeldResult `json:"result,omitempty"`
}

// HeldAnswer is the answer.
type HeldAnswer struct {
	Known   bool       `json:"known"`
	Task    HeldTask   `json:"task"`
	Tasks   []HeldTask `json:"tasks,omitempty"`
	Rulings []Ruling   `json:"rulings,omitempty"`
	// Refused is why people are not asked, nil where they are.
	Refused *Refused `json:"refused,omitempty"`
}

// Refused is a refusal of the server, worded for the caller.
type Refused struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Record  string `json:"record,omitempty"`
}

// Error implements error.
func (r *Refused) Error() string { return r.Message }

// Denial words it for the caller.
func (r *Refused) Denial() a2a.Denial {
	return a2a.Denial{Reason: r.Reason, Message: r.Message, DecisionID: r.Record}
}

// heldTime bounds one request about held calls: the answer of an agent can be
// with it, which is large.
const heldTime = 10 * time.Second

// Held asks the server about calls that are held back. An error that is no
// [*Refused] says that the server did not answer: whether it did what it was
// asked is then not known.
func (r *Remote) Held(ctx context.Context, q HeldQuery) (HeldAnswer, error) {
	var a HeldAnswer
	if err := r.Client.callFor(ctx, heldTime, PathHeld, q, &a); err != nil {
		return a, err
	}
	if a.Refused != nil {
		return a, a.Refused
	}
	return a, nil
}

// Know asks for the pseudonym of a user, so that [Remote.Pseudonym] has it.
func (r *Remote) Know(ctx context.Context, principal string) error {
	if principal == "" {
		return nil
	}
	if _, ok := r.pseudonyms.get(principal); ok {
		return nil
	}
	var q PseudonymQuery
	if err := r.Client.call(ctx, PathPseudonym, PseudonymQuery{principal}, &q); err != nil || q.Name == "" {
		return errors.New("who the user is here cannot be told now; try again in a moment")
	}
	r.pseudonyms.put(principal, q.Name)
	return nil
}
