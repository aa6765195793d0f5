package app

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/backend"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// backendTime bounds one call of a service, or of a provider of identities.
const backendTime = time.Minute

// services are the backends of a provider's capabilities. All are called under the
// address policy of upstreams, and no redirect is followed.
type services struct {
	http  backend.HTTP
	route backend.Route
}

func (i *Instance) services(c config.Agent, now func() time.Time) *services {
	return &services{route: backend.Route{}, http: backend.HTTP{
		Client: &http.Client{
			Transport:     outbound.New(outbound.Configured()).Transport(),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		URLs: map[string]string{}, Context: i.backendContext(c.ID, now), Limit: int64(i.Config.Defaults.BodyLimit), Time: backendTime,
	}}
}

// add connects one capability to its backend.
func (s *services) add(c config.ProviderCapability, upstream string) error {
	switch {
	case c.Request.URL != "":
		o := backend.Operation{
			HTTP: s.http, Method: c.Request.Method, URL: c.Request.URL, Query: c.Request.Query, Header: c.Request.Header, Body: c.Request.Body,
			Whole: c.Request.Whole,
		}
		err := o.Check()
		if err == nil {
			o.Token, err = outbound.ServiceToken(c.Request.Token)
		}
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		s.route[c.Name] = o
	case c.MCP.URL != "":
		token, err := outbound.ServiceToken(c.MCP.Token)
		if err != nil {
			return fmt.Errorf("mcp: %w", err)
		}
		s.route[c.Name] = backend.MCP{HTTP: s.http, URL: c.MCP.URL, Tool: cmp.Or(c.MCP.Tool, c.Name), Token: token, Streams: c.MCP.Stream}
	case c.A2A.URL != "":
		token, err := outbound.ServiceToken(c.A2A.Token)
		if err != nil {
			return fmt.Errorf("a2a: %w", err)
		}
		s.route[c.Name] = backend.A2A{HTTP: s.http, URL: c.A2A.URL, Skill: cmp.Or(c.A2A.Skill, c.Name), Version: c.A2A.Version, Token: token, Streams: c.A2A.Stream}
	default:
		s.http.URLs[c.Name] = cmp.Or(c.Backend, upstream)
		s.route[c.Name] = s.http
	}
	return nil
}
