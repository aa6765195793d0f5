package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
)

const readNote = "notes/notes:read/read_note"

// TestModesDecideAboutCallsWithoutACapability holds each mode to who may call what, and
// to what is on record about it.
func TestModesDecideAboutCallsWithoutACapability(t *testing.T) {
	const freeText = `{"text":"what is new?"}`
	for name, c := range map[string]struct {
		mode     gate.Mode
		scope    []string
		caller   string
		body     string
		code     string
		decision evidence.Decision
	}{
		"observe lets strangers call":                {gate.Observe, nil, "", calls("delete_note"), "", evidence.Abstain},
		"observe lets free text pass":                {gate.Observe, nil, "", message(freeText), "", evidence.Abstain},
		"scoped allows what the scope has":           {gate.Scoped, []string{readNote}, "assistant", calls("read_note"), "", evidence.Allow},
		"scoped denies what the scope does not have": {gate.Scoped, []string{readNote}, "assistant", calls("delete_note"), gate.CodeScope, evidence.Deny},
		"scoped denies strangers":                    {gate.Scoped, []string{readNote}, "", calls("read_note"), gate.CodeScope, evidence.Deny},
		"scoped denies free text that could do more": {gate.Scoped, []string{readNote}, "assistant", message(freeText), gate.CodeScope, evidence.Deny},
		"require wants a capability":                 {gate.Require, []string{readNote}, "assistant", calls("read_note"), gate.CodeCapabilityRequired, evidence.Deny},
		"require wants one for free text":            {gate.Require, []string{readNote}, "assistant", message(freeText), gate.CodeCapabilityRequired, evidence.Deny},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, c.mode, c.scope...)
			a := w.post("", c.body, bearer(c.caller)...)
			if a.status != http.StatusOK || a.code != c.code {
				t.Errorf("status %d, code %q; want %q\n%s", a.status, a.code, c.code, a.body)
			}
			bodies, _ := w.agent.got()
			if reached := len(bodies) == 1; reached != (c.code == "") {
				t.Errorf("%d requests reached the agent", len(bodies))
			}
			records := w.ledger.written()
			if len(records) == 0 || records[0].Decision != c.decision || a.header.Get("Powerbox-Decision") != records[0].ID {
				t.Fatalf("records %+v, header %q", records, a.header.Get("Powerbox-Decision"))
			}
			if outcomes := len(records) - 1; (outcomes == 1) != (c.code == "") {
				t.Errorf("%d records follow the decision", outcomes)
			}
		})
	}
}

func bearer(caller string) []string {
	if caller == "" {
		return nil
	}
	return []string{"Authorization", "Bearer " + caller}
}

// TestNothingPassesThatIsNotOnRecord: a decision that cannot be recorded is a denial, and
// the agent gets nothing.
func TestNothingPassesThatIsNotOnRecord(t *testing.T) {
	for _, mode := range []gate.Mode{gate.Scoped, gate.Require} {
		w := newTown(t, mode, readNote)
		w.ledger.full = true
		a := w.post("", calls("read_note"), bearer("assistant")...)
		if bodies, _ := w.agent.got(); len(bodies) != 0 || a.status != http.StatusServiceUnavailable && a.code == "" {
			t.Errorf("%s: %d requests reached the agent; status %d\n%s", mode, len(bodies), a.status, a.body)
		}
	}
}

// TestForwardedRequestsAreWrittenAgain: the agent gets the members that rules know, the
// signed context, and none of the credentials and headers that are the gateway's own.
func TestForwardedRequestsAreWrittenAgain(t *testing.T) {
	w := newTown(t, gate.Scoped, readNote)
	odd := strings.Replace(calls("read_note"), `"messageId":"m1"`, `"unknown":true, "messageId":"\u006d1"`, 1)
	a := w.post("", odd, "Authorization", "Bearer assistant", "Powerbox-Context", "forged", "Powerbox-Ambient", "forged", "X-Own", "1", "Cookie", "a=b")
	if a.code != "" {
		t.Fatal(a.body)
	}
	bodies, header := w.agent.got()
	if len(bodies) != 1 || strings.Contains(bodies[0], "unknown") || !strings.Contains(bodies[0], `"messageId":"m1"`) {
		t.Errorf("the agent got %s", bodies)
	}
	for _, name := range []string{"Authorization", "Powerbox-Ambient", "X-Own"} {
		if got := header.Get(name); got != "" {
			t.Errorf("the agent got %s: %s", name, got)
		}
	}
	if got := header.Values("Powerbox-Context"); len(got) != 1 || got[0] == "forged" || strings.Count(got[0], ".") != 2 {
		t.Errorf("signed context %q", got)
	}
}

// TestRequestsThatCannotBeReadAreRefused before the agent gets anything of them.
func TestRequestsThatCannotBeReadAreRefused(t *testing.T) {
	good := calls("read_note")
	for name, c := range map[string]struct {
		path, body string
		headers    []string
	}{
		"no JSON":                         {"", "hello", nil},
		"a batch":                         {"", "[" + good + "]", nil},
		"a member twice":                  {"", strings.Replace(good, `"id":1`, `"id":1,"id":2`, 1), nil},
		"a member in other letters":       {"", strings.Replace(good, `"params"`, `"Params"`, 1), nil},
		"a call without an id":            {"", strings.Replace(good, `"id":1,`, "", 1), nil},
		"a method that is not offered":    {"", strings.Replace(good, "SendMessage", "Erase", 1), nil},
		"more than the limit":             {"", strings.Replace(good, `"title":"a"`, `"title":"`+strings.Repeat("a", 5000)+`"`, 1), nil},
		"an encoding that hides the body": {"", good, []string{"Content-Encoding", "gzip"}},
		"two skills that differ":          {"/skills/delete_note", good, nil},
		"a skill that is not mapped":      {"", calls("no_such_skill"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, gate.Scoped, readNote, "notes/notes:write/delete_note")
			a := w.post(c.path, c.body, append(bearer("assistant"), c.headers...)...)
			if bodies, _ := w.agent.got(); len(bodies) != 0 || strings.Contains(a.body, `"result"`) {
				t.Errorf("%d requests reached the agent; status %d\n%s", len(bodies), a.status, a.body)
			}
			if a.status < 400 && !strings.Contains(a.body, `"error"`) {
				t.Errorf("no error: status %d\n%s", a.status, a.body)
			}
		})
	}
}

// TestTheCardLeadsToTheGateway: the card that callers get names the gateway's address and
// never the agent's.
func TestTheCardLeadsToTheGateway(t *testing.T) {
	w := newTown(t, gate.Observe)
	resp, err := http.Get(w.url + "/.well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || !strings.Contains(text.String(), w.url) || strings.Contains(text.String(), "/invoke") {
		t.Errorf("%s", text.String())
	}
}

// TestAgentsThatAreNotConfiguredAreNotFound says the same of every path.
func TestAgentsThatAreNotConfiguredAreNotFound(t *testing.T) {
	w := newTown(t, gate.Observe)
	w.url = strings.TrimSuffix(w.url, "notes") + "other"
	if a := w.post("", calls("read_note")); a.status != http.StatusNotFound || len(w.ledger.written()) != 0 {
		t.Errorf("status %d, %d records", a.status, len(w.ledger.written()))
	}
}
