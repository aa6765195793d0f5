package agentauth_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/agentauth"
	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

const (
	register = "POST " + issuer + "/agent/register"
	statusAt = "GET " + issuer + "/agent/status"
	asksMore = "POST " + issuer + "/agent/request-capability"
)

func connection() agentauth.Connection {
	return agentauth.Connection{Name: "n", Capabilities: []agentauth.Ask{{Capability: "pay"}}}
}

func TestAAPCL5_PollsAtTheInterval(t *testing.T) {
	for name, test := range map[string]struct {
		between []http.HandlerFunc // answers before the last
		want    time.Duration      // until the agent is active
	}{
		"at once":           {nil, 5 * time.Second},
		"still pending":     {[]http.HandlerFunc{says(200, waiting)}, 10 * time.Second},
		"slow down":         {[]http.HandlerFunc{says(400, `{"error": "slow_down"}`)}, 15 * time.Second},
		"not yet":           {[]http.HandlerFunc{says(400, `{"error": "authorization_pending"}`)}, 10 * time.Second},
		"too many, in 20 s": {[]http.HandlerFunc{says(429, `{}`, "Retry-After", "20")}, 25 * time.Second},
		"not there at all":  {[]http.HandlerFunc{says(503, ``), says(503, ``), says(503, ``), says(503, ``), says(503, ``)}, 30 * time.Second},
		"not there, twice":  {[]http.HandlerFunc{says(503, ``), says(502, ``)}, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWorld(t)
				w.answers[register] = says(200, waiting)
				w.answers[statusAt] = inTurn(append(test.between, says(200, active))...)
				var told []agentauth.Approval
				c.Approve = func(_ string, a agentauth.Approval) { told = append(told, a) }
				began := now()
				a, err := c.Connect(t.Context(), issuer, connection())
				if err != nil || a.Status != "active" {
					t.Fatalf("%+v, %v", a, err)
				}
				if got := now().Sub(began); got != test.want {
					t.Errorf("it took %s, want %s", got, test.want)
				}
				if len(told) != 1 || told[0].Code != "AB-CD" {
					t.Errorf("told %+v", told)
				}
			})
		})
	}
}

// TestAAPCL6_AFreshTokenForEveryPoll, and for every audience (AAP-CL8).
func TestAAPCL6_AFreshTokenForEveryPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.answers[register] = says(200, waiting)
		w.answers[statusAt] = inTurn(says(200, waiting), says(503, ""), says(200, waiting), says(200, active))
		if _, err := c.Connect(t.Context(), issuer, connection()); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, r := range slices.Concat(w.to(register), w.to(statusAt)) {
			parsed := tokenOf(t, r, wire.TypeHost)
			if seen[parsed.ID] || seen[r.Header.Get("Authorization")] {
				t.Errorf("%s %s: a token that was shown before", r.Method, r.URL)
			}
			seen[parsed.ID], seen[r.Header.Get("Authorization")] = true, true
			if parsed.Audience != issuer || parsed.Expires.Sub(parsed.IssuedAt) > time.Minute {
				t.Errorf("%+v", parsed)
			}
			key, err := wire.ParseKey(parsed.HostKey)
			if err != nil || parsed.Verify(key) != nil || key.Thumbprint() != parsed.Issuer {
				t.Errorf("it does not verify under the key that it names: %v", err)
			}
		}
		if len(w.to(statusAt)) < 4 {
			t.Errorf("%d polls", len(w.to(statusAt)))
		}
	})
}

// TestAAPCL13_ADenialIsFinal: the same request is made again only when a person
// says so.
func TestAAPCL13_ADenialIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.answers[register], w.answers[statusAt] = says(200, waiting), says(200, rejected)
		var denied *agentauth.Denied
		_, err := c.Connect(t.Context(), issuer, connection())
		if !errors.As(err, &denied) || denied.Reason != "no" || !errors.Is(err, powerbox.ErrDenied) {
			t.Fatal(err)
		}
		if all, _ := c.Agents(); len(all) != 0 {
			t.Errorf("the agent is kept: %+v", all)
		}
		other := connection()
		other.Name = "another name, the same request"
		if _, err := c.Connect(t.Context(), issuer, other); !errors.As(err, &denied) || len(w.to(register)) != 1 {
			t.Errorf("%v, asked %d times", err, len(w.to(register)))
		}
		other.Again = true
		w.answers[register] = says(200, active)
		if _, err := c.Connect(t.Context(), issuer, other); err != nil {
			t.Errorf("a person said so: %v", err)
		}
		if err := c.Disconnect(t.Context(), "agt_1"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Connect(t.Context(), issuer, connection()); err != nil {
			t.Errorf("it was granted since: %v", err)
		}
		first, second := tokenOf(t, w.to(register)[0], wire.TypeHost), tokenOf(t, w.to(register)[1], wire.TypeHost)
		if first.AgentKey.Equal(second.AgentKey) {
			t.Error("a rejected agent's key is used again")
		}
	})
}

func TestAAPCL13_ADeniedRequestIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		a := pays(t, c, `{"amount": {"max": 10}}`)
		w.answers[statusAt] = says(200, strings.Replace(active, `"status": "active"}]`, `"status": "active", "constraints": {"amount": {"max": 10}}}]`, 1))
		held := w.answers[statusAt]
		w.answers[statusAt] = inTurn(held, says(200, strings.Replace(active, `"status": "active"}]`, `"status": "active", "constraints": {"amount": {"max": 10}}}, {"capability": "pay", "status": "denied"}]`, 1)))
		w.answers[asksMore] = says(200, waiting)
		ask := []agentauth.Ask{{Capability: "pay", Constraints: json.RawMessage(`{"amount": {"max": 1000}}`)}}
		// What it holds already is no answer to the request.
		var denied *agentauth.Denied
		if _, err := c.RequestCapability(t.Context(), a.ID, ask, agentauth.Asking{}); !errors.As(err, &denied) {
			t.Fatalf("%v", err)
		}
		if _, err := c.RequestCapability(t.Context(), a.ID, ask, agentauth.Asking{}); !errors.As(err, &denied) || len(w.to(asksMore)) != 1 {
			t.Errorf("%v, asked %d times", err, len(w.to(asksMore)))
		}
		if got := tokenOf(t, w.to(asksMore)[0], wire.TypeAgent); got.Audience != issuer || got.Subject != a.ID {
			t.Errorf("%+v", got)
		}
	})
}

// TestAAPA12_NobodyApproved leaves the agent pending, and asking again is about the
// same agent.
func TestAAPA12_NobodyApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.answers[register], w.answers[statusAt] = says(200, waiting), says(200, waiting)
		var pending *agentauth.Pending
		began := now()
		if _, err := c.Connect(t.Context(), issuer, connection()); !errors.As(err, &pending) || !pending.Ended || now().Sub(began) != 5*time.Minute {
			t.Fatalf("%v after %s", err, now().Sub(began))
		}
		again := connection()
		again.NoWait = true
		if _, err := c.Connect(t.Context(), issuer, again); !errors.As(err, &pending) || pending.Ended || pending.Approval.Code != "AB-CD" {
			t.Errorf("%v", err)
		}
		first, second := tokenOf(t, w.to(register)[0], wire.TypeHost), tokenOf(t, w.to(register)[1], wire.TypeHost)
		if !first.AgentKey.Equal(second.AgentKey) {
			t.Error("a registration that waits was made again with another key")
		}
		w.answers[statusAt] = inTurn(says(200, waiting), says(200, active))
		if a, err := c.Wait(t.Context(), "agt_1"); err != nil || a.Status != "active" {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestLostRegistration: the answer was lost, and the agent is active.
func TestLostRegistration(t *testing.T) {
	w, c := newWorld(t)
	w.answers[register] = inTurn(says(409, `{"error": "agent_exists"}`), says(200, active))
	if _, err := c.Connect(t.Context(), issuer, connection()); err != nil {
		t.Fatal(err)
	}
	first, second := tokenOf(t, w.to(register)[0], wire.TypeHost), tokenOf(t, w.to(register)[1], wire.TypeHost)
	if first.AgentKey.Equal(second.AgentKey) {
		t.Error("the key that is taken was used again")
	}
}

// TestForeignAgentID: a provider cannot impersonate another.
func TestForeignAgentID(t *testing.T) {
	w, c := newWorld(t)
	pays(t, c, "")
	const evil = "https://evil.example"
	w.answers["GET "+evil+"/.well-known/agent-configuration"] = says(200, strings.ReplaceAll(document(t, nil), issuer, evil))
	w.answers["POST "+evil+"/agent/register"] = says(200, active)
	if _, err := c.Connect(t.Context(), evil, connection()); err == nil {
		t.Error("an agent of one provider was replaced by that of another")
	}
	if all, _ := c.Agents(); len(all) != 1 || all[0].Issuer != issuer {
		t.Errorf("%+v", all)
	}
	// And an answer about another agent than was asked about is none.
	w.answers[statusAt] = says(200, strings.Replace(active, "agt_1", "agt_2", 1))
	if _, err := c.Status(t.Context(), "agt_1"); err == nil {
		t.Error("an answer about another agent was taken")
	}
}

func TestAAPCL9_WiderThanAsked(t *testing.T) {
	for name, test := range map[string]struct {
		asked, granted string
		wider          bool
	}{
		"as asked":                        {`{"amount": {"max": 100}}`, `{"amount": {"max": 100}}`, false},
		"narrower":                        {`{"amount": {"max": 100}}`, `{"amount": {"max": 50}, "currency": "USD"}`, false},
		"a higher maximum":                {`{"amount": {"max": 100}}`, `{"amount": {"max": 1000}}`, true},
		"without constraints":             {`{"amount": {"max": 100}}`, ``, true},
		"another field":                   {`{"amount": {"max": 100}}`, `{"currency": "USD"}`, true},
		"nothing was constrained":         {``, ``, false},
		"operators that nobody knows yet": {`{"amount": {"max": 100}}`, `{"amount": {"multiple_of": 5}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t)
			grant := `"status": "active"}]`
			if test.granted != "" {
				grant = `"status": "active", "constraints": ` + test.granted + `}]`
			}
			w.answers[register] = says(200, strings.Replace(active, `"status": "active"}]`, grant, 1))
			warned := 0
			c.Warn = func(string) { warned++ }
			a := pays(t, c, test.asked)
			if a.Grants[0].Wider != test.wider || (warned > 0) != test.wider {
				t.Errorf("wider %t, %d warnings", a.Grants[0].Wider, warned)
			}
			_, err := c.Execute(t.Context(), a.ID, agentauth.Execution{Capability: "pay", Arguments: json.RawMessage(`{"amount": 500, "currency": "USD"}`)}, nil)
			if errors.Is(err, agentauth.ErrWider) != test.wider {
				t.Errorf("beyond what was asked for: %v", err)
			}
			if _, err = c.Execute(t.Context(), a.ID, agentauth.Execution{Capability: "pay", Arguments: json.RawMessage(`{"amount": 5}`)}, nil); err != nil {
				t.Errorf("within what was asked for: %v", err)
			}
		})
	}
}

func TestConnectRefusesBeforeItAsks(t *testing.T) {
	w, c := newWorld(t)
	for name, with := range map[string]agentauth.Connection{
		"no name":                      {},
		"a mode that is not there":     {Name: "n", Mode: "autonomous"},
		"operators that nobody knows":  {Name: "n", Capabilities: []agentauth.Ask{{Capability: "pay", Constraints: json.RawMessage(`{"amount": {"const": 1}}`)}}},
		"constraints that are no JSON": {Name: "n", Capabilities: []agentauth.Ask{{Capability: "pay", Constraints: json.RawMessage(`{`)}}},
	} {
		if _, err := c.Connect(t.Context(), issuer, with); err == nil || len(w.to(register)) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNamesThatThereAre come with a refusal of names (section 6.4).
func TestNamesThatThereAre(t *testing.T) {
	w, c := newWorld(t)
	w.answers[register] = says(400, `{"error": "invalid_capabilities", "message": "no", "invalid_capabilities": ["fly"]}`)
	_, err := c.Connect(t.Context(), issuer, connection())
	var e *agentauth.Error
	if !errors.As(err, &e) || !slices.Equal(e.Available, []string{"pay"}) || !slices.Equal(e.Invalid, []string{"fly"}) {
		t.Errorf("%v", err)
	}
}

func TestReactivateLosesWhatWasAsked(t *testing.T) {
	w, c := newWorld(t)
	a := pays(t, c, `{"amount": {"max": 10}}`)
	expired := strings.Replace(active, `"status": "active", "agent`, `"status": "expired", "agent`, 1)
	w.answers[statusAt] = says(200, expired)
	w.answers["POST "+issuer+"/agent/reactivate"] = says(200, active)
	back, err := c.Reactivate(t.Context(), a.ID, false)
	if err != nil || back.Status != "active" || len(back.Asked) != 0 || back.Grants[0].Wider {
		t.Errorf("%+v, %v", back, err)
	}
	w.answers[statusAt] = says(200, active)
	if _, err := c.Reactivate(t.Context(), a.ID, false); err != nil || len(w.to("POST "+issuer+"/agent/reactivate")) != 1 {
		t.Errorf("an active agent was reactivated: %v", err)
	}
}

// TestAAPCL13_ADeniedHost: a user who denies the first agent of a host denies the
// host. A person can ask again as another host.
func TestAAPCL13_ADeniedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.answers[register], w.answers[statusAt] = says(200, waiting), says(403, `{"error": "host_rejected"}`)
		var denied *agentauth.Denied
		if _, err := c.Connect(t.Context(), issuer, connection()); !errors.As(err, &denied) {
			t.Fatal(err)
		}
		w.answers[register] = inTurn(says(403, `{"error": "host_rejected"}`), says(200, active))
		other := connection()
		other.Capabilities = nil // another request, which was not denied
		if _, err := c.Connect(t.Context(), issuer, other); !errors.Is(err, powerbox.ErrDenied) || len(w.to(register)) != 2 {
			t.Errorf("%v, asked %d times", err, len(w.to(register)))
		}
		w.answers[register] = inTurn(says(403, `{"error": "host_rejected"}`), says(200, active))
		other.Again = true
		if _, err := c.Connect(t.Context(), issuer, other); err != nil {
			t.Fatal(err)
		}
		asked := w.to(register)
		if tokenOf(t, asked[2], wire.TypeHost).Issuer == tokenOf(t, asked[3], wire.TypeHost).Issuer {
			t.Error("the rejected key was used again")
		}
	})
}

// TestAnEndIsNoDenial: the agent was revoked while a person was asked for more.
func TestAnEndIsNoDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		a := pays(t, c, "")
		w.answers[asksMore] = says(200, waiting)
		gone := says(200, strings.Replace(active, `"status": "active", "agent`, `"status": "revoked", "agent`, 1))
		w.answers[statusAt] = inTurn(says(200, active), gone)
		ask := []agentauth.Ask{{Capability: "see"}}
		var denied *agentauth.Denied
		if _, err := c.RequestCapability(t.Context(), a.ID, ask, agentauth.Asking{}); err == nil || errors.As(err, &denied) {
			t.Fatalf("%v", err)
		}
		w.answers[statusAt] = says(200, active)
		if _, err := c.RequestCapability(t.Context(), a.ID, ask, agentauth.Asking{}); errors.As(err, &denied) || len(w.to(asksMore)) != 2 {
			t.Errorf("%v, asked %d times", err, len(w.to(asksMore)))
		}
	})
}
