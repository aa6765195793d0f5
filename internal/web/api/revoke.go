package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// maxVictims is how many capabilities an answer lists. The count is of all, unless more is true.
const maxVictims = 1000

// revoke answers a revocation, single and bulk (EXT-15), and with dry_run lists the
// capabilities that would end.
func (a *Admin) revoke(r *http.Request) (any, error) {
	var body revocation
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	t := issuer.Target{
		ID: body.Target, Chain: body.Chain,
		All: issuer.Bulk{Issuer: body.Issuer, Holder: body.Holder, Delegator: body.Delegator, Principal: body.Principal},
	}
	if err := a.mayRevoke(r, t); err != nil {
		return nil, err
	}
	if body.DryRun {
		return a.victims(r, t)
	}
	rev, err := a.Issuer.RevokeAsOperator(r.Context(), operator(r), t)
	if err != nil {
		return nil, err
	}
	return map[string]any{"target": rev.Target, "kind": rev.Kind, "sequence": rev.Sequence, "at": rev.At}, nil
}

// mayRevoke refuses a target that reaches beyond the agents of the caller.
func (a *Admin) mayRevoke(r *http.Request, t issuer.Target) error {
	if everywhere(r) {
		return nil
	}
	if t.All.Holder != "" || t.All.Delegator != "" || t.All.Principal != "" { // whether there is one
		return status{http.StatusForbidden, "everything of a holder or a person can be at every agent, and you operate some; revoke single capabilities, or everything that one agent issued"}
	}
	agent, err := a.Issuer.RevokedAt(r.Context(), t)
	var target *issuer.TargetError
	if errors.As(err, &target) || errors.Is(err, issuer.ErrNotFound) || err == nil && !at(r, agent) {
		return status{http.StatusNotFound, "there is no such agent or capability of yours"}
	}
	return err
}

// Victim is a capability on record that a revocation ends.
type Victim struct {
	ID        string    `json:"id"`
	Parent    string    `json:"parent,omitempty"`
	Agent     string    `json:"agent"`
	Grant     string    `json:"grant"`
	Principal string    `json:"principal"`
	Holder    string    `json:"holder"`
	Requester string    `json:"requester,omitempty"`
	Purpose   string    `json:"purpose"`
	Task      string    `json:"task,omitempty"`
	Tenant    string    `json:"tenant,omitempty"` // of that task
	Expires   time.Time `json:"expires"`
}

func (a *Admin) victims(r *http.Request, t issuer.Target) (any, error) {
	dying, err := a.Issuer.Victims(r.Context(), t, maxVictims)
	if err != nil {
		return nil, err
	}
	out := []Victim{}
	for _, c := range dying.Capabilities {
		v := Victim{
			ID: c.ID, Agent: c.Agent, Grant: c.Grant, Principal: c.Principal, Holder: c.Holder, Requester: c.Requester, Purpose: c.Purpose, Task: c.Task, Tenant: c.Tenant, Expires: c.Expires,
		}
		if n := len(c.Ancestors); n > 0 {
			v.Parent = c.Ancestors[n-1]
		}
		out = append(out, v)
	}
	rev := dying.Revocation
	return map[string]any{"dry_run": true, "target": rev.Target, "kind": rev.Kind, "dies": out, "count": dying.Count, "more": dying.More}, nil
}

// revoked tells which of the given ids have been revoked, and which are frozen.
func (a *Admin) revoked(r *http.Request) (any, error) {
	revoked, frozen := []string{}, []string{}
	for _, id := range r.URL.Query()["id"] {
		c, err := a.Issuer.OnRecord(r.Context(), id)
		if err != nil {
			return nil, err
		}
		if a.Issuer.Revoked(id) || c.ID != "" && a.Issuer.Dead(c) {
			revoked = append(revoked, id)
		}
		if a.Issuer.Frozen(id) {
			frozen = append(frozen, id)
		}
	}
	return revokedOf{revoked, frozen}, nil
}

// report is how far a gateway had followed the feed when it last said so.
type report struct {
	sequence int64
	lease    time.Duration
	version  string
	unsent   int64
	at       time.Time
}

// heard notes the report of a gateway.
func (g *Gateways) heard(id string, q link.StatusQuery) {
	lease := time.Duration(q.Lease) * time.Millisecond
	if lease <= 0 || lease > feed.MaxLease {
		lease = feed.MaxLease
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reports == nil {
		g.reports = map[string]report{}
	}
	if len(q.Version) > maxVersion {
		q.Version = ""
	}
	said := report{q.Sequence, lease, q.Version, max(0, q.Unsent), g.Now()}
	g.reports[id] = said
	if g.Keeper != nil {
		go g.tell(id, said)
	}
}

// said is a gateway's last report, of the last hour.
func (g *Gateways) said(id string) (report, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.reports[id]
	return r, ok && g.Now().Sub(r.at) < reportLife
}

// keptReport is the part of a report that other nodes get.
type keptReport struct {
	Sequence int64
	Lease    time.Duration
	Version  string
	Unsent   int64
	At       time.Time
}

const (
	reportKind = "gateway report"
	reportLife = time.Hour
	// maxVersion is how much of a gateway's words about its program is kept, in bytes.
	maxVersion = 128
)

// tell shares a gateway's report with other nodes. A node that misses it waits for the
// gateway's lease.
func (g *Gateways) tell(id string, r report) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	value, err := json.Marshal(keptReport{r.sequence, r.lease, r.version, r.unsent, r.at})
	if err == nil {
		err = g.Keeper.Keep(ctx, reportKind, id, value, r.at.Add(reportLife))
	}
	if err != nil {
		g.Log.WarnContext(ctx, "other nodes were not told how far a gateway is", slog.String("gateway", id), slog.Any("error", err))
	}
}

// gather takes over the reports of gateways to other nodes.
func (g *Gateways) gather(ctx context.Context) error {
	if g.Keeper == nil {
		return nil
	}
	all, err := g.Keeper.AllKept(ctx, reportKind, g.Now())
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reports == nil {
		g.reports = map[string]report{}
	}
	for id, value := range all {
		var r keptReport
		if err := json.Unmarshal(value, &r); err != nil {
			return fmt.Errorf("the report of gateway %s is damaged: %w", id, err)
		}
		if r.At.After(g.reports[id].at) {
			g.reports[id] = report{r.Sequence, r.Lease, r.Version, r.Unsent, r.At}
		}
	}
	return nil
}

// Reached is where an event of the feed has come (EXT-16).
type Reached struct {
	Sequence int64 `json:"sequence"`
	// Reads is until when gateways whose lease is over continue with reads all the same,
	// since an operator has extended it; absent without an extension.
	Reads *time.Time `json:"reads,omitempty"`
	// Done says that each gateway has it or denies: the server waits for none.
	Done     bool             `json:"done"`
	Gateways []GatewayReached `json:"gateways"`
}

// GatewayReached is one open gateway.
type GatewayReached struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Has      bool       `json:"has"`                // it enforces the event
	Sequence int64      `json:"sequence"`           // how far it said that it is
	Reported *time.Time `json:"reported,omitempty"` // when; absent for never since the server started
	// Over is when its lease ends if it has not heard of the event: the server's last word
	// to it was before the event was made. It denies from then on.
	Over time.Time `json:"over"`
}

// reached tells which gateways have an event.
func (a *Admin) reached(r *http.Request) (any, error) {
	n, err := strconv.ParseInt(r.PathValue("sequence"), 10, 64)
	if err != nil || n < 1 {
		return nil, status{http.StatusBadRequest, "sequence must be the number of a revocation, from 1"}
	}
	made, err := a.made(r, n)
	if err != nil {
		return nil, err
	}
	if err := a.Gateways.gather(r.Context()); err != nil {
		return nil, err
	}
	return a.Gateways.reached(n, made, a.Issuer.ExtendedUntil(), func(agent string) bool { return at(r, agent) }), nil
}

// made returns when an event was made, or up to a second later. Times are stored in
// whole seconds, and the feed's last statement before it is as old as that.
func (a *Admin) made(r *http.Request, n int64) (time.Time, error) {
	var all []issuer.Revocation
	err := a.Store.View(r.Context(), func(rd issuer.Reader) error {
		var err error
		all, err = rd.Revocations(n - 1)
		return err
	})
	switch {
	case err != nil:
		return time.Time{}, err
	case len(all) == 0:
		return time.Time{}, issuer.ErrNotFound
	case !everywhere(r) && all[0].By != operator(r):
		if agent, err := a.Issuer.EventAt(r.Context(), all[0]); err != nil || !at(r, agent) {
			return time.Time{}, cmp.Or(err, issuer.ErrNotFound)
		}
	}
	return all[0].At.Add(time.Second), nil
}

func (g *Gateways) reached(n int64, made, extended time.Time, sees func(agent string) bool) Reached {
	now := g.Now()
	out := Reached{Sequence: n, Done: true, Gateways: []GatewayReached{}}
	if extended.After(now) {
		out.Reads = &extended
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.known {
		if !k.Closed.IsZero() || !sees(k.Agent) {
			continue
		}
		one := GatewayReached{ID: k.ID, Agent: k.Agent, Over: made.Add(feed.MaxLease)}
		if said, ok := g.reports[k.ID]; ok {
			one.Has, one.Sequence, one.Reported, one.Over = said.sequence >= n, said.sequence, &said.at, made.Add(said.lease)
		}
		out.Done = out.Done && (one.Has || !now.Before(one.Over))
		out.Gateways = append(out.Gateways, one)
	}
	return out
}
