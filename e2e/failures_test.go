package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/powerbox-project/powerbox/token"
)

// failures tries the rows of the table in docs/how-to/operations.md that no other test
// tries: what happens to what reads and what writes, in which mode.
var failures = map[string]func(*testing.T){
	"disk full":                     failDiskFull,
	"agent down":                    failAgentDown,
	"agent breaks off":              failAgentBreaksOff,
	"agent's card cannot be had":    failNoCard,
	"identity provider down":        failNoProvider,
	"clock of a caller off":         failClock,
	"store in use":                  failStoreInUse,
	"certificate renewed and wrong": TestTLSIsReadAgain,
}

// TestFailures tries the rows, and holds the table to the tests that it names.
func TestFailures(t *testing.T) {
	aboutTheFile(t)
	page, err := os.ReadFile("../docs/how-to/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := ""
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(data)
	}
	rows := map[string]bool{}
	_, table, _ := strings.Cut(string(page), "\n## When something fails\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \|.*\| ([^|]*) \|$`).FindAllStringSubmatch(table, -1) {
		name, by := row[1], row[2]
		if name == "what fails" {
			continue
		}
		rows[name] = true
		switch own := failures[name] != nil; {
		case own != (by == "`TestFailures`"):
			t.Errorf("row %q is tried by %s, and TestFailures has it: %t", name, by, own)
		case own || strings.HasPrefix(by, "not tried: "):
		default:
			for named := range strings.SplitSeq(by, " ") {
				if !strings.Contains(tests, "func "+strings.Trim(named, "`")+"(") {
					t.Errorf("row %q is tried by %s, which is no test here", name, named)
				}
			}
		}
	}
	if len(rows) < 12 {
		t.Errorf("only %d rows were read", len(rows))
	}
	for name, try := range failures {
		if !rows[name] {
			t.Errorf("the table has no row %q", name)
		}
		t.Run(name, try)
	}
}

// both are a call that reads and one that writes, neither with a capability.
func both() map[string][]byte {
	return map[string][]byte{"read": data("search_documents", nil), "write": data("delete_document", map[string]any{"resourceHandle": "x"})}
}

// asked is a request for a capability.
var asked = rpc("a2a/capabilities/request", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1")})

func failDiskFull(t *testing.T) {
	for mode, code := range map[string]string{"require": "evidence_unavailable", "scoped": "evidence_unavailable", "prefer": "evidence_unavailable", "observe": ""} {
		w := start(t, options{mode: mode})
		alice := w.caller(aliceToken)
		w.full(0)
		for name, body := range both() {
			if a := alice.send("documents", body); a.reason() != code {
				t.Errorf("%s, %s: %s", mode, name, a.Raw)
			}
		}
		if a := alice.send("documents", asked); a.reason() != "evidence_unavailable" {
			t.Errorf("%s, a request: %s", mode, a.Raw)
		}
		if n := len(w.documents.got()); (n > 0) != (mode == "observe") {
			t.Errorf("%s: %d calls reached the agent", mode, n)
		}
		w.full(unix.RLIM_INFINITY)
		if mode == "observe" && !strings.Contains(w.log.String(), "was not written") {
			t.Error("the log does not tell of it")
		}
		if a := alice.send("documents", both()["read"]); a.reason() == "evidence_unavailable" {
			t.Errorf("%s, with room again: %s", mode, a.Raw)
		}
	}
}

func failAgentDown(t *testing.T) {
	for _, mode := range []string{"prefer", "observe"} {
		w := start(t, options{mode: mode})
		alice := w.caller(aliceToken)
		alice.send("documents", both()["read"]) // the card is known
		w.documents.close()
		for name, body := range both() {
			a := alice.send("documents", body)
			if a.reason() != "authorization_unavailable" || a.Error.Data[0].Metadata["retryable"] != "true" {
				t.Errorf("%s, %s: %s", mode, name, a.Raw)
			}
		}
		if r := w.records("limit=1")[0]; r.Status != "FAILED" {
			t.Errorf("%s: the outcome is %s", mode, r.Status)
		}
	}
}

func failAgentBreaksOff(t *testing.T) {
	agent := newRawAgent(t)
	agent.call = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, mode := range []string{"prefer", "observe"} {
		w := behind(t, agent.stock, mode, "")
		for name, retryable := range map[string]string{"read": "true", "write": "false"} {
			a := w.post(w.agentURL("documents"), both()[name], nil)
			if a.reason() != "outcome_unknown" || a.Error.Data[0].Metadata["retryable"] != retryable {
				t.Errorf("%s, %s: %s", mode, name, a.Raw)
			}
		}
	}
}

func failNoCard(t *testing.T) {
	for _, mode := range []string{"require", "prefer", "observe"} {
		agent := newRawAgent(t)
		agent.card = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
		w := behind(t, agent.stock, mode, "")
		for name, body := range both() {
			if a := w.post(w.agentURL("documents"), body, nil); a.reason() != "authorization_unavailable" {
				t.Errorf("%s, %s: %s", mode, name, a.Raw)
			}
		}
	}
}

func failNoProvider(t *testing.T) {
	nobody := "http://127.0.0.1:" + freePort(t)
	l := newLogin(t)
	session := l.token(t, "alice", "client")
	for mode, code := range map[string]string{"require": "unauthenticated", "prefer": "unauthenticated", "observe": ""} {
		w := start(t, options{mode: mode, callers: "  providers:\n    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_url: " + nobody + "/keys, principal: 'idp:{sub}'}\n"})
		for name, body := range both() {
			if a := w.bearer(session, "documents", body); a.reason() != code {
				t.Errorf("%s, %s: %s", mode, name, a.Raw)
			}
		}
		if a := w.bearer(session, "documents", asked); a.reason() != "unauthenticated" {
			t.Errorf("%s, a request: %s", mode, a.Raw)
		}
		// Who has a capability and its key needs no session.
		if mode == "require" {
			c := w.caller(aliceToken)
			held := c.reports()
			c.session = ""
			allowed(t, c.search(held.Token))
		}
	}
}

func failClock(t *testing.T) {
	for mode, code := range map[string]string{"require": "proof_time", "prefer": "proof_time", "observe": ""} {
		w := start(t, options{mode: mode})
		alice := w.caller(aliceToken)
		held := alice.reports()
		body := data("search_documents", nil)
		for _, off := range []time.Duration{-time.Hour, time.Hour} {
			a := alice.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch, at: time.Now().Add(off)})
			if a.reason() != code {
				t.Errorf("%s, off by %v: %s", mode, off, a.Raw)
			}
		}
		url := w.agentURL("documents")
		late, err := token.SignDPoP(alice.key, token.DPoPRequest{Method: http.MethodPost, URL: url, AccessToken: aliceToken, Now: time.Now().Add(-time.Hour)}, nonce())
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{"Dpop": {late}, "Authorization": {"DPoP " + aliceToken}}
		if a := w.post(url, asked, h); a.reason() != "unauthenticated" {
			t.Errorf("%s, a request: %s", mode, a.Raw)
		}
	}
}

func failStoreInUse(t *testing.T) {
	w := start(t, options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a second server would stay
	defer cancel()
	second := exec.CommandContext(ctx, binary, "serve", "-c", filepath.Join(w.dir, "powerbox.yaml"), "--dev")
	second.Env = append(os.Environ(), "POWERBOX_LISTEN=127.0.0.1:"+freePort(t))
	out, err := second.CombinedOutput()
	if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "powerbox.db") {
		t.Errorf("a second server on the same store: %v\n%s", err, out)
	}
	for name, body := range both() {
		if a := w.caller(aliceToken).send("documents", body); a.reason() != "capability_required" {
			t.Errorf("the first server, %s: %s", name, a.Raw)
		}
	}
}
