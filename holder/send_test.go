package holder_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// Send is a SendMessage with the user's session and no capability, and without
// a session where the agent does not negotiate.
func TestSendPresentsNoCapability(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to := discover(t, c, a)
	a.answer = func(method string, p powerbox.Value, key token.PublicKey) string {
		if method != "SendMessage" || key != c.Key.Public() || !strings.Contains(p.String(), `"data":{"arguments":{"query":"q1"},"skill":"search_documents"}`) {
			t.Errorf("%s %s by %s; want the skill in a data part, by the client", method, p, key)
		}
		return `"result":{"ok":true}`
	}
	args := value(t, `{"query":"q1"}`)
	if got, err := c.Send(t.Context(), to, "search_documents", args); err != nil || string(got) != `{"ok":true}` {
		t.Errorf("%s, %v; want the result", got, err)
	}
	to.Negotiates = false
	if _, err := c.Send(t.Context(), to, "search_documents", args); !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("%v; want a denial, since no session came along", err)
	}
}

func TestSendFails(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to := discover(t, c, a)
	random, network, nowhere := *c, *c, to
	random.Random = iotest.ErrReader(errBroken)
	network.HTTP = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errBroken })}
	nowhere.URL = "http://%zz"
	session := *c
	session.Random = strings.NewReader(strings.Repeat("x", 20)) // enough for the id of the call alone
	for name, try := range map[string]struct {
		client *holder.Client
		agent  holder.Agent
	}{
		"no key": {&holder.Client{}, to}, "no randomness": {&random, to}, "no network": {&network, to},
		"no URL": {c, nowhere}, "no proof": {&session, to},
	} {
		if _, err := try.client.Send(t.Context(), try.agent, "x", powerbox.Object()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if len(a.bodies) != 0 {
		t.Errorf("%d calls were made", len(a.bodies))
	}
}
