package issuer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/approved"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// Asker asks people about requests that policy leaves to them (SEP-27).
type Asker interface {
	// Find returns the last question of a key, and false where there is none that
	// still counts.
	Find(ctx context.Context, key string) (Asked, bool, error)
	// Update runs change as [Store.Update] of the issuer's store does, with the questions
	// of the same transaction.
	Update(ctx context.Context, change func(tx Tx, questions Questions) error) error
}

// Questions are the questions in one transaction.
type Questions interface {
	// Ask asks. [ErrTooMany] says that the caller has enough open questions.
	Ask(q Question) (Asked, error)
	// Use uses up an answer, once, for the capabilities that it gave. [ErrUsed] says
	// that it was.
	Use(id string, capabilities []string) error
}

// The errors of an [Asker].
var (
	ErrTooMany = errors.New("too many questions are open")
	// ErrNobody says that no person can answer a question.
	ErrNobody = errors.New("no person could answer")
	ErrUsed   = errors.New("the answer has been used")
)

// Question is what a person is asked.
type Question struct {
	Key     string // of the request: the same one is not asked about twice
	Agent   string
	Caller  identity.Caller
	Purpose string // in the agent's own words
	Matters []Matter
	Until   time.Time // the latest end of what would be issued
	Client  *Client   // that sent the person here, nil for none
}

// Matter is one thing that is asked for, as a person judges it.
type Matter struct {
	Grant      string
	Says       string // the operator's words for the grant
	Operations []Operation
	Resources  []Resource
	Arguments  []Argument // of one call; none where any call is meant
	Legacy     bool
	Until      time.Time `json:",omitzero"` // end of what would be issued; zero for a call
}

// Operation is one operation of a grant, as in the wire.
type Operation struct {
	Name  string
	Write bool
	// Limits is the shape of arguments that the operator offers it with, as JSON; nil for
	// any arguments.
	Limits json.RawMessage `json:",omitempty"`
}

// Resource is one resource: its identifier, and the name that people know.
type Resource struct{ ID, Name string }

// Argument is one argument of a call, its value as JSON.
type Argument struct{ Name, Value string }

// State is what has become of a question.
type State string

// The states.
const (
	StatePending  State = "pending"
	StateApproved State = "approved"
	StateDenied   State = "denied"
	StateExpired  State = "expired"
)

// Asked is a question as its caller sees it.
type Asked struct {
	ID       string
	URL      string // of the page on which it is answered
	State    State
	Expires  time.Time     // of the question
	Interval time.Duration // in which to ask for its state
	// Approved is the whole approved part; the zero value for none.
	Approved approved.Approved
	Issued   []string // what it was used for, none where it was not
	Reason   string   // for which it was denied, in the person's words
}

// Chosen is what a person narrows a request to.
type Chosen struct {
	// Operations and Resources are the rest, by grant; a grant that is not there
	// has lost nothing.
	Operations map[string][]string `json:",omitempty"`
	Resources  map[string][]string `json:",omitempty"`
	Until      time.Time           `json:",omitzero"` // zero for no end of the person's
}

// part is what people have approved of a grant: nothing where they have left nothing
// of it.
func (a *Asked) part(grant string) approved.Part {
	p, _ := a.Approved.Of(grant)
	return p
}

// limits are those that people have approved an operation of a grant with, and false
// where they have not approved it.
func (a *Asked) limits(grant, operation string) (powerbox.Shape, bool) {
	if a == nil {
		return powerbox.AnyArguments(), true
	}
	return a.part(grant).Shape(operation)
}

// dropped reports whether people have left nothing of a grant.
func (a *Asked) dropped(grant string) bool {
	if a == nil {
		return false
	}
	_, left := a.Approved.Of(grant)
	return !left
}

// within leaves the resources that people have approved of a grant.
func (a *Asked) within(grant string, items []catalogue.Item) []catalogue.Item {
	if a == nil {
		return items
	}
	approved := a.part(grant).Resources
	return slices.DeleteFunc(slices.Clone(items), func(i catalogue.Item) bool { return !slices.Contains(approved, i.ID) })
}

// isFor reports whether an approval is for exactly this request of this caller, and no
// other one.
func (a *Asked) isFor(agent string, caller identity.Caller, key string) bool {
	y := a.Approved
	return y.Agent == agent && y.Recipient == caller.Holder.ID && y.Principal == caller.Principal && y.Request == key
}

// Pending says that a person has to answer first (SEP-27). The same request is
// answered when the person has.
type Pending struct{ Asked }

func (p *Pending) Error() string {
	return "a person has to approve this first, at " + p.URL + "; send the same request again after that"
}

// ask finds out what a person has said to a request, and asks if no one was
// asked yet.
func (i *Issuer) ask(ctx context.Context, record evidence.Record, caller identity.Caller, req Request, wanted []Capability) ([]Capability, *Refusal, error) {
	key, err := requestKey(wanted[0].Agent, caller, req)
	if err != nil {
		return nil, nil, err
	}
	asked, known, err := i.asker.Find(ctx, key)
	switch {
	case err != nil:
		return nil, nil, err
	case !known:
		return i.askAnew(ctx, record, caller, req, wanted, key)
	case asked.State == StateExpired:
		return nil, refuse(CodeApprovalExpired, "no person answered this request in time; tell the user, and ask again later if it is still wanted"), nil
	case asked.State == StatePending:
		return nil, nil, &Pending{asked}
	case asked.State == StateDenied:
		r := refuse(CodeApprovalDenied, "a person has refused this request; do not ask for it again unless the user wants you to")
		if asked.Reason != "" {
			r.Details = []string{asked.Reason}
		}
		return nil, r, nil
	case len(asked.Issued) > 0:
		// The answer may have been lost on the way.
		if again, err := i.alive(ctx, asked.Issued); err != nil || again != nil {
			return again, nil, err
		}
		return i.askAnew(ctx, record, caller, req, wanted, key)
	}
	if !asked.isFor(wanted[0].Agent, caller, key) {
		return nil, refuse(CodeApprovalDenied, "what was approved is not for this caller and this request"), nil
	}
	req.approved = &asked
	issued, refusal, err := i.requested(ctx, record, wanted[0].Agent, caller, req)
	if errors.Is(err, ErrUsed) { // by the same request at the same time
		switch asked, known, err = i.asker.Find(ctx, key); {
		case err != nil:
		case asked.State == StateDenied: // or taken back
			return nil, refuse(CodeApprovalDenied, "a person took this approval back"), nil
		case !known: // or everything was revoked meanwhile
			return i.askAnew(ctx, record, caller, req, wanted, key)
		default:
			issued, err = i.alive(ctx, asked.Issued)
		}
	}
	return issued, refusal, err
}

// alive returns capabilities that an answer was used for, nil where one of them
// has ended.
func (i *Issuer) alive(ctx context.Context, ids []string) ([]Capability, error) {
	var out []Capability
	for _, id := range ids {
		c, err := i.OnRecord(ctx, id)
		if err != nil {
			return nil, err
		}
		if c.ID == "" || i.Dead(c) || !c.Expires.After(i.config.Now()) {
			return nil, nil
		}
		out = append(out, c)
	}
	return out, nil
}

// askAnew asks a person, on record. What could not be issued anyway is refused
// before anybody is bothered.
func (i *Issuer) askAnew(ctx context.Context, record evidence.Record, caller identity.Caller, req Request, wanted []Capability, key string) ([]Capability, *Refusal, error) {
	q := Question{Key: key, Agent: wanted[0].Agent, Caller: caller, Purpose: req.Purpose, Client: req.Client}
	for _, c := range wanted {
		q.Matters = append(q.Matters, i.matter(c))
		if q.Until.IsZero() || c.Expires.After(q.Until) {
			q.Until = c.Expires
		}
	}
	var asked Asked
	var refusal *Refusal
	err := i.asker.Update(ctx, func(tx Tx, questions Questions) error {
		if refusal = i.checkRequires(tx, caller, wanted); refusal == nil {
			refusal = i.checkTask(tx, caller, wanted[0])
		}
		if refusal != nil {
			return refusal
		}
		var err error
		if asked, err = questions.Ask(q); err != nil {
			return err
		}
		record := record
		record.Decision = evidence.Abstain
		record.Details.Reasons = append(slices.Clone(record.Details.Reasons), evidence.Reason{Code: string(CodeApprovalRequired), Message: "policy leaves it to a person: question " + asked.ID})
		_, err = tx.Append(record)
		return err
	})
	switch {
	case refusal != nil:
		return nil, refusal, nil
	case errors.Is(err, ErrTooMany):
		return nil, refuse(CodeApprovalTooMany, "too many of this agent's requests wait for people; wait for the answers"), nil
	case errors.Is(err, ErrNobody):
		return nil, refuse(CodeApprovalNobody, "a person must approve this request, and none may: the rule of approvals.rules names no person but the user behind, who cannot review their own request; ask the operator to name another"), nil
	case err != nil:
		return nil, nil, err
	}
	return nil, nil, &Pending{asked}
}

// matter is a capability that would be issued, as a person judges it.
func (i *Issuer) matter(c Capability) Matter {
	agent, ok := i.all()[c.Agent]
	if !ok { // it was taken away meanwhile
		agent = &Agent{}
	}
	grant, _ := agent.Grant(c.Grant)
	m := Matter{Grant: c.Grant, Says: grant.Description, Legacy: c.Legacy, Until: c.Expires}
	for _, name := range c.Operations() {
		op := Operation{Name: name, Write: true}
		if shape, _ := agent.shapeOf(c.Grant, name); !shape.Equal(powerbox.AnyArguments()) {
			op.Limits = shape.JSON().AppendJSON(nil)
		}
		for _, s := range agent.Skills {
			if s.Grant == c.Grant && s.Operation == name {
				op.Write = s.Write
			}
		}
		m.Operations = append(m.Operations, op)
	}
	for _, h := range c.Handles {
		m.Resources = append(m.Resources, Resource{h.Resource, h.Name})
	}
	return m
}

// requestKey names a request of a caller: everything that the request asks for.
// An end that moves with the clock, or a group that the caller got meanwhile, makes no
// other request of it: the capability is within the approval in either case.
func requestKey(agent string, caller identity.Caller, req Request) (string, error) {
	all := []any{
		"powerbox request", agent, caller.Holder.ID, caller.Principal, req.Grants, req.Operations, req.QueryText, req.Purpose, req.Task, req.Push, req.Card, req.ScopeToken,
	}
	if req.Tenant != "" && req.Task != "" {
		all = append(all, req.Tenant)
	}
	if req.Client != nil {
		all = append(all, req.Client, req.Of)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// Once is what a person gave for one call.
type Once struct {
	Agent, Principal, Holder, Requester, Purpose string
	Approval                                     string // id of the question
	Digest                                       string // of the request's bytes
	// Parent is the capability on record that the call came under, "" for none, and
	// Under and Through are what else it came through.
	Parent         string
	Under, Through []string
	Authority      powerbox.Authority
	Until          time.Time
}

// OnceWriter is how much of a transaction [Issuer.GiveOnce] uses.
type OnceWriter interface {
	Capability(id string) (Capability, error)
	PutCapability(c Capability) error
}

// GiveOnce issues a capability that is good for one call, in tx. Where the call
// came under another it is a child of that, and ends with it.
func (i *Issuer) GiveOnce(tx OnceWriter, o Once) (Capability, error) {
	c := Capability{
		Agent: o.Agent, Principal: o.Principal, Holder: o.Holder, Requester: o.Requester, Purpose: o.Purpose,
		Approval: o.Approval, Once: true, Digest: o.Digest, Under: o.Under, Through: o.Through,
		Card: i.Card(o.Agent), PolicyDigest: i.config.Policy.Digest(), Created: i.config.Now().UTC().Truncate(time.Second),
	}
	if o.Parent != "" {
		parent, err := tx.Capability(o.Parent)
		if err != nil {
			return c, err
		}
		c.Root, c.Ancestors, c.Rooted, c.Grant, c.Task, c.Tenant, c.Handles = parent.Root, parent.Lineage(), parent.Issued(), parent.Grant, parent.Task, parent.Tenant, parent.Handles
		c.Subject, c.Legacy, c.Budgets, c.PolicyDigest, c.Card = parent.Subject, parent.Legacy, parent.Budgets, parent.PolicyDigest, parent.Card
		if o.Authority = o.Authority.Meet(parent.Authority); parent.Expires.Before(o.Until) {
			o.Until = parent.Expires
		}
	}
	var err error
	if c.ID, err = i.NewID("cap_"); err == nil {
		c.RevocationID, err = i.NewID("rv_")
	}
	if err != nil {
		return c, err
	}
	if c.Root == "" {
		c.Root = c.ID
	}
	w := o.Authority.Window()
	if o.Until.Before(w.Until) {
		w.Until = o.Until.UTC().Truncate(time.Second).Add(time.Second)
	}
	if c.Authority, err = powerbox.NewAuthority(w, 0, o.Authority.Clauses()...); err != nil {
		return c, err
	}
	c.Expires = c.Authority.Window().Until
	return c, tx.PutCapability(c)
}
