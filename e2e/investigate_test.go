package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/token"
)

// hop is one decision of powerbox trace --output json.
type hop struct {
	Record    string   `json:"record_id"`
	Requester string   `json:"requester"`
	Agent     string   `json:"agent"`
	Operation string   `json:"operation"`
	Decision  string   `json:"decision"`
	Outcome   string   `json:"outcome"`
	Missing   []string `json:"missing"`
	Under     []struct {
		Capability string   `json:"capability"`
		By         string   `json:"by"`
		Narrowed   []string `json:"narrowed"`
	} `json:"under"`
	Reasons []struct {
		Code string `json:"code"`
	} `json:"reasons"`
	Hops []hop `json:"hops"`
}

// tells is the tree in a few words.
func (h hop) tells() string {
	text := fmt.Sprintf("%s asked %s for %s: %s", h.Requester, h.Agent, h.Operation, h.Decision)
	for _, r := range h.Reasons {
		text += " " + r.Code
	}
	if h.Outcome != "" {
		text += " " + h.Outcome
	}
	var below []string
	for _, next := range h.Hops {
		below = append(below, next.tells())
	}
	if len(below) > 0 {
		text += " [" + strings.Join(below, ", ") + "]"
	}
	return text
}

// investigated is a town with something to look into: the planner has the
// documents agent begin a task under a narrowed capability; for it, the documents
// agent sends mail, and then tries what it may not.
type investigated struct {
	*town
	task, trace, refused string
	read, child, mail    granted
	planner, documents   *caller
}

const traced = "0af7651916cd43dd8448eb211c80319c"

func investigate(t *testing.T, extra ...string) *investigated {
	t.Helper()
	keys := map[string]*token.PrivateKey{"planner": newKey(t), "documents": newKey(t)}
	w := &investigated{trace: traced}
	w.town = start(t, options{agent: "    enforces: context\n", extra: named(t, keys) + strings.Join(extra, "")})
	w.planner, w.documents = &caller{w.town, keys["planner"], aliceToken}, &caller{w.town, keys["documents"], aliceToken}
	w.read = w.planner.reports()
	w.child = capabilities(t, w.planner.attenuate(w.read.ID, map[string]any{"operations": []string{"retrieve"}}))[0]
	w.mail = w.documents.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "tell the board"})[0]
	tracing := func(c *caller, agent string, body []byte, p proven) answer {
		h := c.proof(agent, body, p)
		h.Set("Traceparent", "00-"+w.trace+"-b7ad6b7169203331-01")
		return w.post(w.agentURL(agent), body, h)
	}
	begin := tracing(w.planner, "documents", text("SendMessage", "task open"), proven{chain: []string{w.child.Token}, operation: opMessage})
	allowed(t, begin)
	if w.task = between(string(begin.Raw), `"task":{"id":"`, `"`); w.task == "" {
		t.Fatalf("no task: %s", begin.Raw)
	}
	w.outcomes(w.decided(begin).ID)
	send := tracing(w.documents, "mail", invoke("send_mail", nil, ""), proven{chain: []string{w.mail.Token}, operation: opMail})
	allowed(t, send)
	w.outcomes(w.decided(send).ID)
	body := invoke("delete_document", map[string]any{"resourceHandle": "x"}, "")
	no := tracing(w.planner, "documents", body, proven{chain: []string{w.child.Token}, operation: opDelete, arguments: map[string]any{"resourceHandle": "x"}})
	w.refused = w.decided(no).ID
	return w
}

// handed exports the evidence to a file.
func (w *investigated) exported() string {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), "bundle.jsonl")
	w.run("evidence", "export", "--out", name)
	return name
}

// offline runs a verb where there is neither server nor configuration.
func offline(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("powerbox %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// TestEXT28_TraceShowsEveryHop has a task shown by its id, by its trace and by a
// record of it: from the server, and from a bundle on a machine that has nothing
// else.
func TestEXT28_TraceShowsEveryHop(t *testing.T) {
	w := investigate(t)
	bundle := w.exported()
	want := []string{
		"planner asked documents for free text: ALLOW ACHIEVED [documents asked mail for mail/mail:send/send: ALLOW ACHIEVED]",
		"planner asked documents for " + opDelete + ": DENY operation_not_granted",
	}
	for name, thing := range map[string]string{"task": w.task, "trace": w.trace, "record": w.refused} {
		text := w.run("trace", thing, "--output", "json")
		if other := offline(t, "trace", thing, "--from", bundle, "--output", "json"); other != text {
			t.Errorf("EXT-28 by %s: the server says\n%s\nthe bundle\n%s", name, text, other)
		}
		var tree struct {
			Hops []hop `json:"hops"`
		}
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range tree.Hops {
			got = append(got, h.tells())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("EXT-28 by %s:\n%s", name, diff)
		}
		under, no := tree.Hops[0].Under, tree.Hops[1]
		if len(under) != 2 || under[0].Capability != w.read.ID || under[1].Capability != w.child.ID || under[1].By != "planner" || !cmp.Equal(under[1].Narrowed, []string{opSearch}) {
			t.Errorf("by %s: the task ran under %+v", name, under)
		}
		if no.Record != w.refused || !cmp.Equal(no.Missing, []string{opDelete}) {
			t.Errorf("by %s: the refusal is %+v", name, no)
		}
	}
	text := w.run("trace", w.task)
	for _, line := range []string{
		"3 decisions, 2 allowed, 1 refused", "  allowed planner -> documents  free text", "      allowed documents -> mail  mail/mail:send/send",
		"without " + opSearch, "operation_not_granted", "missing  " + opDelete, "outcome  ACHIEVED",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the tree lacks %q\n%s", line, text)
		}
	}
}

// listed are the ids that powerbox evidence list prints.
func (w *investigated) listed(args ...string) (ids []string) {
	w.t.Helper()
	return recordIDs(w.t, w.run(append([]string{"evidence", "list", "--output", "json"}, args...)...))
}

func recordIDs(t *testing.T, text string) (ids []string) {
	t.Helper()
	var list []recorded
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

// TestEXT21_RecordsAreListed selects records by every member that there is a flag
// for, from the server and from a bundle, and a page after the other.
func TestEXT21_RecordsAreListed(t *testing.T) {
	w := investigate(t)
	bundle := w.exported()
	var all []recorded
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/records", nil), &all); err != nil {
		t.Fatal(err)
	}
	no, middle := w.record(w.refused), all[len(all)/2]
	for flags, selected := range map[string]func(recorded) bool{
		"":                                         func(recorded) bool { return true },
		"--agent mail":                             func(r recorded) bool { return r.AgentID == "mail" },
		"--decision DENY":                          func(r recorded) bool { return r.Decision == "DENY" },
		"--requester documents":                    func(r recorded) bool { return r.Powerbox.Requester == "documents" },
		"--task " + w.task:                         func(r recorded) bool { return r.TaskID == w.task },
		"--trace " + w.trace:                       func(r recorded) bool { return r.Powerbox.TraceID == w.trace },
		"--operation " + opDelete:                  func(r recorded) bool { return r.Intent.Operation == opDelete },
		"--principal " + no.Powerbox.Principal:     func(r recorded) bool { return r.Powerbox.Principal == no.Powerbox.Principal },
		"--capability " + w.child.ID:               func(r recorded) bool { return r.Powerbox.Capability == w.child.ID },
		"--since " + middle.Timestamp:              func(r recorded) bool { return r.Timestamp >= middle.Timestamp },
		"--until " + middle.Timestamp:              func(r recorded) bool { return r.Timestamp <= middle.Timestamp },
		"--since 1h --requester planner --limit 0": func(r recorded) bool { return r.Powerbox.Requester == "planner" },
		"--before " + all[2].ID:                    func(r recorded) bool { return !slices.Contains([]string{all[0].ID, all[1].ID, all[2].ID}, r.ID) },
	} {
		var want []string
		for _, r := range all {
			if selected(r) {
				want = append(want, r.ID)
			}
		}
		got := w.listed(strings.Fields(flags)...)
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 || flags != "" && len(want) == len(all) {
			t.Errorf("EXT-21 %s: of %d\n%s", flags, len(all), diff)
		}
		off := recordIDs(t, offline(t, append([]string{"evidence", "list", "--from", bundle, "--output", "json"}, strings.Fields(flags)...)...))
		if diff := cmp.Diff(want, off); diff != "" {
			t.Errorf("EXT-21 %s, from the bundle:\n%s", flags, diff)
		}
	}
	var paged []string
	for before := []string{}; ; {
		page := w.listed(append([]string{"--limit", "2"}, before...)...)
		if len(page) == 0 {
			break
		}
		paged, before = append(paged, page...), []string{"--before", page[len(page)-1]}
	}
	if whole := w.listed(); !slices.Equal(paged, whole) {
		t.Errorf("in pages of two: %v, at once: %v", paged, whole)
	}
}
