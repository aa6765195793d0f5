package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/periodic"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/agentapi"
	"github.com/powerbox-project/powerbox/internal/web/console"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/trust"
)

const (
	// askInterval is how long a caller that waits for a person should wait between two
	// looks.
	askInterval = 2 * time.Second
	// sweeping is how often it is looked for questions whose time is over.
	sweeping = time.Second
)

// askers returns what makes the desk where people are asked, nil where nothing is left to
// them.
func (i *Instance) askers(a Assembly, w *Wiring) func(*issuer.Issuer) (issuer.Asker, error) {
	asks := len(i.Config.OAuth.Agents) > 0 || len(i.Config.Approvals.Rules) > 0 || w.Force.Now.Load().engine.AsksPeople()
	if !asks && !asksPeople(i.Config) {
		return nil
	}
	return func(of *issuer.Issuer) (issuer.Asker, error) {
		var err error
		i.desk, err = i.newDesk(a, of)
		return i.desk, err
	}
}

// newDesk makes the desk where people are asked.
func (i *Instance) newDesk(a Assembly, of *issuer.Issuer) (*approval.Desk, error) {
	var rules []approval.Rule
	for _, r := range i.Config.Approvals.Rules {
		rule := approval.Rule{Agent: r.Agent, Operation: r.Operation, Resource: r.Resource, Timeout: r.Timeout, Need: approval.Need{People: r.People, Delegates: r.Delegates, After: r.DelegateAfter}}
		for _, who := range r.Approvers {
			group, isGroup := strings.CutPrefix(who, config.GroupPrefix)
			switch {
			case who == config.Self:
				rule.Need.Self = true
			case who == config.RoleApprover:
				rule.Approvers = true
			case isGroup:
				rule.Need.Groups = append(rule.Need.Groups, group)
			default:
				rule.Need.Who = append(rule.Need.Who, who)
			}
		}
		rules = append(rules, rule)
	}
	tell, err := i.webhooks(a)
	if err != nil {
		return nil, err
	}
	return approval.New(approval.Config{
		Tell: tell, Issuer: of,
		Store: i.Store, URL: strings.TrimRight(i.Config.Issuer.URL, "/") + approvalsPath, Rules: rules, Approvers: i.approvers, Timeout: i.Config.Approvals.Timeout, Interval: askInterval,
		Now: a.Now, Log: a.Log,
	})
}

// webhooks makes the webhooks that are told of questions.
func (i *Instance) webhooks(a Assembly) (approval.Teller, error) {
	if len(i.Config.Approvals.Webhooks) == 0 && i.Config.Approvals.Mail.Server == "" {
		return nil, nil
	}
	var hooks []approval.Webhook
	for _, w := range i.Config.Approvals.Webhooks {
		key, err := w.Key()
		if err != nil {
			return nil, err
		}
		policy := outbound.Policy{}
		if w.Private {
			policy = outbound.Policy{AllowLoopback: true, AllowPrivate: outbound.PrivateNetworks()}
		}
		address, err := webhookURL(w)
		if err != nil {
			return nil, err
		}
		hook := approval.Webhook{Name: w.Name, URL: address, Secret: key, Template: approval.Template(w.Template), Client: &http.Client{
			Transport: outbound.New(policy).Transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		for _, e := range w.Events {
			hook.Events = append(hook.Events, approval.Event(e))
		}
		hooks = append(hooks, hook)
	}
	if m := i.Config.Approvals.Mail; m.Server != "" {
		hook, err := mailServer(m)
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, hook)
	}
	var err error
	i.told, err = approval.NewWebhooks(hooks, console.Summary, a.Now, a.Log)
	return i.told, err
}

// webhookURL returns the URL of a webhook, which a file can have. An error does not repeat it.
func webhookURL(w config.Webhook) (string, error) {
	if w.URLFile == "" {
		return w.URL, nil
	}
	data, err := os.ReadFile(string(w.URLFile))
	if err != nil {
		return "", fmt.Errorf("approvals.webhooks, %s, url_file: %w", w.Name, err)
	}
	address := strings.TrimSpace(string(data))
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && (!w.Private || u.Scheme != "http") {
		return "", fmt.Errorf("approvals.webhooks, %s, url_file: %s does not hold an https URL alone", w.Name, w.URLFile)
	}
	return address, nil
}

// mailServer is the mail server as a webhook.
func mailServer(c config.Mail) (approval.Webhook, error) {
	host, port, err := net.SplitHostPort(c.Server)
	if err != nil {
		return approval.Webhook{}, fmt.Errorf("approvals.mail.server: %w", err)
	}
	m := &approval.Mail{Host: host, From: c.From, To: c.To, Addresses: c.Addresses, Username: c.Username, Plain: net.ParseIP(host).IsLoopback()}
	if m.Port, err = strconv.Atoi(port); err != nil {
		return approval.Webhook{}, fmt.Errorf("approvals.mail.server: %w", err)
	}
	if c.PasswordFile != "" {
		m.Password = func() (string, error) {
			data, err := os.ReadFile(string(c.PasswordFile))
			return strings.TrimSpace(string(data)), err
		}
	}
	hook := approval.Webhook{Name: config.MailName, Mail: m}
	for _, e := range c.Events {
		hook.Events = append(hook.Events, approval.Event(e))
	}
	return hook, nil
}

// attend has approved calls made and questions end in time, until the instance
// closes.
func (i *Instance) attend(ctx context.Context, a Assembly) error {
	log := a.Log
	if i.desk == nil {
		return nil
	}
	if err := i.desk.Begin(ctx, i.abandoned(a.Now())); err != nil {
		return err
	}
	i.Admin.Outbox = outbox{i.desk}
	ctx, i.leave = context.WithCancel(ctx)
	released, swept, told := make(chan struct{}), make(chan struct{}), make(chan struct{})
	i.attended = []<-chan struct{}{released, swept, told}
	go func() {
		defer close(told)
		if i.told != nil {
			i.told.Run(ctx, i.Store, i.desk.Tells)
		}
	}()
	go func() {
		defer close(released)
		i.gateway.Release(ctx)
	}()
	go func() {
		defer close(swept)
		i.sweep(ctx, log)
	}()
	return nil
}

func (i *Instance) sweep(ctx context.Context, log *slog.Logger) {
	periodic.Run(ctx, sweeping, func(ctx context.Context) {
		if err := i.desk.Sweep(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, evidence.ErrNotWritten) {
			log.WarnContext(ctx, "questions to people are not looked after", slog.Any("error", err))
		}
	})
}

// unattend ends the tasks that attend began.
func (i *Instance) unattend() {
	if i.leave != nil {
		i.leave()
	}
	for _, done := range i.attended {
		<-done
	}
}

// peopleAlone adds the pages and the interface of people where no agent is a provider of
// Agent Auth. A provider without capabilities keeps their passkeys, and no agent can
// register at it.
func (i *Instance) peopleAlone(ctx context.Context, a Assembly, w *Wiring, mux *http.ServeMux, started time.Time, g *gate.Gate) error {
	name := "powerbox"
	if u, err := url.Parse(i.Config.Issuer.URL); err == nil {
		name = cmp.Or(u.Hostname(), name)
	}
	c := config.Agent{ID: trust.Issuer, AgentAuth: config.AgentAuth{
		ProviderName: name, SessionTTL: time.Hour, MaximumLifetime: time.Hour, AbsoluteLifetime: time.Hour, ApprovalTime: time.Minute, PollInterval: time.Second,
	}}
	p, err := i.provider(c, a, started, g)
	if err != nil {
		return fmt.Errorf("approvals: %w", err)
	}
	i.people(a, w, p, mux)
	return i.console(ctx, a, p, c, mux)
}

// people adds the interface of those who answer.
func (i *Instance) people(a Assembly, w *Wiring, p *provider.Provider, mux *http.ServeMux) {
	i.Admin.People = p
	people := &agentapi.People{Provider: p, Desk: i.desk, Who: i.person(w, p.URL(), a.Now), Log: a.Log, BodyLimit: int64(i.Config.Defaults.BodyLimit)}
	if a.Dev {
		people.Dev = func(name string) bool {
			return slices.ContainsFunc(i.Config.Identity.Dev, func(u config.DevUser) bool { return u.Name == name })
		}
		people.Groups = func(name string) []string { return i.devGroups()["user:"+name] }
	}
	for _, path := range agentapi.PeoplePaths() {
		mux.Handle(path, i.inTime(people.Late, people))
	}
}

// devGroups are the groups of built-in users, by principal.
func (i *Instance) devGroups() map[string][]string {
	out := map[string][]string{}
	for _, u := range i.Config.Identity.Dev {
		out["user:"+u.Name] = u.Groups
	}
	return out
}

// holds keeps calls at the desk for the gateway.
type holds struct {
	desk   *approval.Desk
	agents func() []string
	says   func(agent, grant string) string // the operator's words for a grant
}

// deskDenial is a refusal of the desk as the caller gets it.
type deskDenial struct{ *issuer.Refusal }

// Unwrap returns the refusal.
func (d deskDenial) Unwrap() error { return d.Refusal }

// Denial words the refusal.
func (d deskDenial) Denial() a2a.Denial {
	return a2a.Denial{Reason: string(d.Code), Message: d.Message, DecisionID: d.Record}
}

// Hold implements [gateway.Holds].
func (h holds) Hold(ctx context.Context, c gateway.HeldCall) (gateway.HeldTask, error) {
	q := approval.Question{
		Agent: c.Agent, Principal: c.Caller.Principal, Holder: c.Caller.Holder.ID, Requester: c.Caller.Agent, Purpose: c.Purpose, Cause: approval.Cause{Record: c.Decision, Trace: c.Trace}, Matters: h.matters(c),
	}
	held, task, err := h.desk.Hold(ctx, q, approval.Call{
		Agent: c.Agent, Tenant: c.Tenant, Context: c.Context, Owner: issuer.Owner(c.Owner), Request: c.Request, Digest: c.Digest,
		Parent: c.Parent, Under: c.Under, Through: c.Through, Authority: c.Authority.JSON().AppendJSON(nil),
	})
	if refusal := (*issuer.Refusal)(nil); errors.As(err, &refusal) {
		return gateway.HeldTask{}, deskDenial{refusal}
	}
	return h.task(held, task), err
}

// matters are the subjects of a held call, by grant.
func (h holds) matters(c gateway.HeldCall) []issuer.Matter {
	var out []issuer.Matter
	for _, op := range c.Operations {
		rest := strings.TrimPrefix(op.Name, c.Agent+"/")
		cut := strings.LastIndexByte(rest, '/')
		grant, name := rest[:max(cut, 0)], rest[cut+1:]
		n := slices.IndexFunc(out, func(m issuer.Matter) bool { return m.Grant == grant })
		if n < 0 {
			m := issuer.Matter{Grant: grant, Says: h.says(c.Agent, grant)}
			members, _ := c.Arguments.Members()
			for _, a := range members {
				m.Arguments = append(m.Arguments, issuer.Argument{Name: a.Name, Value: a.Value.String()})
			}
			if c.Resource != "" {
				m.Resources = []issuer.Resource{{ID: c.Resource, Name: cmp.Or(c.ResourceName, c.Resource)}}
			}
			out = append(out, m)
			n = len(out) - 1
		}
		out[n].Operations = append(out[n].Operations, issuer.Operation{Name: name, Write: op.Write})
	}
	return out
}

// task is a held call as its caller sees it.
func (h holds) task(q approval.Question, c approval.Call) gateway.HeldTask {
	t := gateway.HeldTask{
		Question: q.ID, Task: c.Task, Context: c.Context, URL: h.desk.Page(q.ID), Expires: q.Expires, Updated: c.Updated, Decision: c.Decision, Answer: c.Answer, Text: c.Text,
	}
	switch c.State {
	case approval.CallWaits:
		t.State = a2a.OwnAuthRequired
		t.Text = fmt.Sprintf("A person has to approve this call, at %s, until %s. Do not send it again: it is made when it is approved. Ask for this task to see what became of it.", t.URL, q.Expires.UTC().Format(time.RFC3339))
		if q.At(h.desk.Now()) == issuer.StateExpired {
			t.State, t.Text, t.Denied = a2a.OwnFailed, "no person approved this call in time", string(issuer.CodeApprovalExpired)
		}
	case approval.CallApproved, approval.CallBeingMade:
		t.State, t.Text = a2a.OwnWorking, "approved; the call is being made"
	case approval.CallMade:
		t.State = a2a.OwnCompleted
	case approval.CallCancelled:
		t.State, t.Text = a2a.OwnCanceled, "withdrawn; the call was not made"
	case approval.CallFailed:
		t.State, t.Denied = a2a.OwnFailed, deniedAs(q.State)
	}
	return t
}

// deniedAs is the code of a question that ended without a yes, "" for others.
func deniedAs(s issuer.State) string {
	if s == issuer.StateDenied {
		return string(issuer.CodeApprovalDenied)
	}
	if s == issuer.StateExpired {
		return string(issuer.CodeApprovalExpired)
	}
	return ""
}

// Task implements [gateway.Holds].
func (h holds) Task(ctx context.Context, agent, task string) (gateway.HeldTask, bool, error) {
	q, c, err := h.desk.Held(ctx, agent, task)
	if errors.Is(err, issuer.ErrNotFound) {
		return gateway.HeldTask{}, false, nil
	}
	return h.task(q, c), true, err
}

// maxListed is how many held calls of one owner are listed.
const maxListed = 256

// Of implements [gateway.Holds].
func (h holds) Of(ctx context.Context, agent, tenant string, owner gateway.Owner) ([]gateway.HeldTask, error) {
	tasks, err := h.desk.HeldOf(ctx, agent, tenant, issuer.Owner(owner), maxListed)
	var out []gateway.HeldTask
	for _, task := range tasks {
		if err != nil {
			return nil, err
		}
		var t gateway.HeldTask
		var known bool
		if t, known, err = h.Task(ctx, agent, task); known {
			out = append(out, t.Light())
		}
	}
	return out, err
}

// Cancel implements [gateway.Holds].
func (h holds) Cancel(ctx context.Context, agent, task string) (gateway.HeldTask, error) {
	q, c, err := h.desk.Cancel(ctx, agent, task)
	return h.task(q, c), err
}

// Take implements [gateway.Releases].
func (h holds) Take(ctx context.Context) (gateway.Released, bool, error) {
	c, ok, err := h.desk.Take(ctx, h.agents())
	return gateway.Released{Question: c.Question, Task: c.Task, Agent: c.Agent, Capability: c.Capability, Request: c.Request, Owner: gateway.Owner(c.Owner)}, ok, err
}

// Made implements [gateway.Releases].
func (h holds) Made(ctx context.Context, question string, failed bool, decision, text string, answer []byte) error {
	state := approval.CallMade
	if failed {
		state = approval.CallFailed
	}
	return h.desk.Made(ctx, question, state, decision, text, answer)
}

// Changed implements [gateway.Releases].
func (h holds) Changed() <-chan struct{} { return h.desk.Changed() }

// asking is how the gateway asks people.
func (i *Instance) asking() gateway.Asking {
	out := gateway.Asking{Asks: i.toolAsks()}
	if h, ok := i.holds(); ok {
		out.Holds, out.Releases = h, h
	}
	return out
}

// holds is the desk as the gateway knows it, and false where nothing is left to people.
func (i *Instance) holds() (holds, bool) {
	if i.desk == nil {
		return holds{}, false
	}
	h := holds{desk: i.desk, says: func(agent, grant string) string {
		for _, o := range i.current().Offers[agent] {
			if o.ID == grant {
				return o.Description
			}
		}
		return ""
	}}
	h.agents = i.agentNames
	return h, true
}
