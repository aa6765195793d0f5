package holder_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/holder"
)

func post(t testing.TB, client *http.Client, url, body string) (string, error) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

func message(part, metadata string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[` + part + `]}` + metadata + `}}`
}

// Every call that a stock client makes is signed for what it does.
func TestTransportSignsEveryMethod(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	client := &http.Client{Transport: &holder.Transport{Client: c, Agent: to, Capability: cap1}}
	task := func(method string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"id":"t-1"}}`
	}
	for name, call := range map[string]struct{ body, want string }{
		"data part":      {message(`{"data":{"skill":"retrieve_document","arguments":{"resourceHandle":"h-2"}}}`, ""), ""},
		"metadata":       {message(`{"text":"go"}`, `,"metadata":{"`+holder.ExtensionURI+`":{"skill":"search_documents","arguments":{"query":"q1"}}}`), ""},
		"free text":      {message(`{"text":"go"}`, ""), "a2a.message"},
		"unmapped skill": {message(`{"data":{"skill":"shred"}}`, ""), "a2a.message"},
		"GetTask":        {task("GetTask"), "a2a.task.read"},
		"tasks/get":      {task("tasks/get"), "a2a.task.read"},
		"CancelTask":     {task("CancelTask"), "a2a.task.cancel"},
	} {
		a.want = call.want
		if answer, err := post(t, client, a.URL, call.body); err != nil || a.failed != nil {
			t.Errorf("%s: %s, %v, %v; want a call that verifies", name, answer, err, a.failed)
		}
	}
}

// The proof of a push or of the card is for an operation that the capability
// of these tests does not have: the agent says so, and not that the proof is
// wrong.
func TestTransportSignsPushAndCard(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	client := &http.Client{Transport: &holder.Transport{Client: c, Agent: to, Capability: cap1}}
	push := `,"configuration":{"taskPushNotificationConfig":{"url":"http://p.example"}}`
	for name, call := range map[string]struct{ body, want string }{
		"push":   {`{"jsonrpc":"2.0","id":1,"method":"ListTaskPushNotificationConfigs","params":{"taskId":"t-1"}}`, "a2a.push"},
		"inline": {message(`{"text":"go"}`, push), "a2a.push"},
		"card":   {`{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`, "a2a.card"},
	} {
		a.want = call.want
		if _, err := post(t, client, a.URL, call.body); err != nil || a.failed == nil || !strings.Contains(a.failed.Error(), "granted") {
			t.Errorf("%s: %v, %v; want a denial for want of the operation", name, err, a.failed)
		}
	}
}

// For all arguments the signed request verifies, and the bytes that arrive
// are the bytes that were given.
func TestTransportKeepsBytesAndItsProofVerifies(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	wallet := holder.NewWallet(c.Key.Public())
	if err := wallet.Add(cap1); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &holder.Transport{Client: c, Agent: to, Wallet: wallet}}
	rapid.Check(t, func(rt *rapid.T) {
		query := rapid.MapOf(rapid.StringMatching(`[a-z]{1,8}`), rapid.OneOf(
			rapid.Map(rapid.StringN(0, 40, -1), func(s string) any { return s }),
			rapid.Map(rapid.Int32(), func(n int32) any { return n }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.Just[any](nil),
		)).Draw(rt, "arguments")
		arguments, err := json.Marshal(query)
		if err != nil {
			rt.Fatal(err)
		}
		space := rapid.StringMatching(`[ \n\t]{0,5}`).Draw(rt, "space")
		body := space + message(space+`{"data":{"skill":"search_documents","arguments":`+string(arguments)+space+`}}`, "") + space
		if answer, err := post(t, client, a.URL, body); err != nil || a.failed != nil {
			rt.Fatalf("%s: %s, %v, %v", body, answer, err, a.failed)
		}
		if got := a.bodies[len(a.bodies)-1]; !bytes.Equal(got, []byte(body)) {
			rt.Fatalf("arrived %q; want %q", got, body)
		}
	})
}

// Without a capability that permits the call the agent is asked all the same:
// its refusal is on record and ours would not be.
func TestTransportLeavesTheRefusalToTheAgent(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, wide := held(t, c, a)
	one, err := c.Narrow(wide, holder.Narrowing{Operations: []string{"retrieve"}, Handles: []string{"h-1"}})
	if err != nil {
		t.Fatal(err)
	}
	wallet := holder.NewWallet(c.Key.Public())
	if err := wallet.Add(one); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &holder.Transport{Client: c, Agent: to, Wallet: wallet}}
	answer, err := post(t, client, a.URL, message(`{"data":{"skill":"search_documents"}}`, ""))
	if err != nil || !strings.Contains(answer, "refused") || len(a.bodies) != 2 {
		t.Errorf("%s, %v; want the agent's refusal", answer, err)
	}
}

func TestTransportWithoutCapabilityHasTheSession(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, _ := held(t, c, a)
	seen := http.Header{}
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		seen = r.Header
		return &http.Response{StatusCode: http.StatusOK, Body: noClose(`{}`)}, nil
	})
	client := &http.Client{Transport: &holder.Transport{Base: base, Client: c, Agent: to, Wallet: holder.NewWallet(c.Key.Public())}}
	body := message(`{"text":"go"}`, "")
	if _, err := post(t, client, a.URL, body); err != nil || seen.Get("Authorization") != "DPoP "+session || seen.Get("DPoP") == "" || seen.Get(holder.HeaderProof) != "" {
		t.Errorf("%v, %v; want the session and no capability", seen, err)
	}
	c.Session = nil
	if _, err := post(t, client, a.URL, body); err != nil || seen.Get("Authorization") != "" {
		t.Errorf("%v, %v; want nothing", seen, err)
	}
}

// A capability and its proof never go to another place than its agent.
func TestATK35_TransportSignsForNobodyElse(t *testing.T) {
	a, c := newAgent(t), newClient(t)
	to, cap1 := held(t, c, a)
	transport := &holder.Transport{Client: c, Agent: to, Capability: cap1}
	client := &http.Client{Transport: transport}
	stolen := 0
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get(holder.HeaderCapability) != "" || r.Header.Get(holder.HeaderProof) != "" {
			stolen++
		}
	}))
	defer thief.Close()
	redirects := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	body := message(`{"text":"go"}`, "")
	if _, err := post(t, client, thief.URL, body); err == nil {
		t.Error("a call of somebody else was signed")
	}
	transport.Agent.URL = redirects.URL
	if _, err := post(t, client, redirects.URL, body); err == nil {
		t.Error("a redirect was followed with a signed call")
	}
	if stolen != 0 {
		t.Errorf("%d calls with a capability arrived elsewhere", stolen)
	}
	transport.Agent.URL = a.URL
	for _, bad := range []string{`{`, `[]`, `{"jsonrpc":"2.0","id":1,"method":"GetTask","Method":"SendMessage","params":{"id":"t"}}`, ""} {
		if _, err := post(t, client, a.URL, bad); err == nil {
			t.Errorf("%q was signed", bad)
		}
	}
	if response, err := client.Get(a.URL + "/.well-known/agent-card.json"); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%v; want the card", err)
	} else {
		_ = response.Body.Close()
	}
}
