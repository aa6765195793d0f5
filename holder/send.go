package holder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/a2a"
)

// Send calls a skill as a client does that presents no capability: by a
// SendMessage with the skill in a data part, and with the user's session where
// the client has one. What that may do is for the agent to say. It works with
// agents that do not negotiate, too. A refusal is a [*Denied].
func (c *Client) Send(ctx context.Context, agent Agent, skill string, arguments powerbox.Value) (json.RawMessage, error) {
	if err := c.reaches(); err != nil {
		return nil, err
	}
	id, err := c.newID()
	if err != nil {
		return nil, err
	}
	body := a2a.Compose(a2a.InvokeParams{Skill: skill, Arguments: arguments, Tenant: agent.Tenant}, []byte(strconv.Quote(id)), a2a.Version1, id)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, agent.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("holder: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("A2A-Version", a2a.Version1)
	if agent.Negotiates {
		if err := c.authorize(ctx, request.Header, agent, http.MethodPost, agent.URL); err != nil {
			return nil, err
		}
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("holder: SendMessage: %w", err)
	}
	result, err := readAnswer(response)
	if err != nil {
		return nil, fmt.Errorf("holder: SendMessage at %s: %w", agent.URL, err)
	}
	return result, nil
}
