package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// A call of a tool has no task that could wait. A client that sends its user to URLs is
// given the page on which a person answers, and makes the same call again (ADR 121).

// Asks asks people about calls whose callers keep them and make them again. A refusal has
// a method Denial() a2a.Denial.
type Asks interface {
	// Asked returns what people said of a call, by its key; false where they must be
	// asked.
	Asked(ctx context.Context, agent, key string) (AskedCall, bool, error)
	// Ask asks people, once.
	Ask(ctx context.Context, c HeldCall) (AskedCall, error)
	// Begin returns the capability that people gave for the call; false where there is
	// none.
	Begin(ctx context.Context, agent string, c AskedCall) (string, bool, error)
	// Made tells what the gate said of the call under that capability.
	Made(ctx context.Context, c AskedCall, failed bool, decision string) error
}

// AskedCall is what people have said of a call. Its state is [a2a.OwnAuthRequired] while
// they have said nothing, and [a2a.OwnWorking] once they have approved it.
type AskedCall struct {
	Key, Question, Task string
	State               a2a.OwnState
	URL                 string // of the page
	Expires             time.Time
	Denied              string // code of a no, "" for none
}

const (
	// maxPatient is how many calls of an agent wait for a person at a time. A call more
	// is answered at once, and its client asks its user again.
	maxPatient = 64
	// patience is how long a call waits, and lookEvery how often it looks for an answer.
	patience  = 20 * time.Second
	lookEvery = time.Second
)

// elicits reports whether the client of a tool call can be sent to a page. It has to
// declare that: with the call in revision 2026-07-28, and when its session began in
// revision 2025-11-25. A call that carries a secret, or answers and state of the server,
// is not the same call when it comes again.
func (g *Gateway) elicits(x *decided) bool {
	if !x.isNamed || x.mcp.Answers || x.mcp.State || !g.keepable(x) {
		return false
	}
	mine := g.ownerOf(x.decoded, x.verdict.Held)
	if x.mcp.Stateless() {
		return x.mcp.URLs && (x.mcp.Approval == "" || x.mcp.Approval == mcp.Accepted)
	}
	session, ok := x.session()
	if !ok || x.mcp.Revision != mcp.LatestWithSessions {
		return false
	}
	o, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, "", reference{sendsToURLs, session}.key())
	return err == nil && known && o == mine
}

// keepable reports whether a caller can keep a call and make it again after an approval: it
// is told from other callers, and the call has no secret for the agent.
func (g *Gateway) keepable(x *decided) bool {
	return g.config.Asks != nil && (x.consumed || x.request.Header.Get("Authorization") == "") && g.ownerOf(x.decoded, x.verdict.Held) != (Owner{})
}

// boundTool is the digest of a tool call that a person has to approve: the tool, the
// arguments as they are forwarded, and the caller's headers that are forwarded. It leaves
// out what every try of a client has of its own, such as id and session.
func (x *decoded) boundTool() string {
	parts := []string{"powerbox tool call/v1", x.ID, x.target(), x.mcp.Tool, string(x.mcp.Arguments.AppendSource(nil)), purpose(x.request.Header)}
	for _, name := range x.Headers {
		parts = append(parts, name, fmt.Sprintf("%q", x.request.Header.Values(name)))
	}
	return digestOf(parts...)
}

// elicit sends the client of a tool call to the page on which a person answers, or makes
// the call where a person has approved it. The gate has allowed everything but the missing
// approval, so the caller's proof is verified.
func (g *Gateway) elicit(w http.ResponseWriter, x *decided, send func(http.ResponseWriter, *concluded, AskedCall)) {
	ctx := x.request.Context()
	c, err := g.heldCall(x)
	if err != nil {
		g.refused(w, denied(x), err)
		return
	}
	c.Key = digestOf(c.Owner.Root, c.Owner.Principal, c.Owner.Holder, c.Caller.Principal, c.Digest)
	said, known, err := g.config.Asks.Asked(ctx, x.ID, c.Key)
	if err == nil && !known {
		said, err = g.config.Asks.Ask(ctx, c)
	}
	if err == nil && known && said.State == a2a.OwnAuthRequired && x.mcp.Approval == mcp.Accepted && x.carries == nil {
		said, err = g.awaited(ctx, x, c.Key, said)
	}
	if err != nil {
		g.refused(w, denied(x), err)
		return
	}
	switch said.State {
	case a2a.OwnAuthRequired:
		send(w, denied(x), said)
	case a2a.OwnWorking:
		g.makeApproved(w, x, c, said)
	default:
		d := g.because(x, evidence.Reason{Code: said.Denied, Message: "a person has refused this call; do not try it again unless the user wants you to"})
		if said.Denied != codeDenied {
			d.Message = "no person approved this call in time; tell the user, and try again later if it is still wanted"
		}
		g.deny(w, denied(x), d)
	}
}

// codeDenied is the denial of a call that a person has refused.
const codeDenied = "approval_denied"

// awaited waits a while for a person whose client says that the page is open.
func (g *Gateway) awaited(ctx context.Context, x *decided, key string, said AskedCall) (AskedCall, error) {
	select {
	case x.patient <- struct{}{}:
		defer func() { <-x.patient }()
	default:
		return said, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for said.State == a2a.OwnAuthRequired {
		select {
		case <-ctx.Done():
			return said, nil
		case <-tick.C:
		}
		now, known, err := g.config.Asks.Asked(ctx, x.ID, key)
		switch {
		case ctx.Err() != nil || err == nil && !known:
			return said, nil // its client asks again
		case err != nil:
			return said, err
		}
		said = now
	}
	return said, nil
}

// send answers a call with the page on which a person is asked.
func (g *Gateway) send(w http.ResponseWriter, x *concluded, said AskedCall) {
	page := mcp.Page{ID: said.Question, URL: said.URL, Message: fmt.Sprintf(
		"A person has to approve this call of the tool %q of %s, until %s. Open the page; the call is made when it comes again after the approval.",
		x.mcp.Tool, x.ID, said.Expires.UTC().Format(time.RFC3339),
	)}
	body := page.Required(x.call.ID)
	if x.mcp.Stateless() {
		body = page.Asks(x.call.ID)
	}
	h := w.Header()
	h.Set(HeaderOutcome, "held")
	h.Set(HeaderDecision, x.verdict.Record.ID)
	h.Set("Cache-Control", "no-store")
	g.write(w, http.StatusOK, typeJSON, body)
}

// sendAway denies a call with the page on which a person answers.
func (g *Gateway) sendAway(w http.ResponseWriter, x *concluded, said AskedCall) {
	d := g.because(x.decided, gate.Worded(powerbox.Reason{Code: gate.CodeApproval}))
	d.ApprovalURL, d.Retryable = said.URL, true
	d.Fix = fmt.Sprintf("open %s before %s, and send exactly the same call after the approval: it is then allowed once", said.URL, said.Expires.UTC().Format(time.RFC3339))
	g.deny(w, x, d)
}

// makeApproved makes a call that a person has approved, once: it is decided anew, under
// the capability that was given for it alone.
func (g *Gateway) makeApproved(w http.ResponseWriter, x *decided, c HeldCall, said AskedCall) {
	ctx := x.request.Context()
	capability, ok, err := g.config.Asks.Begin(ctx, x.ID, said)
	if err != nil || !ok {
		g.unavailable(w, denied(x), "what a person approved cannot be had now, or another call has used it", err)
		return
	}
	by := *x.identified
	by.caller = c.Caller
	by.caller.ProofID = "" // the first decision has used it
	by.released = &Released{Question: said.Question, Task: said.Task, Agent: x.ID, Capability: capability, Owner: c.Owner}
	under := *x.decoded
	under.identified = &by
	d, err := g.decide(&under)
	if err != nil {
		g.unavailable(w, denied(x), "the approved call could not be decided or the decision not recorded, so it does not go on", err)
		return
	}
	if wrong := g.config.Asks.Made(context.WithoutCancel(ctx), said, !d.verdict.Allowed, d.verdict.Record.ID); wrong != nil {
		g.config.Log.ErrorContext(ctx, "that an approved call was decided is not noted", "question", said.Question, "error", wrong)
	}
	if !d.verdict.Allowed {
		g.deny(w, denied(d), g.denial(d))
		return
	}
	g.allowed(w, d)
}
