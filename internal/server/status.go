package server

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuer"
)

// PathStatusLists is where the Token Status Lists of agents are, each under its
// agent's name.
const PathStatusLists = "/v1/status-lists/"

func (a *Admin) statusList(agent string) string {
	return strings.TrimSuffix(a.URL, "/") + PathStatusLists + url.PathEscape(agent)
}

// statusPlace tells where the status of a capability is to be found, as the
// status claim of the draft has it.
func (a *Admin) statusPlace(r *http.Request) (any, error) {
	c, place, err := a.Issuer.StatusPlace(r.Context(), "operator", r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"capability": c.ID, "status": map[string]any{"status_list": map[string]any{"idx": place, "uri": a.statusList(c.Agent)}}}, nil
}

// StatusLists serves the lists to anybody.
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
			_, _ = w.Write([]byte(compact)) //nolint:gosec // a JWS of ours; the client has gone: nobody is left to tell
		}
	})
}
