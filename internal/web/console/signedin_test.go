package console

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
)

// shelf is a keeper in memory that forgets nothing when time passes.
type shelf map[string][]byte

func (s shelf) Keep(_ context.Context, kind, id string, value []byte, _ time.Time) error {
	s[kind+id] = value
	return nil
}

func (s shelf) Kept(_ context.Context, kind, id string, _ time.Time) ([]byte, error) {
	if value, ok := s[kind+id]; ok {
		return value, nil
	}
	return nil, issuer.ErrNotFound
}

func (s shelf) Once(context.Context, string, string, time.Time, time.Time) (bool, error) {
	return true, nil
}

func (s shelf) Take(ctx context.Context, kind, id string, now time.Time) ([]byte, error) {
	defer delete(s, kind+id)
	return s.Kept(ctx, kind, id, now)
}

func (s shelf) AllKept(_ context.Context, kind string, _ time.Time) (map[string][]byte, error) {
	out := map[string][]byte{}
	for key, value := range maps.All(s) {
		if id, ok := strings.CutPrefix(key, kind); ok {
			out[id] = value
		}
	}
	return out, nil
}

// TestSessionsAreListedAndEnded lists the sessions of one person and of all people, and ends
// one: in memory, and where processes share them.
func TestSessionsAreListedAndEnded(t *testing.T) {
	for name, keeper := range map[string]Keeper{"in memory": nil, "shared": shelf{}} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
			s := newSessions(Config{Session: time.Hour, Now: func() time.Time { return now }, Random: rand.Reader, Keeper: keeper})
			logIn := func(who string, by people.Login) string {
				cookie, err := s.start(peopletest.Person(people.Claim{Principal: who, Login: by}), "")
				if err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Minute)
				return cookie
			}
			logIn("user:alice", people.ByProvider)
			now = now.Add(time.Hour) // that one is over
			first, second := logIn("user:alice", people.ByPasskey), logIn("user:alice", people.ByProvider)
			other := logIn("user:bob", people.ByPasskey)
			list := func(who string) []people.Session {
				all, err := s.list(t.Context(), who)
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			alice := list("user:alice")
			if len(alice) != 2 || alice[0].ID != cookieHash(second) || alice[1].ID != cookieHash(first) || alice[1].Login != people.ByPasskey || !alice[1].Ends.Equal(alice[1].Began.Add(time.Hour)) {
				t.Fatalf("the sessions of alice are %+v; want the second and the first", alice)
			}
			if all := list(""); len(all) != 3 || all[0].Principal != "user:bob" {
				t.Errorf("all sessions are %+v; want three, bob's first", all)
			}
			for id, want := range map[string]bool{cookieHash(other): false, "no id": false, first: false, cookieHash(first): true} {
				if ended, err := s.endOf(t.Context(), "user:alice", id); err != nil || ended != want {
					t.Errorf("alice ends %q: %t, %v; want %t", id, ended, err, want)
				}
			}
			if s.of(first) != nil || s.of(second) == nil || s.of(other) == nil {
				t.Error("alice ended her first session; hers of another browser and bob's must stay")
			}
		})
	}
}

// TestSessionsPage shows the visitor's own sessions, ends one of them, and leaves the one of
// another person alone.
func TestSessionsPage(t *testing.T) {
	k, carol := routedConsole(t, "http://localhost:8700", time.Minute)
	start := func(who string) string {
		cookie, err := k.sessions.start(peopletest.Person(people.Claim{Principal: who, Login: people.ByPasskey}), "")
		if err != nil {
			t.Fatal(err)
		}
		return cookie
	}
	phone, bob := start("user:carol"), start("user:bob")
	ask := func(method, path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(carol)
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		return w
	}
	page := ask(http.MethodGet, "/sessions", nil).Body.String()
	if strings.Count(page, "this browser") != 1 || !strings.Contains(page, cookieHash(phone)) || strings.Contains(page, cookieHash(bob)) || strings.Contains(page, phone) {
		t.Errorf("the page of carol's sessions is\n%s", page)
	}
	if w := ask(http.MethodPost, "/sessions/end", url.Values{"session": {cookieHash(bob)}}); w.Code != http.StatusNotFound || k.sessions.of(bob) == nil {
		t.Errorf("carol ends bob's session: HTTP %d; want 404, and the session", w.Code)
	}
	if w := ask(http.MethodPost, "/sessions/end", url.Values{"session": {cookieHash(phone)}}); w.Code != http.StatusSeeOther || k.sessions.of(phone) != nil {
		t.Errorf("carol ends the session of her phone: HTTP %d; want 303, and no session", w.Code)
	}
	if w := ask(http.MethodPost, "/sessions/end-all", nil); w.Code != http.StatusSeeOther || len(changed) != 1 || changed[0] != "user:carol" {
		t.Errorf("carol logs out everywhere: HTTP %d, ended %q; want hers", w.Code, changed)
	}
}
