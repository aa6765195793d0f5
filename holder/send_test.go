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

// A card that names a tenant for its calls gets them with it (A2A 1.0, AgentInterface);
// a task is in that tenant, where nothing else is said.
func TestCallsNameTheTenantOfTheCard(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	a.tenant = "t1"
	to := discover(t, c, a)
	a.answer = func(string, powerbox.Value, token.PublicKey) string { return `"result":{"capabilities":[]}` }
	held := holder.Capability{ID: "cap_1", Agent: a.URL}
	for name, try := range map[string]struct {
		want string
		call func() error
	}{
		"SendMessage": {"t1", func() error {
			_, err := c.Send(t.Context(), to, "search_documents", powerbox.Object())
			return err
		}},
		"skill/invoke": {"t1", func() error {
			_, err := c.Invoke(t.Context(), to, held, "search_documents", powerbox.Object())
			return err
		}},
		"a request for a task": {"t1", func() error {
			_, err := c.Request(t.Context(), to, holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "p", Task: "1"})
			return err
		}},
		"a request for a task elsewhere": {"t2", func() error {
			_, err := c.Request(t.Context(), to, holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "p", Task: "1", Tenant: "t2"})
			return err
		}},
		"a request for none": {"", func() error {
			_, err := c.Request(t.Context(), to, holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "p"})
			return err
		}},
	} {
		a.bodies = nil
		err := try.call()
		if len(a.bodies) != 1 {
			t.Fatalf("%s: %d calls, %v", name, len(a.bodies), err)
		}
		params, _ := value(t, string(a.bodies[0])).Get("params")
		said, _ := params.Get("tenant")
		if got, _ := said.Text(); got != try.want {
			t.Errorf("%s: in tenant %q; want %q\n%s", name, got, try.want, a.bodies[0])
		}
	}
}
