package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// bypassRemedy is what keeps callers from going past the gateway.
const bypassRemedy = "let a network policy admit the gateway alone to this address (if this machine is the gateway's, ask from another one), " +
	"or have the agent verify Powerbox-Context itself (token.VerifyContext) and set enforces: context"

// bypass tries to reach an agent as a caller would that goes past the gateway:
// at the addresses that its card names, from this machine, without any
// credential. What it asks for is a task that does not exist.
func (d *doctor) bypass(ctx context.Context, a config.Agent, card a2a.CardView) {
	check := "bypass " + a.ID
	seen := map[string]bool{}
	for _, at := range card.Interfaces {
		if seen[at.URL] {
			continue
		}
		seen[at.URL] = true
		switch answer := d.knock(ctx, at); {
		case answer == knockUnreached:
			d.ok(check, "%s is not reached from this machine", at.URL)
		case answer == knockRefused:
			d.ok(check, "%s is reached from this machine and refuses who comes without the gateway", at.URL)
		case loopbackURL(at.URL):
			d.find(check, warning, bypassRemedy, "%s takes calls past the gateway, of whatever runs on this machine", at.URL)
		default:
			d.find(check, broken, bypassRemedy, "%s takes calls past the gateway from this machine", at.URL)
		}
	}
}

// The answers to a knock.
const (
	knockUnreached = "unreached"
	knockRefused   = "refused"
	knockServed    = "served"
)

// knock asks an interface for a task that does not exist.
func (d *doctor) knock(ctx context.Context, at a2a.Interface) string {
	const task = "powerbox-doctor-asks-for-nothing"
	method, address, body := http.MethodPost, at.URL, []byte(nil)
	switch {
	case strings.EqualFold(at.Binding, a2a.GRPC.String()):
		c, err := (&net.Dialer{Timeout: cli.CallTimeout}).DialContext(ctx, "tcp", strings.TrimPrefix(strings.TrimPrefix(at.URL, "https://"), "http://"))
		if err != nil {
			return knockUnreached
		}
		_ = c.Close() // nothing was sent
		return knockServed
	case strings.EqualFold(at.Binding, a2a.HTTPJSON.String()):
		method, address = http.MethodGet, strings.TrimSuffix(at.URL, "/")+"/tasks/"+task
		if at.Version == a2a.Version03 {
			address = strings.TrimSuffix(at.URL, "/") + "/v1/tasks/" + task
		}
	default:
		name := "GetTask"
		if at.Version == a2a.Version03 {
			name = "tasks/get"
		}
		body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":%q}}`, name, task)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return knockUnreached
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("A2A-Version", at.Version)
	response, err := d.http.Do(request)
	if err != nil {
		return knockUnreached
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	data, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return judgeKnock(response.StatusCode, data)
}

// judgeKnock tells an agent that refuses whom it does not know from one that
// looked for the task.
func judgeKnock(status int, body []byte) string {
	var answer struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &answer) // a body that is not JSON has no code
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, answer.Error.Code == a2a.CodeUnauthorized, answer.Error.Code == a2a.CodeUnauthenticated:
		return knockRefused
	}
	return knockServed
}

func loopbackURL(address string) bool {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return cli.LoopbackHost(u.Hostname())
	}
	host, _, err := net.SplitHostPort(address)
	return err == nil && cli.LoopbackHost(host)
}
