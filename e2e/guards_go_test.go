package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/guard"
)

func (w *town) gate() *guard.Gate {
	return &guard.Gate{URL: w.url, Token: guardToken, HTTP: &http.Client{Timeout: 20 * time.Second}}
}

// result is what a Swarm-style function returns.
type result struct {
	value string
	agent *struct{ name string }
}

// A Swarm-style function in Go returns no target outside the scope (GATE-8).
func TestGATE8_GoFunctions(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	target := func(r result) string {
		if r.agent == nil {
			return ""
		}
		return r.agent.name
	}
	to := func(name string) func(context.Context, map[string]any) (result, error) {
		return guard.Handoffs(w.gate(), "triage", target, func(context.Context, map[string]any) (result, error) {
			if name == "" {
				return result{value: "plain"}, nil
			}
			return result{agent: &struct{ name string }{name}}, nil
		})
	}
	if r, err := to("refunds")(t.Context(), nil); err != nil || r.agent.name != "refunds" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := to("")(t.Context(), nil); err != nil || r.value != "plain" {
		t.Errorf("%+v %v", r, err)
	}
	r, err := to("mailer")(t.Context(), nil)
	refused := (*guard.Refused)(nil)
	if !errors.As(err, &refused) || !errors.Is(err, powerbox.ErrDenied) || r.agent != nil ||
		err.Error() != "Capability scope violation: {a2a.message, mailer/mail/send}" || refused.Code() != "outside_caller_scope" {
		t.Errorf("%+v %v", r, err)
	}
	nobody := &guard.Gate{URL: "http://127.0.0.1:9", Token: guardToken, HTTP: http.DefaultClient}
	if _, err := nobody.Check(t.Context(), guard.Attempt{From: "triage", To: "refunds"}); err == nil || errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("a gate that does not answer: %v", err)
	}
}

// Requests in and out are asked about (GATE-6).
func TestGATE6_RequestsOfAProgram(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	attempt := func(r *http.Request) (guard.Attempt, error) {
		skill := map[string]string{http.MethodGet: "read_file", http.MethodDelete: "delete_file"}[r.Method]
		if skill == "" {
			return guard.Attempt{}, errors.New("no such method")
		}
		args, err := json.Marshal(map[string]string{"path": r.URL.Path})
		return guard.Attempt{From: "triage", To: "files", Skill: skill, Arguments: args}, err
	}
	reached := ""
	behind := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		reached += r.Method + " "
		if r.URL.Path == "/none" {
			http.NotFound(rw, r)
		}
	})
	for name, client := range map[string]*http.Client{
		"Handler":   http.DefaultClient,
		"Transport": {Transport: &guard.Transport{Gate: w.gate(), Attempt: attempt, Base: http.DefaultTransport}},
	} {
		handler := http.Handler(behind)
		if name == "Handler" {
			handler = w.gate().Handler(attempt, behind)
		}
		srv := httptest.NewServer(handler)
		do := func(method, path string) (int, error) {
			r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err != nil {
				return 0, err
			}
			return answer.StatusCode, answer.Body.Close()
		}
		reached = ""
		if status, err := do(http.MethodGet, "/a"); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %v", name, status, err)
		}
		if status, err := do(http.MethodGet, "/none"); err != nil || status != http.StatusNotFound {
			t.Errorf("%s: %d %v", name, status, err)
		}
		if status, err := do(http.MethodDelete, "/a"); status != http.StatusForbidden && !errors.Is(err, powerbox.ErrDenied) {
			t.Errorf("%s: %d %v", name, status, err)
		}
		if status, err := do(http.MethodPut, "/a"); status != http.StatusForbidden && err == nil {
			t.Errorf("%s: %d %v", name, status, err)
		}
		if reached != "GET GET " {
			t.Errorf("%s: reached %s", name, reached)
		}
		srv.Close()
	}
	statuses := map[string]int{}
	for _, r := range w.records("agent=files") {
		statuses[r.Decision+" "+r.Status]++
	}
	if statuses["ALLOW ACHIEVED"] != 2 || statuses["ALLOW FAILED"] != 2 || statuses["DENY "] != 2 {
		t.Errorf("on record: %v", statuses)
	}
}

// TestATK83_GuardedHandlersSayThatNothingRan has a handler refuse a request, over what the
// handler behind would have said: a holder repeats only calls of which nothing was executed.
func TestATK83_GuardedHandlersSayThatNothingRan(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	attempt := func(r *http.Request) (guard.Attempt, error) {
		return guard.Attempt{From: "triage", To: strings.TrimPrefix(r.URL.Path, "/")}, nil
	}
	handler := w.gate().Handler(attempt, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for to, want := range map[string][2]string{"refunds": {"", ""}, "mailer": {"denied", "outside_caller_scope"}} {
		got := httptest.NewRecorder()
		handler.ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/"+to, nil))
		if said := [2]string{got.Header().Get("Powerbox-Outcome"), got.Header().Get("Powerbox-Reason")}; said != want {
			t.Errorf("ATK-83 a request to %s: HTTP %d says %q; want %q", to, got.Code, said, want)
		}
	}
}
