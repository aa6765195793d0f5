package provider_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPE1_Execution: a call is refused whose capability is unknown or not here, or
// whose arguments are no object or break the schema.
func TestAAPE1_Execution(t *testing.T) {
	w := newTown(t, func(c *provider.Config) {
		c.Capabilities[0].Input = value(t, `{"type":"object","required":["account"],"additionalProperties":false,"properties":{"account":{"type":"string"}}}`)
	})
	m := w.active("balance", "statement")
	for name, c := range map[string]struct {
		capability, arguments string
		want                  agentauth.Code
	}{
		"done":             {"balance", `{"account":"a"}`, ""},
		"against a schema": {"balance", `{"account":5}`, agentauth.CodeInvalidRequest},
		"nothing":          {"balance", `null`, agentauth.CodeInvalidRequest},
		"an array":         {"balance", `[]`, agentauth.CodeInvalidRequest},
		"at a location":    {"statement", `{}`, agentauth.CodeInvalidRequest},
		"no capability":    {"unknown", `{}`, agentauth.CodeCapabilityNotFound},
		"no grant":         {"accounts", `{}`, agentauth.CodeNotGranted},
	} {
		w.want("AAP-E1 "+name, m.execute(c.capability, c.arguments), c.want)
	}
	if len(w.service.did) != 1 || w.service.did[0].Agent != m.id || w.service.did[0].User != alice.Principal || w.service.did[0].Decision == "" {
		t.Errorf("AAP-E1: %+v", w.service.did)
	}
	if got := effective(w, m.standing().Grants); len(got) != 2 {
		t.Errorf("AAP-E9: %v", got)
	}
	w.config.Capabilities = w.config.Capabilities[1:]
	w.restart()
	w.now = w.now.Add(time.Second)
	w.want("AAP-P12: removed", m.execute("balance", `{"account":"a"}`), agentauth.CodeNotGranted)
}

// TestAAPG7_GrantsAreDecidedAlone: two grants admit what one of them admits, and
// not what they would together.
func TestAAPG7_GrantsAreDecidedAlone(t *testing.T) {
	w := newTown(t)
	m := w.active()
	for _, c := range []string{`{"amount":{"max":10},"to":"a"}`, `{"amount":{"max":100},"to":"b"}`} {
		w.must(second(w.provider.GrantAs(t.Context(), alice, m.id, provider.Asked{Name: "transfer", Constraints: value(t, c)})))
	}
	for arguments, want := range map[string]agentauth.Code{
		`{"amount":10,"to":"a"}`: "", `{"amount":100,"to":"b"}`: "", `{"amount":100,"to":"a"}`: agentauth.CodeConstraint, `{"amount":1}`: agentauth.CodeConstraint,
		`{"amount":"1","to":"a"}`: agentauth.CodeConstraint,
	} {
		w.want("AAP-G7 "+arguments, m.execute("transfer", arguments), want)
	}
}

// TestAAPE10_TakenBackInBetween: a grant that is taken back after the agent was
// authenticated is not executed under, however it was taken back.
func TestAAPE10_TakenBackInBetween(t *testing.T) {
	for name, end := range map[string]func(w *town, m *member){
		"the grant": func(w *town, m *member) {
			w.must(second(w.provider.RevokeGrantAs(t.Context(), alice, m.id, "balance")))
		},
		"the agent": func(w *town, m *member) { w.must(w.provider.RevokeAgentAs(t.Context(), alice, m.id)) },
		"the host": func(w *town, m *member) {
			w.must(second(w.provider.RevokeHostAs(t.Context(), alice, w.hostByKey(m.host))))
		},
		"the link":   func(w *town, m *member) { w.must(second(w.provider.Unlink(t.Context(), alice, w.hostByKey(m.host)))) },
		"its user":   func(w *town, _ *member) { w.must(second(w.provider.ForgetUser(t.Context(), root, alice.Principal))) },
		"its record": func(w *town, m *member) { w.revokeRecord(m) },
		"a freeze": func(w *town, m *member) {
			w.must(second(w.issuer.Freeze(t.Context(), "operator", w.record(m), "a test")))
		},
	} {
		w := newTown(t)
		m := w.active("balance")
		s, err := m.session()
		w.must(err)
		end(w, m)
		_, err = w.provider.Execute(t.Context(), s, provider.Call{Capability: "balance", Arguments: powerbox.Object()})
		w.want("AAP-E10 "+name, err, agentauth.CodeNotGranted)
		if len(w.service.did) != 0 {
			t.Errorf("AAP-E10 %s: it was done", name)
		}
		if in, active := w.introspect(m.token(), "balance", `{}`); active && (len(in.Grants) > 0 || in.Decision.Allowed) {
			t.Errorf("AAP-I2 %s: a service is told %+v", name, in.Grants)
		}
	}
}

// record is the capability on record of an agent's one grant.
func (w *town) record(m *member) string { return w.look(m.id).Grants[0].Record }

func (w *town) revokeRecord(m *member) {
	w.t.Helper()
	w.must(second(w.issuer.RevokeAsOperator(w.t.Context(), "operator", issuer.Target{ID: w.record(m)})))
}

func (w *town) introspect(compact, capability, arguments string) (provider.Introspection, bool) {
	w.t.Helper()
	in, active, err := w.provider.Introspect(w.t.Context(), provider.Presented{Token: compact}, capability, value(w.t, arguments))
	w.must(err)
	return in, active
}

// TestAAPI1_Introspection: a service is told the grants in force, within the limits of
// the token, and whether they admit the arguments.
func TestAAPI1_Introspection(t *testing.T) {
	w := newTown(t)
	m := w.active("balance", "transfer", "statement")
	at := claims{"aud": outside}
	once := m.token(at)
	for range 2 {
		if in, active := w.introspect(once, "", `{}`); !active || len(in.Grants) != 3 || in.Session.Audience() != outside {
			t.Errorf("AAP-I5: %t %+v", active, in.Grants)
		}
	}
	if _, active := w.introspect(m.token(claims{"aud": "https://other.example"}), "", `{}`); active {
		t.Error("AAP-I4: a token for nobody that is known")
	}
	if _, active := w.introspect("no.token.atall", "", `{}`); active {
		t.Error("AAP-I1: no token")
	}
	if in, _ := w.introspect(m.token(at, claims{"capabilities": []string{"balance"}}), "statement", `{}`); len(in.Grants) != 1 || in.Decision.Allowed {
		t.Errorf("AAP-J8: %+v", in)
	}
	for arguments, want := range map[string]bool{`{"amount":1000}`: true, `{"amount":1001}`: false, `{}`: false} {
		if in, _ := w.introspect(m.token(), "transfer", arguments); in.Decision == nil || in.Decision.Allowed != want {
			t.Errorf("AAP-I6 %s: %+v", arguments, in.Decision)
		}
	}
	if in, _ := w.introspect(m.token(), "transfer", `{"amount":1000,"note":9007199254740993}`); in.Decision.Allowed {
		t.Errorf("ATK-39: a number that readers round: %+v", in.Decision)
	}
	if in, _ := w.introspect(m.token(), "transfer", `{"amount":999.00000000000000000001}`); in.Decision.Allowed {
		t.Errorf("ATK-39: a number that readers round: %+v", in.Decision)
	}
	for _, c := range []struct {
		audience, capability string
		want                 bool
	}{
		{location, "balance", true},
		{bankURL, "balance", true},
		{outside, "balance", false},
		{outside, "statement", true},
		{location, "statement", false},
		{bankURL, "statement", false},
	} {
		if in, active := w.introspect(m.token(claims{"aud": c.audience}), c.capability, `{}`); !active || in.Decision.Allowed != c.want {
			t.Errorf("AAP-I4: a token for %s and %s: %t %+v; want allowed %t", c.audience, c.capability, active, in.Decision, c.want)
		}
	}
	w.now = w.now.Add(time.Hour)
	if _, active := w.introspect(m.token(at), "", `{}`); active {
		t.Error("AAP-I2: an expired agent")
	}
}

// TestAAPE4_Jobs: a job is its agent's, for as long as what it was begun under is
// in force.
func TestAAPE4_Jobs(t *testing.T) {
	w := newTown(t)
	m, other := w.active("balance", "accounts"), w.active("balance")
	s, err := m.session()
	w.must(err)
	w.service.answer = provider.Result{Job: "https://service.example/jobs/1"}
	done, err := w.provider.Execute(t.Context(), s, provider.Call{Capability: "balance", Arguments: powerbox.Object()})
	w.must(err)
	poll := func(m *member, more ...claims) error {
		s, err := m.session(more...)
		w.must(err)
		return second(w.provider.Poll(t.Context(), s, done.Job))
	}
	w.want("AAP-E4", poll(m), "")
	w.want("AAP-E4: another agent", poll(other), agentauth.CodeNotFound)
	w.want("AAP-J8: restricted", poll(m, claims{"capabilities": []string{"accounts"}}), agentauth.CodeNotGranted)
	w.must(second(w.issuer.Freeze(t.Context(), "operator", w.record(m), "a test")))
	w.want("AAP-E4: frozen", poll(m), agentauth.CodeNotGranted)
	w.must(second(w.issuer.Thaw(t.Context(), "operator", w.record(m), "a test")))
	w.want("AAP-E4: thawed", poll(m), "")
	w.must(second(w.provider.RevokeGrantAs(t.Context(), alice, m.id, "balance")))
	w.want("AAP-E4: taken back", poll(m), agentauth.CodeNotGranted)
}

// TestATK24_Streams: a stream continues until what it was opened under is stopped.
func TestATK24_Streams(t *testing.T) {
	for name, end := range map[string]func(w *town, m *member){
		"nothing": nil,
		"revoked": func(w *town, m *member) {
			w.must(second(w.provider.RevokeGrantAs(t.Context(), alice, m.id, "balance")))
		},
		"frozen": func(w *town, m *member) {
			w.must(second(w.issuer.Freeze(t.Context(), "operator", w.record(m), "a test")))
		},
		"expired": func(w *town, _ *member) { w.now = w.now.Add(time.Hour) },
		"the host": func(w *town, m *member) {
			w.must(second(w.provider.RevokeHostAs(t.Context(), alice, w.hostByKey(m.host))))
		},
	} {
		w := newTown(t)
		m := w.active("balance")
		s, err := m.session()
		w.must(err)
		out, err := w.provider.Execute(t.Context(), s, provider.Call{Capability: "balance", Arguments: powerbox.Object()})
		w.must(err)
		if end != nil {
			end(w, m)
		}
		if w.provider.GoesOn(t.Context(), &out) != (end == nil) {
			t.Errorf("ATK-24, AAP-E5: %s", name)
		}
	}
}

// TestAAPP6_BoundsThatWereTightened: the server's present bounds of a capability hold
// for earlier grants, and so do wider ones later (AAP-G3).
func TestAAPP6_BoundsThatWereTightened(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.Tokens = provider.Tokens{Enabled: true, Lifetime: time.Hour, Depth: 1} })
	wide, narrow := w.active("transfer"), w.active()
	w.must(second(w.provider.GrantAs(t.Context(), alice, narrow.id, provider.Asked{Name: "transfer", Constraints: value(t, `{"amount":{"max":500}}`)})))
	bounded := func(to string) {
		t.Helper()
		w.config.Capabilities = slices.Clone(w.config.Capabilities)
		w.config.Capabilities[slices.IndexFunc(w.config.Capabilities, func(c provider.Capability) bool { return c.Name == "transfer" })].Constraints = shape(t, to)
		w.restart()
		w.now = w.now.Add(time.Second)
	}
	asked := func(m *member, amount string) (provider.Introspection, bool, error) {
		return w.provider.Introspect(t.Context(), bearer(m.token()), "transfer", value(t, `{"amount":`+amount+`}`))
	}
	w.want("at first", wide.execute("transfer", `{"amount":1000}`), "")
	bounded(`{"amount":{"max":100}}`)
	for _, m := range []*member{wide, narrow} {
		w.want("AAP-P6: within", m.execute("transfer", `{"amount":100}`), "")
		err := m.execute("transfer", `{"amount":101}`)
		w.want("AAP-P6: beyond", err, agentauth.CodeConstraint)
		var e *agentauth.Error
		if !errors.As(err, &e) || len(e.Violations) != 1 || string(e.Violations[0].Constraint.AppendJSON(nil)) != `{"max":100}` || e.Decision == "" {
			t.Errorf("AAP-E6: %+v", e)
		}
		for amount, want := range map[string]bool{"100": true, "101": false} {
			if in, ok, err := asked(m, amount); err != nil || !ok || in.Decision == nil || in.Decision.Allowed != want {
				t.Errorf("AAP-I6: %s: %v %t %v", amount, in.Decision, ok, err)
			}
		}
		if got := m.standing().Grants; len(got) != 1 || string(got[0].Constraints) != `{"amount":{"max":100}}` {
			t.Errorf("AAP-G3: the effective set is %s", got[0].Constraints)
		}
		s, err := m.session(claims{"aud": bankURL})
		w.must(err)
		issued, err := w.provider.IssueTokens(t.Context(), s, provider.TokenRequest{Capabilities: []string{"transfer"}})
		if err != nil || len(issued) != 1 {
			t.Fatalf("%v", err)
		}
		if op, err := powerbox.ParseOperation("bank/agent-auth/transfer"); err != nil || admits(t, issued[0], op, 101) || !admits(t, issued[0], op, 100) {
			t.Errorf("AAP-P6: a token is for %v, %v", issued[0].Authority, err)
		}
	}
	w.want("AAP-E6: with no grant", w.active().execute("transfer", `{"amount":101}`), agentauth.CodeNotGranted)
	bounded(`{"amount":{"max":700}}`)
	w.want("AAP-P6: as it was granted", narrow.execute("transfer", `{"amount":500}`), "")
	w.want("AAP-P6: never wider", narrow.execute("transfer", `{"amount":501}`), agentauth.CodeConstraint)
	w.want("AAP-P6: the server's", wide.execute("transfer", `{"amount":700}`), "")
}

// admits reports whether an issued capability admits an amount.
func admits(t *testing.T, c issuer.Capability, op powerbox.Operation, amount int) bool {
	t.Helper()
	attempt, err := powerbox.Invocation(op, value(t, fmt.Sprintf(`{"amount":%d}`, amount)))
	if err != nil {
		t.Fatal(err)
	}
	return powerbox.Decide(attempt, c.Authority, noon).Allowed
}
