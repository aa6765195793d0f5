package operations

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// homePage is the state of everything at a look.
type homePage struct {
	Waiting  int
	Activity api.ActivityReport
	Allowed  int
	Denied   int
	Observed int
	P50, P99 int64 // of the last minute that has calls
	Partial  bool  // the hour has more records than were read
	Calls    Chart
	Latency  Chart
	Frozen   []api.FreezeStatus
	Agents   []homeAgent
	Gateways []homeGateway
	Down     []api.AgentStatus // agents that do not answer, at most 50
	Witness  []homeWitness
	Undelivered
	More  int    // agents that are not shown
	Steps []step // of the first run that are left
	Done  int    // steps that are done
}

// Undelivered are the messages about requests that no channel took: a webhook, a chat or a mail.
type Undelivered struct {
	Failed int
	Latest *api.WebhookMessage // nil for none
	Trying int                 // messages that are tried again
}

// undelivered sums up the channels.
func undelivered(w api.Webhooks) (out Undelivered) {
	for _, one := range w.Webhooks {
		out.Failed, out.Trying = out.Failed+one.Dead, out.Trying+one.Waiting
	}
	if len(w.Dead) > 0 {
		out.Latest = &w.Dead[0]
	}
	return out
}

// homeAgent is an agent with its calls.
type homeAgent struct {
	api.AgentStatus
	Allowed, Denied, Observed int

	Last string // how long ago, "" for never in this hour
}

// homeWitness is a witness with its last cosignature in words.
type homeWitness struct {
	api.WitnessStatus
	Says string // how old its last cosignature is, and what that covers
	Late bool   // it needs a look
}

// homeAgents is how many agents the page shows.
const homeAgents = 50

// witnessed words how far a witness is behind the head of the log.
func witnessed(l *lang.Language, w api.WitnessStatus, size int64, now time.Time) homeWitness {
	out := homeWitness{WitnessStatus: w, Late: w.Why != "" || w.At == nil}
	switch {
	case w.At == nil:
		out.Says = l.T("has cosigned nothing since the server started")
	case w.Size >= size:
		out.Says = l.T("cosigned everything, %s ago", ago(l, now.Sub(*w.At)))
	default:
		out.Says = l.T("cosigned %s ago, without the last %s", ago(l, now.Sub(*w.At)), l.N(int(size-w.Size), "%s record", "%s records"))
	}
	return out
}

// homeGateway is a remote gateway that needs a look.
type homeGateway struct {
	ID, Agent, Says string
}

// step is one of the first run.
type step struct {
	Text, Why, Command, Link string
	Done                     bool
}

// silent is for how long a gateway can be silent before the page says so.
const silent = 30 * time.Second

func (p *Pages) home(v *Visit) (Answer, error) {
	ctx, now := v.Context(), p.config.Now()
	page := homePage{Waiting: v.Waiting}
	var gateways []api.GatewayStatus
	var witnesses []api.WitnessStatus
	var told api.Webhooks
	for path, into := range map[string]any{"/v1/summary": &page.Activity, "/v1/freezes": &page.Frozen, "/v1/gateways": &gateways, "/v1/evidence/witnesses": &witnesses} {
		if err := v.API.Get(ctx, path, into); err != nil {
			return Answer{}, err
		}
	}
	// Operators of some agents alone may not see the messages of all.
	var no *Refused
	if err := v.API.Get(ctx, "/v1/webhooks", &told); err != nil && (!errors.As(err, &no) || no.Status != http.StatusForbidden) {
		return Answer{}, err
	}
	for _, m := range page.Activity.Minutes {
		page.Allowed, page.Denied, page.Observed = page.Allowed+m.Allowed, page.Denied+m.Denied, page.Observed+m.Observed
		if m.P99 > 0 {
			page.P50, page.P99 = m.P50, m.P99
		}
	}
	page.Partial = page.Activity.Since.After(now.Add(-59 * time.Minute))
	page.Calls, page.Latency = callsChart(v.Language, page.Activity.Minutes), latencyChart(v.Language, page.Activity.Minutes)
	if err := page.someAgents(v, now); err != nil {
		return Answer{}, err
	}
	for _, w := range witnesses {
		page.Witness = append(page.Witness, witnessed(v.Language, w, page.Activity.Head.Size, now))
	}
	for _, g := range gateways {
		if says := attention(v.Language, g, now); says != "" {
			page.Gateways = append(page.Gateways, homeGateway{g.ID, g.Agent, says})
		}
	}
	page.Undelivered = undelivered(told)
	page.firstRun(v.Language)
	return Answer{Page: "home", Title: v.T("Home"), Body: page}, nil
}

// someAgents fills in the agents with calls, those with most denials first, then others, and those
// that do not answer.
func (p *homePage) someAgents(v *Visit, now time.Time) error {
	called := p.Activity.Agents
	sorting.Stable(called, func(a, b api.AgentActivity) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed+b.Observed, a.Allowed+a.Observed))
	})
	called = called[:min(len(called), homeAgents)]
	first := url.Values{}
	for i := range called {
		first.Add("first", called[i].Agent)
	}
	found, _, err := v.API.agents(v.Context(), first, homeAgents)
	if err != nil {
		return err
	}
	p.Agents = make([]homeAgent, len(found))
	for i := range found {
		one := &p.Agents[i]
		one.AgentStatus = found[i]
		for n := range called {
			if c := &called[n]; c.Agent == one.ID {
				one.Allowed, one.Denied, one.Observed, one.Last = c.Allowed, c.Denied, c.Observed, ago(v.Language, now.Sub(c.Last))
			}
		}
	}
	p.More = max(0, p.Activity.Served.All-len(p.Agents))
	if p.Activity.Served.Unreachable == 0 {
		return nil
	}
	p.Down, _, err = v.API.agents(v.Context(), url.Values{"health": {"unreachable"}}, homeAgents)
	return err
}

// attention says why a gateway needs a look, "" for none.
func attention(l *lang.Language, g api.GatewayStatus, now time.Time) string {
	switch {
	case g.Closed != nil:
		return ""
	case g.Heard == nil:
		return l.T("has not reported since the server started, or for an hour")
	case now.Sub(g.Heard.At) > silent:
		return l.T("has been silent for %s", ago(l, now.Sub(g.Heard.At)))
	case g.Heard.Behind > 0:
		return l.N(int(g.Heard.Behind), "has not enforced the last revocation (%s)", "has not enforced the last %s revocations")
	case g.Heard.Unsent > 0:
		return l.N(int(g.Heard.Unsent), "keeps %s record that the server does not have", "keeps %s records that the server does not have")
	}
	return ""
}

// firstRun lists the steps that remain after init.
func (p *homePage) firstRun(l *lang.Language) {
	steps := []step{
		{Text: l.T("Send a call through the gateway"), Why: l.T("Point a client to an agent's address, which is on the page of the agent. Its calls then appear here."), Command: "powerbox call", Done: p.Activity.Head.Size > 0 && len(p.Activity.Agents) > 0},
		{Text: l.T("Enforce at one agent"), Why: l.T("In observe mode, calls are recorded and never refused. The report says what each level would refuse."), Command: "powerbox report", Done: p.Activity.Served.Enforcing > 0},
		{Text: l.T("Name a witness"), Why: l.T("Without one, a restored older copy of the log cannot be told from the newest."), Command: "powerbox witness --help", Done: p.Activity.Head.Witnesses > 0},
	}
	for _, s := range steps {
		if s.Done {
			p.Done++
		}
	}
	if p.Done < len(steps) {
		p.Steps = steps
	}
}
