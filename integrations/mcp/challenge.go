package powerboxmcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/holder/guard"
)

// The codes of JSON-RPC.
const (
	codeDenied  = -31403
	codeInvalid = -32600
)

const wellKnown = "/.well-known/oauth-protected-resource"

// MetadataPath is where [Server.Metadata] must be served (RFC 9728, section 3.1).
func (s *Server) MetadataPath() string {
	u, _ := url.Parse(s.config.Resource) // New has parsed it
	return wellKnown + strings.TrimRight(u.EscapedPath(), "/")
}

func (s *Server) metadataURL() string {
	u, _ := url.Parse(s.config.Resource) // New has parsed it
	return u.Scheme + "://" + u.Host + s.MetadataPath()
}

// Metadata serves the metadata of the protected resource (RFC 9728): who issues
// capabilities, and how they are presented.
func (s *Server) Metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // the client has gone: there is no caller to tell
			"resource": s.config.Resource, "resource_documentation": holder.ExtensionURI,
			"powerbox_issuer": s.config.Issuer, "powerbox_headers": []string{holder.HeaderCapability, holder.HeaderProof},
		})
	})
}

// wrong answers a body that is no acceptable message.
func (s *Server) wrong(w http.ResponseWriter, m message, err error) {
	s.answer(w, http.StatusBadRequest, m, codeInvalid, err.Error(), nil)
}

// refuse answers what the gate did not allow.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, m message, err error) {
	refused := (*guard.Refused)(nil)
	if !errors.As(err, &refused) {
		s.config.Log.ErrorContext(r.Context(), "a request could not be decided", "error", err)
		s.answer(w, http.StatusServiceUnavailable, m, codeDenied, "Whether it is allowed cannot be told now; try again in a moment.", map[string]any{"code": gate.CodeUnavailable, "retryable": true})
		return
	}
	d := refused.Decision
	status, challenge := http.StatusForbidden, ""
	switch {
	case len(r.Header.Values(holder.HeaderCapability)) == 0:
		status, challenge = http.StatusUnauthorized, `Bearer `
	case len(d.Missing) > 0:
		// The unmet operations alone: asking for more would be more authority.
		challenge = `Bearer error="insufficient_scope", scope="` + strings.Join(d.Missing, " ") + `", `
	case d.Retryable:
		status = http.StatusServiceUnavailable
	case !slices.ContainsFunc(d.Reasons, func(r guard.Reason) bool { return r.Operation != "" || aboutTheCall[r.Code] }):
		status, challenge = http.StatusUnauthorized, `Bearer error="invalid_token", `
	}
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge+`resource_metadata="`+s.metadataURL()+`"`)
	}
	d.Refuses(w.Header())
	s.config.Log.WarnContext(r.Context(), "a request is refused", "decision", d.ID, "code", refused.Code())
	s.answer(w, status, m, codeDenied, refused.Error(), map[string]any{
		"code": refused.Code(), "missing": strings.Join(d.Missing, " "), "decision": d.ID, "retryable": d.Retryable,
	})
}

// aboutTheCall are reasons of a capability that holds, and does not serve for this.
var aboutTheCall = map[string]bool{"skill_unmapped": true, gate.CodeVeto: true, gate.CodeApproval: true, gate.CodeFrozen: true, gate.CodeTrust: true}

func (*Server) answer(w http.ResponseWriter, status int, m message, code int, text string, data map[string]any) {
	var id any // null
	if m.hasID {
		id = m.id
	}
	wrong := map[string]any{"code": code, "message": text}
	if data != nil {
		wrong["data"] = data
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": wrong}) // as in Metadata
}
