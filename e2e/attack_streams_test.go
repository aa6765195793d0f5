package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// longAnswer is an answer that lasts.
type longAnswer struct {
	ended chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

func (f *longAnswer) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// opensLong opens an answer that lasts, and reads it until it ends.
func opensLong(t *testing.T, client *http.Client, url, bearer string) *longAnswer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s: HTTP %d %s", url, answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	f := &longAnswer{ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		defer answer.Body.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := answer.Body.Read(buffer)
			f.mu.Lock()
			f.text.Write(buffer[:n])
			f.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return f
}

const rolesOfFollowers = `operators:
  login: {issuer: "https://login.example.org", client_id: powerbox-login}
  roles:
    - {role: viewer, who: ["user:frozen", "user:left", "user:short", "user:stays"]}
    - {role: viewer, who: ["user:ended"], tenants: [ours]}
    - {role: viewer, who: ["user:here"], agents: [documents]}
`

// TestATK102_StreamsEndWithTheRightToThem follows every stream of /v1 and of the pages as people
// who are frozen, logged out, or without their role after a reload, or whose session ends. The
// stream of a person with a role at one agent has nothing of another one.
func TestATK102_StreamsEndWithTheRightToThem(t *testing.T) {
	onStores(t, tryATK102StreamsEndWithTheRightToThem)
}

func tryATK102StreamsEndWithTheRightToThem(t *testing.T) {
	l := newLogin(t)
	users := ""
	for _, name := range []string{"frozen", "left", "ended", "stays", "here"} {
		users += fmt.Sprintf("    - {name: %[1]s, token: %[1]s-session-token}\n", name)
	}
	w := start(t, options{
		agent: "    tenant: ours\n  - {id: one, upstream: \"http://127.0.0.1:9\", tenant: ours}\n",
		dev:   users, extra: rolesOfFollowers, files: map[string]string{"keys.json": l.jwks(t)},
		callers: "  providers: [{issuer: \"https://login.example.org\", jwks_file: keys.json}]\n",
	})
	session := func(user string, lasts time.Duration) string {
		now := time.Now()
		return oidctest.Sign(t, jose.ES256, l.key, map[jose.HeaderKey]any{"kid": "one"}, map[string]any{
			"iss": "https://login.example.org", "aud": "powerbox-login", "sub": user, "iat": now.Unix(), "auth_time": now.Unix(), "exp": now.Add(lasts).Unix(),
		})
	}
	streams, pages := map[string]map[string]*longAnswer{}, map[string]*visitor{}
	b := &pagesBank{t: t, url: w.url, log: w.log, dir: w.dir}
	for _, user := range []string{"frozen", "left", "ended", "short", "stays", "here"} {
		lasts := time.Hour
		if user == "short" {
			lasts = 4 * time.Second
		}
		bearer, of := session(user, lasts), map[string]*longAnswer{}
		of["/v1/records/stream"] = opensLong(t, http.DefaultClient, w.url+"/v1/records/stream", bearer)
		if user != "here" && user != "ended" { // the feed is about every agent
			of["/v1/feed"] = opensLong(t, http.DefaultClient, fmt.Sprintf("%s/v1/feed?after=%d", w.url, w.sequence()), bearer)
		}
		if user != "short" {
			pages[user] = b.visitor(user)
			of["/admin/live/events"] = opensLong(t, pages[user].http, w.url+"/admin/live/events", "")
			of["/approve/events"] = opensLong(t, pages[user].http, w.url+"/approve/events", "")
		}
		streams[user] = of
	}
	w.must("person", "freeze", "user:frozen", "--reason", "a test")
	w.must("person", "logout", "user:left", "--reason", "a test")
	w.rewrite("powerbox.yaml", "    tenant: ours\n", "    tenant: theirs\n")
	w.run("config", "reload")
	ends := time.After(15 * time.Second)
	for user, of := range streams {
		for path, f := range of {
			if user == "stays" || user == "here" || user == "ended" && path == "/approve/events" { // everyone has questions of their own
				continue
			}
			select {
			case <-f.ended:
			case <-ends:
				t.Errorf("ATK-102 %s continues for user:%s: %s", path, user, f.said())
				ends = time.After(0)
			}
		}
	}
	alice := w.caller(aliceToken)
	alice.call("mail", "SendMessage", map[string]any{})
	w.must("freeze", "agent:mail", "--reason", "a test")
	alice.call("documents", "SendMessage", map[string]any{})
	for _, path := range []string{"/v1/records/stream", "/admin/live/events"} {
		for _, user := range []string{"stays", "here"} {
			f := streams[user][path]
			eventually(t, patience, func() string { return path + " for user:" + user + " says " + f.said() }, func() bool { return strings.Contains(f.said(), `"agent":"documents"`) })
			if sees := strings.Contains(f.said(), "mail"); sees != (user == "stays") {
				t.Errorf("ATK-102 %s for user:%s shows mail: %t\n%s", path, user, sees, f.said())
			}
		}
		for user, of := range streams {
			if f := of[path]; f != nil && user != "stays" && user != "here" && strings.Contains(f.said(), "documents") {
				t.Errorf("ATK-102 %s for user:%s shows later records: %s", path, user, f.said())
			}
		}
	}
}
