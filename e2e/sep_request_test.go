package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// quarter is a resourceQuery of reports.
func quarter(q string) map[string]any {
	return map[string]any{"collection": "reports", "filter": map[string]any{"quarter": q}}
}

func (w *town) get(url string) []byte {
	w.t.Helper()
	r, err := http.Get(url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s %v", url, r.Status, err)
	}
	return b
}

type cardGrant struct {
	ID          string   `json:"id"`
	Description string   `json:"description"`
	Operations  []string `json:"operations"`
	Attenuable  bool     `json:"attenuable"`
	Requires    []string `json:"requires"`
	Legacy      bool     `json:"legacy"`
}

type card struct {
	CapabilityGrants []cardGrant `json:"capabilityGrants"`
	Capabilities     struct {
		Extensions []struct {
			URI    string `json:"uri"`
			Params struct {
				CapabilityGrants []cardGrant `json:"capabilityGrants"`
			} `json:"params"`
		} `json:"extensions"`
	} `json:"capabilities"`
}

const extension = "https://github.com/powerbox-project/powerbox/extensions/capability-negotiation/v1"

func TestSEP1_CardAdvertisesGrants(t *testing.T) {
	want := []cardGrant{
		{ID: "documents:read", Description: "Read documents", Operations: []string{"retrieve", "search"}, Attenuable: true},
		{ID: "documents:write", Description: "Change documents", Operations: []string{"delete"}, Attenuable: true, Requires: []string{"documents:read"}},
		{ID: "documents:admin", Description: "Full access (legacy wrapper)", Operations: []string{"*"}, Legacy: true},
	}
	for line, top := range map[string][]cardGrant{"": want, "    card_legacy_member: false": nil} {
		w := start(t, options{agent: line})
		var got card
		if err := json.Unmarshal(w.get(w.agentURL("documents")+"/.well-known/agent-card.json"), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(top, got.CapabilityGrants); diff != "" {
			t.Errorf("top-level member with %q (-want +got):\n%s", line, diff)
		}
		e := got.Capabilities.Extensions
		if len(e) != 2 || e[0].URI != extension || e[1].URI != authorizationURI {
			t.Fatalf("SEP-24 the extensions are %+v", e)
		}
		if diff := cmp.Diff(want, e[0].Params.CapabilityGrants); diff != "" {
			t.Errorf("params (-want +got):\n%s", diff)
		}
	}
}

func TestSEP2_GrantRequiresAnother(t *testing.T) {
	w := start(t, options{})
	write := map[string]any{"grants": []string{"documents:write"}, "purpose": "clean up", "resourceQuery": quarter("2025-Q1")}
	both := map[string]any{"grants": []string{"documents:write", "documents:read"}, "purpose": "clean up", "resourceQuery": quarter("2025-Q1")}
	w.refused(t, w.caller(aliceToken).call("documents", "a2a/capabilities/request", write), "grant_requires")
	if got := w.caller(aliceToken).request("documents", both); len(got) != 2 {
		t.Errorf("together: got %+v", got)
	}
	holder := w.caller(aliceToken)
	read := holder.reports()
	if got := holder.request("documents", write); got[0].Grant != "documents:write" {
		t.Errorf("to a holder: got %+v", got)
	}
	holder.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": read.RevocationID})
	w.refused(t, holder.call("documents", "a2a/capabilities/request", write), "grant_requires")
}

const adminPolicies = defaultPolicies + `
permit(principal == User::"user:alice", action in Action::"documents/documents:admin", resource == Agent::"documents");
`

func TestSEP3_LegacyGrant(t *testing.T) {
	w := start(t, options{policies: adminPolicies})
	alice := w.caller(aliceToken)
	a := alice.call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{"documents:admin"}, "purpose": "archive"})
	c := capabilities(t, a)[0]
	if !strings.Contains(string(a.Raw), `"legacy":true`) || c.Token != c.ID {
		t.Errorf("by reference and marked: %s", a.Raw)
	}
	if diff := cmp.Diff([]string{"archive"}, c.Operations); diff != "" {
		t.Errorf(`SEP-25 "*" expands to what skills map to (-want +got):`+"\n%s", diff)
	}
	w.refused(t, alice.call("documents", "a2a/capabilities/attenuate", map[string]any{
		"capabilityId": c.ID, "constraints": map[string]any{"operations": []string{"archive"}},
	}), "not_attenuable")
	if r := w.records("agent=documents&limit=10"); !slices.ContainsFunc(r, func(r recorded) bool {
		return r.Action == "capability.request" && r.has("legacy_grant")
	}) {
		t.Errorf("the evidence does not mark the grant: %+v", r)
	}
	used := alice.send("documents", invoke("archive_document", nil, c.ID))
	allowed(t, used)
	if !w.decided(used).has("legacy_grant") {
		t.Error("the evidence does not mark the use")
	}
}

func TestSEP4_RequestOnTheAgentsOwnURL(t *testing.T) {
	w := start(t, options{})
	c := w.caller(aliceToken).reports()
	names := []string{}
	for _, h := range c.ResourceHandles {
		names = append(names, h.DisplayName)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"Q1 Financial Summary", "Q1 Sales Report"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.refused(t, w.caller(aliceToken).call("mail", "a2a/capabilities/request", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "at another agent's URL",
	}), "grant_unknown")
	for name, params := range map[string]map[string]any{
		"unknown grant": {"grants": []string{"documents:own"}, "purpose": "p"},
		"no grant":      {"grants": []string{}, "purpose": "p"},
		"expired":       {"grants": []string{"documents:read"}, "purpose": "p", "expires": "2025-01-09T13:00:00Z"},
	} {
		if a := w.caller(aliceToken).call("documents", "a2a/capabilities/request", params); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
}

func TestSEP5_NothingHiddenIsShown(t *testing.T) {
	w := start(t, options{})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	c := bob.reports()
	if len(c.ResourceHandles) != 1 || c.ResourceHandles[0].DisplayName != "Q1 Sales Report" {
		t.Errorf("bob sees %+v", c.ResourceHandles)
	}
	// A collection, and a value, that one may not see are like none.
	ask := func(c *caller, collection, owner string) string {
		a := c.call("documents", "a2a/capabilities/request", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "look", "operations": []string{"retrieve"},
			"resourceQuery": map[string]any{"collection": collection, "filter": map[string]any{"owner": owner}},
		})
		if a.Error == nil {
			t.Fatalf("granted: %s", a.Raw)
		}
		text := strings.ReplaceAll(a.Error.Message, collection, "COLLECTION")
		return a.reason() + " " + strings.ReplaceAll(text, owner, "OWNER")
	}
	if hidden, none := ask(alice, "payroll", "hr"), ask(alice, "nosuch", "hr"); hidden != none {
		t.Errorf("a hidden collection: %s\nnone: %s", hidden, none)
	}
	if hidden, none := ask(bob, "reports", "alice"), ask(bob, "reports", "nobody"); hidden != none {
		t.Errorf("a hidden resource: %s\nnone: %s", hidden, none)
	}
	args := map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}
	answers := []answer{
		bob.present("documents", invoke("retrieve_document", args, ""), proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args}),
		bob.call("documents", "a2a/capabilities/list", map[string]any{}),
		bob.call("documents", "a2a/capabilities/attenuate", map[string]any{"capabilityId": c.ID, "constraints": map[string]any{"resourceHandles": []string{"/vault/q1-sales.pdf"}}}),
	}
	if claims := claim(t, c.Token, "powerbox") + c.Token; strings.Contains(claims, "vault") {
		t.Error("the token has a path")
	}
	for _, a := range answers {
		text := string(a.Raw)
		for name, values := range a.Header {
			text += name + strings.Join(values, " ")
		}
		if i := strings.Index(strings.ReplaceAll(text, `"/vault/q1-sales.pdf\" is not`, ""), "/vault/"); i >= 0 {
			t.Errorf("a path leaves: %s", text)
		}
	}
	if strings.Contains(w.log.String(), "/vault/") {
		t.Errorf("the log has a path:\n%s", w.log)
	}
}

func TestSEP6_ResultMembers(t *testing.T) {
	w := start(t, options{})
	a := w.caller(aliceToken).call("documents", "a2a/capabilities/request", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1"),
	})
	var result struct {
		Capabilities []map[string]any `json:"capabilities"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || len(result.Capabilities) != 1 {
		t.Fatalf("%v: %s", err, a.Raw)
	}
	c := result.Capabilities[0]
	var names []string
	for name := range c {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"expires", "grant", "id", "operations", "principal", "resourceHandles", "revocationId", "token"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	handles, _ := c["resourceHandles"].([]any)
	first, _ := handles[0].(map[string]any)
	if id, _ := c["id"].(string); !strings.HasPrefix(id, "cap_") || c["principal"] != "user:alice" || len(first) != 2 || first["handle"] == "" || first["displayName"] == "" {
		t.Errorf("got %v", c)
	}
}

func TestSEP7_IssuedIsTheMeet(t *testing.T) { onStores(t, trySEP7IssuedIsTheMeet) }

func trySEP7IssuedIsTheMeet(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	ask := func(more map[string]any) answer {
		params := map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1")}
		for name, v := range more {
			params[name] = v
		}
		return alice.call("documents", "a2a/capabilities/request", params)
	}
	for name, c := range map[string]struct {
		more    map[string]any
		want    []string
		handles int
	}{
		"all of the grant":                 {nil, []string{"retrieve", "search"}, 2},
		"what was asked":                   {map[string]any{"operations": []string{"search"}}, []string{"search"}, 2},
		"not what the grant does not have": {map[string]any{"operations": []string{"search", "delete"}}, []string{"search"}, 2},
	} {
		got := capabilities(t, ask(c.more))[0]
		if !slices.Equal(got.Operations, c.want) || len(got.ResourceHandles) != c.handles {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	// bob's policy has a part of the resources, and of the operations.
	if got := w.caller(bobToken).reports(); len(got.ResourceHandles) != 1 {
		t.Errorf("bob: %+v", got)
	}
	for name, a := range map[string]answer{
		"operations of nothing": ask(map[string]any{"operations": []string{"delete"}}),
		"no resource":           ask(map[string]any{"resourceQuery": quarter("2031-Q1"), "operations": []string{"retrieve"}}),
		"policy":                alice.call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{"documents:admin"}, "purpose": "p"}),
	} {
		if a.reason() != "nothing_granted" || !strings.Contains(a.Error.Message, ": ") {
			t.Errorf("SEP-7 %s: %s", name, a.Raw)
		}
	}
	w.refused(t, ask(map[string]any{"operations": []string{"delete"}}), "nothing_granted")
}

func TestSEP8_ExpiryIsTheEarliest(t *testing.T) {
	const short = `@maximum_lifetime("10m")
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
permit(principal == User::"user:alice", action in Action::"mail/mail:send", resource == Agent::"mail");
`
	within := func(t *testing.T, c granted, want time.Duration) {
		t.Helper()
		if d := time.Until(c.Expires); d > want || d < want-time.Minute {
			t.Errorf("the capability lives %s; want %s", d, want)
		}
	}
	t.Run("default maximum", func(t *testing.T) { within(t, start(t, options{}).caller(aliceToken).reports(), time.Hour) })
	t.Run("policy", func(t *testing.T) {
		within(t, start(t, options{policies: short}).caller(aliceToken).reports(), 10*time.Minute)
	})
	t.Run("requested", func(t *testing.T) {
		got := start(t, options{policies: short}).caller(aliceToken).request("documents", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1"),
			"expires": time.Now().Add(5 * time.Minute).UTC().Format(time.RFC3339),
		})
		within(t, got[0], 5*time.Minute)
	})
	t.Run("asking for more gives no more", func(t *testing.T) {
		got := start(t, options{}).caller(aliceToken).request("documents", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1"),
			"expires": time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339),
		})
		within(t, got[0], time.Hour)
	})
}

func TestSEP9_PurposeIsRequiredAndRecorded(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	for _, purpose := range []any{nil, "", "  "} {
		params := map[string]any{"grants": []string{"documents:read"}}
		if purpose != nil {
			params["purpose"] = purpose
		}
		if a := alice.call("documents", "a2a/capabilities/request", params); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("purpose %q: %s", purpose, a.Raw)
		}
	}
	alice.reports()
	if r := w.records("agent=documents&limit=1"); len(r) != 1 || r[0].Intent.Purpose != "Summarize quarterly reports" {
		t.Errorf("got %+v", r)
	}
}

func TestSEP21_ResourceQuery(t *testing.T) { onStores(t, trySEP21ResourceQuery) }

func trySEP21ResourceQuery(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	ask := func(query map[string]any) answer {
		return alice.call("documents", "a2a/capabilities/request", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": query,
		})
	}
	for _, c := range []struct {
		filter map[string]any
		want   int
	}{
		{map[string]any{"quarter": "2025-Q1"}, 2},
		{map[string]any{"quarter": map[string]any{"in": []string{"2025-Q1", "2025-Q2"}}}, 3},
		{map[string]any{"quarter": "2025-Q1", "owner": "bob"}, 1},
	} {
		if got := capabilities(t, ask(map[string]any{"collection": "reports", "filter": c.filter})); len(got[0].ResourceHandles) != c.want {
			t.Errorf("%v: %+v", c.filter, got[0].ResourceHandles)
		}
	}
	for name, c := range map[string]struct {
		query map[string]any
		known string
	}{
		"collection": {map[string]any{"collection": "nosuch"}, "reports"},
		"attribute":  {map[string]any{"collection": "reports", "filter": map[string]any{"year": "2025"}}, "quarter"},
		"operator":   {map[string]any{"collection": "reports", "filter": map[string]any{"quarter": map[string]any{"like": "2025"}}}, "in, min, max"},
	} {
		if a := ask(c.query); a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, c.known) {
			t.Errorf("unknown %s: %s", name, a.Raw)
		}
	}
}

func TestSEP23_SameAuthenticationAndStrictParams(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	params := map[string]any{"grants": []string{"documents:read"}, "purpose": "p"}
	request := rpc("a2a/capabilities/request", params)
	for name, a := range map[string]answer{
		"nobody":           w.post(w.agentURL("documents"), request, http.Header{}),
		"no session":       w.caller("").send("documents", request),
		"a foreign token":  w.bearer("some-other-token", "documents", request),
		"no one in invoke": w.post(w.agentURL("documents"), invoke("retrieve_document", nil, "cap_x"), http.Header{}),
	} {
		if a.Error == nil || a.Error.Code != -31401 && a.Error.Code != -31403 {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	for name, body := range map[string]string{
		"a batch":           "[" + string(request) + "]",
		"an unknown member": string(rpc("a2a/capabilities/request", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "admin": true})),
		"invoke":            string(rpc("a2a/skill/invoke", map[string]any{"skill": "retrieve_document", "unsafe": true})),
		"attenuate":         string(rpc("a2a/capabilities/attenuate", map[string]any{"capabilityId": "c", "constraints": map[string]any{"paths": []string{"/"}}})),
		"revoke":            string(rpc("a2a/capabilities/revoke", map[string]any{"revocationId": "c", "all": true})),
		"list":              string(rpc("a2a/capabilities/list", map[string]any{"holder": "somebody"})),
	} {
		if a := alice.send("documents", []byte(body)); a.Error == nil || a.Error.Code != -32600 && a.Error.Code != -32602 {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	if n := len(w.documents.got()); n > 0 {
		t.Errorf("%d calls reached the agent", n)
	}
}

func TestSEP25_OperationsAreQualified(t *testing.T) {
	w := start(t, options{policies: adminPolicies})
	c := w.caller(aliceToken).reports()
	v := w.caller(aliceToken).verified("documents", c.Token)
	var names []string
	for _, tool := range v.Tools() {
		names = append(names, tool.Pattern.Name())
	}
	want := []string{opMessage, "a2a.task.cancel", "a2a.task.read", opRetrieve, opSearch}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the token's operations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"retrieve", "search"}, c.Operations); diff != "" {
		t.Errorf("on the wire (-want +got):\n%s", diff)
	}
}

func TestSEP27_ApprovalRequired(t *testing.T) {
	const approval = `@approval("human")
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
permit(principal == User::"user:alice", action in Action::"mail/mail:send", resource == Agent::"mail");
`
	w := start(t, options{policies: approval})
	pendingIn(t, w.caller(aliceToken).call("documents", "a2a/capabilities/request", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1"),
	}))
}
