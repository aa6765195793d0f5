package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder/guard"
	"github.com/powerbox-project/powerbox/internal/cli/design"
	"github.com/powerbox-project/powerbox/internal/handoff"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// demoUser is the name of the user's own client in the demo's scopes.
const demoUser = "user"

// demoGuard is the token of the program that asks before its agents hand anything on.
const demoGuard = "demo-guard-of-the-town-0123456789abcdef"

// heard counts the bytes that come in on a listener.
type heard struct {
	net.Listener
	bytes atomic.Int64
}

// Accept implements net.Listener.
func (h *heard) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &heardConn{c, &h.bytes}, nil
}

type heardConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// inquiring has agents ask the gate before they open a client: a refused call is not
// even asked for its card.
type inquiring struct {
	next quarterly.Outgoing
	ask  func(ctx context.Context, from, to string) error
}

// Client implements quarterly.Outgoing.
func (a inquiring) Client(ctx context.Context, to quarterly.Peer, in quarterly.Incoming) (*a2aclient.Client, error) {
	if err := a.ask(ctx, cmp.Or(in.Agent, demoUser), to.Name); err != nil {
		return nil, err
	}
	return a.next.Client(ctx, to, in)
}

// asks has the gate say whether one agent may hand anything to another. A decision
// that forbids it is kept, for the auditor.
func (d *demo) asks(ctx context.Context, from, to string) error {
	if d.gate == nil {
		return nil
	}
	said, err := d.gate.Check(ctx, guard.Attempt{From: from, To: to, Purpose: "act 4"})
	if err != nil {
		if errors.Is(err, powerbox.ErrDenied) {
			d.refusals = append(d.refusals, said)
		}
		return err
	}
	return d.gate.Outcome(ctx, said, nil) // to hand over is all that was asked about
}

// preflight is act 4: a path is refused before any message, first for what the cards
// declare, then for the scopes; then the agents ask automatically.
func (d *demo) preflight(ctx context.Context) (err error) {
	d.out.act("Act 4: a path is refused before any message")
	route := []string{demoUser, quarterly.Orchestrator, quarterly.Summariser, quarterly.Mail}
	all := []string{quarterly.Documents, quarterly.Mail, quarterly.Orchestrator, quarterly.Summariser}
	for _, agent := range all {
		if err := d.instance.Issuer.SetMode(ctx, "operator", agent, string(gate.Scoped)); err != nil {
			return err
		}
	}
	defer func() {
		d.gate = nil
		for _, agent := range all { // as in the configuration
			err = errors.Join(err, d.instance.Issuer.SetMode(ctx, "operator", agent, ""))
		}
	}()
	d.out.say("The operator:  powerbox mode AGENT scoped, for all four: without a capability an agent is held to its scopes.")
	d.out.say("The plan: %s, which mails the summary. Its cards are read, and the gate is asked about every hop:", strings.Join(route, " > "))
	d.gate = &guard.Gate{URL: d.base, Token: demoGuard, HTTP: d.http}
	before := d.mail.bytes.Load()
	if err := d.contract(ctx, route); err != nil {
		return err
	}
	d.hops(ctx, route)
	d.out.say("The hijacked agents again, which now check before they delegate:")
	seen := len(d.town.Calls())
	if _, err := d.asUser(ctx, d.gatewayURL(quarterly.Orchestrator)); err != nil {
		return fmt.Errorf("the task itself must still work: %w", err)
	}
	d.handed(d.town.Calls()[seen:])
	if n := len(d.refusals); n > 0 {
		last := d.refusals[n-1]
		d.out.say("On record as %s: origin %s, target %s, required %s, missing %s", last.ID, last.Origin, last.Target, set(last.Required), set(last.Missing))
	}
	came := d.mail.bytes.Load() - before
	d.out.say("What the mail agent received: %s", plain.Count(int(came), "byte"))
	if len(d.refusals) != 2 || came != 0 {
		d.failures = append(d.failures, fmt.Sprintf("%d hand-offs were refused, and the mail agent heard %d bytes", len(d.refusals), came))
	}
	return nil
}

func set(names []string) string { return "{" + strings.Join(names, ", ") + "}" }

// contract holds the path against what the cards declare.
func (d *demo) contract(ctx context.Context, route []string) error {
	var hops []agentcard.Hop
	for i, to := range route[1:] {
		raw, err := design.ReadCard(ctx, d.p, d.gatewayURL(to), design.CardSource{Private: true})
		if err != nil {
			return err
		}
		card, err := agentcard.Parse(raw)
		if err != nil {
			return err
		}
		hops = append(hops, agentcard.Hop{From: route[i], To: to, Card: card})
	}
	hops[len(hops)-1].Needs.Features = []string{"streaming_message"}
	answer := agentcard.CheckPath(hops, false)
	if answer.Compatible {
		d.failures = append(d.failures, "the mail agent's card is taken to declare what it does not")
	}
	for _, f := range answer.Failures {
		d.out.say("  by the cards   %s", d.out.green(f))
	}
	hops[len(hops)-1].Needs.Features = nil
	if again := agentcard.CheckPath(hops, false); !again.Compatible {
		d.failures = append(d.failures, "the path without it: "+strings.Join(again.Failures, "; "))
	}
	d.out.say("  by the cards   without that need: the path holds")
	return nil
}

// hops asks the gate about every hop, until one is refused.
func (d *demo) hops(ctx context.Context, route []string) {
	for i, to := range route[1:] {
		hop := fmt.Sprintf("%-12s -> %-12s", route[i], to)
		if err := d.asks(ctx, route[i], to); err != nil {
			d.out.say("  by the scopes  %s %s", hop, d.out.green(err.Error()))
			return
		}
		d.out.say("  by the scopes  %s ok", hop)
	}
}

// handed says what agents did with the gate's answers.
func (d *demo) handed(calls []quarterly.Call) {
	for _, c := range calls {
		line := fmt.Sprintf("%-12s -> %-12s %s", cmp.Or(c.From, demoUser), c.To, c.Skill)
		var refused *guard.Refused
		switch {
		case errors.As(c.Err, &refused):
			d.out.say("  %s", d.out.green(fmt.Sprintf("%-48s NOT SENT: %s", line, refused)))
		case c.Err != nil:
			d.out.say("  %s", d.out.green(fmt.Sprintf("%-48s sent, and refused at the gateway", line)))
		default:
			d.out.say("  %s", line)
		}
	}
}

// radius is the map: what every agent could reach if what it reads took it over,
// from the wiring of act 0 and the scopes of act 1, and what the hijacked one held.
func (d *demo) radius(ctx context.Context) error {
	d.out.act("The map: who could have reached what")
	declared := handoff.New()
	if err := design.Configured(ctx, d.p, declared, design.GraphFlags{Config: d.file, Fetch: true, From: design.CardSource{Private: true}}); err != nil {
		return err
	}
	wired := []handoff.Wire{{From: demoUser, To: quarterly.Orchestrator}}
	for _, a := range d.instance.Config.Agents {
		for _, to := range d.town.Peers(a.ID) {
			wired = append(wired, handoff.Wire{From: a.ID, To: to})
		}
	}
	for _, w := range wired {
		for _, a := range d.instance.Config.Agents {
			if a.ID == w.To {
				w.Requires = a.Required
			}
		}
		declared.Wires = append(declared.Wires, w)
	}
	graph, err := declared.Graph()
	if err != nil {
		return err
	}
	d.out.say("  %-14s%-14s%-58s%s", "taken over", "reaches", "ambient: along the wires of act 0", "gated: by its scopes")
	for _, agent := range []string{demoUser, quarterly.Orchestrator, quarterly.Summariser} {
		d.mapped(agent, graph.Reach(agent))
	}
	d.out.say("  What the hijacked summariser held, of what its scopes allow:")
	if held := d.outgoing.Held(quarterly.Summariser); len(held) > 0 { // the same for every task
		d.out.say("    %s", d.out.green(fmt.Sprintf("%s at %s, on 1 document of %d", strings.Join(held[0].Operations, ", "), quarterly.Documents, len(d.town.Library()))))
	}
	return nil
}

// mapped writes the rows of one agent.
func (d *demo) mapped(agent string, reach []graph.Reached) {
	short := func(operations []string) string {
		out := make([]string, 0, len(operations))
		for _, op := range operations {
			out = append(out, op[strings.LastIndexByte(op, '/')+1:])
		}
		slices.Sort(out)
		return cmp.Or(strings.Join(out, ", "), "-")
	}
	sorting.Stable(reach, func(a, b graph.Reached) int { return cmp.Compare(a.Agent, b.Agent) })
	for _, r := range reach {
		if r.Agent == agent {
			continue
		}
		d.out.say("  %-14s%-14s%s%s", agent, r.Agent, d.out.red(fmt.Sprintf("%-58s", short(r.Operations))), d.out.green(short(r.Gated)))
		agent = ""
	}
	if agent != "" {
		d.failures = append(d.failures, agent+" reaches nobody, which is not so")
	}
}
