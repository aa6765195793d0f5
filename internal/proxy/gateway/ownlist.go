package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// Tasks of the gateway's own are in the list of whose they are: before those of the
// agent behind, newest first. Where the caller says how large pages are,
// they have their own pages, so that what the agent is asked stays as it came.

// ownPage begins a token of our own page; what follows is the last task of the
// page before. No agent's token begins so: tokens are text.
const ownPage = "\x00own:"

// pageSize is how many tasks a page has where the caller says nothing, and the most
// that it has (A2A 1.0, section 3.1.4).
const (
	pageSize    = 50
	maxPageSize = 100
)

// ownList are held tasks that go into the agent's list.
type ownList struct {
	tasks   []HeldTask
	restart bool // the agent's list is asked for from its beginning
}

// listsHeld takes the caller's own held tasks into the list. It answers alone,
// and reports so, where they fill a page; else they go into the agent's.
func (g *Gateway) listsHeld(w http.ResponseWriter, x *decided) (list ownList, answered bool) {
	if g.config.Holds == nil || !x.paged() {
		return list, false
	}
	after, first := "", x.call.PageToken == ""
	if !first {
		token, err := g.unsealPage(x, x.call.PageToken)
		var ours bool
		if after, ours = strings.CutPrefix(token, ownPage); err != nil || !ours {
			return list, false // the agent's, or none
		}
	}
	filter, ok := a2a.FilterOf(x.call)
	owner := g.ownerOf(x.decoded, x.verdict.Held)
	if !ok || owner == (Owner{}) {
		return list, false
	}
	own, err := g.config.Holds.Of(x.request.Context(), x.ID, x.call.Tenant, owner)
	if err != nil {
		// What the agent behind has is listed all the same: a read continues while the
		// server of a remote gateway is away.
		g.config.Log.WarnContext(x.request.Context(), "calls that wait for people are not listed", slog.String("agent", x.ID), slog.Any("error", err))
		own = nil
	}
	own = meant(own, filter, after)
	size := min(cmp.Or(filter.Size, pageSize), maxPageSize)
	switch {
	case len(own) == 0 && first:
		return list, false
	case len(own) == 0:
		// The last page of ours was full: the agent's begin here.
		return ownList{restart: true}, false
	case filter.Size == 0 && len(own) < size:
		return ownList{own, !first}, false
	}
	next := ownPage + place(own[min(size, len(own))-1])
	g.answerHeld(w, x, own[:min(size, len(own))], filter, next)
	return list, true
}

// place is where a held task stands in the list.
func place(t HeldTask) string { return strconv.FormatInt(t.Updated.UnixMilli(), 10) + ":" + t.Task }

// meant are those of the held tasks that a call asks for, newest first, behind a
// place in the list.
func meant(own []HeldTask, f a2a.TaskFilter, after string) []HeldTask {
	since, err := time.Parse(time.RFC3339, f.After)
	if f.After != "" && err != nil {
		return nil // the agent reports its error
	}
	at, task, _ := strings.Cut(after, ":")
	last, _ := strconv.ParseInt(at, 10, 64)
	own = slices.DeleteFunc(slices.Clone(own), func(t HeldTask) bool {
		ms := t.Updated.UnixMilli()
		behind := after == "" || ms < last || ms == last && t.Task < task
		return !behind || f.Context != "" && t.Context != f.Context || f.State != "" && t.State != f.State || !since.IsZero() && !t.Updated.After(since)
	})
	sorting.Sort(own, func(a, b HeldTask) int {
		return cmp.Or(cmp.Compare(b.Updated.UnixMilli(), a.Updated.UnixMilli()), strings.Compare(b.Task, a.Task))
	})
	return own
}

// answerHeld answers with a page of held tasks alone.
func (g *Gateway) answerHeld(w http.ResponseWriter, x *decided, own []HeldTask, f a2a.TaskFilter, next string) {
	tasks, err := g.ownTasks(x, own, f)
	var body []byte
	kind := typeJSON
	if err == nil {
		kind, body, err = listedAs(x.decoded, a2a.Listed(a2a.FormOf(x.call.Binding, x.call.Version), tasks, g.sealPage(x, next)))
	}
	if err != nil {
		g.conclude(w, x, notTheAgent(evidence.Failed), func(x *concluded) { g.unavailable(w, x, "the list cannot be written as the caller reads it", err) })
		return
	}
	g.conclude(w, x, outcome{status: evidence.Achieved}, func(x *concluded) { g.sayHeld(w, x, kind, body) })
}

func (g *Gateway) sayHeld(w http.ResponseWriter, x *concluded, kind string, body []byte) {
	h := w.Header()
	h.Set(HeaderDecision, x.verdict.Record.ID)
	h.Set(HeaderOutcome, "answered")
	h.Set("Cache-Control", "no-store")
	if x.call.Binding == a2a.GRPC {
		h.Set("Trailer", "Grpc-Status")
	}
	g.write(w, http.StatusOK, kind, body)
	if x.call.Binding == a2a.GRPC {
		h.Set("Grpc-Status", "0")
	}
}

// ownTasks are held tasks as the caller reads tasks: with the answer of the agent
// behind where it asks for artifacts.
func (g *Gateway) ownTasks(x *decided, own []HeldTask, f a2a.TaskFilter) ([][]byte, error) {
	form := a2a.FormOf(x.call.Binding, x.call.Version)
	out := make([][]byte, 0, len(own))
	for _, t := range own {
		if f.Artifacts {
			whole, known, err := g.config.Holds.Task(x.request.Context(), x.ID, t.Task)
			if err != nil {
				return nil, err
			}
			if known {
				t = whole
			}
		}
		out = append(out, t.own().JSON(form))
	}
	return out, nil
}

// listedAs is our own list in the form of the binding, with its type.
func listedAs(x *decoded, list []byte) (kind string, body []byte, err error) {
	switch {
	case x.call.Binding == a2a.GRPC:
		message, err := a2apb.Encode(x.call.Wire, list)
		return typeGRPC, a2apb.Frame(message), err
	case x.call.Binding == a2a.HTTPJSON && x.call.Version == a2a.Version03:
		body, err = a2apb.Normal("ListTasks", list)
		return typeJSON, body, err
	case x.call.Binding == a2a.HTTPJSON:
		return typeJSON, list, nil
	}
	body, err = a2a.Result(x.call.ID, json.RawMessage(list))
	return typeJSON, body, err
}

// withOwn puts held tasks in front of a page of the agent's.
func (g *Gateway) withOwn(x *forwardable, page []byte) ([]byte, error) {
	if len(x.own) == 0 {
		return page, nil
	}
	f, _ := a2a.FilterOf(x.call)
	tasks, err := g.ownTasks(x.decided, x.own, f)
	if err != nil {
		return nil, fmt.Errorf("calls that wait for people: %w", err)
	}
	if x.call.Binding == a2a.GRPC {
		return a2apb.WithTasks(x.call.Wire, page, a2a.Listed(a2a.FormOf(x.call.Binding, x.call.Version), tasks, ""))
	}
	return a2a.WithTasks(page, tasks)
}
