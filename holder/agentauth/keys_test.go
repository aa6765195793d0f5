package agentauth_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/holder/agentauth"
	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

func TestAAPCL12_SignJWT(t *testing.T) {
	w, c := newWorld(t)
	a := pays(t, c, "")
	for audience, want := range map[string]string{"": issuer, "https://api.example/do": "https://api.example/do"} {
		signed, err := c.SignJWT(t.Context(), a.ID, audience, []string{"pay"})
		if err != nil || signed.Expires != 60 {
			t.Fatalf("%+v, %v", signed, err)
		}
		got, err := wire.ParseToken(signed.Token, wire.TypeAgent)
		if err != nil || got.Audience != want || !slices.Equal(got.Capabilities, []string{"pay"}) || got.Subject != a.ID || got.Issuer == "" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := c.SignJWT(t.Context(), a.ID, "", []string{"fly"}); err == nil {
		t.Error("a capability that was not granted is signed for")
	}
	if _, err := c.SignJWT(t.Context(), a.ID, "http://api.example", nil); !errors.Is(err, agentauth.ErrAddress) {
		t.Errorf("%v", err)
	}
	w.answers[statusAt] = says(200, strings.Replace(active, `"status": "active", "agent`, `"status": "revoked", "agent`, 1))
	if _, err := c.Status(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SignJWT(t.Context(), a.ID, "", nil); err == nil {
		t.Error("a revoked agent signs")
	}
}

func TestRotateAgentKey(t *testing.T) {
	w, c := newWorld(t)
	a := pays(t, c, "")
	if _, err := c.Execute(t.Context(), a.ID, pay, nil); err != nil {
		t.Fatal(err)
	}
	old := tokenOf(t, w.to(register)[0], wire.TypeHost).AgentKey
	if err := c.RotateAgentKey(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	tokenOf(t, w.to("POST " + issuer + "/agent/rotate-key")[0], wire.TypeHost)
	if _, err := c.Execute(t.Context(), a.ID, pay, nil); err != nil {
		t.Fatal(err)
	}
	key, err := wire.ParseKey(old)
	if err != nil {
		t.Fatal(err)
	}
	before, after := tokenOf(t, w.to(executeAt)[0], wire.TypeAgent), tokenOf(t, w.to(executeAt)[1], wire.TypeAgent)
	if before.Verify(key) != nil || after.Verify(key) == nil {
		t.Error("the old key signs on")
	}
}

// TestRotateHostKeyWithALostAnswer: whichever key the provider has, the host is not lost.
func TestRotateHostKeyWithALostAnswer(t *testing.T) {
	const at = "POST " + issuer + "/host/rotate-key"
	w, c := newWorld(t)
	pays(t, c, "")
	w.answers[at] = says(502, "") // the provider has the new key, and its answer is lost
	if _, err := c.RotateHostKey(t.Context()); err == nil {
		t.Fatal("no error")
	}
	first := tokenOf(t, w.to(at)[0], wire.TypeHost).Issuer
	w.answers[at] = func(rw http.ResponseWriter, r *http.Request) {
		if tokenOf(t, r, wire.TypeHost).Issuer == first {
			says(401, `{"error": "invalid_jwt"}`)(rw, r)
			return
		}
		says(200, `{"host_id": "hst_1", "status": "active"}`)(rw, r)
	}
	rotated, err := c.RotateHostKey(t.Context())
	if err != nil || !slices.Equal(rotated, []string{issuer}) || len(w.to(at)) != 3 {
		t.Errorf("%v, %v, asked %d times", rotated, err, len(w.to(at)))
	}
	if _, err := c.Status(t.Context(), "agt_1"); err != nil {
		t.Fatal(err)
	}
	asked := w.to(statusAt)
	if now := tokenOf(t, asked[len(asked)-1], wire.TypeHost).Issuer; now == first || now == tokenOf(t, w.to(at)[2], wire.TypeHost).Issuer {
		t.Error("the host signs with an old key")
	}
}

func TestDisconnectForgets(t *testing.T) {
	w, c := newWorld(t)
	a := pays(t, c, "")
	w.answers["POST "+issuer+"/agent/revoke"] = says(503, "")
	if err := c.Disconnect(t.Context(), a.ID); err == nil {
		t.Fatal("no error")
	}
	if all, _ := c.Agents(); len(all) != 1 {
		t.Error("an agent that is not revoked was forgotten")
	}
	w.answers["POST "+issuer+"/agent/revoke"] = says(200, `{"agent_id": "agt_1", "status": "revoked"}`)
	if err := c.Disconnect(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context(), a.ID); !errors.Is(err, agentauth.ErrUnknown) {
		t.Errorf("%v", err)
	}
}
