package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/powerbox-project/powerbox/agentcard"
)

// suiteFile writes a card of the conformance suite, changed as the pairs say.
func suiteFile(t *testing.T, name string, changes ...string) string {
	t.Helper()
	raw, ok := suiteCards(t)[name]
	if !ok {
		t.Fatalf("no card %q", name)
	}
	return put(t, name+".json", []byte(strings.NewReplacer(changes...).Replace(string(raw))))
}

// answers runs a command whose output has all of some texts.
func answers(t *testing.T, id string, exit int, args []string, texts ...string) string {
	t.Helper()
	out, code := command(t, args...)
	if code != exit {
		t.Errorf("%s: %s: exit %d; want %d\n%s", id, strings.Join(args, " "), code, exit, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%s: %s: %q is missing in\n%s", id, strings.Join(args, " "), text, out)
		}
	}
	return out
}

// TestCARD1_Implicit: tier 1 needs no declaration, ListTasks but of agents of 0.3.
func TestCARD1_Implicit(t *testing.T) {
	asGiven(t)
	features := "send_message,get_task,list_tasks,error_handling"
	answers(t, "CARD-1", 0, []string{"card", "check", suiteFile(t, "plain"), "--feature", features}, "compatible")
	out := answers(t, "CARD-1", 3, []string{"card", "check", suiteFile(t, "old"), "--speak", "0.3", "--feature", features}, "list_tasks is new in 1.0")
	if strings.Count(out, "feature:") != 1 {
		t.Errorf("CARD-1 more than ListTasks is missing: %s", out)
	}
}

// TestCARD2_Declared: anything that is not declared, or declared false, is not relied on;
// on the card and in the extension, each of the six.
func TestCARD2_Declared(t *testing.T) {
	asGiven(t)
	for _, f := range []string{"pause_resume", "streaming_message", "push_notifications", "context_reuse", "multi_tenant", "message_history_injection"} {
		answers(t, "CARD-2", 3, []string{"card", "check", suiteFile(t, "plain"), "--feature", f}, "does not declare "+f)
		answers(t, "CARD-2", 0, []string{"card", "check", suiteFile(t, "in_extension"), "--feature", f}, "compatible")
		answers(t, "CARD-2", 0, []string{"card", "check", suiteFile(t, "plain", `"capabilities": {}`, `"capabilities": {"`+f+`": true}`), "--feature", f}, "compatible")
		answers(t, "CARD-2", 3, []string{"card", "check", suiteFile(t, "plain", `"capabilities": {}`, `"capabilities": {"`+f+`": false}`), "--feature", f}, "says that it has no "+f)
	}
	answers(t, "CARD-2", 3, []string{"card", "check", suiteFile(t, "contradicts"), "--feature", "context_reuse"}, "card_unusable")
}

// TestCARD3_Vendor: features of vendors have names and a description of their own.
func TestCARD3_Vendor(t *testing.T) {
	asGiven(t)
	answers(t, "CARD-3", 0, []string{"card", "check", suiteFile(t, "vendor"), "--feature", "com.example/fast_lane"}, "compatible")
	answers(t, "CARD-3", 3, []string{"card", "check", suiteFile(t, "vendor"), "--feature", "com.example/slow_lane,com.example/other"}, "has no com.example/slow_lane", "does not declare com.example/other")
	answers(t, "CARD-3", 0, []string{"card", "show", suiteFile(t, "vendor"), "--output", "json"}, `"tier":"vendor"`, `"schema":"{\"type\":\"object\"}"`)
	answers(t, "CARD-3", 4, []string{"card", "lint", suiteFile(t, "vendor", "com.example/fast_lane", "fast_lane")}, "want a namespace and a name")
	answers(t, "CARD-3", 0, []string{"card", "check", suiteFile(t, "extension"), "--feature", "https://example.com/ext/geo/v1", "--extension", "https://example.com/ext/pay/v1"}, "compatible")
}

// TestCARD4_Deprecated: use of a deprecated feature warns and names what takes
// its place.
func TestCARD4_Deprecated(t *testing.T) {
	asGiven(t)
	answers(t, "CARD-4", 0, []string{"card", "lint", suiteFile(t, "artifacts")}, "artifact_streaming is deprecated; streaming_message takes its place")
	answers(t, "CARD-4", 0, []string{"card", "check", suiteFile(t, "artifacts"), "--feature", "artifact_streaming"}, "compatible", "warning: artifact_streaming is deprecated; streaming_message takes its place")
}

// TestCARD5_NativeFields: A2A's own members are tiers, and streaming is not
// streaming_message.
func TestCARD5_NativeFields(t *testing.T) {
	asGiven(t)
	native := suiteFile(t, "streams_events", `"streaming": true`, `"streaming": true, "pushNotifications": true, "extendedAgentCard": true`)
	answers(t, "CARD-5", 0, []string{"card", "check", native, "--feature", "streaming,push_notifications,extended_agent_card"}, "compatible")
	answers(t, "CARD-5", 3, []string{"card", "check", native, "--feature", "streaming_message"}, "capabilities.streaming is about task events and does not stand for it")
	answers(t, "CARD-5", 0, []string{"card", "show", suiteFile(t, "both")}, "JSONRPC 1.0 at https://both.example.com/new", "HTTP+JSON 1.0 at")
}

// TestCARD6_Ranges: on the card and in the extension, in both spellings, derived
// where there is none, and wrong in every way.
func TestCARD6_Ranges(t *testing.T) {
	asGiven(t)
	for card, want := range map[string]string{
		"plain": "1.0 (derived", "both": "0.3 to 1.0 (derived", "ranged": "1.0 to 1.2 (declared)", "open_ended": "from 1.1 (declared)",
		"ranged_in_extension": "1.0 to 1.3 (declared)", "lists": "1.0 to 1.10 (derived", "old": "0.3 (derived",
	} {
		answers(t, "CARD-6", 0, []string{"card", "show", suiteFile(t, card)}, want)
	}
	for card, want := range map[string]string{"inverted": "no version is in it", "malformed": `version "v1"`, "empty_range": "is empty; leave it out"} {
		answers(t, "CARD-6", 4, []string{"card", "lint", suiteFile(t, card)}, want)
		answers(t, "CARD-6", 3, []string{"card", "check", suiteFile(t, card)}, "card_unusable")
	}
}

// TestCARD7_Comparison: numbers, patches, ends, and an empty header.
func TestCARD7_Comparison(t *testing.T) {
	asGiven(t)
	for _, c := range []struct {
		card, speak, want string
		exit              int
	}{
		{"lists", "1.10", "JSONRPC 1.10 at", 0},
		{"lists", "1.1", "the agent speaks 1.0, 1.9, 1.10", 3},
		{"ranged", "1.2.17", "JSONRPC 1.2 at", 0},
		{"ranged", "1.3", "declared range: 1.0 to 1.2", 3},
		{"open_ended", "1.100", "JSONRPC 1.100 at", 0},
		{"both", "", "JSONRPC 0.3 at https://both.example.com/old", 0},
		{"plain", "", "the caller speaks 0.3; the agent speaks 1.0", 3},
		{"plain", "1", "want Major.Minor", 3},
	} {
		answers(t, "CARD-7", c.exit, []string{"card", "check", suiteFile(t, c.card), "--speak", c.speak}, c.want)
	}
}

// TestCARD8_EveryReason: all reasons, or interface, binding and version.
func TestCARD8_EveryReason(t *testing.T) {
	asGiven(t)
	args := []string{"card", "check", suiteFile(t, "says_no"), "--speak", "2.0", "--feature", "streaming_message,pause_resume", "--skill", "play", "--sends", "image/png"}
	first := answers(t, "CARD-8", 3, args, "protocol_version:", "no streaming_message", "declare pause_resume", `no skill "play"`, "not compatible")
	if again := answers(t, "CARD-10", 3, args); again != first {
		t.Errorf("CARD-10 two answers:\n%s\n%s", first, again)
	}
	answers(t, "CARD-8", 0, []string{"card", "check", suiteFile(t, "both"), "--speak", "0.3", "--speak", "1.0", "--binding", "HTTP+JSON", "--output", "json"},
		`"compatible":true`, `"url":"https://both.example.com/rest"`, `"binding":"HTTP+JSON"`, `"protocol_version":"1.0"`)
}

// TestCARD8_NothingIsSent: a call that says what its task needs is not made to an
// agent that does not declare it.
func TestCARD8_NothingIsSent(t *testing.T) {
	asGiven(t)
	agent := newRawAgent(t)
	var calls atomic.Int32
	agent.call = func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"done"}]}}}`))
	}
	key := put(t, "key.jwk", newKey(t).JWK())
	call := []string{"call", agent.url, "--skill", "search_documents", "--key", key}
	answers(t, "CARD-8", 3, append(call, "--feature", "context_reuse"), "not compatible", "does not declare context_reuse")
	answers(t, "CARD-8", 3, append(call, "--needs", put(t, "needs.json", []byte(`{"features":["streaming_message"],"inputs":["image/png"]}`))), "streaming_message", "image/png")
	if n := calls.Load(); n != 0 {
		t.Errorf("CARD-8 %d calls were sent all the same", n)
	}
	answers(t, "CARD-8", 0, append(call, "--feature", "streaming"), "done")
	if n := calls.Load(); n != 1 {
		t.Errorf("CARD-8 %d calls; want one, to the agent that declares what is needed", n)
	}
}

// TestCARD9_Path: hop by hop, with the shared context of all, naming hop and
// capability. TestCARD10 is the same twice.
func TestCARD9_Path(t *testing.T) {
	asGiven(t)
	good, bad := suiteFile(t, "streams_messages"), suiteFile(t, "says_no")
	answers(t, "CARD-9", 0, []string{"card", "path", good, good, "--from", "A", "--feature", "streaming_message", "--shared-context"}, "the path holds")
	args := []string{"card", "path", good, bad, good, "--from", "A", "--feature", "streaming_message", "--shared-context", "--output", "json"}
	out := answers(t, "CARD-9", 3, args, `"shared_context":false`)
	var answer agentcard.PathAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Failures) != 2 || !strings.Contains(answer.Failures[0], "hop 2, StreamsMessages to SaysNo: feature") || !strings.Contains(answer.Failures[1], "hop 2, StreamsMessages to SaysNo: SaysNo does not declare context_reuse") {
		t.Errorf("CARD-9 failures %q", answer.Failures)
	}
	answers(t, "CARD-9", 0, []string{"card", "path", good, bad, "--from", "A"}, "SaysNo does not declare context_reuse", "the path holds")
}

// TestCARD10_Deterministic asks the same a few times.
func TestCARD10_Deterministic(t *testing.T) {
	asGiven(t)
	args := []string{"card", "path", suiteFile(t, "says_no"), suiteFile(t, "contradicts"), "--feature", "streaming_message,pause_resume", "--shared-context", "--output", "json"}
	first := answers(t, "CARD-10", 3, args)
	for range 4 {
		if again := answers(t, "CARD-10", 3, args); again != first {
			t.Errorf("CARD-10 another answer:\n%s\n%s", first, again)
		}
	}
}

// TestCARD11_Stability diffs contracts and cards.
func TestCARD11_Stability(t *testing.T) {
	asGiven(t)
	data, err := os.ReadFile("../tests/conformance/capability-discovery.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Cases []struct {
			ID, Kind      string
			Before, After json.RawMessage
			Expect        struct{ Breaches []string }
		} `json:"cases"`
	}
	if err := json.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range suite.Cases {
		if c.Kind != "stability" {
			continue
		}
		n++
		exit := 0
		if len(c.Expect.Breaches) > 0 {
			exit = 4
		}
		out := answers(t, "CARD-11 "+c.ID, exit, []string{"card", "diff", put(t, "before.json", c.Before), put(t, "after.json", c.After)})
		if strings.Count(out, "breach  ") != len(c.Expect.Breaches) {
			t.Errorf("CARD-11 %s: %s; want breaches about %q", c.ID, out, c.Expect.Breaches)
		}
	}
	if n < 10 {
		t.Errorf("CARD-11 only %d cases", n)
	}
	answers(t, "CARD-11", 4, []string{"card", "diff", suiteFile(t, "streams_messages"), suiteFile(t, "streams_messages", `"context_reuse": true`, `"context_reuse": false`)},
		"breach  feature context_reuse: was declared and is now declared absent")
	answers(t, "CARD-11", 0, []string{"card", "diff", suiteFile(t, "streams_messages"), suiteFile(t, "streams_messages")}, "0 breaches")
}

// TestCARD14_EveryProblem is the whole list for a card with many, by the binary.
func TestCARD14_EveryProblem(t *testing.T) {
	asGiven(t)
	card := put(t, "card.json", []byte(`{"name":"A","name":"B","url":"http://a.example.com","x":1,"supportedInterfaces":[],"capabilities":{},"defaultInputModes":["text/plain"],
		"securityRequirements":[{"schemes":{"nowhere":{"list":[]}}}],"skills":[{"id":"s","name":"S","description":"","tags":["t"]},{"id":"s","name":"T","description":"T","tags":["t"]}]}`))
	for strict, severity := range map[string]string{"--strict": "error", "--strict=false": "warning"} {
		answers(t, "CARD-14", 4, []string{"card", "lint", strict, card},
			`error  /name  the member "name" is there more than once`, "error  /url  the URL is http", severity+"  /x  AgentCard has no member", "error  /supportedInterfaces  supportedInterfaces has no element",
			"error  /defaultOutputModes  AgentCard has no defaultOutputModes", `error  /securityRequirements/0/schemes/nowhere  the security scheme "nowhere"`,
			"error  /skills/0/description  AgentSkill has an empty description", `error  /skills/1/id  two skills have the id "s"`, "error  /version", "error  /description", "error  /protocolVersion")
	}
}

// TestCARD20_Extension: the contract has its own URI, under which alone its
// declarations count.
func TestCARD20_Extension(t *testing.T) {
	asGiven(t)
	answers(t, "CARD-20", 0, []string{"card", "check", suiteFile(t, "in_extension"), "--feature", "context_reuse," + agentcard.ContractURI}, "compatible")
	answers(t, "CARD-20", 3, []string{"card", "check", suiteFile(t, "in_extension", "capability-contract/v1", "capability-contract/v2"), "--feature", "context_reuse"}, "does not declare context_reuse")
}
