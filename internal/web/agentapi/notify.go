package agentapi

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// PathEvents is where a request that waits for a person is followed (section 10.10.2).
const PathEvents = "/agent/events/"

// How many requests can be followed at a time, by all and by one address, and how often one
// is looked at.
const (
	maxFollowed     = 256
	maxFollowedEach = 32
	followLook      = time.Second
)

// places are taken by clients, each of which has a share of them.
type places struct {
	all, each int

	mu    sync.Mutex
	taken int
	of    map[string]int
}

func newPlaces(all, each int) *places { return &places{all: all, each: each, of: map[string]int{}} }

// take takes a place for a client, if it has not its share and there is one.
func (p *places) take(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.all || p.of[client] >= p.each {
		return false
	}
	p.taken++
	p.of[client]++
	return true
}

func (p *places) leave(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[client]--; p.of[client] == 0 {
		delete(p.of, client)
	}
}

// follow tells, as an event of a stream, how a request was answered (AAP-Y1). The
// protocol's own client shows no token here: the address is the secret, and the event
// has no more than the state of the request.
func (a *API) follow(w http.ResponseWriter, r *http.Request) {
	if err := a.limits.allow(r); err != nil {
		a.refuse(w, r, err)
		return
	}
	s, q, open, err := a.config.Provider.Notified(r.Context(), r.PathValue("request"))
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	client := peer.Of(r).Network()
	if !a.followed.take(client) {
		e := agentauth.Errorf(agentauth.CodeRateLimited, "too many requests are followed; ask for the status instead")
		e.RetryAfter = int(a.config.Interval/time.Second) + 1
		a.refuse(w, r, e)
		return
	}
	defer a.followed.leave(client)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	tick := time.NewTicker(followLook)
	defer tick.Stop()
	for open {
		if a.send(w, []byte(":\n\n")) != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-a.config.Done:
			return
		case <-tick.C:
		}
		if s, q, open, err = a.config.Provider.Notified(r.Context(), r.PathValue("request")); err != nil {
			return // the client asks for the status, and is told why
		}
	}
	data, err := json.Marshal(a.told(s, q))
	if err == nil {
		_ = a.send(w, eventOf("status", data)) // the client may have gone
	}
}

// told is the state of a request, and every grant of its agent, for anyone who has its
// address: no constraints, no words of people, and no person's name.
func (a *API) told(s provider.AgentState, q provider.Question) map[string]any {
	grants := []grantBody{}
	for _, g := range s.Grants {
		grants = append(grants, grantBody{Capability: g.Capability, Status: g.Status})
	}
	how, why := string(q.Approval.Status), a.config.Provider.Over(q)
	switch {
	case q.Approval.Status == agentauth.Active:
		how = "approved"
	case q.Approval.Status == agentauth.Pending && a.config.Now().Before(q.Approval.Expires):
		how = "revoked" // nothing is left to answer
	case q.Approval.Status == agentauth.Pending:
		how = "expired"
	}
	out := map[string]any{"agent_id": s.Agent.ID, "status": s.Status, "approval": how, "agent_capability_grants": grants}
	if why != "" {
		out["reason"] = why
	}
	return out
}
