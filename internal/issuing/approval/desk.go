package approval

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Config is what a desk needs. Every field is required unless it says otherwise.
type Config struct {
	Store  Store
	Issuer *issuer.Issuer // which has the desk as its [issuer.Asker]
	URL    string         // under which a question's page is, without a final slash
	Rules  []Rule         // optional
	// Approvers are the people and groups with the role approver at an agent. Optional.
	Approvers func(agent string) (who, groups []string)
	Timeout   time.Duration
	Interval  time.Duration // between two polls of a waiting caller
	Tell      Teller        // optional; nil tells no one
	Now       func() time.Time
	Log       *slog.Logger
}

// Teller words what people are told of what waits for them. The desk stores it with
// what it tells of.
type Teller interface {
	Messages(n News) ([]Message, error)
	Names() []string // of the webhooks
}

// News is what people are told.
type News struct {
	Event    Event
	Question Question
	URL      string
}

// Event is why people are told.
type Event string

// The events.
const (
	EventAsked    Event = "asked"    // a question is open
	EventOverdue  Event = "overdue"  // delegates may answer it by now
	EventAnswered Event = "answered" // it is not open any more
	EventAlert    Event = "alert"    // the caller asks too often
)

// How much one holder may ask of people (ATK-48).
const (
	maxOpen     = 20
	maxText     = 500
	maxMade     = 120 // questions within alertTime
	maxDenied   = 10  // of them denied: then no person is asked for a while
	alertDenied = 3   // of them denied: then an alert is sent
	alertTime   = time.Hour
	// quiet is how long a request that was denied, or not answered, is not
	// asked about again.
	quietDenied  = time.Hour
	quietExpired = 10 * time.Minute
	// onceTime is how long the capability for one call is good.
	onceTime = time.Minute
	// keptTime is how long what has ended can be looked at.
	keptTime = 24 * time.Hour
)

// Desk is where people are asked. Its methods can be called by many goroutines.
type Desk struct {
	config Config

	mu      sync.Mutex
	changed chan struct{} // closed when a call may be made
	tells   chan struct{} // closed when there may be a message to deliver
}

// New returns a desk.
func New(c Config) (*Desk, error) {
	if err := missing.Fields("approval", c, "Store", "Issuer", "URL", "Now", "Log"); err != nil {
		return nil, err
	}
	if c.Timeout <= 0 || c.Interval <= 0 {
		return nil, errors.New("approval: Timeout and Interval must be positive")
	}
	for _, r := range c.Rules {
		if !r.Need.Self && !r.Approvers && len(r.Need.Who) == 0 && len(r.Need.Groups) == 0 {
			return nil, errors.New("approval: a rule names no person who could answer")
		}
	}
	return &Desk{config: c, changed: make(chan struct{}), tells: make(chan struct{})}, nil
}

func notFound(err error) bool { return errors.Is(err, issuer.ErrNotFound) }

// Page is the URL on which a question is answered.
func (d *Desk) Page(id string) string { return d.config.URL + "/" + id }

// asked is a question as its caller sees it.
func (d *Desk) asked(q Question) issuer.Asked {
	return issuer.Asked{
		ID: q.ID, URL: d.Page(q.ID), State: q.At(d.config.Now()), Expires: q.Expires, Interval: d.config.Interval,
		Approved: q.yes(), Issued: q.Issued, Reason: q.Reason,
	}
}

// Find implements [issuer.Asker].
func (d *Desk) Find(ctx context.Context, key string) (issuer.Asked, bool, error) {
	var q Question
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		q, err = r.QuestionByKey(key)
		return err
	})
	if notFound(err) {
		return issuer.Asked{}, false, nil
	}
	now, counts := d.config.Now(), true
	switch q.At(now) {
	case issuer.StateDenied:
		counts = now.Before(q.Ended.Add(quietDenied))
	case issuer.StateExpired:
		counts = now.Before(q.ends().Add(quietExpired))
	case issuer.StateApproved:
		counts = now.Before(q.yes().Until()) && (len(q.Issued) > 0 || !d.overtaken(q))
	case issuer.StatePending:
	}
	return d.asked(q), counts, err
}

// overtaken reports whether everything of the user, the caller or the agent was revoked after
// people approved a request (ATK-146). Where nothing was issued by then, nothing is any more.
func (d *Desk) overtaken(q Question) bool {
	return d.config.Issuer.EndedBehind(q.Revocations, q.Agent, q.Principal, q.Holder)
}

// Update implements [issuer.Asker].
func (d *Desk) Update(ctx context.Context, change func(issuer.Tx, issuer.Questions) error) error {
	return d.config.Store.UpdateApprovals(ctx, func(tx Tx) error { return change(tx, questions{d, tx}) })
}

// questions are those of one transaction, as the issuer asks them.
type questions struct {
	desk *Desk
	tx   Tx
}

// Ask implements [issuer.Questions].
func (in questions) Ask(asks issuer.Question) (issuer.Asked, error) {
	d := in.desk
	// Of two same requests at one time the second finds what the first asked.
	if q, err := in.tx.QuestionByKey(asks.Key); err == nil && q.Open(d.config.Now()) {
		return d.asked(q), nil
	}
	q := Question{
		Kind: ForCapability, Key: asks.Key, Agent: asks.Agent, Principal: asks.Caller.Principal, Holder: asks.Caller.Holder.ID, Requester: asks.Caller.Agent,
		Purpose: asks.Purpose, Matters: asks.Matters, Until: asks.Until, Client: asks.Client,
	}
	q, err := d.open(in.tx, q)
	return d.asked(q), err
}

// open asks a question, on record.
func (d *Desk) open(tx Tx, q Question) (Question, error) {
	now := d.config.Now()
	var timeout time.Duration
	q.Needs, timeout = d.route(q.Agent, q.Matters)
	if !q.answerable() {
		return q, issuer.ErrNobody
	}
	open, err := tx.Questions(issuer.StatePending)
	if err != nil {
		return q, err
	}
	n := 0
	for _, o := range open {
		if o.Asker() == q.Asker() && o.Open(now) {
			n++
		}
	}
	if n >= maxOpen {
		return q, issuer.ErrTooMany
	}
	made, denied, err := tx.QuestionsOf(q.Asker(), now.Add(-alertTime))
	if err != nil {
		return q, err
	}
	if made >= maxMade || denied >= maxDenied {
		return q, issuer.ErrTooMany
	}
	if q.ID, err = d.config.Issuer.NewID("ask_"); err != nil {
		return q, err
	}
	q.Purpose = agentauth.Plain(q.Purpose, maxText)
	// A capability that would have ended by then cannot be approved.
	q.State, q.Created, q.Expires = issuer.StatePending, now, earlier(now.Add(timeout), q.Until)
	if err := d.append(tx, q, action.ApprovalAsk, q.caller(), evidence.Allow, map[string]any{"question": q.ID, "kind": string(q.Kind), "needs": q.Needs, "expires": q.Expires.UTC().Format(time.RFC3339)}); err != nil {
		return q, err
	}
	q.Told = []string{string(EventAsked)}
	return q, errors.Join(tx.PutQuestion(q), d.tell(tx, EventAsked, q))
}

func (q Question) caller() identity.Caller {
	return identity.Caller{Principal: q.Principal, Holder: identity.Holder{ID: q.Holder}, Agent: q.Requester}
}

// append records an action on a question, in its transaction.
func (d *Desk) append(tx issuer.RecordWriter, q Question, of action.Type, by identity.Caller, decision evidence.Decision, details map[string]any) error {
	r, err := d.config.Issuer.NewRecord(q.Agent, by, of, details)
	if err != nil {
		return err
	}
	r.Decision = decision
	q.causes(&r)
	if decision == evidence.Allow {
		r.OutcomeStatus = evidence.Achieved
	}
	_, err = tx.Append(r)
	return err
}

// causes puts the call on a record about its question, so that its task finds the record.
func (c Cause) causes(r *evidence.Record) {
	r.TaskID, r.Details.Tenant, r.Details.TraceID = c.Task, c.Tenant, c.Trace
}

// outboxWriter is how much of a transaction tell uses.
type outboxWriter interface {
	CountMessages() (map[string]MessageCount, error)
	PutMessage(m Message) error
	DeleteMessage(id string) error
}

// tell has people told of a question, in its transaction. For one that is over,
// the message that it is open is withdrawn.
func (d *Desk) tell(tx outboxWriter, e Event, q Question) error {
	if d.config.Tell == nil {
		return nil
	}
	if q.State != issuer.StatePending {
		for _, name := range d.config.Tell.Names() {
			for _, before := range []Event{EventAsked, EventOverdue} {
				if err := tx.DeleteMessage(messageID(before, q.ID, name)); err != nil {
					return err
				}
			}
		}
	}
	messages, err := d.config.Tell.Messages(News{e, q, d.Page(q.ID)})
	if err != nil || len(messages) == 0 {
		return err
	}
	waiting, err := tx.CountMessages()
	if err != nil {
		return err
	}
	for _, m := range messages {
		if waiting[m.Hook].Waiting >= maxWaiting {
			d.config.Log.Error("a webhook is not told of a question: too much waits for it", slog.String("webhook", m.Hook), slog.String("question", q.ID))
			continue
		}
		if err := tx.PutMessage(m); err != nil {
			return err
		}
	}
	return nil
}

// Use implements [issuer.Questions].
func (in questions) Use(id string, capabilities []string) error {
	q, err := in.tx.Question(id)
	switch {
	case err != nil:
		return err
	case q.State != issuer.StateApproved || len(q.Issued) > 0:
		return issuer.ErrUsed
	}
	// Another node can have written a revocation that this one has not read yet.
	if err := in.desk.config.Issuer.Refresh(in.tx); err != nil {
		return err
	}
	if in.desk.overtaken(q) {
		return issuer.ErrUsed
	}
	q.Issued = capabilities
	return in.tx.PutQuestion(q)
}

// Question returns a question to someone who is asked, or who was.
func (d *Desk) Question(ctx context.Context, who Person, id string) (Question, error) {
	var q Question
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		q, err = d.question(r, id)
		return err
	})
	if notFound(err) || err == nil && !q.MayAnswer(who, d.config.Now()) && !q.Answered(who) {
		return Question{}, agentauth.Errorf(agentauth.CodeNotFound, "there is no request of that id for you")
	}
	return q, err
}

// Questions returns what waits for a person, oldest first: requests in
// the person's own name, and those that the person reviews.
func (d *Desk) Questions(ctx context.Context, who Person) (own, review []Question, err error) {
	now := d.config.Now()
	var open []Question
	err = d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		open, err = d.pending(r)
		return err
	})
	for _, q := range open {
		switch {
		case !q.WaitsFor(who, now):
		case q.Principal == who.Principal:
			own = append(own, q)
		default:
			review = append(review, q)
		}
	}
	return own, review, err
}

// Answer takes a person's word, once (ATK-46).
func (d *Desk) Answer(ctx context.Context, who Person, id string, a Answer) (Question, error) {
	var q Question
	alert := false
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		if err := d.admits(tx, who); err != nil {
			return err
		}
		var err error
		q, err = d.question(tx, id)
		now := d.config.Now()
		switch {
		case notFound(err), err == nil && !q.MayAnswer(who, now) && !q.Answered(who):
			return agentauth.Errorf(agentauth.CodeNotFound, "there is no request of that id for you")
		case err != nil:
			return err
		case !q.Open(now):
			return agentauth.Errorf(agentauth.CodeAlreadyGranted, "the request has been answered, or its time is over; the agent can ask again")
		case !q.WaitsFor(who, now):
			return agentauth.Errorf(agentauth.CodeAlreadyGranted, "you have answered; it waits for another person")
		case a.Seen != "" && a.Seen != Digest(q):
			return errChanged()
		}
		if q, err = d.answered(tx, q, who, a, now); err == nil {
			alert, err = d.alert(tx, q, now)
		}
		if err == nil && alert {
			err = d.tell(tx, EventAlert, q)
		}
		if err == nil && q.State != issuer.StatePending {
			err = d.tell(tx, EventAnswered, q)
		}
		return err
	})
	if err != nil {
		return q, err
	}
	d.deliver()
	if alert {
		d.config.Log.WarnContext(ctx, "people refuse a caller again and again: it may be hijacked, or wears them down",
			slog.String("holder", q.Holder), slog.String("agent", q.Agent), slog.String("caller", q.Requester))
	}
	if q.State != issuer.StatePending {
		d.wake()
	}
	return q, nil
}

// admits refuses someone who was frozen or removed meanwhile.
func (d *Desk) admits(r issuer.AccountReader, who Person) error {
	a, err := r.Account(who.Principal)
	if err != nil && !notFound(err) {
		return err
	}
	return who.Still(a, d.config.Issuer.FrozenPrincipal(who.Principal))
}

func (d *Desk) answered(tx Tx, q Question, who Person, a Answer, now time.Time) (Question, error) {
	chosen, err := narrowed(q, who, a, now)
	if err != nil {
		return q, err
	}
	digest := q.answerDigest(who, a, chosen)
	if a.Proof != "" && a.Proof != digest {
		return q, errChanged()
	}
	asked := q // as it was shown
	// An earlier answer counts no more, or the question would not wait for this one.
	q.Answers = slices.DeleteFunc(slices.Clone(q.Answers), func(g Given) bool { return g.By == who.Principal })
	q.Answers = append(q.Answers, Given{By: who.Principal, Approve: a.Approve, At: now, Digest: digest, Passkey: a.Passkey, Counts: q.counts(who, now)})
	if a.Approve {
		q.Chosen = chosen
	}
	standing, err := d.standing(tx, q)
	if err != nil {
		return q, err
	}
	decision := evidence.Allow
	switch {
	case !a.Approve:
		q.State, q.Ended, q.Reason, decision = issuer.StateDenied, now, agentauth.Plain(a.Reason, maxText), evidence.Deny
	case standing.met():
		q.State, q.Ended, q.Revocations = issuer.StateApproved, now, d.config.Issuer.RevocationSequence()
		q.Approved = asked.approves(chosen)
	}
	if err := tx.PutQuestion(q); err != nil {
		return q, err
	}
	if q.Kind == ForCall && q.State != issuer.StatePending {
		if err := d.decideCall(tx, q, now); err != nil {
			return q, err
		}
	}
	return q, d.append(tx, q, action.ApprovalAnswer, identity.Caller{Principal: who.Principal, Holder: identity.Holder{ID: who.Principal}}, decision, map[string]any{
		"question": q.ID, "kind": string(q.Kind), "by": who.Principal, "approve": a.Approve, "status": string(q.State), "present": who.Present, "digest": digest, "passkey": a.Passkey,
	})
}

// alert reports, once, that people have to refuse a holder again and again, and
// has it on record (ATK-48).
func (d *Desk) alert(tx Tx, q Question, now time.Time) (bool, error) {
	if q.State != issuer.StateDenied {
		return false, nil
	}
	_, denied, err := tx.QuestionsOf(q.Asker(), now.Add(-alertTime))
	if err != nil || denied != alertDenied {
		return false, err
	}
	return true, d.append(tx, q, action.ApprovalAlert, q.caller(), evidence.Deny, map[string]any{"denied": denied, "within": alertTime.String(), "holder": q.Holder})
}

// narrowed reads what an answer leaves of a question. Anything that is wider is refused,
// and so is what leaves nothing.
func narrowed(q Question, who Person, a Answer, now time.Time) (issuer.Chosen, error) {
	if !a.Approve {
		return issuer.Chosen{}, nil
	}
	if !who.Fresh {
		return issuer.Chosen{}, agentauth.Errorf(agentauth.CodeUnauthorized, "your login is too old to approve with; log in anew, in a shell with powerbox login, and then approve")
	}
	if end := earlier(q.Until, q.Chosen.Until); !end.IsZero() && !end.After(now) {
		return issuer.Chosen{}, agentauth.Errorf(agentauth.CodeAlreadyGranted, "what is asked for would have ended at %s, so approving it gives nothing; the agent can ask again", end.UTC().Format(time.RFC3339))
	}
	out := issuer.Chosen{Until: q.Chosen.Until}
	if u := a.Chosen.Until; !u.IsZero() {
		if err := q.mayEnd(u, now); err != nil {
			return out, err
		}
		out.Until = u
	}
	anything := false
	for _, m := range q.Matters {
		var names, resources []string
		for _, op := range m.Operations {
			names = append(names, op.Name)
		}
		if Ended(m, now) {
			if _, err := leave(&out.Operations, m.Grant, names, map[string][]string{m.Grant: {}}, a.Chosen.Operations); err != nil {
				return out, err
			}
			continue
		}
		for _, r := range m.Resources {
			resources = append(resources, r.ID)
		}
		left, err := leave(&out.Operations, m.Grant, names, q.Chosen.Operations, a.Chosen.Operations)
		if err != nil {
			return out, err
		}
		of, err := leave(&out.Resources, m.Grant, resources, q.Chosen.Resources, a.Chosen.Resources)
		if err != nil {
			return out, err
		}
		if left > 0 && of == 0 && len(resources) > 0 {
			return out, agentauth.Errorf(agentauth.CodeInvalidRequest, "nothing is left that %s could be done with; deny it instead", strings.Join(names, ", "))
		}
		anything = anything || left > 0
		if q.Kind == ForCall && (left < len(names) || of < len(resources)) {
			return out, agentauth.Errorf(agentauth.CodeInvalidRequest, "one call is approved as it is, or denied")
		}
	}
	if q.leavesWrites(out) && !who.Present && !who.Unsafe {
		return out, agentauth.Errorf(agentauth.CodeUnauthorized, "this changes something; approve it with a passkey")
	}
	if !anything && slices.ContainsFunc(q.Matters, func(m issuer.Matter) bool { return Ended(m, now) }) {
		return out, agentauth.Errorf(agentauth.CodeAlreadyGranted, "what is left of this request has ended, so approving it gives nothing; the agent can ask again")
	}
	if !anything {
		return out, agentauth.Errorf(agentauth.CodeInvalidRequest, "nothing is ticked: tick what the agent may do, or deny the request")
	}
	return out, nil
}

// mayEnd returns why an answer cannot choose an end, nil where it can.
func (q Question) mayEnd(end, now time.Time) error {
	switch {
	case q.Kind == ForCall:
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "one call has no end to choose")
	case end.After(cmp.Or(q.Chosen.Until, q.Until)) || end.After(q.Until):
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s is later than what is asked for; it can only be narrowed", end.UTC().Format(time.RFC3339))
	case !end.After(now):
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s has passed; choose a later end", end.UTC().Format(time.RFC3339))
	}
	return nil
}

// leavesWrites reports whether the rest of a question changes something.
func (q Question) leavesWrites(left issuer.Chosen) bool {
	for _, m := range q.Matters {
		some, narrowed := left.Operations[m.Grant]
		for _, op := range m.Operations {
			if op.Write && (!narrowed || slices.Contains(some, op.Name)) {
				return true
			}
		}
	}
	return false
}

// leave notes the remaining names of a grant, and how many there are: those that
// someone has left before, as far as they are left now.
func leave(out *map[string][]string, grant string, all []string, before, now map[string][]string) (int, error) {
	left := all
	if earlier, narrowed := before[grant]; narrowed {
		left = earlier
	}
	chosen, narrowed := now[grant]
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return 0, agentauth.Errorf(agentauth.CodeInvalidRequest, "%q is not asked for; a request can only be narrowed", name)
		}
	}
	if narrowed {
		left = slices.DeleteFunc(slices.Clone(left), func(n string) bool { return !slices.Contains(chosen, n) })
	}
	if len(left) < len(all) {
		if *out == nil {
			*out = map[string][]string{}
		}
		(*out)[grant] = append([]string{}, left...)
	}
	return len(left), nil
}

func errChanged() error {
	return agentauth.Errorf(agentauth.CodeChanged, "the request has changed since it was shown; look at it again")
}

// Now is the time by the desk's clock.
func (d *Desk) Now() time.Time { return d.config.Now() }
