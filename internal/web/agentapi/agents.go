package agentapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// discovery answers section 5.1 (AAP-D1 to D9).
func (a *API) discovery(*http.Request) (answer, error) {
	url := a.config.Provider.URL()
	endpoints := map[string]string{
		"register": PathRegister, "capabilities": PathList, "describe_capability": PathDescribe, "execute": PathExecute,
		"request_capability": PathRequest, "status": PathStatus, "reactivate": PathReactivate, "revoke": PathRevoke,
		"revoke_host": PathRevokeHost, "rotate_key": PathRotate, "rotate_host_key": PathRotateHost, "introspect": PathIntrospect,
		"batch_execute": PathBatch, "claim": PathClaim, "enroll_host": PathEnroll,
	}
	if a.config.Tokens != nil {
		endpoints["issue_token"] = PathToken
	}
	return answer{
		header: http.Header{"Cache-Control": {"public, max-age=3600"}, "Access-Control-Allow-Origin": {"*"}},
		body: map[string]any{
			"version": agentauth.Version, "provider_name": a.config.Name, "description": a.config.Description, "issuer": url,
			"default_location": a.config.Provider.Location(), "algorithms": []string{"Ed25519"}, "modes": a.config.Modes,
			"approval_methods": a.config.Provider.Methods(), "jwks_uri": a.config.Keys,
			"activity_retention_seconds":        int(a.config.Provider.Retention() / time.Second),
			"dpop_signing_alg_values_supported": []string{"EdDSA", "ES256"},
			"endpoints":                         endpoints,
		},
	}, nil
}

// grantBody is a grant on the wire (AAP-R5).
type grantBody struct {
	Capability  string           `json:"capability"`
	Status      agentauth.Status `json:"status"`
	Description string           `json:"description,omitempty"`
	Input       json.RawMessage  `json:"input,omitempty"`
	Output      json.RawMessage  `json:"output,omitempty"`
	Constraints json.RawMessage  `json:"constraints,omitempty"`
	GrantedBy   string           `json:"granted_by,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	Expires     string           `json:"expires_at,omitempty"`
}

func raw(v powerbox.Value) json.RawMessage {
	if v.Kind() == powerbox.KindNull {
		return nil
	}
	return v.AppendJSON(nil)
}

func (a *API) grants(gs []provider.Grant) []grantBody {
	out := make([]grantBody, 0, len(gs))
	for _, g := range gs {
		w := grantBody{Capability: g.Capability, Status: g.Status}
		switch g.Status {
		case agentauth.Active:
			if c := a.config.Provider.Capability(g.Capability); c != nil {
				w.Description, w.Input, w.Output = c.Description, raw(c.Input), raw(c.Output)
			}
			w.Constraints, w.GrantedBy, w.Expires = g.Constraints, g.GrantedBy, stamp(g.Expires)
		case agentauth.Denied:
			w.Reason = g.Reason
		default: // name and status alone, while it is undecided
		}
		out = append(out, w)
	}
	return out
}

// stamp is a time in ISO 8601, "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Second).Format(time.RFC3339)
}

// standing is an agent on the wire, as answers about its state have it.
func (a *API) standing(s provider.AgentState) map[string]any {
	out := map[string]any{
		"agent_id": s.Agent.ID, "host_id": s.Host.ID, "name": s.Agent.Name, "mode": s.Agent.Mode, "status": s.Status,
		"agent_capability_grants": a.grants(s.Grants),
	}
	if s.Challenge != nil {
		out["approval"] = a.challenge(s.Challenge)
	}
	return out
}

// detailed adds the members of status and reactivation (AAP-S2, AAP-V5).
func (a *API) detailed(s provider.AgentState) map[string]any {
	out := a.standing(s)
	activated := s.Agent.Activated
	if s.Status == agentauth.Pending {
		activated = time.Time{} // the former activation is over; a new time comes with the approval
	}
	for name, at := range map[string]time.Time{
		"created_at": s.Agent.Created, "activated_at": activated, "last_used_at": s.Agent.LastUsed, "expires_at": s.Expires,
	} {
		if !at.IsZero() {
			out[name] = stamp(at)
		}
	}
	if s.Agent.User != "" {
		out["user_id"] = s.Agent.User
	}
	if s.Agent.Claim != "" {
		out["claim_status"] = s.Agent.Claim
	}
	if s.Status == agentauth.Pending && s.Agent.Unasked != "" {
		out["reason"] = s.Agent.Unasked // it waits for no person: its host asks again
	}
	return out
}

// challenge is an approval on the wire (AAP-A1).
func (a *API) challenge(c *provider.Challenge) map[string]any {
	left := c.Approval.Expires.Sub(a.config.Now()).Round(time.Second)
	out := map[string]any{"method": c.Approval.Method, "expires_in": int(left / time.Second), "interval": int(a.config.Interval / time.Second)}
	out["notification_url"] = a.config.Provider.URL() + PathEvents + a.config.Provider.Notification(c.Approval)
	if c.Approval.Method == agentauth.CIBA {
		out["binding_message"] = c.Approval.Message
		return out
	}
	out["verification_uri"], out["verification_uri_complete"], out["user_code"] = a.config.Approvals, a.config.Approvals+"?code="+c.Code, c.Code
	return out
}

// asked reads the capabilities of a body: names, or objects with name and
// constraints.
func asked(v powerbox.Value) ([]provider.Asked, error) {
	list, ok := v.Get("capabilities")
	if !ok || list.Kind() == powerbox.KindNull {
		return nil, nil
	}
	elements, ok := list.Elements()
	if !ok {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "capabilities is JSON %s; want an array", list.Kind())
	}
	var out []provider.Asked
	for i, e := range elements {
		one := provider.Asked{}
		if name, isText := e.Text(); isText {
			one.Name = name
		} else {
			n, _ := e.Get("name")
			if one.Name, ok = n.Text(); !ok {
				return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "capabilities[%d]; want a name, or an object with name and constraints", i)
			}
			one.Constraints, _ = e.Get("constraints")
		}
		out = append(out, one)
	}
	return out, nil
}

// question reads what a request of a host asks people, and counts it against the limits of the host.
func (a *API) question(r *http.Request, v powerbox.Value, h provider.Host) (provider.Asking, error) {
	with, err := asking(r, v)
	if err != nil {
		return with, err
	}
	return with, a.limits.question(r, h)
}

func asking(r *http.Request, v powerbox.Value) (out provider.Asking, err error) {
	out.From = peer.Of(r).Recorded()
	err = texts(v, map[string]*string{
		"reason": &out.Reason, "preferred_method": &out.Method, "login_hint": &out.LoginHint, "binding_message": &out.Message,
	})
	return out, err
}

// register answers section 5.3.
func (a *API) register(r *http.Request) (answer, error) {
	s, err := a.host(r, true)
	if err != nil {
		return answer{}, err
	}
	if s.New || s.Host.Status == agentauth.Rejected {
		if err := a.limits.unknown(r); err != nil {
			return answer{}, err
		}
	}
	v, err := body(r)
	if err != nil {
		return answer{}, err
	}
	var reg provider.Registration
	if reg.Capabilities, err = asked(v); err != nil {
		return answer{}, err
	}
	if reg.Asking, err = asking(r, v); err != nil {
		return answer{}, err
	}
	if err := texts(v, map[string]*string{"name": &reg.Name, "host_name": &reg.HostName, "mode": &reg.Mode}); err != nil {
		return answer{}, err
	}
	if err := a.limits.question(r, s.Host); err != nil {
		return answer{}, err
	}
	out, err := a.config.Provider.Register(r.Context(), s, reg)
	if err != nil {
		return answer{}, err
	}
	return answer{body: a.standing(out)}, nil
}

// request answers section 5.4. The status is that of the requested grants, as the
// protocol's own client needs it to wait (AAP-Q2).
func (a *API) request(r *http.Request) (answer, error) {
	s, err := a.agent(r, provider.Once, a.config.Provider.URL())
	if err != nil {
		return answer{}, err
	}
	v, err := body(r)
	if err != nil {
		return answer{}, err
	}
	wanted, err := asked(v)
	if err != nil {
		return answer{}, err
	}
	with, err := a.question(r, v, s.Host)
	if err != nil {
		return answer{}, err
	}
	out, err := a.config.Provider.RequestCapability(r.Context(), s, wanted, with)
	if err != nil {
		return answer{}, err
	}
	b := map[string]any{"agent_id": out.Agent.ID, "agent_capability_grants": a.grants(out.Grants), "status": agentauth.Pending, "approval": a.challenge(out.Challenge)}
	return answer{body: b}, nil
}

// agent authenticates the agent of a request for one of the audiences.
func (a *API) agent(r *http.Request, use provider.Use, audiences ...string) (provider.Session, error) {
	shown, err := a.presented(r)
	if err == nil && shown.Token == "" {
		err = errNoToken()
	}
	if err != nil {
		return provider.Session{}, err
	}
	return a.config.Provider.AuthenticateAgent(a.bounded(r), shown, use, audiences...)
}

// status answers section 5.5.
func (a *API) status(r *http.Request) (answer, error) {
	s, err := a.host(r, true)
	if err != nil {
		return answer{}, err
	}
	out, err := a.config.Provider.Status(r.Context(), s, r.URL.Query().Get("agent_id"))
	if err != nil {
		return answer{}, err
	}
	if waits(out) {
		if err := a.limits.poll(out.Agent.ID, a.config.Interval); err != nil {
			return answer{}, err
		}
	}
	return answer{body: a.detailed(out)}, nil
}

// waits reports whether someone has yet to answer about an agent.
func waits(s provider.AgentState) bool {
	return s.Status == agentauth.Pending || slices.ContainsFunc(s.Grants, func(g provider.Grant) bool { return g.Status == agentauth.Pending })
}

// named reads a body that names an agent.
func (a *API) named(r *http.Request) (s provider.HostSession, v powerbox.Value, agent string, err error) {
	if s, err = a.host(r, false); err != nil {
		return s, v, "", err
	}
	if v, err = body(r); err != nil {
		return s, v, "", err
	}
	if agent, err = text(v, "agent_id"); err == nil && agent == "" {
		err = agentauth.Errorf(agentauth.CodeInvalidRequest, "agent_id is missing")
	}
	return s, v, agent, err
}

// reactivate answers section 5.6.
func (a *API) reactivate(r *http.Request) (answer, error) {
	s, _, agent, err := a.named(r)
	if err != nil {
		return answer{}, err
	}
	out, err := a.config.Provider.Reactivate(r.Context(), s, agent)
	if err != nil {
		return answer{}, err
	}
	return answer{body: a.detailed(out)}, nil
}

// revoke answers section 5.7.
func (a *API) revoke(r *http.Request) (answer, error) {
	s, _, agent, err := a.named(r)
	if err != nil {
		return answer{}, err
	}
	if err := a.config.Provider.Revoke(r.Context(), s, agent); err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{"agent_id": agent, "status": agentauth.Revoked}}, nil
}

// rotate answers section 5.8.
func (a *API) rotate(r *http.Request) (answer, error) {
	s, v, agent, err := a.named(r)
	if err != nil {
		return answer{}, err
	}
	key, _ := v.Get("public_key")
	out, err := a.config.Provider.RotateKey(r.Context(), s, agent, key)
	if err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{"agent_id": out.Agent.ID, "status": out.Status}}, nil
}

// rotateHost answers section 5.9.
func (a *API) rotateHost(r *http.Request) (answer, error) {
	s, err := a.host(r, false)
	if err != nil {
		return answer{}, err
	}
	v, err := body(r)
	if err != nil {
		return answer{}, err
	}
	key, _ := v.Get("public_key")
	h, err := a.config.Provider.RotateHostKey(r.Context(), s, key)
	if err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{"host_id": h.ID, "status": h.Status}}, nil
}

// revokeHost answers section 5.10.
func (a *API) revokeHost(r *http.Request) (answer, error) {
	s, err := a.host(r, false)
	if err != nil {
		return answer{}, err
	}
	n, err := a.config.Provider.RevokeHost(r.Context(), s)
	if err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{"host_id": s.Host.ID, "status": agentauth.Revoked, "agents_revoked": n}}, nil
}
