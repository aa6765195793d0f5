package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// TestATK15_CardsThatLeadElsewhere has the agent behind answer a request for its
// card with a redirect, or with too many bytes: the gateway does not follow, and
// the agent is not used.
func TestATK15_CardsThatLeadElsewhere(t *testing.T) {
	var visited atomic.Int32
	agent := newStock(t, "search_documents")
	card := string((&town{t: t}).get(agent.url + cardPath))
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		visited.Add(1)
		_, _ = io.WriteString(w, card)
	}))
	defer inside.Close()
	for name, serve := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+cardPath, http.StatusFound)
		},
		"a permanent redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+cardPath, http.StatusPermanentRedirect)
		},
		"a card of 64 MiB": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", 64<<20)+card)
		},
		"an error with a card": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, card)
		},
		"a page": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"an interface elsewhere that is no URL": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.ReplaceAll(card, agent.url, "file:///etc"))
		},
	} {
		t.Run("ATK-15 "+name, func(t *testing.T) {
			srv := httptest.NewServer(serve)
			defer srv.Close()
			w := start(t, options{mode: "prefer"})
			w.again(func() { w.rewrite("powerbox.yaml", w.documents.url, srv.URL) })
			alice := w.caller(aliceToken)
			a := alice.send("documents", data("search_documents", map[string]any{}))
			if a.Error == nil || visited.Load() > 0 || len(agent.got()) > 0 {
				t.Errorf("%s; %d visits elsewhere", a.Raw, visited.Load())
			}
			if strings.Contains(string(a.Raw), inside.URL) {
				t.Errorf("the caller is told where it led: %s", a.Raw)
			}
		})
	}
}

// TestATK15_InterfacesThatLeadInside has the agent's card name a private address that
// no operator named: nothing goes there, by whichever binding. Another name of the
// machine that the operator named is that machine.
func TestATK15_InterfacesThatLeadInside(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		card := ""
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, card)
		}))
		defer srv.Close()
		for name, c := range map[string]struct{ host, says string }{
			"a private network":  {"10.255.255.1:2375", "address 10.255.255.1:2375 is refused"},
			"this machine, also": {"localhost:1", "connection refused"},
		} {
			card = cardAt(c.host)
			w := start(t, options{on: on, mode: "prefer", upstream: srv.URL})
			denied(t, w.caller(aliceToken).send("documents", data("search_documents", map[string]any{})), "authorization_unavailable")
			eventually(t, atOnce, func() string { return "ATK-15 " + name + ": want \"" + c.says + "\" in\n" + w.log.String() }, func() bool { return strings.Contains(w.log.String(), c.says) })
		}
	})
}

// TestATK15_DoctorSaysWhereCardsLead: who listed no host for a card that names one is
// told which, and who did is not.
func TestATK15_DoctorSaysWhereCardsLead(t *testing.T) {
	card := cardAt("10.255.255.1:2375")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, card)
	}))
	defer srv.Close()
	for agent, want := range map[string]bool{"": true, "    upstream_hosts: [10.255.255.1]\n": false} {
		w := start(t, options{mode: "prefer", upstream: srv.URL, agent: agent})
		said, _ := w.cli("doctor")
		finding := regexp.MustCompile(`broken +agent documents +its card leads calls to \S*10\.255\.255\.1:2375`).FindAllString(said, -1)
		if remedy := strings.Contains(said, `list "10.255.255.1" in agents.upstream_hosts`); len(finding) > 1 || len(finding) == 1 != want || remedy != want {
			t.Errorf("ATK-15 with %q:\n%s", agent, said)
		}
	}
}

// cardAt is the card of an agent that takes calls of every binding and version at one
// host.
func cardAt(host string) string {
	var interfaces []string
	for _, version := range []string{"1.0", "0.3"} {
		for binding, url := range map[string]string{"JSONRPC": "http://" + host + "/", "HTTP+JSON": "http://" + host + "/", "GRPC": host} {
			interfaces = append(interfaces, fmt.Sprintf(`{"url":%q,"protocolBinding":%q,"protocolVersion":%q}`, url, binding, version))
		}
	}
	return `{"name":"documents","description":"d","version":"1","capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],` +
		`"skills":[{"id":"search_documents","name":"s","description":"s","tags":["t"]}],"supportedInterfaces":[` + strings.Join(interfaces, ",") + `]}`
}

// TestEXT38_AuthenticationStaysTheAgents has an agent with its own key: what
// callers prove to it passes as it is, on every binding, and a capability is no
// replacement for it, as it is none for a capability.
func TestEXT38_AuthenticationStaysTheAgents(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    headers: [X-Api-Key, Cookie, Proxy-Authorization-Info]\n"})
		alice := w.caller(aliceToken)
		held := alice.reports()
		body := data("search_documents", map[string]any{})
		for name, value := range map[string]string{
			"Authorization": "Basic YWxpY2U6c2VjcmV0", "X-Api-Key": "k-1", "Cookie": "session=1", "Proxy-Authorization-Info": "x",
		} {
			h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			h.Set(name, value)
			allowed(t, w.post(w.agentURL("documents"), body, h))
			got := w.documents.got()
			if len(got) != 1 || got[0].header.Get(name) != value {
				t.Errorf("EXT-38 the agent got %v", got)
			}
			w.documents.forget()
			w.repel(t, attack{"EXT-38 " + name + " and no capability", "capability_required", func() answer {
				return w.post(w.agentURL("documents"), body, http.Header{name: {value}})
			}})
		}
		// A capability says nothing about who the user is: what asks for that asks
		// for a session.
		a := w.post(w.agentURL("documents"), rpc("a2a/capabilities/list", map[string]any{}), alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}))
		if a.reason() != "unauthenticated" {
			t.Errorf("EXT-38 a capability for a session: %s", a.Raw)
		}
	})
}
