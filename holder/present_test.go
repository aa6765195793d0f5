package holder_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func TestPresentSignsForTheAgentAlone(t *testing.T) {
	c, a := newClient(t), newAgent(t)
	agent, got := held(t, c, a)
	body := message(`{"data":{"skill":"search_documents","arguments":{}}}`, "")
	attempt := holder.Attempt{
		Operation: operation(t, opSearch), Arguments: value(t, "{}"), Method: http.MethodPost, URL: a.URL, Digest: token.DigestOf([]byte(body)),
	}
	h := http.Header{}
	if err := c.Present(h, agent, got, attempt); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, a.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h
	r.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if a.failed != nil {
		t.Errorf("what was presented does not hold: %v", a.failed)
	}
	for name, change := range map[string]func(*holder.Capability, *holder.Attempt){
		"another agent's URL":   func(_ *holder.Capability, a *holder.Attempt) { a.URL = "http://elsewhere.example" },
		"a URL that begins so":  func(_ *holder.Capability, a *holder.Attempt) { a.URL += "0" },
		"another's capability":  func(h *holder.Capability, _ *holder.Attempt) { h.Agent = "http://elsewhere.example" },
		"one by reference only": func(h *holder.Capability, _ *holder.Attempt) { h.Chain = nil },
	} {
		other, wrong := got, attempt
		change(&other, &wrong)
		h := http.Header{}
		if err := c.Present(h, agent, other, wrong); err == nil || len(h) > 0 {
			t.Errorf("%s: error %v, headers %v", name, err, h)
		}
	}
}

func TestHeadersHaveABudget(t *testing.T) {
	c, a := newClient(t), newAgent(t)
	agent, got := held(t, c, a)
	long := value(t, `{"query":"`+strings.Repeat("x", holder.HeaderBudget)+`"}`)
	err := c.Present(http.Header{}, agent, got, holder.Attempt{Operation: operation(t, opSearch), Arguments: long, Method: "POST", URL: a.URL, Digest: token.DigestOf(nil)})
	if !errors.Is(err, holder.ErrHeaderBudget) || !strings.Contains(err.Error(), "8192") {
		t.Errorf("a proof beyond the budget: %v", err)
	}
	many := make([]holder.Capability, 20)
	for i := range many {
		many[i] = got
	}
	if _, err := holder.JoinDelegations(many...); !errors.Is(err, holder.ErrHeaderBudget) {
		t.Errorf("delegations beyond the budget: %v", err)
	}
	if err := holder.NewWallet(c.Key.Public()).ReceiveHeader(strings.Repeat("x", holder.HeaderBudget+1), now); !errors.Is(err, holder.ErrHeaderBudget) {
		t.Errorf("a header beyond the budget: %v", err)
	}
}

func TestSEP13_DelegationsTravelInAHeader(t *testing.T) {
	c, a := newClient(t), newAgent(t)
	agent, got := held(t, c, a)
	other := newKey(t)
	child, err := c.Delegate(got, other.Public(), holder.Narrowing{Operations: []string{"search"}})
	if err != nil {
		t.Fatal(err)
	}
	value, err := holder.JoinDelegations(child, holder.Capability{ID: "by reference", Agent: agent.Issuer})
	if err != nil {
		t.Fatal(err)
	}
	w := holder.NewWallet(other.Public())
	if err := w.ReceiveHeader(value, now); err != nil {
		t.Fatal(err)
	}
	if all := w.All(now); len(all) != 1 || all[0].ID != child.ID || all[0].Agent != agent.Issuer {
		t.Errorf("received %+v", all)
	}
	for name, bad := range map[string]string{"another's": value, "no chain": "x.y.z", "an empty one": ";"} {
		w := holder.NewWallet(c.Key.Public())
		if err := w.ReceiveHeader(bad, now); err == nil || len(w.All(now)) > 0 {
			t.Errorf("%s: error %v, holds %v", name, err, w.All(now))
		}
	}
	if err := w.ReceiveHeader("", now); err != nil {
		t.Error(err)
	}
}

func TestIdentifyWithoutSessionProvesTheKey(t *testing.T) {
	c, a := newClient(t), newAgent(t)
	agent := discover(t, c, a)
	verify := func(h http.Header, access string) {
		t.Helper()
		d, err := token.VerifyDPoP(h.Get("DPoP"), token.DPoPRequest{Method: "GET", URL: a.URL + "/tasks", AccessToken: access, Now: now, Window: time.Second})
		if err != nil || d.Key != c.Key.Public() {
			t.Errorf("proof of the key: %v", err)
		}
	}
	h := http.Header{}
	if err := c.Identify(t.Context(), h, agent, "GET", a.URL+"/tasks"); err != nil || h.Get("Authorization") != "DPoP "+session {
		t.Errorf("with a session: %v, %v", err, h)
	}
	verify(h, session)
	c.Session = nil
	h = http.Header{}
	if err := c.Identify(t.Context(), h, agent, "GET", a.URL+"/tasks"); err != nil || h.Get("Authorization") != "" {
		t.Errorf("without: %v, %v", err, h)
	}
	verify(h, "")
}
