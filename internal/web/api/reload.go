package api

import "net/http"

// Reloaded is what a reload of the configuration did.
type Reloaded struct {
	Before  string   `json:"before"` // digest of the configuration, with its secrets masked
	After   string   `json:"after"`
	Changes []string `json:"changes"` // by name; empty where the file says what it said before
	Record  string   `json:"record_id,omitempty"`
}

// reload reads the configuration again. The operator has to correct its mistakes.
func (a *Admin) reload(r *http.Request) (any, error) {
	out, err := a.Reload(r.Context(), "operator")
	if err != nil {
		return nil, status{http.StatusConflict, err.Error()}
	}
	return out, nil
}
