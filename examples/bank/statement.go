package main

import (
	"net/http"

	"github.com/powerbox-project/powerbox/location"
)

// statements is a service at its own location: agents call it without the
// provider in between, and it verifies their permission without asking the
// provider (AAP-E12).
func statements(at, introspect, secret string) (http.Handler, error) {
	return location.Verifier{
		Location: at, Capabilities: []string{"statement"}, Introspection: introspect, Secret: secret,
	}.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, _ := location.FromContext(r.Context()) // it came through the middleware
		answer(w, http.StatusOK, map[string]any{"data": map[string]any{
			"user": call.User, "agent": call.Agent, "lines": []string{"2026-10-01 salary 3200.00", "2026-10-03 rent -1450.00"},
		}})
	}))
}
