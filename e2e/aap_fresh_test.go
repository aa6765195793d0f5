package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAAPA6_SessionsThatAreNotFresh answers and grants with sessions of an identity
// provider in a shell, as programs do: who logged in long ago can deny and revoke, and
// approves after another login, whether or not the session is young.
func TestAAPA6_SessionsThatAreNotFresh(t *testing.T) {
	asGiven(t)
	l := newLogin(t)
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, []byte(l.jwks(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := serveBank(t, "localhost:"+freePort(t), "", fmt.Sprintf(
		"identity:\n  providers: [{issuer: \"https://login.example.org\", audience: [\"https://agents.example.org\"], jwks_file: %q}]\n", keys))
	ago := time.Now().Add(-10 * time.Minute).Unix()
	login := func(more fact) string {
		claims := fact{"aud": b.url + "/approve"}
		maps.Copy(claims, more)
		return l.session(t, "alice", claims)
	}
	stale := map[string]string{
		"refreshed after an old login":        login(fact{"auth_time": ago}),
		"old, and without time of its login":  login(fact{"iat": ago}),
		"of a login at a time that is none":   login(fact{"auth_time": "now"}),
		"old, and of a login that is to come": login(fact{"iat": ago, "auth_time": time.Now().Add(time.Hour).Unix()}),
	}
	answers := func(agent *protocolAgent, session string, body fact) (int, fact) {
		return b.call(http.MethodPost, "/v1/approvals/"+agent.code, session, body)
	}
	grants := func(agent *protocolAgent, session string) (int, fact) {
		return b.call(http.MethodPost, "/v1/host-agents/"+agent.id+"/grants", session, fact{"capability": "check_balance"})
	}
	agent := b.host().register(fact{"name": "Helper", "capabilities": []any{"check_balance"}})
	for name, session := range stale {
		if status, said := answers(agent, session, fact{}); status != http.StatusForbidden || said["error"] != "unauthorized" || !strings.Contains(fmt.Sprint(said["message"]), "powerbox login") {
			t.Errorf("AAP-A6 a session %s approves: HTTP %d %v; want 403 and how to log in", name, status, said)
		}
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Errorf("AAP-A6 the agent is %s; want pending", state)
	}
	file := filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(file, []byte(stale["refreshed after an old login"]), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "approval", "approve", agent.code, "--server", b.url, "--session-file", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "log in anew") {
		t.Errorf("AAP-A6 powerbox approval approve with an old login: %v\n%s", err, out)
	}
	for name, fresh := range map[string]string{
		"of a login just now": login(fact{"auth_time": time.Now().Unix()}), "made just now": login(nil),
	} {
		agent := b.host().register(fact{"name": "Helper", "capabilities": []any{"check_balance"}})
		if status, said := answers(agent, fresh, fact{}); status != http.StatusOK {
			t.Errorf("AAP-A6 a session %s approves: HTTP %d %v; want 200", name, status, said)
		}
		if status, said := b.call(http.MethodPost, "/v1/host-agents/"+agent.id+"/grants/revoke", stale["old, and without time of its login"], fact{"capability": "check_balance"}); status != http.StatusOK {
			t.Errorf("AAP-A6 an old login revokes: HTTP %d %v; want 200", status, said)
		}
		for what, session := range stale {
			if status, said := grants(agent, session); status != http.StatusForbidden || said["error"] != "unauthorized" {
				t.Errorf("AAP-A6 a session %s grants: HTTP %d %v; want 403", what, status, said)
			}
		}
		if status, said := grants(agent, fresh); status != http.StatusOK || said["grant"] == "" {
			t.Errorf("AAP-A6 a session %s grants: HTTP %d %v; want 200", name, status, said)
		}
	}
	if status, said := answers(agent, stale["refreshed after an old login"], fact{"deny": true}); status != http.StatusOK {
		t.Errorf("AAP-A5 an old login denies: HTTP %d %v; want 200", status, said)
	}
}

// TestAAPA6_HostsTakeAFreshLogin has an administrator link, register and invite hosts in
// a shell: an old login permits none of it, a new one all of it. Capabilities that
// change something still wait for approval there, since no user was present (AAP-A7,
// AAP-U4, AAP-U6). Ending takes any login.
func TestAAPA6_HostsTakeAFreshLogin(t *testing.T) {
	asGiven(t)
	l := newLogin(t)
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, []byte(l.jwks(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := serveBank(t, "localhost:"+freePort(t), "      administrators: [\"user:root\"]\n      modes: [delegated, autonomous]\n      autonomous_hosts: any", fmt.Sprintf(
		"        - {name: pay, description: Pay any bill, sensitivity: write, default: true}\n        - {name: look, description: Look around, sensitivity: read, default: true, autonomous: true}\n"+
			"identity:\n  providers: [{issuer: \"https://login.example.org\", audience: [\"https://agents.example.org\"], jwks_file: %q}]\n", keys))
	old := l.session(t, "root", fact{"aud": b.url + "/approve", "auth_time": time.Now().Add(-10 * time.Minute).Unix()})
	fresh := l.session(t, "root", fact{"aud": b.url + "/approve", "auth_time": time.Now().Unix()})
	linked, ahead, invited := b.host(), b.host(), b.host()
	first := linked.register(fact{"name": "Alone", "mode": "autonomous", "capabilities": []any{"look"}})
	_, said := b.call(http.MethodGet, "/agent/status?agent_id="+first.id, linked.token(nil), nil)
	id, _ := said["host_id"].(string)
	link := func(session string) (int, fact) {
		return b.call(http.MethodPost, "/v1/hosts/"+id+"/link", session, fact{"user": "user:alice"})
	}
	register := func(session string) (int, fact) {
		return b.call(http.MethodPost, "/v1/hosts", session, fact{"name": "ci", "user": "user:alice", "public_key": publicJWK(ahead.key), "defaults": []string{"pay", "look"}})
	}
	invite := func(session string) (int, fact) {
		return b.call(http.MethodPost, "/v1/hosts", session, fact{"name": "desk", "user": "user:alice", "defaults": []string{"pay", "look"}})
	}
	token := ""
	for name, does := range map[string]func(string) (int, fact){"link": link, "register": register, "invite": invite} {
		if status, said := does(old); status != http.StatusForbidden || said["error"] != "unauthorized" || !strings.Contains(fmt.Sprint(said["message"]), "powerbox login") {
			t.Errorf("AAP-A6 an old login and %s: HTTP %d %v; want 403 and how to log in", name, status, said)
		}
		status, said := does(fresh)
		if status != http.StatusOK {
			t.Errorf("AAP-A6 a new login and %s: HTTP %d %v; want 200", name, status, said)
		}
		if name == "invite" {
			token, _ = said["enrollment_token"].(string)
		}
	}
	file := filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "agent", "invite", "--server", b.url, "--session-file", file).CombinedOutput(); err == nil || !strings.Contains(string(out), "log in anew") {
		t.Errorf("AAP-A6 powerbox agent invite with an old login: %v\n%s", err, out)
	}
	if status, said := b.call(http.MethodPost, "/host/enroll", invited.token(nil), fact{"token": token, "public_key": publicJWK(invited.key)}); status != http.StatusOK {
		t.Fatalf("AAP-U6 enroll: HTTP %d %v", status, said)
	}
	for name, host := range map[string]*protocolHost{"linked": linked, "registered ahead": ahead, "invited": invited} {
		agent := host.register(fact{"name": "Payer", "capabilities": []any{"look"}})
		if state, grants, _ := agent.status(); state != "active" || grants["look"] != "active" {
			t.Errorf("AAP-R4 at a host that was %s: %s with %v", name, state, grants)
		}
		agent = host.register(fact{"name": "Payer", "capabilities": []any{"pay"}})
		if state, grants, _ := agent.status(); grants["pay"] == "active" || state == "active" {
			t.Errorf("AAP-A7 at a host that was %s by somebody who was not there: %s with %v", name, state, grants)
		}
	}
	if status, said := b.call(http.MethodPost, "/v1/hosts/"+id+"/unlink", old, fact{}); status != http.StatusOK {
		t.Errorf("an old login unlinks: HTTP %d %v; want 200", status, said)
	}
}
