package holder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Send calls a skill as a client does that presents no capability: by a
// SendMessage with the skill in a data part, and with the user's session where
// the client has one. What that may do is for the agent to say. It works with
// agents that do not negotiate, too. A refusal is a [*Denied].
func (c *Client) Send(ctx context.Context, agent Agent, skill string, arguments powerbox.Value) (json.RawMessage, error) {
	if err := c.reaches(); err != nil {
		return nil, err
	}
	if agent.MCP() {
		return c.callTool(ctx, agent, skill, arguments, func(h http.Header, method string, _ proven, _ []byte) error {
			return c.authorize(ctx, h, agent, method, agent.URL)
		})
	}
	id, err := c.newID()
	if err != nil {
		return nil, err
	}
	body := a2a.Compose(a2a.InvokeParams{Skill: skill, Arguments: arguments, Tenant: agent.Tenant}, []byte(strconv.Quote(id)), a2a.Version1, id)
	present := func(h http.Header, _ []byte) error {
		h.Del("A2A-Extensions") // agents that do not negotiate are called, too
		if agent.Negotiates {
			return c.authorize(ctx, h, agent, http.MethodPost, agent.URL)
		}
		return nil
	}
	response, err := c.post(ctx, agent, "SendMessage", body, present)
	if err != nil {
		return nil, err
	}
	result, err := readAnswer(response)
	if err != nil {
		return nil, fmt.Errorf("holder: SendMessage at %s: %w", agent.URL, err)
	}
	return c.Await(ctx, agent, Capability{}, result)
}
