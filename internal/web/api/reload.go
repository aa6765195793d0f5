package api

import (
	"errors"
	"net/http"

	"github.com/powerbox-project/powerbox/evidence"
)

// Reloaded is the result of a reload of the configuration.
type Reloaded struct {
	Before  string   `json:"before"` // digest of the configuration, with its secrets masked
	After   string   `json:"after"`
	Changes []string `json:"changes"` // by name; empty for an unchanged file
	Record  string   `json:"record_id,omitempty"`
}

// reload reads the configuration again. The operator has to correct its mistakes.
func (a *Admin) reload(r *http.Request) (any, error) {
	out, err := a.Reload(r.Context(), operator(r))
	switch {
	case errors.Is(err, evidence.ErrUnavailable): // it is no mistake in the file
		return nil, err
	case err != nil:
		return nil, status{http.StatusConflict, err.Error()}
	}
	return out, nil
}
