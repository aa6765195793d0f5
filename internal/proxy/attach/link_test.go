package attach_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/proxy/attach"
	"github.com/powerbox-project/powerbox/token"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func other(c *token.Context) { c.Principal, c.Holder = "p-2", "key:y" }

// A call is made for the task that it is linked to, by whatever the agent
// passes on of what came in.
func TestCallsAreLinkedToTheirTask(t *testing.T) {
	w := newTown(t, nil)
	first := w.comes("cap_1", "context-1", nil, nil)
	second := w.comes("cap_2", "context-2", header("traceparent", trace), other)
	for name, c := range map[string]struct {
		header  http.Header
		context string
		want    string
	}{
		"by the context that came in":        {header: header("Powerbox-Context", first.Get("Powerbox-Context")), want: "cap_1"},
		"by the other one":                   {header: header("Powerbox-Context", second.Get("Powerbox-Context")), want: "cap_2"},
		"by tracestate":                      {header: header("tracestate", "vendor=x, "+first.Get("tracestate")), want: "cap_1"},
		"by a trace that was begun here":     {header: header("traceparent", first.Get("traceparent")), want: "cap_1"},
		"by a trace that came in":            {header: header("traceparent", trace), want: "cap_2"},
		"by the context id":                  {context: "context-1", want: "cap_1"},
		"by context, whatever the trace":     {header: header("Powerbox-Context", first.Get("Powerbox-Context"), "traceparent", trace), want: "cap_1"},
		"by tracestate, whatever it names":   {header: header("tracestate", second.Get("tracestate")), context: "context-1", want: "cap_2"},
		"by a trace, where the context is 2": {header: header("traceparent", first.Get("traceparent")), context: "context-2", want: "cap_1"},
	} {
		got, refused := w.goes(call("read", c.context), c.header)
		if got != c.want || refused != "" {
			t.Errorf("%s: presented %q, refused %q; want %q", name, got, refused, c.want)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.peerIn {
		if h.Get("Powerbox-Context") != "" || strings.Contains(h.Get("tracestate"), "powerbox") {
			t.Errorf("what is for us alone goes on: %v", h)
		}
	}
}

func TestCallsOfNoTaskAreUncorrelated(t *testing.T) {
	w := newTown(t, nil)
	first := w.comes("cap_1", "context-1", header("traceparent", trace), nil)
	for name, c := range map[string]struct {
		header  http.Header
		context string
	}{
		"nothing":                               {},
		"a context that nobody knows":           {header: header("Powerbox-Context", first.Get("Powerbox-Context")+"x"), context: "context-1"},
		"a link that nobody knows":              {header: header("tracestate", first.Get("tracestate")+"x"), context: "context-1"},
		"another trace":                         {header: header("traceparent", strings.Replace(trace, "0af", "1af", 1))},
		"a trace that is none":                  {header: header("traceparent", "00-"+strings.Repeat("0", 32)+"-b7ad6b7169203331-01")},
		"another context id":                    {context: "context-2"},
		"the context id of the peer, not known": {context: "context-9"},
	} {
		if got, refused := w.goes(call("read", c.context), c.header); refused != "uncorrelated" {
			t.Errorf("%s: presented %q, refused %q", name, got, refused)
		}
	}
	// Two tasks with one trace are two tasks.
	w.comes("cap_2", "", header("traceparent", trace), other)
	if got, refused := w.goes(call("read", ""), header("traceparent", trace)); refused != "uncorrelated" {
		t.Errorf("a trace of two tasks: presented %q, refused %q", got, refused)
	}
	if got, _ := w.goes(call("read", ""), header("traceparent", trace, "tracestate", first.Get("tracestate"))); got != "cap_1" {
		t.Errorf("a trace of two tasks, with the link: presented %q", got)
	}
	// Nor is a task the task of someone else who names it.
	w.comes("cap_3", "context-1", nil, other)
	if got, refused := w.goes(call("read", "context-1"), nil); refused != "uncorrelated" {
		t.Errorf("a context of two owners: presented %q, refused %q", got, refused)
	}
	w.now = w.now.Add(61 * time.Minute)
	if got, refused := w.goes(call("read", ""), header("tracestate", first.Get("tracestate"))); refused != "uncorrelated" {
		t.Errorf("after an hour: presented %q, refused %q", got, refused)
	}
}

// Two callers of whom nothing is known are not one, whatever they name.
func TestStrangersShareNoTask(t *testing.T) {
	w := newTown(t, nil)
	nobody := func(c *token.Context) { c.Principal, c.Holder = "", "" }
	w.comes("cap_1", "context-1", nil, nobody)
	h := w.comes("", "context-1", nil, nobody)
	if got, refused := w.goes(call("read", ""), header("tracestate", h.Get("tracestate"))); got != "" {
		t.Errorf("presented %q, refused %q", got, refused)
	}
}

// One owner has a task of one name in two tenants: what came with the one is no use for
// the other.
func TestCallsInTwoTenantsAreOfTwoTasks(t *testing.T) {
	w := newTown(t, nil)
	w.tenant = "t1"
	first := w.comes("cap_1", "context-1", nil, nil)
	w.tenant = "t2"
	second := w.comes("", "context-1", nil, nil)
	if got, refused := w.goes(call("read", ""), header("tracestate", second.Get("tracestate"))); got != "" {
		t.Errorf("ATK-18 in the other tenant: presented %q, refused %q", got, refused)
	}
	if got, refused := w.goes(call("read", ""), header("tracestate", first.Get("tracestate"))); got != "cap_1" {
		t.Errorf("ATK-18 in its own: presented %q, refused %q", got, refused)
	}
}

// The second turn of a task has what came with the first.
func TestTurnsOfOneTaskShareIt(t *testing.T) {
	w := newTown(t, nil)
	w.answer = `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"task-1","contextId":"context-1","status":{"state":"TASK_STATE_WORKING"}}}}`
	w.comes("cap_1", "", nil, nil)
	if got, _ := w.goes(call("read", "context-1"), nil); got != "cap_1" {
		t.Errorf("by what the answer says: presented %q", got)
	}
	h := w.comes("", "context-1", nil, nil)
	if got, _ := w.goes(call("read", ""), header("tracestate", h.Get("tracestate"))); got != "cap_1" {
		t.Errorf("in the second turn: presented %q", got)
	}
}

func TestWhatIsHeldFromTheStartIsTheFloorsAlone(t *testing.T) {
	w := newTown(t, func(w *town, c *attach.Config) {
		c.Peers[0].Floor = []string{"read"}
		c.Held = []holder.Capability{{
			ID: "cap_0", Agent: w.gateway.URL + "/agents/peer", Chain: []string{w.chain("cap_0", canRead)}, Expires: w.now.Add(time.Hour),
		}}
	})
	first := w.comes("cap_1", "", nil, nil)
	second := w.comes("", "", nil, other)
	if got, refused := w.goes(call("write", ""), nil); refused != "uncorrelated" {
		t.Errorf("a skill that is not the floor's: presented %q, refused %q", got, refused)
	}
	for link, want := range map[string]string{"": "cap_0", first.Get("tracestate"): "cap_1", second.Get("tracestate"): ""} {
		if got, _ := w.goes(call("read", ""), header("tracestate", link)); got != want {
			t.Errorf("linked by %q: presented %q; want %q", link, got, want)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	floors := 0
	for _, h := range w.peerIn {
		if h.Get("Powerbox-Purpose") == "uncorrelated" {
			floors++
		}
	}
	if floors != 1 {
		t.Errorf("%d of %d calls say that they are uncorrelated; want 1", floors, len(w.peerIn))
	}
}
