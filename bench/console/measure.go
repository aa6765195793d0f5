package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// page is one page that is requested.
type page struct{ name, path string }

// measured is a page with how long it took.
type measured struct {
	page

	p50, p95, first time.Duration
	cpu             time.Duration // of the server, for one request
	bytes           int
	failed          int // requests that the server did not answer in time
}

// errLate is the error of a page that the server does not answer in time.
var errLate = errors.New("the server did not answer in time")

// result is what a run has found.
type result struct {
	pages         []measured
	sizes         sizes
	times         int
	peak          float64 // MiB of the server's resident memory
	filled, began time.Duration
}

// get requests a path as an operator, and returns the answer.
func (t *town) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.listen+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := t.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var body []byte
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body = make([]byte, 1) // it begins with the first bytes, and has no end
		_, err = io.ReadFull(res.Body, body)
	} else {
		body, err = io.ReadAll(res.Body)
	}
	if err == nil && res.StatusCode == http.StatusServiceUnavailable {
		err = errLate
	}
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: HTTP %d\n%s", path, res.StatusCode, body[:min(len(body), 2000)])
	}
	return body, err
}

// v1 asks the operators' interface with the operator's token.
func (t *town) v1(ctx context.Context, path string, out any) error {
	token, err := os.ReadFile(filepath.Join(t.dir, "state", "keys", "operator.secret"))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.listen+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: HTTP %d", path, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// find looks up the things that pages are about.
func (t *town) find(ctx context.Context) error {
	var held []struct {
		ID        string   `json:"id"`
		Root      string   `json:"root"`
		Ancestors []string `json:"ancestors"`
	}
	if err := t.v1(ctx, "/v1/capabilities?limit=1000", &held); err != nil {
		return err
	}
	trees := map[string]int{}
	for _, c := range held {
		trees[c.Root]++
	}
	for _, c := range held {
		if trees[c.Root] > family {
			t.known.largestTree, t.known.leaf = c.Root, c.ID
		} else if len(c.Ancestors) == 2 {
			t.known.small = c.Root
		}
	}
	for decision, id := range map[string]*string{"ALLOW": &t.known.allowed, "DENY": &t.known.denied} {
		var records []struct {
			ID string `json:"record_id"`
		}
		if err := t.v1(ctx, "/v1/records?limit=300&decision="+decision, &records); err != nil {
			return err
		}
		if len(records) > 0 {
			*id = records[len(records)-1].ID
		}
	}
	inbox, err := t.get(ctx, "/approve")
	if _, after, ok := strings.Cut(string(inbox), `href="/approve/ask_`); err == nil && ok {
		id, _, _ := strings.Cut(after, `"`)
		t.known.question = "ask_" + id
	}
	if t.known.largestTree == "" || t.known.small == "" || t.known.question == "" || t.known.allowed == "" || t.known.denied == "" {
		return fmt.Errorf("the store lacks something: %+v %w", t.known, err)
	}
	return err
}

// pages are all pages that are measured.
func (t *town) pages() []page {
	k, now := t.known, time.Now().UTC()
	busy, agent := agentName(0), agentName(3)
	return append([]page{
		{"Home", "/admin"},
		{"Inbox", "/approve"},
		{"Inbox, page 7", "/approve?page=7"},
		{"Inbox, search", "/approve?q=team+77"},
		{"Request", "/approve/" + k.question},
		{"Approved", "/approved"},
		{"Activity", "/activity"},
		{"Live", "/admin/live"},
		{"Live, first event", "/admin/live/events"},
		{"Agents", "/admin/agents"},
		{"Agents, search", "/admin/agents?text=agent-07"},
		{"Agent", "/admin/agents/" + agent},
		{"Agent, freeze", "/admin/agents/" + agent + "/freeze"},
		{"Agent, mode", "/admin/agents/" + agent + "/mode?mode=require"},
		{"Registry", "/registry"},
		{"Capabilities", "/admin/capabilities"},
		{"Capabilities by agent", at("/admin/capabilities", "agent", agent)},
		{"Capabilities by name of a holder", at("/admin/capabilities", "holder", agent)},
		{"Capabilities by name of the busiest holder", at("/admin/capabilities", "holder", busy)},
		{"Capabilities by name without any", at("/admin/capabilities", "holder", "nothing")},
		{"Capabilities by holder", at("/admin/capabilities", "holder", "client:"+agent)},
		{"Capabilities by user", at("/admin/capabilities", "principal", "user:person-003")},
		{"Capability, largest tree", "/admin/capabilities/" + k.largestTree},
		{"Capability, leaf of it", "/admin/capabilities/" + k.leaf},
		{"Capability, ordinary tree", "/admin/capabilities/" + k.small},
		{"Revoke a capability", at("/admin/revoke", "target", k.small)},
		{"Revoke the largest tree", at("/admin/revoke", "target", k.largestTree)},
		{"Revoke an unknown id", at("/admin/revoke", "target", "nothing")},
		{"Revoke a holder", at("/admin/revoke", "holder", "agent:"+agent)},
		{"Revoke the busiest holder", at("/admin/revoke", "holder", "agent:"+busy)},
		{"Revoke a delegator", at("/admin/revoke", "delegator", "agent:"+agent)},
		{"Revoke an issuer", at("/admin/revoke", "issuer", agent)},
		{"Revoke a user", at("/admin/revoke", "principal", "user:person-003")},
		{"Graph", "/admin/graph"},
		{"Graph of an agent", at("/admin/graph", "agent", agent, "hops", "2")},
		{"Graph without an edge", at("/admin/graph", "agent", agent, "without", agent+","+agentName(t.callee(3, 0)))},
		{"Graph until a time", at("/admin/graph", "until", now.Add(-10*24*time.Hour).Format("2006-01-02T15:04"))},
	}, t.evidencePages(agent)...)
}

// evidencePages are those about records, and those that have no data of their own.
func (t *town) evidencePages(agent string) []page {
	k, now := t.known, time.Now().UTC()
	return []page{
		{"Evidence", "/admin/evidence"},
		{"Evidence by agent", at("/admin/evidence", "agent", agent)},
		{"Evidence by caller", at("/admin/evidence", "requester", agent)},
		{"Evidence by operation", at("/admin/evidence", "operation", agent+"/data:use/search")},
		{"Evidence by decision", at("/admin/evidence", "decision", "DENY")},
		{"Evidence by reason", at("/admin/evidence", "reason", "scope")},
		{"Evidence by task", at("/admin/evidence", "task", "task-00000042")},
		{"Evidence by capability", at("/admin/evidence", "capability", k.small)},
		{"Evidence, nothing found", at("/admin/evidence", "requester", "nothing")},
		{"Evidence of an hour", at("/admin/evidence", "since", now.Add(-241*time.Hour).Format(time.RFC3339), "until", now.Add(-240*time.Hour).Format(time.RFC3339))},
		{"Evidence until long ago", at("/admin/evidence", "until", now.Add(-25*24*time.Hour).Format(time.RFC3339))},
		{"Record, allowed", "/admin/evidence/" + k.allowed},
		{"Record, denied", "/admin/evidence/" + k.denied},
		{"Try it", "/admin/try"},
		{"Policy", "/admin/policy"},
		{"Advisor", at("/admin/advisor", "agent", agent)},
		{"Gateways and keys", "/admin/settings"},
	}
}

// at is a path with a query of pairs.
func at(path string, query ...string) string {
	v := url.Values{}
	for i := 0; i < len(query); i += 2 {
		v.Set(query[i], query[i+1]) //nolint:gosec // callers give pairs
	}
	return path + "?" + v.Encode()
}

// measure requests every page some times, one after the other.
func (t *town) measure(ctx context.Context, times int, only string) (result, error) {
	out := result{sizes: t.sizes, times: times, filled: t.filled, began: t.began}
	if err := t.find(ctx); err != nil {
		return out, err
	}
	for _, p := range t.pages() {
		if !strings.Contains(p.name, only) {
			continue
		}
		m, err := t.repeat(ctx, p, times)
		if err != nil {
			return out, err
		}
		fmt.Fprintln(t.progress, m.row())
		out.pages = append(out.pages, m)
	}
	var err error
	out.peak, err = t.program.Memory("VmHWM")
	return out, err
}

// slow bounds how long one page is requested again and again.
const slow = 20 * time.Second

func (t *town) repeat(ctx context.Context, p page, times int) (measured, error) {
	m := measured{page: p}
	var took []time.Duration
	before, err := t.program.CPU()
	if err != nil {
		return m, err
	}
	for begin := time.Now(); len(took) < times && time.Since(begin) < slow; {
		start := time.Now()
		body, err := t.get(ctx, p.path)
		if errors.Is(err, errLate) {
			m.failed++
			err = nil
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", p.name, err)
		}
		m.bytes = len(body)
		took = append(took, time.Since(start))
	}
	after, err := t.program.CPU()
	if err != nil {
		return m, err
	}
	m.first, m.cpu = took[0], (after-before)/time.Duration(len(took))
	slices.Sort(took)
	m.p50, m.p95 = took[len(took)/2], took[min(len(took)-1, len(took)*95/100)]
	return m, nil
}
