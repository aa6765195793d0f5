package agentapi

import (
	"net/http"
	"slices"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// claim answers the reference's POST /agent/claim (AAP-D9, AAP-U3): the host of an
// autonomous agent asks for someone to take over.
func (a *API) claim(r *http.Request) (answer, error) {
	s, v, agent, err := a.named(r)
	if err != nil {
		return answer{}, err
	}
	with, err := a.question(r, v, s.Host)
	if err != nil {
		return answer{}, err
	}
	out, err := a.config.Provider.AskClaim(r.Context(), s, agent, with)
	if err != nil {
		return answer{}, err
	}
	return answer{body: a.detailed(out)}, nil
}

// enroll answers the reference's POST /host/enroll (AAP-D9, AAP-U6): a host that an
// administrator has made room for brings its key. It is the one call that takes no
// token of a host; one that is there must be of the very key.
func (a *API) enroll(r *http.Request) (answer, error) {
	if err := a.limits.unknown(r); err != nil {
		return answer{}, err
	}
	v, err := body(r)
	if err != nil {
		return answer{}, err
	}
	var code, name string
	if err := texts(v, map[string]*string{"token": &code, "name": &name}); err != nil {
		return answer{}, err
	}
	jwk, _ := v.Get("public_key")
	key, err := agentauth.ParseKey(jwk)
	if err != nil {
		return answer{}, err
	}
	compact, err := bearer(r)
	if err != nil {
		return answer{}, err
	}
	if compact != "" {
		s, err := a.config.Provider.AuthenticateHost(a.bounded(r), compact, true)
		if err != nil {
			return answer{}, err
		}
		if s.Host.Thumbprint != key.Thumbprint() {
			return answer{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the token is not of the key that is enrolled")
		}
	}
	h, err := a.config.Provider.Enroll(r.Context(), code, name, key)
	if err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{
		"host_id": h.ID, "hostId": h.ID, "name": h.Name, "status": h.Status, "default_capabilities": append([]string{}, a.config.Provider.Defaults(h)...),
	}}, nil
}

// invited is the answer to an administrator who made room for a host.
func (p *People) invited(r *http.Request, who provider.Person, name, user string, defaults []string) (any, error) {
	code, v, err := p.Provider.Invite(r.Context(), who, name, user, defaults)
	return map[string]any{"enrollment_token": code, "expires_at": stamp(v.Expires), "name": v.Name, "user_id": v.User, "defaults": slices.Clone(v.Defaults)}, err
}
