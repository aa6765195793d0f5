package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
	"github.com/powerbox-project/powerbox/token"
)

// python is Debian's: what make test-deps has installed for it is there.
const python = "/usr/bin/python3"

// agentProgram runs an agent of another language until the test ends.
func agentProgram(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	if _, err := os.ReadFile(args[0]); err != nil { // read here, the program is part of what go test caches by
		t.Fatal(err)
	}
	out := &programtest.Log{}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s cannot be run: %v; run make test-deps", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, out)
		}
	})
}

// reachable waits until a URL answers with 200.
func reachable(t *testing.T, address string) string {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if r, err := http.Get(address); err == nil {
			var b bytes.Buffer
			_, _ = b.ReadFrom(r.Body)
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return b.String()
			}
		}
		select {
		case <-deadline:
			t.Fatalf("%s does not answer", address)
		case <-tick.C:
		}
	}
}

// abroad are the agents of examples/anylanguage behind the town's gateway, each
// with powerbox attach beside it.
type abroad struct {
	*town
	client, reporter, librarian *attached
}

const abroadPolicies = defaultPolicies + `
permit(principal == User::"user:alice", action in Action::"reporter/reporter:report", resource == Agent::"reporter");
permit(principal == User::"user:alice", action in Action::"librarian/librarian:fetch", resource == Agent::"librarian");
`

const abroadConfiguration = `
identity:
  callers:
    - {agent: client, key: %s}
    - {agent: reporter, key: %s}
    - {agent: librarian, key: %s}
agents:
  - {id: reporter, upstream: "http://%s", mode: require}
  - {id: librarian, upstream: "http://%s", mode: require}
offers:
  reporter:
    - {id: reporter:report, operations: [report]}
  librarian:
    - {id: librarian:fetch, operations: [fetch], maximum_depth: 2}
skills:
  reporter:
    - {skill: report, grant: reporter:report, operation: report}
  librarian:
    - {skill: fetch, grant: librarian:fetch, operation: fetch}
`

func address(t *testing.T) string { return "127.0.0.1:" + freePort(t) }

func startAbroad(t *testing.T, floor string) abroad {
	t.Helper()
	client, reporter, librarian := newKey(t), newKey(t), newKey(t)
	inReporter, inLibrarian := address(t), address(t)
	file := filepath.Join(t.TempDir(), "abroad.yaml")
	text := fmt.Sprintf(abroadConfiguration, client.Public().Thumbprint(), reporter.Public().Thumbprint(), librarian.Public().Thumbprint(), inReporter, inLibrarian)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, options{policies: abroadPolicies, extra: "include: [" + file + "]\n"})
	w.sessionFile()
	port := freePort(t)
	at := func(name string) string { return "  - name: " + name + "\n    card: " + w.agentURL(name) + "\n" }
	inbound := func(name, listen, port string) string {
		return "inbound: {listen: \"" + listen + "\", forward: \"http://127.0.0.1:" + port + "\", agent: \"" + w.agentURL(name) + "\"}\n"
	}
	a := abroad{town: w}
	a.reporter = w.attach("reporter", reporter, "agents:\n"+at("librarian")+
		"    hand: [{of: documents, skills: [retrieve_document]}]\n"+at("documents")+inbound("reporter", inReporter, port))
	agentProgram(t, []string{"LIBRARIAN=" + w.agentURL("librarian"), "http_proxy=" + a.reporter.where.Proxy}, python, "../examples/anylanguage/reporter.py", port)
	port = freePort(t)
	a.librarian = w.attach("librarian", librarian, "agents:\n"+at("documents")+floor+inbound("librarian", inLibrarian, port))
	agentProgram(t, []string{"LIBRARY=" + a.librarian.agentURL("documents")}, "node", "../examples/anylanguage/librarian.mjs", port)
	a.client = w.attach("client", client, "socket: client.sock\nagents:\n"+at("reporter")+`    request:
      - {skills: [report], purpose: report on the quarter}
    hand:
      - {of: librarian, skills: [fetch], lifetime: 5m}
      - {of: documents, skills: [retrieve_document, search_documents], depth: 1, lifetime: 5m}
`+at("librarian")+"    request:\n      - {skills: [fetch], purpose: have the reporter fetch}\n"+at("documents"), "--session-file", w.sessionFile())
	for _, name := range []string{"reporter", "librarian"} {
		if card := reachable(t, w.agentURL(name)+"/.well-known/agent-card.json"); !strings.Contains(card, `"holder"`) {
			t.Fatalf("%s publishes no key: %s", name, card)
		}
	}
	return a
}

// api calls the socket of an attach.
func (a *attached) api(t *testing.T, path string, body any) (int, map[string]any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", a.where.Socket)
	}, DisableKeepAlives: true}}
	r, err := client.Post("http://attach"+path, "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, out
}

// readable asks on the socket for the reports of a quarter, and returns their
// handles.
func (a *attached) readable(t *testing.T) []string {
	t.Helper()
	status, got := a.api(t, "/v1/request", map[string]any{
		"agent": "documents", "skills": []string{"retrieve_document", "search_documents"}, "purpose": "report on the quarter",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	})
	if status != http.StatusOK {
		t.Fatalf("%d %v\n%s", status, got, a.out)
	}
	var handles []string
	for _, h := range got["capabilities"].([]any)[0].(map[string]any)["resourceHandles"].([]any) {
		handles = append(handles, h.(map[string]any)["handle"].(string))
	}
	return handles
}

// has reports whether an operation stands in a record's granted.
func (r recorded) granted(operation string) bool {
	return slices.Contains(r.Powerbox.Granted, operation)
}

const trace = "0af7651916cd43dd8448eb211c80319c"

// A caller, an agent in Python and one in Node, which know nothing of
// capabilities, each narrower than the one before it, in mode require.
func TestSEP13_AnyLanguageChain(t *testing.T) {
	a := startAbroad(t, "")
	handle := a.client.readable(t)[0]
	report := func(do string) answer {
		t.Helper()
		h := http.Header{"Traceparent": {"00-" + trace + "-b7ad6b7169203331-01"}}
		return a.client.post(a.client.agentURL("reporter"), data("report", map[string]any{"do": do, "with": map[string]any{"resourceHandle": handle}}), h)
	}
	got := report("retrieve_document")
	if got.Error != nil || !strings.Contains(string(got.Raw), "echo") || len(a.documents.got()) != 1 {
		t.Fatalf("%s\nclient %s\nreporter %s\nlibrarian %s", got.Raw, a.client.out, a.reporter.out, a.librarian.out)
	}
	c := a.sent()
	if c.Holder != "key:"+a.librarian.key.Public().Thumbprint() || len(c.Handles) != 1 {
		t.Errorf("the library was called by %s for %v", c.Holder, c.Handles)
	}
	records := map[string]recorded{}
	for _, agent := range []string{"reporter", "librarian", "documents"} {
		for _, r := range a.records("agent=" + agent) {
			if r.Powerbox.TraceID == trace && r.Powerbox.OutcomeOf == "" {
				records[agent] = r
			}
		}
	}
	for agent, requester := range map[string]string{"reporter": "client", "librarian": "reporter", "documents": "librarian"} {
		if r := records[agent]; r.Powerbox.Requester != requester || r.Decision != "ALLOW" && r.Decision != "allow" {
			t.Errorf("at %s: %s for %q; want it allowed for %s", agent, r.Decision, r.Powerbox.Requester, requester)
		}
	}
	if r := records["documents"]; !r.granted(opRetrieve) || r.granted(opSearch) {
		t.Errorf("the librarian was granted %v", r.Powerbox.Granted)
	}

	// The client may search, the reporter might, the librarian may not.
	got = report("search_documents")
	if !strings.Contains(string(got.Raw), "operation_not_granted") || len(a.documents.got()) != 1 {
		t.Errorf("one step wider: %s", got.Raw)
	}
	if got := a.client.post(a.client.agentURL("documents"), data("search_documents", nil), http.Header{}); got.Error != nil {
		t.Errorf("the client itself: %s", got.Raw)
	}
	for _, process := range []*attached{a.client, a.reporter, a.librarian} {
		if err := process.end(); err != nil {
			t.Errorf("attach ended with %v", err)
		}
	}
}

// What an agent does for no task that anybody knows of has the floor, and by
// default nothing.
func TestAttachRefusesWhatIsUncorrelated(t *testing.T) {
	a := startAbroad(t, "    floor: [search_documents]\n    request: [{skills: [search_documents], purpose: tidy up}]\nsession_file: alice.session\n")
	handle := a.client.readable(t)[0]
	if got := a.client.post(a.client.agentURL("reporter"), data("report", map[string]any{"do": "retrieve_document", "with": map[string]any{"resourceHandle": handle}}), http.Header{}); got.Error != nil {
		t.Fatalf("%s", got.Raw)
	}
	before := len(a.documents.got())
	at := a.librarian.agentURL("documents")
	use := data("retrieve_document", map[string]any{"resourceHandle": handle})
	for name, h := range map[string]http.Header{
		"nothing":         {},
		"another trace":   {"Traceparent": {"00-" + trace + "-b7ad6b7169203331-01"}},
		"a guessed link":  {"Tracestate": {"powerbox=aaaaaaaaaaaaaaaaaaaaaaaaaa"}},
		"another context": {"Powerbox-Context": {"x.y.z"}},
	} {
		if got := a.librarian.post(at, use, h); got.reason() != "uncorrelated" {
			t.Errorf("%s: %s", name, got.Raw)
		}
	}
	if len(a.documents.got()) != before {
		t.Error("a call reached the agent")
	}
	// The floor is had, and is recorded as what it is.
	got := a.librarian.post(at, data("search_documents", nil), http.Header{})
	allowed(t, got)
	if r := a.decided(got); r.Intent.Purpose != "uncorrelated" {
		t.Errorf("the floor is recorded for %q", r.Intent.Purpose)
	}
	var asked []string
	for _, r := range a.records("agent=documents") {
		asked = append(asked, r.Intent.Purpose)
	}
	if !slices.Contains(asked, "uncorrelated: tidy up") {
		t.Errorf("the floor was asked for with the purposes %q", asked)
	}
}

// What comes past the gateway does not reach the agent.
func TestAttachInboundRefusesWhatComesPastTheGateway(t *testing.T) {
	a := startAbroad(t, "")
	handle := a.client.readable(t)[0]
	in := a.librarian.where.Inbound
	body := data("fetch", map[string]any{"do": "retrieve_document", "with": map[string]any{"resourceHandle": handle}})
	forged, err := token.SignContext(newKey(t), token.Context{
		Issuer: a.agentURL("librarian"), Audience: "librarian", IssuedAt: time.Now(), Expires: time.Now().Add(time.Minute),
		Mode: "require", Basis: "capability", Digest: token.DigestOf(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, compact := range map[string]string{"none": "", "forged": forged} {
		got := a.post(in, body, http.Header{"Powerbox-Context": {compact}})
		if got.reason() != "context" || len(a.documents.got()) > 0 {
			t.Errorf("%s: %s", name, got.Raw)
		}
	}
}

// The process beside the agent fetches capabilities that the gateway's signed
// context hands over by reference. It proves its key.
func TestSEP13_ReferencesAreTakenUp(t *testing.T) {
	a := startAbroad(t, "")
	alice := a.caller(aliceToken)
	read := alice.reports()
	fetch := alice.request("librarian", map[string]any{"grants": []string{"librarian:fetch"}, "purpose": "have it fetched"})[0]
	report := alice.request("reporter", map[string]any{"grants": []string{"reporter:report"}, "purpose": "report"})[0]
	send := func(capabilities ...string) answer {
		return alice.call("reporter", "SendMessage", map[string]any{
			"message": map[string]any{"messageId": nonce(), "role": "ROLE_USER", "parts": []any{map[string]any{"data": map[string]any{
				"skill":     "report",
				"arguments": map[string]any{"do": "retrieve_document", "with": map[string]any{"resourceHandle": read.ResourceHandles[0].Handle}},
			}}}},
			"metadata": map[string]any{extension: map[string]any{"capabilities": capabilities}},
		})
	}
	if got := send(report.ID, fetch.ID, read.ID); got.Error != nil || len(a.documents.got()) != 1 {
		t.Fatalf("%s\nreporter %s\nlibrarian %s", got.Raw, a.reporter.out, a.librarian.out)
	}
	if c := a.sent(); c.Holder != "key:"+a.librarian.key.Public().Thumbprint() || c.Root != read.ID {
		t.Errorf("the library was called by %s under a child of %s", c.Holder, c.Root)
	}
	// What came with one task does not serve the next.
	if got := send(report.ID, fetch.ID); !strings.Contains(string(got.Raw), "capability_required") || len(a.documents.got()) != 1 {
		t.Errorf("a task without it: %s", got.Raw)
	}
}

func TestAttachSocket(t *testing.T) {
	a := startAbroad(t, "")
	if info, err := os.Stat(a.client.where.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket: %v, %v", info, err)
	}
	handle := a.client.readable(t)[0]
	status, got := a.client.api(t, "/v1/present", map[string]any{
		"agent": "documents", "method": "POST", "url": a.agentURL("documents"), "skill": "search_documents",
		"digest": token.DigestOf(data("x", nil)), "arguments": map[string]any{},
	})
	if status != http.StatusOK {
		t.Fatalf("present: %d %v", status, got)
	}
	held := got["capability"].(string)
	body := data("search_documents", map[string]any{})
	_, got = a.client.api(t, "/v1/present", map[string]any{
		"agent": "documents", "method": "POST", "url": a.agentURL("documents"), "skill": "search_documents", "digest": token.DigestOf(body),
	})
	h := http.Header{}
	for name, value := range got["headers"].(map[string]any) {
		h.Set(name, value.(string))
	}
	allowed(t, a.post(a.agentURL("documents"), body, h))
	if again := a.post(a.agentURL("documents"), data("search_documents", map[string]any{}), h); again.Error == nil {
		t.Errorf("another body: %s", again.Raw)
	}

	derive := map[string]any{"agent": "documents", "capability": held, "operations": []string{"retrieve"}, "handles": []string{handle}, "expires": "5m", "to": "librarian"}
	status, got = a.client.api(t, "/v1/derive", derive)
	if status != http.StatusOK {
		t.Fatalf("derive: %d %v", status, got)
	}
	chain := token.SplitChain(got["header"].(string))
	librarian := &caller{a.town, a.librarian.key, ""}
	args := map[string]any{"resourceHandle": handle}
	allowed(t, librarian.present("documents", data("retrieve_document", args), proven{chain: chain, operation: opRetrieve, arguments: args}))
	derive["operations"] = []string{"delete"}
	if status, got := a.client.api(t, "/v1/derive", derive); status != http.StatusBadRequest {
		t.Errorf("wider: %d %v", status, got)
	}
	for name, wrong := range map[string]map[string]any{
		"an unknown member":  {"agent": "documents", "purpose": "x", "skills": []string{"search_documents"}, "Skills": nil},
		"an unknown agent":   {"agent": "nobody", "purpose": "x", "skills": []string{"x"}},
		"no purpose":         {"agent": "documents", "skills": []string{"search_documents"}},
		"an unmapped skill":  {"agent": "documents", "purpose": "x", "skills": []string{"unmapped_skill"}},
		"a wrong expiration": {"agent": "documents", "purpose": "x", "skills": []string{"search_documents"}, "expires": "soon"},
	} {
		if status, got := a.client.api(t, "/v1/request", wrong); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	present := map[string]any{"agent": "documents", "method": "POST", "url": a.agentURL("mail"), "skill": "search_documents", "digest": token.DigestOf(body)}
	if status, got := a.client.api(t, "/v1/present", present); status != http.StatusBadRequest {
		t.Errorf("another agent's URL: %d %v", status, got)
	}
	status, got = a.client.api(t, "/v1/request", map[string]any{"agent": "documents", "grants": []string{"documents:write"}, "purpose": "x"})
	if status != http.StatusForbidden {
		t.Errorf("a refusal of the issuer: %d %v", status, got)
	}
}

// Delegations in a header pass the gateway only with a call that a
// capability allowed, and only in the form of chains.
func TestSEP13_DelegationHeader(t *testing.T) {
	w := start(t, options{mode: "prefer"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	chain := token.JoinChain(alice.derive("documents", []string{c.Token}, token.Narrowing{Holder: newKey(t).Public()}))
	last := func() string {
		got := w.documents.got()
		return got[len(got)-1].header.Get("Powerbox-Delegation")
	}
	for name, try := range map[string]struct {
		presents   bool
		sent, want string
	}{
		"with a capability": {true, chain + ";" + chain, chain + ";" + chain},
		"without one":       {false, chain, ""},
		"no chain":          {true, "x.y.z", ""},
		"a chain and none":  {true, chain + ";x", ""},
	} {
		body, h := data("search_documents", nil), http.Header{}
		if try.presents {
			h = alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
		}
		h.Set("Powerbox-Delegation", try.sent)
		h.Set("Powerbox-Purpose", "to see")
		a := w.post(w.agentURL("documents"), body, h)
		allowed(t, a)
		if got := last(); got != try.want {
			t.Errorf("%s: the agent got %q", name, got)
		}
		if r := w.decided(a); r.Intent.Purpose != "to see" {
			t.Errorf("%s: recorded for %q", name, r.Intent.Purpose)
		}
	}
}

// Of the methods of the extension the holder's key alone may narrow what it
// holds.
func TestSEP12_TheKeyAloneNarrows(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	alice.session = ""
	if a := alice.attenuate(c.ID, map[string]any{"operations": []string{"search"}}); a.Error != nil {
		t.Errorf("SEP-12 by the key: %s", a.Raw)
	}
	if a := w.caller("").attenuate(c.ID, map[string]any{"operations": []string{"search"}}); a.reason() != "capability_unknown" {
		t.Errorf("SEP-12 by another key: %s", a.Raw)
	}
	for method, params := range map[string]map[string]any{
		"a2a/capabilities/list":    {},
		"a2a/capabilities/revoke":  {"revocationId": c.RevocationID},
		"a2a/capabilities/request": {"grants": []string{"documents:read"}, "purpose": "p"},
	} {
		if a := alice.call("documents", method, params); a.reason() != "unauthenticated" {
			t.Errorf("%s without a session: %s", method, a.Raw)
		}
	}
}
