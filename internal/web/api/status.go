package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/token"
)

func (a *Admin) statusList(agent string) string { return link.StatusAddress(a.URL, agent) }

// statusPlace tells where the status of a capability is to be found, as the
// status claim of the draft has it.
func (a *Admin) statusPlace(r *http.Request) (any, error) {
	if _, err := a.ofOwn(r, r.PathValue("id")); err != nil {
		return nil, err
	}
	c, place, err := a.Issuer.StatusPlace(r.Context(), operator(r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"capability": c.ID, "status": map[string]any{"status_list": map[string]any{"idx": place, "uri": a.statusList(c.Agent)}}}, nil
}

// StatusLists serves the lists to every caller.
func (a *Admin) StatusLists() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent := r.PathValue("agent")
		compact, err := a.Issuer.StatusList(r.Context(), agent, a.statusList(agent))
		switch {
		case errors.Is(err, issuer.ErrNotFound):
			problem(w, http.StatusNotFound, "there is no such list")
		case err != nil:
			a.Log.ErrorContext(r.Context(), "a status list cannot be made", slog.Any("error", err))
			problem(w, http.StatusInternalServerError, "the list cannot be made now")
		default:
			w.Header().Set("Content-Type", "application/"+issuer.StatusType)
			w.Header().Set("Cache-Control", "no-store") // a cache on the way would lengthen its life
			w.Header().Set("Access-Control-Allow-Origin", "*")
			_, _ = w.Write([]byte(compact))
		}
	})
}

// Bounds of the questions of strangers about capabilities that they were shown.
const (
	maxShown    = 256 << 10
	shownAtOnce = 4
)

// Standing tells peers that hold nothing whether a capability that they were shown
// stands. The answer is yes or no. A capability of another agent, one that has ended and
// one that was revoked or frozen get the same no.
type Standing struct {
	Gate  *gate.Gate
	Shown gate.Resolver
	// Target returns an agent by its id; false where there is none.
	Target func(id string) (gate.Target, bool)
	Origin func(holder string) string
	Now    func() time.Time
	Log    *slog.Logger

	busy chan struct{}
}

// NewStanding returns s with a bound on questions at the same time.
func NewStanding(s Standing) *Standing {
	s.busy = make(chan struct{}, shownAtOnce)
	return &s
}

// ServeHTTP answers whether the capability in the body is in force.
func (s *Standing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, "too many questions are being answered; ask again in a second")
		return
	}
	target, ok := s.Target(r.PathValue("agent"))
	if !ok {
		problem(w, http.StatusNotFound, "there is no such agent")
		return
	}
	shown, err := shownIn(w, r)
	active := false
	if err == nil {
		active, err = s.stands(r.Context(), &target, shown)
	}
	reply(w, r, s.Log, map[string]bool{"active": active}, err)
}

func (s *Standing) stands(ctx context.Context, target *gate.Target, shown gate.Presented) (bool, error) {
	call := &gate.Call{Target: target, Mode: gate.Require, Origin: s.Origin}
	held, err := s.Shown.Resolve(ctx, call, shown, s.Now())
	var refused *gate.Refusal
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil && s.Gate.Stands(target, s.Origin, held), err
}

// shownIn reads a question. A form is refused: it is how RFC 7009 revokes, and a client
// must not take the answer for that.
func shownIn(w http.ResponseWriter, r *http.Request) (gate.Presented, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return gate.Presented{}, status{
			http.StatusUnsupportedMediaType,
			"Content-Type: want application/json. This address tells whether a capability stands and revokes nothing; holders revoke with a2a/capabilities/revoke",
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxShown))
	if err != nil {
		return gate.Presented{}, status{http.StatusRequestEntityTooLarge, "the body cannot be read, or has more than 256 KiB"}
	}
	if _, err := powerbox.ParseValue(body); err != nil {
		return gate.Presented{}, status{http.StatusBadRequest, "body: " + err.Error()}
	}
	var q struct {
		Chain  string          `json:"chain"`
		Scopes json.RawMessage `json:"capability_token"`
		Links  json.RawMessage `json:"delegation_chain"`
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if err := decode(r, &q); err != nil {
		return gate.Presented{}, err
	}
	switch {
	case q.Chain != "" && q.Scopes == nil && q.Links == nil:
		return gate.Presented{Chain: token.SplitChain(q.Chain)}, nil
	case q.Chain == "" && q.Scopes != nil:
		return gate.Presented{Scopes: &gate.PresentedScopes{Token: q.Scopes, Links: q.Links}}, nil
	}
	return gate.Presented{}, status{
		http.StatusBadRequest, "want either chain, as in the header Powerbox-Capability, or capability_token with its delegation_chain",
	}
}
