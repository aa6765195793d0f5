package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/powerbox-project/powerbox/evidence"
)

const degradedReads = "    degraded: {calls: reads}\n"

// gapsOf are the records that say how many calls of an agent have none, once
// there are any.
func (w *town) gapsOf(agent string) (calls []int64) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		var all []struct {
			Intent struct {
				Details struct{ Calls int64 }
			} `json:"intent"`
			Decision string `json:"decision"`
		}
		if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/records?operation=evidence.gap&agent="+agent, nil), &all); err != nil {
			w.t.Fatal(err)
		}
		for _, r := range all {
			calls = append(calls, r.Intent.Details.Calls)
		}
		if len(calls) > 0 {
			return calls
		}
		<-tick.C
	}
	return nil
}

// ready returns the answer of /readyz while the node stays in rotation: its status, and the reasons.
func (w *town) ready() string {
	w.t.Helper()
	status, said := readyAt(w.t, w.url)
	if status != http.StatusOK {
		w.t.Fatalf("%d %+v", status, said)
	}
	for _, r := range said.Reasons {
		said.Status += ", " + r.Dependency + ": " + r.Reason
	}
	return said.Status
}

// With agents.degraded, reads that are allowed continue while the disk is full, each
// is logged, and how many they were is on record afterwards. Nothing else continues,
// nor does anything at an agent without it.
func TestEXT27_DegradedReadsGoOn(t *testing.T) {
	aboutTheFile(t)
	address, section := telemetryAt(t, "")
	w := start(t, options{agent: degradedReads, extra: section})
	alice := w.caller(aliceToken)
	held := alice.request("documents", map[string]any{
		"grants": []string{"documents:read", "documents:write"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports"},
	})
	mail := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "p"})[0]
	by, handle := map[string]string{}, ""
	for _, c := range held {
		by[c.Grant] = c.ID
		if c.Grant == "documents:write" {
			handle = c.ResourceHandles[0].Handle
		}
	}
	invoke := func(agent, skill, capability string, args map[string]any) answer {
		return alice.call(agent, "a2a/skill/invoke", map[string]any{"skill": skill, "arguments": args, "capabilityId": capability})
	}
	if got := w.ready(); got != "ready" {
		t.Errorf("before: %s", got)
	}
	w.full(0)
	search := map[string]any{"query": "x"}
	for range 3 {
		allowed(t, invoke("documents", "search_documents", by["documents:read"], search))
	}
	for name, refused := range map[string]answer{
		"EXT-27 a write":                    invoke("documents", "delete_document", by["documents:write"], map[string]any{"resourceHandle": handle}),
		"EXT-27 a read that is not allowed": invoke("documents", "search_documents", "cap_none", search),
		"EXT-27 an agent without it":        invoke("mail", "send_mail", mail.ID, map[string]any{}),
	} {
		if refused.reason() != "evidence_unavailable" {
			t.Errorf("%s: %s", name, refused.Raw)
		}
	}
	if n := len(w.documents.got()); n != 3 {
		t.Errorf("EXT-27 %d calls reached the agent, want 3", n)
	}
	if n := strings.Count(w.log.String(), `"by":"agents.degraded"`); n != 3 {
		t.Errorf("EXT-27 %d lines in the log\n%s", n, w.log)
	}
	if got := w.ready(); !strings.Contains(got, "degraded") || !strings.Contains(got, "documents") {
		t.Errorf("/readyz says %s", got)
	}
	said, code := w.cli("doctor")
	if code == 0 || !strings.Contains(said, "3 calls went on without a record") || !strings.Contains(said, "reads go on without") {
		t.Errorf("doctor: exit %d\n%s", code, said)
	}
	counted(t, address, "powerbox_evidence_unrecorded_total", "3")
	w.full(unix.RLIM_INFINITY)
	if got := w.gapsOf("documents"); len(got) != 1 || got[0] != 3 {
		t.Errorf("EXT-27 the gap is recorded as %v", got)
	}
	// The record can be read before its writer knows that it is there.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	said = w.ready()
	for n := 0; n < 1000 && said != "ready"; n++ {
		<-tick.C
		said = w.ready()
	}
	if said != "ready" {
		t.Errorf("afterwards: %s", said)
	}
	if r := w.decided(invoke("documents", "search_documents", by["documents:read"], search)); r.Decision != "ALLOW" {
		t.Errorf("%+v", r)
	}
	data, trust := w.bundle()
	if report, err := evidence.Verify(bytes.NewReader(data), trust); err != nil || report.Verdict() != evidence.OK {
		t.Errorf("EXT-27 the evidence after it: %v %+v", err, report.Problems)
	}
}

// It is over when its time is: nothing continues then, until something could be
// recorded again.
func TestEXT27_DegradedEnds(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{agent: "    degraded: {calls: reads, for: 1ms}\n"})
	alice := w.caller(aliceToken)
	held := alice.request("documents", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports"}})[0]
	search := func() answer {
		return alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{}, "capabilityId": held.ID})
	}
	w.full(0)
	allowed(t, search())
	over := false
	for range 1000 {
		if over = search().reason() == "evidence_unavailable"; over {
			break
		}
	}
	reached := len(w.documents.got())
	if !over || search().reason() != "evidence_unavailable" || len(w.documents.got()) != reached {
		t.Errorf("EXT-27 it goes on: %d calls reached the agent", len(w.documents.got()))
	}
	w.full(unix.RLIM_INFINITY)
	if got := w.gapsOf("documents"); len(got) != 1 || got[0] != int64(reached) {
		t.Errorf("EXT-27 %d calls went on, on record is %v", reached, got)
	}
	allowed(t, search())
}

// A server that ends tells of the gap first; where it cannot, its log does.
func TestEXT27_AServerThatEndsTellsOfTheGap(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{agent: degradedReads})
	alice := w.caller(aliceToken)
	held := alice.request("documents", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports"}})[0]
	w.full(0)
	allowed(t, alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{}, "capabilityId": held.ID}))
	log := w.log
	w.again(func() {})
	if !strings.Contains(log.String(), "how many cannot be recorded") {
		t.Errorf("EXT-27 the log does not tell of it\n%s", log)
	}
}

// TestATK42_BudgetsAreNotDegraded: while nothing is recorded nothing is counted either, so that
// what a budget counts does not continue with what only reads.
func TestATK42_BudgetsAreNotDegraded(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{agent: degradedReads, reads: ", uses: 2"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	search := func() answer {
		return alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{"query": "x"}, "capabilityId": held.ID})
	}
	w.full(0)
	for range 3 {
		denied(t, search(), "evidence_unavailable")
	}
	if n := len(w.documents.got()); n != 0 {
		t.Errorf("ATK-42 %d calls reached the agent, and no budget counted them", n)
	}
	w.full(unix.RLIM_INFINITY)
	through := 0
	eventually(t, atOnce, func() string { return "the budget is not to be had\n" + w.log.String() }, func() bool {
		a := search()
		if a.Error == nil {
			through++
		}
		return a.reason() == "limit_exceeded"
	})
	if through != 2 {
		t.Errorf("ATK-42 %d calls went through, of 2", through)
	}
}
