package provider

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// challenge asks a person. It replaces an earlier question about the same agent that is
// not answered: the code of that one dies (AAP-A12).
func (p *Provider) challenge(tx Tx, h Host, a Agent, grants []Grant, kind Kind, asking Asking, now time.Time) (*Challenge, error) {
	open, err := tx.PendingApprovals()
	if err != nil {
		return nil, err
	}
	for _, old := range open {
		if old.Agent != a.ID || old.Kind == ForCapability || kind == ForCapability {
			continue
		}
		old.Status, old.Answered, old.Ended = agentauth.Expired, now, endedAgain
		if err := tx.PutApproval(old); err != nil {
			return nil, err
		}
	}
	user, ciba, err := p.addressed(tx, h, a, kind, asking, open, now)
	if err != nil {
		return nil, err
	}
	id, err := p.config.Issuer.NewID("apr_")
	if err != nil {
		return nil, err
	}
	ap := Approval{
		ID: id, Kind: kind, Method: agentauth.DeviceAuthorization, Agent: a.ID, Host: h.ID, User: user,
		Reason: plain(asking.Reason, maxReasonText), From: asking.From, Message: plain(asking.Message, maxMessageText), Status: agentauth.Pending,
		Created: now, Expires: now.Add(p.config.Approval),
	}
	for _, g := range grants {
		if g.Status == agentauth.Pending {
			ap.Grants = append(ap.Grants, g.ID)
		}
	}
	code := ""
	if ciba {
		ap.Method, ap.Message = agentauth.CIBA, binding(asking, a)
	} else if code, ap.Code, err = p.code(); err != nil {
		return nil, err
	}
	return &Challenge{ap, code}, tx.PutApproval(ap)
}

// code makes a user code, and the hash of it that is stored.
func (p *Provider) code() (shown string, stored []byte, err error) {
	if shown, err = newCode(p.config.Random); err != nil {
		return "", nil, err
	}
	normal, _ := NormalCode(shown)
	return shown, p.codeHash(normal), nil
}

// Person answers questions.
type Person = people.Person

// Decision is a person's word on one grant.
type Decision struct {
	Grant       string
	Approve     bool
	Constraints powerbox.Value // narrower ones; null leaves them
	Until       time.Time      // an end before that of the agent; zero for none
	Reason      string         // why it is denied, told to the agent; "" for the answer's
}

// Answer is a person's word on an approval.
type Answer struct {
	Deny      bool // everything, and an agent that waits is rejected
	Decisions []Decision
	Reason    string // told to the agent
	// Seen is the [Provider.Digest] of the page as shown to the person, "" where it was not
	// a page. A question that has changed since is not answered.
	Seen string
	// Language is the one in which a page showed the question, "" where there was no page.
	// What the passkey signs names it (ADR 131).
	Language string
	// Proof is the [Provider.AnswerDigest] that the person's passkey signed, "" for
	// none, and Passkey which one it was. Another answer than that is not taken.
	Proof, Passkey string
}

// why is the person's reason to deny one grant, "" for none of its own.
func (a Answer) why(grant string) string {
	for _, d := range a.Decisions {
		if d.Grant == grant && !d.Approve {
			return d.Reason
		}
	}
	return ""
}

// Question is an approval as the person who is asked sees it.
type Question struct {
	Approval Approval
	Agent    Agent
	Host     Host
	Grants   []Grant // the grants that are asked for
	Held     []Grant // the grants of the agent
	Denied   []Grant // the grants that a person refused it before
	// Claimed are the agents that act on their own and end with the answer, unless it is
	// a denial: the host becomes that of a person, and they are claimed (AAP-U3).
	Claimed []Agent
}

// ByCode returns the question of a user code. An unknown code, one that is over,
// and one of another person are one answer.
func (p *Provider) ByCode(ctx context.Context, who Person, code string) (Question, error) {
	unknown := agentauth.Errorf(agentauth.CodeNotFound, "there is no open request of that code")
	normal, ok := NormalCode(code)
	if !ok {
		return Question{}, unknown
	}
	if !p.mayGuess(who) {
		e := agentauth.Errorf(agentauth.CodeRateLimited, "too many codes that are none; try again in %s", guessTime)
		e.RetryAfter = int(guessTime / time.Second)
		return Question{}, e
	}
	var q Question
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		ap, err := r.ApprovalByCode(p.codeHash(normal))
		if err == nil {
			q, err = p.question(r, ap)
		}
		return err
	})
	if err != nil && !notFound(err) {
		return Question{}, err
	}
	if err != nil || !q.Approval.Open(p.config.Now()) || !p.mayAnswer(who, q) {
		return Question{}, unknown
	}
	p.guessedRight(who)
	return q, nil
}

// Question returns the question of an approval's id.
func (p *Provider) Question(ctx context.Context, who Person, id string) (Question, error) {
	var q Question
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		ap, err := r.Approval(id)
		if err == nil {
			q, err = p.question(r, ap)
		}
		return err
	})
	if notFound(err) || err == nil && !p.mayAnswer(who, q) {
		return Question{}, agentauth.Errorf(agentauth.CodeNotFound, "there is no request of that id for you")
	}
	return q, err
}

// Questions returns the requests that wait for a person, newest first. A request without
// a user yet is listed for no person: anyone who has its code can answer it.
func (p *Provider) Questions(ctx context.Context, who Person) ([]Question, error) {
	var out []Question
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		out = nil // it may run again
		open, err := r.PendingApprovals()
		if err != nil {
			return err
		}
		r = remember(r)
		for _, ap := range open {
			q, err := p.question(r, ap)
			if err != nil {
				return err
			}
			if p.Open(q) && p.mayAnswer(who, q) && (q.user() != "" || p.config.Administrator(who.Principal, who.Groups)) {
				out = append(out, q)
			}
		}
		return nil
	})
	return out, err
}

func (p *Provider) question(r Reader, ap Approval) (Question, error) {
	q := Question{Approval: ap}
	var err error
	if q.Agent, err = r.HostAgent(ap.Agent); err != nil {
		return q, err
	}
	if q.Host, err = r.Host(ap.Host); err != nil {
		return q, err
	}
	all, err := p.grants(r, ap.Agent)
	now := p.config.Now()
	for _, g := range all {
		switch {
		case slices.Contains(ap.Grants, g.ID):
			q.Grants = append(q.Grants, g)
		case g.Effective(now):
			q.Held = append(q.Held, g)
		case g.Status == agentauth.Denied:
			q.Denied = append(q.Denied, g)
		}
	}
	q.Grants, q.Held = p.effective(q.Grants), p.effective(q.Held)
	if err == nil && ap.Status == agentauth.Pending && q.links() {
		q.Claimed, err = p.claimed(r, q.Host, now)
	}
	return q, err
}

// mayAnswer reports whether a person may answer: the user that the host is linked
// to by now; anyone who has the code where it has none; for autonomous agents of such
// a host an administrator alone (AAP-A2, AAP-P4, AAP-U2).
func (p *Provider) mayAnswer(who Person, q Question) bool {
	switch user := q.user(); {
	case who.Principal == "":
		return false
	case p.config.Administrator(who.Principal, who.Groups), user == who.Principal:
		return true
	default:
		return user == "" && q.Approval.Method != agentauth.CIBA && (q.Agent.Mode == agentauth.Delegated || q.Approval.Kind == ForClaim)
	}
}

// user is the person who has to answer, "" for none in particular.
func (q Question) user() string {
	if q.Host.User != "" {
		return q.Host.User
	}
	return q.Approval.User
}

// Answer answers an approval, once (AAP-A5, AAP-R8, ATK-46).
func (p *Provider) Answer(ctx context.Context, who Person, id string, answer Answer) (AgentState, error) {
	var out AgentState
	err := p.updateBy(ctx, who, func(tx Tx, u *unit) error {
		ap, err := tx.Approval(id)
		var q Question
		if err == nil {
			q, err = p.question(tx, ap)
		}
		if notFound(err) || err == nil && !p.mayAnswer(who, q) {
			return agentauth.Errorf(agentauth.CodeNotFound, "there is no request of that id for you")
		}
		if err != nil {
			return err
		}
		now := p.config.Now()
		if why := p.Over(q); why != "" {
			return agentauth.Errorf(agentauth.CodeAlreadyGranted, "the request cannot be answered any more: %s", why)
		}
		if !p.Open(q) {
			return agentauth.Errorf(agentauth.CodeAlreadyGranted, "the request has been answered; the agent can ask again")
		}
		out, err = p.answered(tx, u, who, q, answer, now)
		return err
	})
	return out, err
}

func errStale() error {
	return agentauth.Errorf(agentauth.CodeUnauthorized, "your login is too old for what gives rights; log in anew, in a shell with powerbox login, and do it then (AAP-A6)")
}

func (p *Provider) answered(tx Tx, u *unit, who Person, q Question, answer Answer, now time.Time) (AgentState, error) {
	if !answer.Deny && !who.Fresh {
		return AgentState{}, errStale()
	}
	if answer.Seen != "" && answer.Seen != p.Digest(q) {
		return AgentState{}, errChanged()
	}
	approved, err := p.decided(&q, who, answer)
	if err != nil {
		return AgentState{}, err
	}
	if gives := p.Entails(q); len(gives) > 0 && !answer.Deny && !who.Present && !who.Unsafe {
		return AgentState{}, agentauth.Errorf(agentauth.CodeUnauthorized, "the host becomes yours with this, and whatever agent it registers then has %q without asking; approve it on the page, with a passkey (AAP-A7)", gives[0].Name)
	}
	signed, gives := p.answerDigest(q, who, answer, approved), p.approves(q, who, answer, approved)
	if answer.Proof != "" && answer.Proof != signed {
		return AgentState{}, errChanged()
	}
	if err := p.becomes(tx, u, &q, who, answer.Deny, now); err != nil {
		return AgentState{}, err
	}
	q.Agent.Updated = now
	if err := tx.PutHostAgent(q.Agent); err != nil {
		return AgentState{}, err
	}
	for i := range q.Grants {
		g := &q.Grants[i]
		switch {
		case approved[g.ID]:
			err = p.activate(tx, &q.Agent, g, who.Principal, now)
		case g.Status == agentauth.Pending: // one that was taken back stays so (AAP-M3)
			g.Status, g.DeniedBy, g.Updated = agentauth.Denied, who.Principal, now
			g.Reason = cmp.Or(plain(answer.why(g.ID), maxReasonText), plain(answer.Reason, maxReasonText), notApproved)
			err = tx.PutGrant(*g)
		}
		if err != nil {
			return AgentState{}, err
		}
	}
	q.Approval.Status, q.Approval.By, q.Approval.Answered, q.Approval.Approved = agentauth.Active, who.Principal, now, gives
	if len(approved) == 0 && (answer.Deny || q.Approval.Kind != ForClaim) {
		q.Approval.Status = agentauth.Denied
	}
	if err := tx.PutApproval(q.Approval); err != nil {
		return AgentState{}, err
	}
	grants, err := p.grants(tx, q.Agent.ID)
	if err != nil {
		return AgentState{}, err
	}
	return p.standing(q.Host, q.Agent, grants, nil), p.append(tx, who.Principal, q.Agent.User, action.ApprovalAnswer, map[string]any{
		"approval": q.Approval.ID, "kind": string(q.Approval.Kind), "agent": q.Agent.ID, "host": q.Host.ID, "status": string(q.Approval.Status), "grants": asApproved(q.Grants),
		"present": who.Present, "approved": len(approved), "by": who.Principal, "digest": signed, "passkey": answer.Passkey,
	})
}

// becomes sets the states of the agent and the host of a question by the answer.
func (p *Provider) becomes(tx Tx, u *unit, q *Question, who Person, deny bool, now time.Time) error {
	switch {
	case q.Approval.Kind == ForCapability:
		return nil
	case q.Approval.Kind == ForClaim && deny:
		q.Agent.Claim = agentauth.Denied
		return nil
	case q.Approval.Kind == ForClaim:
		return p.takeOver(tx, u, q, who, now)
	case !deny:
		if err := p.link(tx, u, q, who, now); err != nil {
			return err
		}
		q.Agent.Status, q.Agent.Activated, q.Agent.LastUsed = agentauth.Active, now, now
		return nil
	}
	q.Agent.Status = agentauth.Rejected
	if q.Host.Status == agentauth.Pending {
		return p.reject(tx, q, now)
	}
	return nil
}

// stands reports whether the subject of a question is still as it was: an agent that
// waits, or for more capabilities one that has not ended (AAP-M1, ATK-51).
func (q Question) stands(now time.Time) bool {
	state := q.Agent.at(now)
	switch {
	case q.Host.Status != agentauth.Active && q.Host.Status != agentauth.Pending:
		return false
	case q.Approval.Kind == ForCapability:
		return state == agentauth.Active || state == agentauth.Expired
	case q.Approval.Kind == ForClaim:
		return mayAct(q.Agent, now) && q.Host.User == ""
	}
	return state == agentauth.Pending
}

// Open reports whether a question can be approved: it was not answered, its subject is
// as it was, and something of the requested grants is left.
func (p *Provider) Open(q Question) bool {
	return q.Approval.Status == agentauth.Pending && p.Over(q) == ""
}

// Over is why a question ended without an answer, "" for one that was answered or can
// be.
func (p *Provider) Over(q Question) string {
	now := p.config.Now()
	switch {
	case q.Approval.Ended != "":
		return q.Approval.Ended
	case q.Approval.Status != agentauth.Pending:
		return ""
	case !q.Approval.Open(now):
		return endedTime
	case q.Host.Status != agentauth.Active && q.Host.Status != agentauth.Pending:
		return endedHost
	case !q.stands(now):
		return endedAgent
	case q.Approval.Kind == ForCapability && !slices.ContainsFunc(q.Grants, func(g Grant) bool { return g.Status == agentauth.Pending && p.offered(g) }):
		return endedGone
	}
	return ""
}

// offered reports whether the capability of a grant can be had by now.
func (p *Provider) offered(g Grant) bool {
	c := p.capabilities[g.Capability]
	return c != nil && !c.Blocked && p.Remains(g)
}

// Why a question ends without an answer, as its agent and the people who were asked are
// told.
const (
	endedTime      = "its time ran out before anybody answered; the agent can ask again"
	endedAgent     = "the agent ended or expired before anybody answered"
	endedHost      = "the host of the agent ended before anybody answered"
	endedUnlinked  = "the host was unlinked from its user before anybody answered; the agent can ask again"
	endedRejected  = "the host of the agent was rejected"
	endedTakenBack = "all that it asks for was taken back before anybody answered"
	endedGone      = "nothing of what it asks for is offered any more"
	endedAgain     = "the agent asked again, and the new question counts"
	endedRenewed   = "the agent was reactivated with what it has without asking; it can ask again"
)

// decided reads the person's word on each grant. Anything that was not spoken of is denied.
func (p *Provider) decided(q *Question, who Person, answer Answer) (map[string]bool, error) {
	approved := map[string]bool{}
	if answer.Deny {
		return approved, nil
	}
	for _, d := range answer.Decisions {
		i := slices.IndexFunc(q.Grants, func(g Grant) bool { return g.ID == d.Grant })
		if i < 0 {
			return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "grant %q is not asked for in this request", clipped(d.Grant))
		}
		g := &q.Grants[i]
		if !d.Approve || g.Status != agentauth.Pending {
			continue
		}
		c := p.capabilities[g.Capability]
		switch {
		case c == nil || c.Blocked:
			return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "capability %q has been removed and cannot be granted", g.Capability)
		case !p.Remains(*g):
			return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "nothing of what is asked for of %q remains within what the server holds it to by now, and it cannot be granted", g.Capability)
		case !d.Until.IsZero() && !d.Until.After(p.config.Now()):
			return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "%q would be over before it began; choose a later end", g.Capability)
		case c.Sensitivity != Read && !who.Present && !who.Unsafe:
			return nil, agentauth.Errorf(agentauth.CodeUnauthorized, "capability %q changes something; approve it with a passkey (AAP-A7)", g.Capability)
		}
		if d.Constraints.Kind() != powerbox.KindNull {
			narrower, err := p.narrowed(*g, d.Constraints)
			if err != nil {
				return nil, err
			}
			g.Constraints = narrower
		}
		if !d.Until.IsZero() && (g.Expires.IsZero() || d.Until.Before(g.Expires)) {
			g.Expires = d.Until
		}
		approved[g.ID] = true
	}
	return approved, nil
}

// reject ends a host that its person rejected, with the agents that wait under it
// (AAP-M2).
func (p *Provider) reject(tx Tx, q *Question, now time.Time) error {
	q.Host.Status, q.Host.Updated = agentauth.Rejected, now
	if err := tx.PutHost(q.Host); err != nil {
		return err
	}
	agents, err := tx.HostAgents(q.Host.ID)
	if err != nil {
		return err
	}
	for _, a := range agents {
		if a.ID == q.Agent.ID || terminal(a.Status) {
			continue
		}
		a.Status, a.Updated = agentauth.Rejected, now
		if err := tx.PutHostAgent(a); err != nil {
			return err
		}
		if err := p.dismiss(tx, &a, "host", endedRejected, now); err != nil {
			return err
		}
		if err := p.refuse(tx, a.ID, "host", notAnswered, now); err != nil {
			return err
		}
	}
	return nil
}

// The reasons of denials that came without one.
const (
	notApproved = "the person who answered the request did not approve it"
	notAnswered = "the request ended before anybody answered it"
)

// refuse denies the unanswered requests of an agent.
func (p *Provider) refuse(tx Tx, agent, by, why string, now time.Time) error {
	grants, err := p.grants(tx, agent)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Status != agentauth.Pending {
			continue
		}
		g.Status, g.DeniedBy, g.Reason, g.Updated = agentauth.Denied, by, why, now
		if err := tx.PutGrant(g); err != nil {
			return err
		}
	}
	return nil
}

// links reports whether an answer that is no denial makes anyone who gives it the user of
// the host.
func (q Question) links() bool {
	switch {
	case q.Host.User != "" || q.Approval.Kind == ForCapability:
		return false
	case q.Approval.Kind == ForClaim:
		return true
	}
	return q.Agent.Mode == agentauth.Delegated
}

// Entails are the defaults that change something and that agents of the host of a
// question have from its answer on, without another question. The person who gives them
// so must be present, as for each of them alone (AAP-P3, AAP-A7, AAP-A10).
func (p *Provider) Entails(q Question) (out []*Capability) {
	if !q.links() {
		return nil
	}
	for _, name := range p.defaults(q.Host) {
		if c := p.capabilities[name]; c != nil && c.Sensitivity != Read {
			out = append(out, c)
		}
	}
	return out
}

// link makes a host active and, for a delegated agent, the person its user. The
// autonomous agents of a host that gets a user are claimed (AAP-U3, AAP-M6).
func (p *Provider) link(tx Tx, u *unit, q *Question, who Person, now time.Time) error {
	if q.Host.Status == agentauth.Pending {
		q.Host.Status, q.Host.Activated = agentauth.Active, now
	}
	linked := q.links()
	if linked {
		q.Host.User, q.Host.Vouched = who.Principal, vouches(who)
	}
	if q.Agent.Mode == agentauth.Delegated {
		q.Agent.User = q.Host.User
	}
	q.Host.Updated = now
	if err := tx.PutHost(q.Host); err != nil {
		return err
	}
	if !linked {
		return nil
	}
	return p.claim(tx, u, q.Host, who.Principal, now)
}

// mayAct reports whether an agent, as it is stored, is active here or at another node:
// either may know of a request that is not stored, since [Provider.touch] stores one
// when a tenth of the session has gone since the last.
func mayAct(a Agent, now time.Time) bool {
	a.Clocks.Session += a.Clocks.Session / 10
	return a.at(now) == agentauth.Active
}

// claimed are the agents of a host that are claimed once it has a user.
func (p *Provider) claimed(r AgentReader, h Host, now time.Time) ([]Agent, error) {
	agents, err := r.HostAgents(h.ID)
	return slices.DeleteFunc(agents, func(a Agent) bool { return a.Mode != agentauth.Autonomous || !mayAct(a, now) }), err
}

// claim ends the autonomous agents of a host that got a user: those that are active.
// One that has expired is left as it is, and comes back, if it does, as an agent of the
// user's host (sections 2.10 and 5.6).
func (p *Provider) claim(tx Tx, u *unit, h Host, by string, now time.Time) error {
	agents, err := p.claimed(tx, h, now)
	if err != nil {
		return err
	}
	for _, a := range agents {
		a.User, a.Claim = h.User, agentauth.Claimed // whose the history is from now on
		if err := p.end(tx, u, a, agentauth.Claimed, by, now); err != nil {
			return err
		}
		if err := p.append(tx, by, h.User, action.AgentClaim, map[string]any{"agent": a.ID, "host": h.ID}); err != nil {
			return err
		}
	}
	return nil
}
