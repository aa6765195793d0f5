package guard_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// A gate that sends its caller elsewhere allows nothing, and the token stays here.
func TestNoRedirectIsFollowed(t *testing.T) {
	followed := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed = true
			_, _ = w.Write([]byte(`{"decision":true,"context":{"id":"rec_x"}}`))
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	g := &guard.Gate{URL: s.URL, Token: "token-of-the-test-0123456789abcdef", HTTP: &http.Client{Timeout: 10 * time.Second}}
	if d, err := g.Check(t.Context(), guard.Attempt{From: "a", To: "b"}); err == nil || d.Allowed || followed {
		t.Errorf("%+v %v, followed: %v", d, err, followed)
	}
}

// Numbers that a framework would read as others never reach the gate.
func TestToolsRefuseNumbersThatAreNotExact(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte(`{"decision":true,"context":{"id":"rec_x"}}`))
	}))
	defer s.Close()
	tools := &guard.Tools{Gate: &guard.Gate{URL: s.URL, Token: "t", HTTP: s.Client()}, Target: "tools"}
	for arguments, code := range map[string]string{
		`{"n":9007199254740991}`: "", `{"n":9007199254740992}`: "params", `{"n":-9007199254740993}`: "params", `{"n":0.1}`: "", `{"n":1e999}`: "params",
		`{"deep":[{"n":1e16}]}`: "params", `{"n":"9007199254740993"}`: "", "": "", `{`: "params", `{"n":1} {`: "params",
	} {
		before := asked
		_, err := tools.Ask(t.Context(), "a", "count", json.RawMessage(arguments))
		var refused *guard.Refused
		switch errors.As(err, &refused); {
		case code == "" && (err != nil || asked != before+1):
			t.Errorf("%s: %v, asked %d times", arguments, err, asked-before)
		case code != "" && (refused == nil || refused.Code() != code || asked != before):
			t.Errorf("%s: %v, asked %d times; want %s", arguments, err, asked-before, code)
		}
	}
}

// The framework gets every error as a refusal, without the cause.
func TestToolsWordEveryErrorAsARefusal(t *testing.T) {
	var told []guard.Decision
	tools := &guard.Tools{
		Gate: &guard.Gate{URL: "http://127.0.0.1:9", Token: "secret", HTTP: &http.Client{}}, Target: "tools",
		Decided: func(_ string, d guard.Decision) { told = append(told, d) },
	}
	_, err := tools.Ask(t.Context(), "a", "count", nil)
	r, ok := guard.RefusalOf(err)
	if !ok || r.Error != "authorization_unavailable" || len(told) != 1 || told[0].Allowed {
		t.Errorf("%+v %v %+v", r, err, told)
	}
	if _, ok := guard.RefusalOf(errors.New("disk")); ok {
		t.Error("the error of a tool is told as a refusal")
	}
	if err := tools.HandOverNamed(t.Context(), "a", "agent_name", json.RawMessage(`{"agent_name":"b","Agent_Name":"c"}`)); err == nil || told[1].Reasons[0].Code != "params" {
		t.Errorf("a hand-off to two agents: %v %+v", err, told)
	}
}
