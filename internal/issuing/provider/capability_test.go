package provider_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPP8_WhoSeesWhat: strangers see the public capabilities, hosts see all, agents
// see their grants of them. A token that does not hold is not taken for a missing one.
func TestAAPP8_WhoSeesWhat(t *testing.T) {
	w := newTown(t)
	m := w.active("balance", "accounts")
	names := func(compact string) (out []string, status map[string]string) {
		v, err := w.provider.Viewer(t.Context(), bearer(compact))
		w.must(err)
		page, err := w.provider.List(v, "", "", 0)
		w.must(err)
		for _, c := range page.Capabilities {
			out = append(out, c.Name)
			if _, _, err := w.provider.Describe(v, c.Name); err != nil {
				t.Errorf("AAP-C6: %s is listed: %v", c.Name, err)
			}
		}
		return out, page.Status
	}
	if got, status := names(""); !slices.Equal(got, []string{"balance"}) || status != nil {
		t.Errorf("AAP-C2: a stranger: %v %v", got, status)
	}
	_, _, err := w.provider.Describe(provider.Viewer{}, "accounts")
	w.want("AAP-P8: a stranger", err, agentauth.CodeCapabilityNotFound)
	if got, status := names(w.host(m.host)); len(got) != 6 || status != nil {
		t.Errorf("AAP-C2: a host: %v %v", got, status)
	}
	if got, status := names(w.host(w.key())); len(got) != 1 || status != nil {
		t.Errorf("AAP-H13: a host that nobody knows: %v", got)
	}
	at := claims{"aud": bankURL}
	if _, status := names(m.token(at)); status["balance"] != "granted" || status["transfer"] != "not_granted" || len(status) != 6 {
		t.Errorf("AAP-C2: an agent: %v", status)
	}
	if _, status := names(m.token(at, claims{"capabilities": []string{"accounts"}})); status["balance"] != "not_granted" {
		t.Errorf("AAP-J8: %v", status)
	}
	for _, bad := range []string{m.token(), m.token(at, claims{"exp": noon.Unix() - 60, "iat": noon.Unix() - 90}), "x"} {
		if _, err := w.provider.Viewer(t.Context(), bearer(bad)); code(err) != agentauth.CodeInvalidJWT {
			t.Errorf("AAP-C11: %v", err)
		}
	}
}

// TestAAPP9_Pages: pages follow each other by name, and a cursor is one that was
// given out.
func TestAAPP9_Pages(t *testing.T) {
	w := newTown(t)
	m := w.active()
	v, err := w.provider.Viewer(t.Context(), bearer(w.host(m.host)))
	w.must(err)
	var all []string
	cursor := ""
	for range 3 {
		page, err := w.provider.List(v, "", cursor, 2)
		w.must(err)
		for _, c := range page.Capabilities {
			all = append(all, c.Name)
		}
		cursor = page.Next
	}
	if !slices.Equal(all, []string{"accounts", "audit", "balance", "close", "statement", "transfer"}) || cursor != "" {
		t.Errorf("AAP-P9: %v, then %q", all, cursor)
	}
	for _, bad := range []string{"*", "AAAA", "MSAuLi94"} {
		_, err := w.provider.List(v, "", bad, 0)
		w.want("AAP-C4: "+bad, err, agentauth.CodeInvalidRequest)
	}
	if page, _ := w.provider.List(v, "MOVE money", "", 0); len(page.Capabilities) != 1 {
		t.Errorf("AAP-C1: %d", len(page.Capabilities))
	}
}

// TestAAPC7_Names: a capability that no client could name is none.
func TestAAPC7_Names(t *testing.T) {
	w := newTown(t)
	for _, name := range []string{"", "Transfer", "transfer-money", "transfer money", "überweisen"} {
		c := w.config
		c.Capabilities = capabilities(t)
		c.Capabilities[0].Name = name
		if _, err := provider.New(c); err == nil || !strings.Contains(err.Error(), "a to z") {
			t.Errorf("AAP-C7: %q is taken: %v", name, err)
		}
	}
}

// TestAAPR7_Wishes: whatever cannot be had is named, and nothing vanishes.
func TestAAPR7_Wishes(t *testing.T) {
	w := newTown(t)
	ask := func(mode string, wanted ...provider.Asked) error {
		_, _, err := w.register(w.key(), mode, wanted...)
		return err
	}
	w.want("AAP-R10: blocked", ask("", asked("audit")...), agentauth.CodeInvalidCapability)
	w.want("AAP-R7: unknown", ask("", asked("balance", "nothing")...), agentauth.CodeInvalidCapability)
	w.want("AAP-D8: a mode that is none", ask("swarm"), agentauth.CodeUnsupportedMode)
	w.want("AAP-G4: an operator that is none", ask("", provider.Asked{Name: "balance", Constraints: value(t, `{"a":{"near":1}}`)}), agentauth.CodeUnknownOperator)
	w.want("AAP-G3: nothing left", ask("", provider.Asked{Name: "transfer", Constraints: value(t, `{"amount":{"min":1001}}`)}), agentauth.CodeInvalidRequest)
	many := make([]provider.Asked, 65)
	for i := range many {
		many[i].Name = "balance"
	}
	w.want("ATK-55: many", ask("", many...), agentauth.CodeInvalidRequest)
	_, out, err := w.register(w.key(), "", provider.Asked{Name: "transfer", Constraints: value(t, `{"amount":{"max":9000}}`)})
	if w.must(err); string(out.Grants[0].Constraints) != `{"amount":{"max":1000}}` {
		t.Errorf("AAP-P6: %s", out.Grants[0].Constraints)
	}
	typed := newTown(t, func(c *provider.Config) {
		c.Capabilities[0].Input = value(t, `{"type":"object","additionalProperties":false,"properties":{"account":{"type":"string"}}}`)
		c.Modes = []string{agentauth.Delegated}
	})
	_, _, err = typed.register(typed.key(), "", provider.Asked{Name: "balance", Constraints: value(t, `{"acount":"a"}`)})
	typed.want("AAP-G1: a field that is none", err, agentauth.CodeInvalidRequest)
	_, _, err = typed.register(typed.key(), agentauth.Autonomous)
	typed.want("AAP-D8: a mode that is not offered", err, agentauth.CodeUnsupportedMode)
	m := typed.active()
	again := typed.hosted(m.host, claims{"agent_public_key": m.key.jwk()})
	_, err = typed.provider.Register(t.Context(), again, provider.Registration{Name: "Tester"})
	typed.want("AAP-R6: registered already", err, agentauth.CodeAgentExists)
	s := typed.hosted(m.host, claims{"agent_public_key": m.host.jwk()})
	_, err = typed.provider.Register(t.Context(), s, provider.Registration{Name: "Tester"})
	typed.want("its host's key", err, agentauth.CodeInvalidRequest)
}
