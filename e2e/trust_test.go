package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// trusting is a town whose mail agent also calls: its key is that of the caller
// of that name.
func trusting(t *testing.T, o options) *town {
	t.Helper()
	o.callersOf = func(w *town) string {
		return "  callers:\n    - {agent: mail, key: " + w.reader.key.Public().Thumbprint() + "}"
	}
	w := start(t, o)
	w.reader.session = aliceToken
	return w
}

// score is what powerbox trust prints.
type score struct {
	Score  string    `json:"score"`
	Level  string    `json:"level"`
	AsOf   time.Time `json:"as_of"`
	Counts struct {
		Achieved, Failed, Partial int
	} `json:"counts"`
	Broken  bool                         `json:"broken_chain"`
	Renewed time.Time                    `json:"credentials_renewed"`
	Parts   []struct{ Name, Off string } `json:"parts"`
}

func scored(t *testing.T, text string) score {
	t.Helper()
	var s score
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return s
}

// scores is the score of an agent as in the running server.
func (w *town) scores(agent string, more ...string) score {
	w.t.Helper()
	return scored(w.t, w.run(append([]string{"trust", agent, "--output", "json"}, more...)...))
}

// mails has the mail agent asked a number of times.
func (c *caller) mails(held granted, times int) (last answer) {
	c.w.t.Helper()
	const operation = "mail/mail:send/send"
	for range times {
		args := map[string]any{"to": "x"}
		last = c.present("mail", data("send_mail", args), proven{chain: []string{held.Token}, operation: operation, arguments: args})
	}
	return last
}

func (c *caller) mailGrant() granted {
	c.w.t.Helper()
	return c.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Write to somebody"})[0]
}

// failing answers like an agent that fails by its own fault.
func failing(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"it broke"}}`)
}

// badInput is how an agent says that it was asked for nonsense.
func badInput(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such address"}}`)
}

// TestEXT18_OneNumberForEverybody has an agent do its work, well and badly, and
// computes its score by the running server, by an auditor from an export, and by
// a script that knows nothing but the page that describes it (EXT-19, EXT-20).
func TestEXT18_OneNumberForEverybody(t *testing.T) {
	w := trusting(t, options{})
	alice := w.caller(aliceToken)
	if s := w.scores("mail"); s.Score != "1.0000" || s.Level != "HIGH" || s.Renewed.IsZero() {
		t.Errorf("EXT-19 without history: %+v", s)
	}
	held := alice.mailGrant()
	allowed(t, alice.mails(held, 4))
	w.mail.answers(failing)
	alice.mails(held, 2)
	w.mail.answers(badInput)
	alice.mails(held, 3)
	w.mail.answers(nil)
	// 1 - 0.4 x 2/6
	if s := w.scores("mail"); s.Score != "0.8667" || s.Level != "MODERATE" || s.Counts.Achieved != 4 || s.Counts.Failed != 2 {
		t.Errorf("%+v", s)
	}
	if out := w.run("trust", "mail"); !strings.Contains(out, "0.4 x 2 of 6") || !strings.Contains(out, "-0.1333") || !strings.Contains(out, "0.8667   MODERATE") {
		t.Errorf("the arithmetic is not shown:\n%s", out)
	}
	a := w.handed()
	script, err := os.ReadFile("testdata/score.py")
	if err != nil || bytes.Count(script, []byte("\n")) > 60 {
		t.Fatalf("%v, %d lines", err, bytes.Count(script, []byte("\n")))
	}
	a.has("score.py", script)
	audit := func(agent string, more ...string) score {
		out, code := a.runs(filepath.Join(a.dir, "powerbox"), append([]string{"trust", agent, "--from", "bundle.jsonl", "--trust", "trust.json", "--output", "json"}, more...)...)
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, out)
		}
		return scored(t, out)
	}
	last := audit("mail").AsOf
	for at, want := range map[string]string{
		last.Format(time.RFC3339Nano): "0.8667", last.Add(91 * 24 * time.Hour).Format(time.RFC3339Nano): "0.7667", "2020-01-01T00:00:00Z": "0.9000",
	} {
		theirs, ours := audit("mail", "--at", at), w.scores("mail", "--at", at)
		script, _ := a.runs(python, "score.py", "mail", "bundle.jsonl", at)
		if theirs.Score != want || ours.Score != want || strings.TrimSpace(script) != want {
			t.Errorf("EXT-20 as of %s: the auditor has %s, the server %s, the script %s; want %s", at, theirs.Score, ours.Score, script, want)
		}
	}
	if s := audit("documents"); s.Score != "1.0000" {
		t.Errorf("another agent: %+v", s)
	}
	// A chain that does not hold costs half, and the exit code says so.
	spoilt := bytes.Replace(a.bundle(), []byte(`"agent_id":"mail","decision":"ALLOW"`), []byte(`"agent_id":"mail","decision":"DENY"`), 1)
	a.has("spoilt.jsonl", spoilt)
	out, code := a.runs(filepath.Join(a.dir, "powerbox"), "trust", "mail", "--from", "spoilt.jsonl", "--trust", "trust.json")
	if code != 4 || !strings.Contains(out, "-0.5000") || bytes.Equal(spoilt, a.bundle()) {
		t.Errorf("a broken chain: exit %d\n%s", code, out)
	}
	if out, code := w.cli("trust", "nobody"); code == 0 || !strings.Contains(out, `no agent "nobody"`) {
		t.Errorf("of nobody: exit %d\n%s", code, out)
	}
}

// threshold has searches at the documents agent need a level.
func (w *town) threshold(level string) {
	w.t.Helper()
	w.again(func() {
		w.rewrite("powerbox.yaml", "operation: search, effect: read", "operation: search, effect: read, trust: "+level)
	})
}

// TestEXT30_FlowsEndInEvidence goes through the three flows: a token, a chain, and
// a level of trust that is needed. Each answer names the record that it ended in.
func TestEXT30_FlowsEndInEvidence(t *testing.T) {
	s := newScopeTown(t, options{callersOf: func(w *town) string {
		return "  callers:\n    - {agent: mail, key: " + w.reader.key.Public().Thumbprint() + "}"
	}})
	ended := func(flow string, a answer, decision, reason string) {
		t.Helper()
		d := s.decided(a)
		if a.reason() != reason || d.Decision != decision || d.AgentID != "documents" || reason != "" && !d.has(reason) {
			t.Errorf("EXT-30 %s: reason %q, recorded %s %+v\n%s", flow, a.reason(), d.Decision, d.Powerbox.Reasons, a.Raw)
		}
		if outcome := a.Header.Get("Powerbox-Outcome"); decision == "ALLOW" && outcome == "" {
			t.Errorf("EXT-30 %s: the answer does not say what becomes of it: %v", flow, a.Header)
		}
	}
	link := s.toBob("1", scopeSearch)
	ended("flow 1", s.key.sends("documents", s.search()), "ALLOW", "")
	ended("flow 1, refused", s.bob.sends("documents", s.search()), "DENY", "subject_not_caller")
	ended("flow 2", s.bob.sends("documents", s.search(link)), "ALLOW", "")
	ended("flow 2, refused", s.bob.sends("documents", s.retrieve("x", link)), "DENY", "operation_not_granted")

	s.reader.session = aliceToken
	held := s.reader.reports()
	s.threshold("HIGH")
	search := func(c *caller, held granted) answer {
		args := map[string]any{"query": "x"}
		return c.present("documents", data("search_documents", args), proven{chain: []string{held.Token}, operation: opSearch, arguments: args})
	}
	ended("flow 3", search(s.reader, held), "ALLOW", "")
	// Anyone who is no agent that is known here has no level, whatever it holds.
	ended("flow 3, unknown, token", s.key.sends("documents", s.search()), "DENY", "insufficient_trust")
	ended("flow 3, unknown, chain", s.bob.sends("documents", s.search(link)), "DENY", "insufficient_trust")
	ended("flow 3, unknown, AAT", search(s.alice, s.alice.reports()), "DENY", "insufficient_trust")

	mail := s.alice.mailGrant()
	s.mail.answers(failing)
	s.alice.mails(mail, 1)
	eventually(t, 10*time.Second, func() string { return "a score that has fallen changes nothing\n" + s.log.String() }, func() bool {
		return search(s.reader, held).reason() == "insufficient_trust"
	})
	ended("flow 3, fallen", search(s.reader, held), "DENY", "insufficient_trust")
}
