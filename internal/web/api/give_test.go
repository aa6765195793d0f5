package api

import (
	"encoding/json"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
)

// TestGivableNamesWhatAGrantChanges: a grant is offered after denials that it changes, and
// after no others.
func TestGivableNamesWhatAGrantChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*evidence.Record)
		good   bool
	}{
		"without a capability": {func(*evidence.Record) {}, true},
		"again and again": {func(r *evidence.Record) {
			r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: "denials_repeated"})
		}, true},
		"allowed":         {func(r *evidence.Record) { r.Decision = evidence.Allow }, false},
		"an outcome":      {func(r *evidence.Record) { r.Details.OutcomeOf = "rec_0" }, false},
		"free text":       {func(r *evidence.Record) { r.Details.Attempt = "admission" }, false},
		"reading a task":  {func(r *evidence.Record) { r.Intent.Operation = "a2a.task.read" }, false},
		"an unnamed call": {func(r *evidence.Record) { r.Details.Requester = "unknown" }, false},
		"without a user":  {func(r *evidence.Record) { r.Details.Principal = "" }, false},
		"frozen": {func(r *evidence.Record) {
			r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: gate.CodeFrozen})
		}, false},
		"outside its scope": {func(r *evidence.Record) { r.Details.Reasons = []evidence.Reason{{Code: gate.CodeScope}} }, false},
		"a replayed proof":  {func(r *evidence.Record) { r.Details.Reasons = []evidence.Reason{{Code: gate.CodeReplay}} }, false},
	} {
		r := evidence.Record{
			ID: "rec_1", AgentID: "documents", ActionType: "a2a.SendMessage", Decision: evidence.Deny, Intent: evidence.Intent{Operation: "documents/read/search"},
			Details: evidence.Details{
				Requester: "desk", Principal: "pw_1", Attempt: "invocation", Gate: &evidence.Gate{}, Reasons: []evidence.Reason{{Code: gate.CodeCapabilityRequired}},
			},
		}
		c.change(&r)
		if why := Givable(r); (why == "") != c.good {
			t.Errorf("%s: %q; want a grant: %t", name, why, c.good)
		}
	}
}

// TestRecordedArgumentsAreExactOrUnknown: names with kinds are no values.
func TestRecordedArgumentsAreExactOrUnknown(t *testing.T) {
	for _, c := range []struct {
		onRecord, body, want string
	}{
		{`{"query":"string","limit":"number"}`, "", ""},
		{`{"query":"string"}`, `{"query":"Q1"}`, `{"query":"Q1"}`},
		{`{"query":"Q1","kind":"string"}`, "", `{"query":"Q1","kind":"string"}`},
		{`{"limit":3}`, "", `{"limit":3}`},
		{`{}`, "", `{}`},
		{``, "", ""},
	} {
		var body []byte
		if c.body != "" {
			body = []byte(c.body)
		}
		got, known := recordedArguments(evidence.Record{Details: evidence.Details{Arguments: json.RawMessage(c.onRecord)}}, body)
		if string(got) != c.want || known != (c.want != "") {
			t.Errorf("of %s with the body %q: %s, %t; want %q", c.onRecord, c.body, got, known, c.want)
		}
	}
}

// TestLimitsAreClosed: typed limits admit no other argument, and wrong ones are told.
func TestLimitsAreClosed(t *testing.T) {
	for text, want := range map[string]string{
		`{"title":"Report","amount":{"max":100}}`: "", `{}`: "", `[]`: "limits: want a JSON object", `{"amount":{"most":1}}`: "limits: ", `{"a":1,"a":2}`: "limits: ",
	} {
		out := Grant{}
		shape, err := limitsOf(Giving{Limits: json.RawMessage(text)}, &out)
		if want == "" && (err != nil || shape.Rest() != powerbox.RestNone) {
			t.Errorf("%s: %v, %v", text, shape.JSON(), err)
		}
		if want != "" && err == nil {
			t.Errorf("%s: taken; want %q", text, want)
		}
	}
}
