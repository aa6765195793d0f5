package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// statement is a service at a location of its own: agents call it without the
// provider in between, and it verifies by itself that they may (AAP-E12).
type statement struct {
	location   string // its own URL, which the tokens that it takes are for
	introspect string // of the provider
	secret     string
	client     *http.Client
}

func (s *statement) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "want POST")
		return
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		refuse(w, http.StatusUnauthorized, "authentication_required", "want the token of an agent for "+s.location)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var in struct {
		Capability string          `json:"capability"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	if err != nil || json.Unmarshal(body, &in) != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "want a JSON object with capability and arguments")
		return
	}
	if in.Capability != "statement" {
		refuse(w, http.StatusNotFound, "capability_not_found", "this service does statements alone")
		return
	}
	switch allowed, err := s.allowed(r.Context(), token, in.Capability, in.Arguments); {
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, "unavailable", "whether the token holds cannot be told now")
	case !allowed.Active:
		refuse(w, http.StatusUnauthorized, "invalid_jwt", "the token does not hold")
	case allowed.Audience != s.location:
		refuse(w, http.StatusUnauthorized, "invalid_jwt", "the token is not for "+s.location)
	case !allowed.Allowed:
		refuse(w, http.StatusForbidden, "capability_not_granted", "the agent has no grant that admits this")
	default:
		answer(w, http.StatusOK, map[string]any{"data": map[string]any{
			"user": allowed.User, "agent": allowed.Agent, "lines": []string{"2026-10-01 salary 3200.00", "2026-10-03 rent -1450.00"},
		}})
	}
}

// introspection is what the provider says of a token.
type introspection struct {
	Active   bool   `json:"active"`
	Allowed  bool   `json:"allowed"`
	Audience string `json:"aud"`
	Agent    string `json:"agent_id"`
	User     string `json:"user_id"`
}

func (s *statement) allowed(ctx context.Context, token, capability string, arguments json.RawMessage) (introspection, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	ask, err := json.Marshal(map[string]any{"token": token, "capability": capability, "arguments": arguments})
	if err != nil {
		return introspection{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.introspect, bytes.NewReader(ask))
	if err != nil {
		return introspection{}, err
	}
	req.Header.Set("Authorization", "Bearer "+s.secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return introspection{}, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	if resp.StatusCode != http.StatusOK {
		return introspection{}, errors.New("introspection: " + resp.Status)
	}
	var out introspection
	return out, json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&out)
}
