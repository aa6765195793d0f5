package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// memory is what callers have read, by holder.
type memory struct {
	labels map[string][]Reached
	values map[string]bool // holder, task and value
	broken error
}

func (m memory) Reached(_ context.Context, by Reading) (out []Reached, err error) {
	for _, holder := range by.Holders {
		out = append(out, m.labels[holder]...)
	}
	return out, m.broken
}

func (m memory) HasRead(_ context.Context, by Reading, values []Value) ([]bool, error) {
	out := make([]bool, len(values))
	for n, v := range values {
		for _, holder := range by.Holders {
			out[n] = out[n] || m.values[holder+" "+by.Task+" "+v.Path+" "+v.Value.String()]
		}
	}
	return out, m.broken
}

var (
	inbox   = Label{Source: "inbox", Untrusted: true}
	payroll = Label{Source: "payroll", Confidential: true}
)

// flowing is a town whose caller presents a capability for read with handle h, and the call
// that it makes. Read is held to sink.
func flowing(t *testing.T, sink Sink, m memory) (*town, *Call) {
	t.Helper()
	w := newTown(t)
	holder := "key:" + w.holder.Public().Thumbprint()
	w.records["cap_1"] = Held{
		Capability: "cap_1", OnRecord: "cap_1", Root: "cap_1", Holder: holder, Principal: "pw_alice", Issued: at.Add(-time.Minute),
		Authority: authority(t, "read=h", "search", "a2a.message"),
	}
	c := w.call(Require, try(t, "read", handle("h")))
	c.Presented = []Presented{{Reference: "cap_1"}}
	c.Ask.Data = &Data{Book: m, Sink: func(op powerbox.Operation) Sink {
		if op.String() == "a2a.message" {
			return Sink{}
		}
		return sink
	}, Delegates: func(h string) bool { return h == "key:desk" }}
	return w, c
}

func (w *town) me() string { return "key:" + w.holder.Public().Thumbprint() }

// ATK-113: what a caller has read decides about the calls that it makes afterwards.
func TestATK113_RulesAboutTheOriginOfData(t *testing.T) {
	me := newTown(t).me()
	before, after := at.Add(-time.Hour), at
	reached := func(holder string, l Label, when time.Time) memory {
		return memory{labels: map[string][]Reached{holder: {{l, when}}}}
	}
	from := Sink{From: []From{{"handle", "book/look/up", "/handle"}}, Otherwise: Refuse}
	earned := func(task string) memory {
		return memory{values: map[string]bool{me + " " + task + ` /handle "h"`: true}}
	}
	unpinned := func(_ *Call, w *town) {
		h := w.records["cap_1"]
		h.Authority = authority(t, "read", "search", "a2a.message")
		w.records["cap_1"] = h
	}
	for _, c := range []struct {
		name   string
		sink   Sink
		memory memory
		change func(*Call, *town)
		want   []string // codes; nil where the call is allowed
	}{
		{"nothing was read", Sink{Untrusted: Refuse}, memory{}, unpinned, nil},
		{"untrusted", Sink{Untrusted: Refuse}, reached(me, inbox, after), unpinned, []string{CodeDataOrigin}},
		{"untrusted, a person is asked", Sink{Untrusted: AskPerson}, reached(me, inbox, after), unpinned, []string{CodeApproval, CodeDataOrigin}},
		{"no rule", Sink{}, reached(me, inbox, after), unpinned, nil},
		{"trusted", Sink{Untrusted: Refuse}, reached(me, payroll, after), unpinned, nil},
		{"the root names the value", Sink{Untrusted: Refuse}, reached(me, inbox, after), nil, nil},
		{"the root came after the reading", Sink{Untrusted: Refuse}, reached(me, inbox, before), nil, []string{CodeDataOrigin}},
		{"the root came in the second of the reading", Sink{Untrusted: Refuse}, reached(me, inbox, at.Add(-time.Minute+999*time.Millisecond)), nil, []string{CodeDataOrigin}},
		{"what is named was narrowed on record", Sink{Untrusted: Refuse}, reached(me, inbox, after), func(_ *Call, w *town) {
			h := w.records["cap_1"]
			h.Root = "cap_0"
			w.records["cap_1"] = h
		}, []string{CodeDataOrigin}},
		{"another holder", Sink{Untrusted: Refuse}, reached("key:other", inbox, after), unpinned, nil},
		{"a holder before", Sink{Untrusted: Refuse}, reached("key:parent", inbox, after), func(c *Call, w *town) {
			unpinned(c, w)
			h := w.records["cap_1"]
			h.Through = []string{"key:parent"}
			w.records["cap_1"] = h
		}, []string{CodeDataOrigin}},
		{"the desk before", Sink{Untrusted: Refuse}, reached("key:desk", inbox, after), func(c *Call, w *town) {
			unpinned(c, w)
			h := w.records["cap_1"]
			h.Through = []string{"key:desk"}
			w.records["cap_1"] = h
		}, nil},
		{"a deciding argument is missing", Sink{Untrusted: Refuse, Deciding: []string{"other"}}, reached(me, inbox, after), nil, []string{CodeDataOrigin}},
		{"no argument", Sink{Untrusted: Refuse}, reached(me, inbox, after), func(c *Call, _ *town) { c.Attempts = []powerbox.Attempt{try(t, "search")} }, []string{CodeDataOrigin}},
		{"free text", Sink{Untrusted: Refuse}, reached(me, inbox, after), func(c *Call, w *town) {
			unpinned(c, w)
			c.Attempts, c.Free.Any = []powerbox.Attempt{powerbox.Admission(operations(t, "search")...), try(t, "a2a.message")}, true
		}, []string{CodeDataOrigin}},
		{"free text could hold any value", from, earned(""), func(c *Call, w *town) {
			unpinned(c, w)
			c.Attempts, c.Free.Any = []powerbox.Attempt{powerbox.Admission(operations(t, "search")...), try(t, "a2a.message")}, true
		}, []string{CodeDataOrigin}},
		{"confidential", Sink{Confidential: Refuse}, reached(me, payroll, after), unpinned, []string{CodeDataOrigin}},
		{"confidential, the value is named", Sink{Confidential: Refuse}, reached(me, payroll, after), nil, nil},
		{"not earned", from, memory{}, unpinned, []string{CodeDataOrigin}},
		{"earned", from, earned(""), unpinned, nil},
		{"earned in another task", from, earned("other"), unpinned, []string{CodeDataOrigin}},
		{"the book cannot be asked", Sink{Untrusted: Refuse}, memory{broken: errors.New("gone")}, nil, []string{CodeUnavailable}},
		{"two holders whom nothing tells apart", Sink{Untrusted: Refuse}, memory{}, func(c *Call, _ *town) {
			c.Presented, c.Caller, c.Mode, c.Ambient = nil, Caller{}, Prefer, true
		}, []string{CodeDataOrigin}},
	} {
		w, call := flowing(t, c.sink, c.memory)
		if c.change != nil {
			c.change(call, w)
		}
		v := w.check(call)
		if got := codes(v); v.Allowed != (c.want == nil) || c.want != nil && !slices.Equal(got, c.want) {
			t.Errorf("%s: allowed %t, %v; want %v", c.name, v.Allowed, got, c.want)
		}
		if slices.Contains(c.want, CodeApproval) != v.Waits {
			t.Errorf("%s: waits %t", c.name, v.Waits)
		}
	}
}

// An approval of this very call replaces asking, and never a refusal.
func TestATK113_AnApprovalReplacesAskingAlone(t *testing.T) {
	me := newTown(t).me()
	m := memory{labels: map[string][]Reached{me: {{inbox, at.Add(-time.Hour)}}}}
	for effect, want := range map[Effect]bool{AskPerson: true, Refuse: false} {
		w, call := flowing(t, Sink{Untrusted: effect}, m)
		h := w.records["cap_1"]
		h.Digest, call.Bound, call.Released = "this call", "this call", true
		w.records["cap_1"] = h
		if v := w.check(call); v.Allowed != want {
			t.Errorf("%s: allowed %t, %v", effect, v.Allowed, codes(v))
		}
	}
}

// Observing records what the rules would do, and the record names the labels that the caller had read.
func TestDataIsObserved(t *testing.T) {
	me := newTown(t).me()
	m := memory{labels: map[string][]Reached{me: {{inbox, at.Add(-time.Hour)}}}}
	for effect, want := range map[Effect]string{AskPerson: "would wait for a person: ", Refuse: "would be refused: "} {
		w, call := flowing(t, Sink{Untrusted: effect}, m)
		call.Ask.Data.Observe = true
		v := w.check(call)
		if !v.Allowed || v.Waits || len(v.Reasons) != 0 {
			t.Errorf("%s: %+v", effect, v.Reasons)
		}
		r := w.ledger.sealed[0].Record()
		if len(r.Details.Reasons) != 1 || r.Details.Reasons[0].Code != codeDataObserved || !strings.HasPrefix(r.Details.Reasons[0].Message, want) {
			t.Errorf("%s: recorded %+v", effect, r.Details.Reasons)
		}
		const details = `{"data":{"read":[{"confidential":false,"source":"inbox","trust":"untrusted"}]}}`
		if string(r.Intent.Details) != details || r.Decision != evidence.Allow {
			t.Errorf("%s: %s %s", effect, r.Decision, r.Intent.Details)
		}
	}
	w, call := flowing(t, Sink{Untrusted: Refuse}, memory{broken: errors.New("gone")})
	call.Ask.Data.Observe = true
	if v := w.check(call); !v.Allowed {
		t.Errorf("a book that cannot be asked: %v", codes(v))
	}
}

// ATK-115: a value that only looks equal is none that was read.
func TestATK115_ValuesAreEqualByTypeAndContent(t *testing.T) {
	me := newTown(t).me()
	m := memory{values: map[string]bool{me + `  /handle "4711"`: true, me + "  /handle 5": true, me + "  /handle \"caf\u00e9\"": true}}
	sink := Sink{From: []From{{"handle", "book/look/up", "/handle"}}, Otherwise: Refuse}
	for text, want := range map[string]bool{
		`"4711"`: true, `5`: true, `5.0`: true, "\"caf\u00e9\"": true, `["4711",5]`: true,
		`4711`: false, `"5"`: false, "\"cafe\u0301\"": false, `"4711 "`: false, `"471"`: false, `[]`: false, `null`: false,
		`["4711","x"]`: false, `{"handle":"4711"}`: false, `[["4711"]]`: false, `true`: false,
	} {
		w, call := flowing(t, sink, m)
		h := w.records["cap_1"]
		h.Authority = authority(t, "read", "a2a.message")
		w.records["cap_1"] = h
		value, err := powerbox.ParseValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		call.Attempts = []powerbox.Attempt{try(t, "read", powerbox.Member{Name: "handle", Value: value})}
		if v := w.check(call); v.Allowed != want {
			t.Errorf("%s: allowed %t, %v", text, v.Allowed, fmt.Sprint(codes(v)))
		}
	}
}

func TestPathsOfResults(t *testing.T) {
	result, err := powerbox.ParseValue([]byte(`{"entries":[{"iban":"A","x":{"n":1}},{"iban":["B"]},{"iban":"C"}],"a/b":{"~":"T"},"*":"star","text":"t"}`))
	if err != nil {
		t.Fatal(err)
	}
	values := func(path string, results ...powerbox.Value) string {
		var out []powerbox.Value
		for _, v := range (Flow{Paths: []string{path}}).Earned("a/b/c", results...) {
			if v.Operation != "a/b/c" || v.Path != path {
				t.Errorf("%q: a value of %s at %q", path, v.Operation, v.Path)
			}
			out = append(out, v.Value)
		}
		return fmt.Sprint(out)
	}
	for path, want := range map[string]string{
		"/entries/*/iban": `["A" "C"]`, "/entries/*/iban/*": `["B"]`, "/entries/*/x/n": `[1]`, "/entries/0/iban": `[]`, "/entries": `[]`,
		"/a~1b/~0": `["T"]`, "/*": `["star"]`, "/text": `["t"]`, "": `[]`, "/": `[]`, "/text/": `[]`, "/none/*/iban": `[]`,
	} {
		if got := values(path, result); got != want {
			t.Errorf("%q: %s; want %s", path, got, want)
		}
	}
	if got := values("", powerbox.String("whole"), powerbox.String(strings.Repeat("x", 2000))); got != `["whole"]` {
		t.Errorf("the whole result: %s", got)
	}
	if got := (Flow{Yields: Label{Untrusted: true}, Paths: []string{""}}).Earned("a/b/c", powerbox.String("whole")); got != nil {
		t.Errorf("an untrusted result vouches for %v", got)
	}
}
