package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

const readNote = "notes/notes:read/read_note"

// TestModesDecideAboutCallsWithoutACapability holds each mode to its permitted calls,
// and to their records.
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

// TestBindingsDecideAlike sends one call by each binding and version over HTTP.
func TestBindingsDecideAlike(t *testing.T) {
	const old = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"data","data":{"skill":"SKILL","arguments":{"title":"a"}}}]}}}`
	const rest = `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"data":{"skill":"SKILL","arguments":{"title":"a"}}}]}}`
	for name, c := range map[string]struct {
		path, body, version string
	}{
		"JSON-RPC 1.0":  {"", calls("SKILL"), "1.0"},
		"JSON-RPC 0.3":  {"", old, "0.3"},
		"HTTP+JSON 1.0": {"/message:send", rest, "1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, gate.Scoped, readNote)
			for skill, want := range map[string]evidence.Decision{"read_note": evidence.Allow, "delete_note": evidence.Deny} {
				before := len(w.ledger.written())
				a := w.post(c.path, strings.Replace(c.body, "SKILL", skill, 1), append(bearer("assistant"), "A2A-Version", c.version)...)
				records := w.ledger.written()[before:]
				if len(records) == 0 || records[0].Decision != want || !strings.HasSuffix(records[0].Intent.Operation, skill) {
					t.Errorf("%s: records %+v\n%s", skill, records, a.body)
				}
			}
		})
	}
}

// TestAnAgentThatIsAwayIsOnRecord: the caller gets an error, and the outcome says that the
// call failed.
func TestAnAgentThatIsAwayIsOnRecord(t *testing.T) {
	w := newTown(t, gate.Scoped, readNote)
	w.post("", calls("read_note"), bearer("assistant")...) // the card is known from now on
	w.away()
	a := w.post("", calls("read_note"), bearer("assistant")...)
	records := w.ledger.written()
	if strings.Contains(a.body, `"result"`) || len(records) != 4 {
		t.Fatalf("%d records, status %d\n%s", len(records), a.status, a.body)
	}
	if last := records[3]; last.OutcomeStatus != evidence.Failed || last.Details.OutcomeOf != records[2].ID {
		t.Errorf("outcome %q of %q", last.OutcomeStatus, last.Details.OutcomeOf)
	}
}

// TestACapabilityThatIsNotKnownIsADenial, also for a caller whose scope has the operation.
func TestACapabilityThatIsNotKnownIsADenial(t *testing.T) {
	w := newTown(t, gate.Scoped, readNote)
	a := w.post("", calls("read_note"), append(bearer("assistant"), "Powerbox-Capability", "cap_1")...)
	if bodies, _ := w.agent.got(); a.code != gate.CodeCapabilityUnknown || len(bodies) != 0 {
		t.Errorf("code %q, %d requests reached the agent\n%s", a.code, len(bodies), a.body)
	}
}

// TestNothingPassesWhileTheModeIsNotKnown: a gateway that cannot read the mode denies.
func TestNothingPassesWhileTheModeIsNotKnown(t *testing.T) {
	w := newTownWith(t, gate.Observe, nil, func(c *gateway.Config) {
		c.Mode = func(context.Context, string) (gate.Mode, error) { return "", errors.New("the store is gone") }
	})
	a := w.post("", calls("read_note"))
	if bodies, _ := w.agent.got(); len(bodies) != 0 || !strings.Contains(a.body, "the mode of the agent cannot be told") || a.code != "authorization_unavailable" || strings.Contains(a.body, "store is gone") {
		t.Errorf("%d requests reached the agent; status %d\n%s", len(bodies), a.status, a.body)
	}
}

// TestCallersAboveTheirRateAreTurnedAway before their call is decided.
func TestCallersAboveTheirRateAreTurnedAway(t *testing.T) {
	w := newTownWith(t, gate.Scoped, []string{readNote}, func(c *gateway.Config) {
		c.Rate = 1
	})
	refused := 0
	for range 5 {
		if a := w.post("", calls("read_note"), bearer("assistant")...); a.code == "rate_limited" {
			refused++
			if a.header.Get("Retry-After") == "" {
				t.Errorf("no Retry-After: %v", a.header)
			}
		}
	}
	if bodies, _ := w.agent.got(); refused == 0 || len(bodies)+refused != 5 || len(bodies) == 0 {
		t.Errorf("%d of 5 refused, %d reached the agent", refused, len(bodies))
	}
}

// TestEveryRequiredFieldIsAskedFor: a gateway is not made with a part missing.
func TestEveryRequiredFieldIsAskedFor(t *testing.T) {
	for name, without := range map[string]func(*gateway.Config){
		"gate": func(c *gateway.Config) { c.Gate = nil }, "identity": func(c *gateway.Config) { c.Identity = nil },
		"tasks": func(c *gateway.Config) { c.Tasks = nil }, "mode": func(c *gateway.Config) { c.Mode = nil },
		"public transport": func(c *gateway.Config) { c.Public = nil }, "clock": func(c *gateway.Config) { c.Now = nil },
		"limit of bodies": func(c *gateway.Config) { c.BodyLimit = 0 }, "time of bodies": func(c *gateway.Config) { c.BodyTime = 0 },
	} {
		config := newTown(t, gate.Observe).config("http://127.0.0.1:1")
		without(&config)
		if _, err := gateway.New(config); err == nil {
			t.Errorf("a gateway is made without %s", name)
		}
	}
}

// TestMalformedCallsOfKnownCallersAreRecorded: the caller gets the protocol's error with the
// id of a denial on record, and another error without an id where that cannot be written.
func TestMalformedCallsOfKnownCallersAreRecorded(t *testing.T) {
	for _, mode := range []gate.Mode{gate.Prefer, gate.Scoped, gate.Require} {
		w := newTown(t, mode, readNote)
		bad := strings.Replace(calls("read_note"), "SendMessage", "Erase", 1)
		a := w.post("", bad, bearer("assistant")...)
		written := w.ledger.written()
		if len(written) != 1 || written[0].Decision != evidence.Deny || a.header.Get(gateway.HeaderDecision) != written[0].ID || !strings.Contains(a.body, "-32601") {
			t.Errorf("%s: records %+v, status %d %v\n%s", mode, written, a.status, a.header, a.body)
		}
		w.ledger.full = true
		if a := w.post("", bad, bearer("assistant")...); strings.Contains(a.body, "-32601") || a.header.Get(gateway.HeaderDecision) != "" || !strings.Contains(a.body, "the refusal could not be recorded") {
			t.Errorf("%s with a full disk: status %d %v\n%s", mode, a.status, a.header, a.body)
		}
	}
}
