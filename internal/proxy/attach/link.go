package attach

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// headerContext is the signed context of a gateway.
const headerContext = "Powerbox-Context"

// traceKey is our entry in tracestate, which tracing libraries pass on with
// traceparent (W3C Trace Context, section 3.3): it is unguessable.
const traceKey = "powerbox"

const (
	maxInbound = 1024      // how many calls that came in are remembered
	remembered = time.Hour // for how long: that of the longest capability
)

// came is one call that came in for the agent beside us.
type came struct {
	*task
	id      string   // in tracestate
	context [32]byte // hash of its Powerbox-Context, with the signature: it cannot be guessed
	trace   string   // trace id of its traceparent, "" for none
	tenant  string   // of the agent beside us, in which the call is
	names   []string // its task and context, as the call or its answer has them
	until   time.Time
}

// links remember which call of the agent belongs to which that came in.
type links struct {
	now func() time.Time

	mu   sync.Mutex // guards what follows
	came []*came    // oldest first
}

// remember keeps a call that came in. A further call about a task of the same
// owner is of the same task: what it brings is added to what the task has.
func (l *links) remember(c *came) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	c.until = now.Add(remembered)
	l.came = slices.DeleteFunc(l.came, func(o *came) bool { return now.After(o.until) })
	if len(l.came) >= maxInbound {
		l.came = l.came[1:]
	}
	for _, o := range l.came {
		if o.owner == c.owner && o.tenant == c.tenant && slices.ContainsFunc(c.names, func(n string) bool { return slices.Contains(o.names, n) }) {
			c.task = o.task
		}
	}
	l.came = append(l.came, c)
}

// named adds what an answer says of the call's task.
func (l *links) named(c *came, payload []byte) {
	refs := a2a.Learn(payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ref := range refs {
		for _, name := range []string{ref.Task, ref.Context} {
			if name != "" && len(c.names) < maxBegun && !slices.Contains(c.names, name) {
				c.names = append(c.names, name)
			}
		}
	}
}

// find returns the one task of the calls that a test selects, nil where they
// are of none or of several: its task would be ambiguous.
func (l *links) find(selects func(*came) bool) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var found *task
	for _, c := range l.came {
		if now.After(c.until) || !selects(c) {
			continue
		}
		if found != nil && found != c.task {
			return nil
		}
		found = c.task
	}
	return found
}

// linked returns the task for which a call of a peer goes out, nil where
// nothing says so. In order: the context that came in, what tracing passes on,
// and the task or context that the call names itself, of the agent beside us or
// of the peer. What only we can have given out, context and link, decides alone
// where it is there; a trace that is of no task, or of two, says nothing.
func (in *inbound) linked(h http.Header, peer string, call a2a.Call) *task {
	if context := h.Get(headerContext); context != "" {
		sum := sha256.Sum256([]byte(context))
		return in.links.find(func(c *came) bool { return c.context == sum })
	}
	if id := traceState(h); id != "" {
		return in.links.find(func(c *came) bool { return c.id == id })
	}
	if trace := traceID(h); trace != "" {
		if t := in.links.find(func(c *came) bool { return c.trace == trace }); t != nil {
			return t
		}
	}
	names := append([]string{call.Context, call.Task}, call.ReferenceTasks...)
	return in.links.find(func(c *came) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			_, begun := c.begunAt(begunKey{peer, call.Tenant, n})
			return begun || n != "" && slices.Contains(c.names, n)
		})
	})
}

// traceID is the trace of a W3C traceparent header, "" where there is none that
// can be read.
func traceID(h http.Header) string {
	parts := strings.Split(h.Get("traceparent"), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" || strings.Trim(parts[1], "0") == "" {
		return ""
	}
	return parts[1]
}

// traceState is our entry in tracestate, "" where there is none.
func traceState(h http.Header) string {
	for entry := range strings.SplitSeq(strings.Join(h.Values("tracestate"), ","), ",") {
		if id, ok := strings.CutPrefix(strings.TrimSpace(entry), traceKey+"="); ok {
			return id
		}
	}
	return ""
}

// stripTraceState takes our entry out: it is of use here alone.
func stripTraceState(h http.Header) {
	values := h.Values("tracestate")
	if len(values) == 0 {
		return
	}
	var kept []string
	for entry := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if entry = strings.TrimSpace(entry); entry != "" && !strings.HasPrefix(entry, traceKey+"=") {
			kept = append(kept, entry)
		}
	}
	h.Del("tracestate")
	if len(kept) > 0 {
		h.Set("tracestate", strings.Join(kept, ","))
	}
}

// owner names for whom a call was made, as its gateway says.
func owner(c token.Context) string { return c.Principal + "\x00" + c.Holder }
