package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestATK102_AStreamEndsWithTheRightToIt: a person who is frozen, or has another role, reads no
// further records, and no further events of the feed, over a connection that is open.
func TestATK102_AStreamEndsWithTheRightToIt(t *testing.T) {
	everywhere := people.RightsOf([]people.Given{{Role: "viewer", Who: []string{"user:carol"}, Everywhere: true}}, "user:carol", nil)
	mail := people.RightsOf([]people.Given{{Role: "viewer", Who: []string{"user:carol"}, Agents: []string{"mail"}}}, "user:carol", nil)
	for name, then := range map[string]struct {
		rights people.Rights
		err    error
	}{
		"frozen": {everywhere, agentauth.Errorf(agentauth.CodeUnauthorized, "this person is frozen here")}, "without a role": {people.Rights{}, nil}, "with a role at one agent": {mail, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changed atomic.Bool
			_, live, _ := followed(t, 8)
			a := &Admin{Live: live, Operators: Operators{
				Person: func(*http.Request) (people.Person, error) {
					if changed.Load() && then.err != nil {
						return people.Person{}, then.err
					}
					return peopletest.Person(people.Claim{Principal: "user:carol", Login: people.BySession}), nil
				},
				Rights: func(people.Person) people.Rights {
					if changed.Load() {
						return then.rights
					}
					return everywhere
				},
			}}
			route := route{needs: people.Evidence, keeps: own, query: streamParameters, serve: a.stream}
			server := httptest.NewServer(a.authenticated(a.guarded(route)))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"?after=r0", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer session")
			follows, ok := a.MayFollow(r)
			if !ok || follows.Err() != nil {
				t.Fatal("the person may not follow the feed")
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			if text := until(t, answer, "id: r7"); !strings.Contains(text, "event: record") {
				t.Fatalf("the stream: %s", text)
			}
			changed.Store(true)
			until(t, answer, "")
			<-follows.Done()
			if ctx.Err() != nil {
				t.Error("the stream, or the feed, goes on")
			}
		})
	}
}

// until reads an answer up to a text, or to its end.
func until(t *testing.T, answer *http.Response, text string) string {
	t.Helper()
	var all strings.Builder
	buffer := make([]byte, 1024)
	for text == "" || !strings.Contains(all.String(), text) {
		n, err := answer.Body.Read(buffer)
		all.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	return all.String()
}
