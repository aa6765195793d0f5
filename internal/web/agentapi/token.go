package agentapi

import (
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// token issues attenuating tokens for grants of the agent: an extension of the
// protocol (docs/how-to/agent-auth.md).
func (a *API) token(r *http.Request) (answer, error) {
	if a.config.Tokens == nil {
		return answer{}, agentauth.Errorf(agentauth.CodeNotFound, "there is nothing at this path; %s says what there is", PathDiscovery)
	}
	s, err := a.agent(r, provider.Once, a.config.Provider.URL())
	if err != nil {
		return answer{}, err
	}
	v, err := body(r)
	if err != nil {
		return answer{}, err
	}
	var wanted provider.TokenRequest
	if wanted.Capabilities, err = named(v, "capabilities"); err != nil {
		return answer{}, err
	}
	arguments, _ := v.Get("arguments")
	members, _ := arguments.Members()
	for _, m := range members {
		if wanted.Arguments == nil {
			wanted.Arguments = map[string][]string{}
		}
		if wanted.Arguments[m.Name], err = named(arguments, m.Name); err != nil {
			return answer{}, err
		}
	}
	if in, given := v.Get("expires_in"); given {
		seconds, ok := in.Decimal()
		n, whole := seconds.Int64()
		if !ok || !whole || n < 1 || n > int64((24*time.Hour)/time.Second) {
			return answer{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "expires_in; want seconds, 1 to 86400")
		}
		wanted.Lifetime = time.Duration(n) * time.Second
	}
	for _, name := range wanted.Capabilities {
		if err := a.limits.execution(s.Agent.ID, s.Host.ID, s.Agent.User, name); err != nil {
			return answer{}, err
		}
	}
	made, err := a.config.Provider.IssueTokens(r.Context(), s, wanted)
	if err != nil {
		return answer{}, err
	}
	out := make([]any, 0, len(made))
	for _, c := range made {
		out = append(out, a.config.Tokens(c))
	}
	return answer{body: map[string]any{"agent_id": s.Agent.ID, "capabilities": out}}, nil
}
