package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// keySet is a published key set.
type keySet struct {
	*httptest.Server
	mu   sync.Mutex
	body string
}

func newKeySet(t *testing.T, keys map[string]okp) *keySet {
	t.Helper()
	k := &keySet{}
	k.publish(keys)
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		_, _ = w.Write([]byte(k.body))
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *keySet) publish(keys map[string]okp) {
	var list []map[string]any
	for id, key := range keys {
		one := map[string]any{"kid": id}
		for name, v := range key.jwk {
			one[name] = v
		}
		list = append(list, one)
	}
	data, _ := json.Marshal(map[string]any{"keys": list})
	k.mu.Lock()
	k.body = string(data)
	k.mu.Unlock()
}

// signedBy is a token of a host whose keys are at a URL.
func (b *bank) signedBy(k okp, kid, url string, more ...map[string]any) string {
	claims := map[string]any{"iss": k.thumb, "aud": b.url, "host_jwks_url": url, "iat": nowUnix(), "exp": nowUnix() + 60, "jti": newOKP(b.t).thumb}
	for _, c := range more {
		for name, v := range c {
			claims[name] = v
		}
	}
	return k.signAs(map[string]any{"alg": "EdDSA", "typ": "host+jwt", "kid": kid}, claims)
}

// AAP-H5, H9, H10, J4, K2, K3, N1, N2: keys that are published at a URL.
func TestAAPH5_PublishedKeys(t *testing.T) {
	b := newBank(t, bankOptions{})
	first, second, agentKey := newOKP(t), newOKP(t), newOKP(t)
	hosts := newKeySet(t, map[string]okp{"one": first, "two": second})
	agents := newKeySet(t, map[string]okp{"a": agentKey})
	body := map[string]any{"name": "Published", "capabilities": []any{"check_balance"}}
	agent := fact{"agent_jwks_url": agents.URL, "agent_kid": "a"}
	register := func(token string) reply { return b.ask(http.MethodPost, "/agent/register", token, body) }
	b.want("AAP-H1 without kid", register(first.sign("host+jwt", fact{"iss": first.thumb, "aud": b.url, "host_jwks_url": hosts.URL}, agent)), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-H3 another key of the set", register(b.signedBy(first, "two", hosts.URL, agent)), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-H10", register(b.signedBy(first, "one", hosts.URL, fact{"agent_jwks_url": hosts.URL, "agent_kid": "one"})), http.StatusBadRequest, "invalid_request")
	b.want("AAP-H12 without agent_kid", register(b.signedBy(first, "one", hosts.URL, fact{"agent_jwks_url": agents.URL})), http.StatusBadRequest, "invalid_request")
	r := b.want("AAP-H5", register(b.signedBy(first, "one", hosts.URL, agent)), http.StatusOK, "")
	m := &member{b: b, host: first, key: agentKey, id: r.text("agent_id")}
	b.want("approve", b.approve("alice", codeOf(r), map[string]any{}), http.StatusOK, "")
	balance := func(iss string) reply {
		return b.ask(http.MethodPost, "/capability/execute", m.token(b.url+"/capability/execute", fact{"iss": iss}), args("capability", "check_balance", "arguments", args("account_id", "a")))
	}
	b.want("its agent", balance(first.thumb), http.StatusOK, "")
	// AAP-J4: the agent knows of its host's new key before the provider does.
	b.want("AAP-J4", balance(second.thumb), http.StatusOK, "")
	b.want("AAP-J4 a key of nobody", balance(newOKP(t).thumb), http.StatusUnauthorized, "invalid_jwt")
	// AAP-H5, AAP-K3: the host signs with another key of its set, and stays the same host.
	status := func(token string) reply { return b.ask(http.MethodGet, "/agent/status?agent_id="+m.id, token, nil) }
	host := b.want("before", status(b.signedBy(first, "one", hosts.URL)), http.StatusOK, "").text("host_id")
	after := b.want("AAP-H5 rotated", status(b.signedBy(second, "two", hosts.URL)), http.StatusOK, "")
	if after.text("host_id") != host {
		t.Errorf("AAP-H5 another host: %s", after.Raw)
	}
	b.want("AAP-H5 a stranger's key", status(b.signedBy(newOKP(t), "two", hosts.URL)), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-H9 inline for a host with a set", status(b.host(second)), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-K3 for inline keys alone", b.ask(http.MethodPost, "/host/rotate-key", b.signedBy(second, "two", hosts.URL), args("public_key", newOKP(t).jwk)), http.StatusBadRequest, "invalid_request")
	b.want("AAP-K2 for inline keys alone", b.ask(http.MethodPost, "/agent/rotate-key", b.signedBy(second, "two", hosts.URL), args("agent_id", m.id, "public_key", newOKP(t).jwk)), http.StatusBadRequest, "invalid_request")
}

// TestATK79_StrangersFetchesAreLimited: unknown hosts have few key sets fetched, found
// or not, and learns nothing of what this server meets at the URL. Hosts that are known are
// not held up.
func TestATK79_StrangersFetchesAreLimited(t *testing.T) {
	b := newBank(t, bankOptions{})
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "unknown_hosts: 0", "unknown_hosts: 2", 1))
	})
	known := newOKP(t)
	set := newKeySet(t, map[string]okp{"one": known})
	ask := func(k okp, url string) reply {
		return b.ask(http.MethodPost, "/agent/register", b.signedBy(k, "one", url, fact{"agent_public_key": newOKP(t).jwk}), map[string]any{"name": "x", "capabilities": []any{"check_balance"}})
	}
	r := b.want("a host with a key set", ask(known, set.URL), http.StatusOK, "")
	b.want("approve", b.approve("alice", codeOf(r), map[string]any{}), http.StatusOK, "")
	for n := range 7 { // and one before
		r := b.want("ATK-79 a set that is not there", ask(newOKP(t), fmt.Sprint("http://127.0.0.1:1/", n)), http.StatusUnauthorized, "invalid_jwt")
		for _, word := range []string{"127.0.0.1", "dial", "refused", "connect", "lookup"} {
			if strings.Contains(r.Raw, word) {
				t.Errorf("ATK-79 a stranger is told %s", r.Raw)
			}
		}
	}
	b.want("ATK-79 too many", ask(newOKP(t), "http://127.0.0.1:1/more"), http.StatusTooManyRequests, "rate_limited")
	b.want("ATK-79 a host that is known", b.ask(http.MethodGet, "/agent/status?agent_id="+r.text("agent_id"), b.signedBy(known, "one", set.URL), nil), http.StatusOK, "")
}

// AAP-N1, ATK-15, ATK-16: addresses that strangers name do not reach what they
// should not.
func TestATK15_KeySetsOfStrangers(t *testing.T) {
	b := newBank(t, bankOptions{})
	leads := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data", http.StatusFound))
	t.Cleanup(leads.Close)
	large := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", 2<<20))) }))
	t.Cleanup(large.Close)
	for _, url := range []string{
		"http://169.254.169.254/latest/meta-data", "https://10.0.0.1/keys", "https://[::ffff:10.0.0.1]/keys", "https://192.168.1.1/keys", "https://[fd00::1]/keys",
		"http://198.51.100.1/keys", "https://0x0a000001/keys", "https://167772161/keys", "https://user@203.0.113.1/keys", "file:///etc/passwd", "gopher://10.0.0.1/", "", leads.URL, large.URL,
	} {
		k := newOKP(t)
		r := b.ask(http.MethodPost, "/agent/register", b.signedBy(k, "one", url, fact{"agent_public_key": newOKP(t).jwk}), map[string]any{"name": "x"})
		b.want("AAP-N1 "+url, r, http.StatusUnauthorized, "invalid_jwt")
		if strings.Contains(r.Raw, "meta-data\"") {
			t.Errorf("%s: %s", url, r.Raw)
		}
	}
}

// TestAAPN1_ThisMachine publishes good key sets on the machine of the server: outside of
// experiments the server accepts none of them, and does not even connect.
func TestAAPN1_ThisMachine(t *testing.T) {
	asGiven(t)
	k := newOKP(t)
	set := newKeySet(t, map[string]okp{"one": k})
	var connected atomic.Int32
	inside := func(start func(*httptest.Server)) string {
		s := httptest.NewUnstartedServer(set.Config.Handler)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connected.Add(1)
			}
		}
		start(s)
		t.Cleanup(s.Close)
		return s.URL
	}
	plain, secure := inside((*httptest.Server).Start), inside((*httptest.Server).StartTLS)
	for _, dev := range []bool{false, true} {
		var flags []string
		if dev {
			flags = []string{"--dev"}
		}
		served := serveBank(t, "localhost:"+freePort(t), "", "", flags...)
		b := &bank{town: &town{t: t, url: served.url}}
		for _, url := range []string{plain, secure, strings.Replace(secure, "127.0.0.1", "localhost", 1), strings.Replace(secure, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
			before := connected.Load()
			status, answer := served.call(http.MethodPost, "/agent/register", b.signedBy(k, "one", url, fact{"agent_public_key": newOKP(t).jwk}), fact{"name": "x"})
			switch came := connected.Load() - before; {
			case dev && url == plain && (status != http.StatusOK || came == 0):
				t.Errorf("AAP-N1 %s in an experiment: HTTP %d %v after %d connections; want it believed", url, status, answer, came)
			case !dev && (status != http.StatusUnauthorized || answer["error"] != "invalid_jwt" || came != 0):
				t.Errorf("AAP-N1 %s: HTTP %d %v after %d connections; want 401 after none", url, status, answer, came)
			}
		}
	}
}

// AAP-U6, K5: hosts that an administrator makes known, and users who are gone.
func TestAAPU6_HostsThatAreKnownAhead(t *testing.T) {
	b := newBank(t, bankOptions{})
	host := newOKP(t)
	body := args("name", "ci", "public_key", host.jwk, "user", "user:alice", "defaults", []string{"list_accounts"})
	b.want("AAP-U6 a user", b.as("alice", http.MethodPost, "/v1/hosts", body), http.StatusForbidden, "unauthorized")
	b.want("AAP-P3 a risky default", b.as("root", http.MethodPost, "/v1/hosts", args("public_key", newOKP(t).jwk, "defaults", []string{"close_account"})), http.StatusBadRequest, "invalid_capabilities")
	b.want("AAP-U6", b.as("root", http.MethodPost, "/v1/hosts", body), http.StatusOK, "")
	b.want("AAP-U6 twice", b.as("root", http.MethodPost, "/v1/hosts", body), http.StatusBadRequest, "invalid_request")
	// AAP-P3: defaults of its own.
	m, r := b.register(host, map[string]any{"capabilities": []any{"list_accounts"}})
	if r.text("status") != "active" {
		t.Errorf("AAP-P3 its own default: %s", r.Raw)
	}
	_, r = b.register(host, map[string]any{"capabilities": []any{"check_balance"}})
	if r.text("status") != "pending" {
		t.Errorf("AAP-P3 the provider's default: %s", r.Raw)
	}
	_, r = b.register(host, map[string]any{"capabilities": []any{"list_accounts"}, "host_name": "ci <b>two</b>"}) // AAP-R9
	b.want("AAP-R9", r, http.StatusOK, "")
	if hosts := b.as("alice", http.MethodGet, "/v1/hosts", nil); !strings.Contains(hosts.Raw, `"name":"ci two"`) {
		t.Errorf("AAP-R9: %s", hosts.Raw)
	}
	b.want("AAP-K5 a user", b.as("alice", http.MethodPost, "/v1/users/user:alice/forget", nil), http.StatusForbidden, "unauthorized")
	b.want("AAP-K5", b.as("root", http.MethodPost, "/v1/users/user:alice/forget", nil), http.StatusOK, "")
	b.want("AAP-K5 its agents", m.execute("list_accounts", nil), http.StatusForbidden, "host_revoked")
}

// AAP-E7: a grant with an operator that is not known any more is not guessed at.
func TestAAPE7_OperatorsThatAreGone(t *testing.T) {
	aboutTheFile(t)
	b := newBank(t, bankOptions{})
	m := b.active("alice", within("transfer_money", args("amount", args("max", 5))))
	id := m.id
	b.again(func() {
		// As a newer version would have written it.
		b.sql(`UPDATE agent_grant SET body = CAST(replace(CAST(body AS TEXT), '"max"', '"multiple_of"') AS BLOB) WHERE agent = '` + id + `'`)
	})
	r := b.want("AAP-E7", m.execute("transfer_money", args("amount", 5)), http.StatusBadRequest, "unknown_constraint_operator")
	if u, _ := r.Body["unknown_operators"].([]any); len(u) != 1 || u[0] != "multiple_of" {
		t.Errorf("AAP-E7: %s", r.Raw)
	}
}
