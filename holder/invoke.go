package holder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// Invoke calls a skill of the agent under a capability (SEP-10) and returns
// the result as the agent wrote it: a message or a task. A scope token
// goes in a header, with a proof of the key; without token and chain the
// capability goes by reference, with the user's session. At an MCP server the
// skill is a tool, and the result is that of tools/call. A refusal is a [*Denied].
func (c *Client) Invoke(ctx context.Context, agent Agent, held Capability, skill string, arguments powerbox.Value) (json.RawMessage, error) {
	s, ok := agent.Skills[skill]
	if !ok {
		return nil, fmt.Errorf("holder: skill %q of %s maps to no operation; it has %s", skill, agent.Base, strings.Join(agent.skillNames(), ", "))
	}
	if agent.MCP() {
		return c.callTool(ctx, agent, skill, arguments, c.showing(ctx, agent, held))
	}
	result, err := c.invoke(ctx, agent, held, proven{s.Operation.String(), arguments}, skill)
	if err != nil {
		return nil, err
	}
	return c.Await(ctx, agent, held, result)
}

func (c *Client) invoke(ctx context.Context, agent Agent, held Capability, p proven, skill string) (json.RawMessage, error) {
	params := optional([]powerbox.Member{text("skill", skill), {Name: "arguments", Value: p.arguments}}, "tenant", agent.Tenant)
	if held.ScopeToken != "" {
		return c.call(ctx, agent, "a2a/skill/invoke", powerbox.Object(params...), func(h http.Header, _ []byte) error {
			return c.presentScopes(h, agent, held)
		})
	}
	if held.Chain == nil {
		return c.withSession(ctx, agent, "a2a/skill/invoke", powerbox.Object(optional(params, "capabilityId", held.ID)...))
	}
	return c.call(ctx, agent, "a2a/skill/invoke", powerbox.Object(params...), func(h http.Header, body []byte) error {
		return c.present(h, agent, held.Chain, p, token.Request{
			Method: http.MethodPost, URL: agent.URL, Digest: token.DigestOf(body),
		})
	})
}
