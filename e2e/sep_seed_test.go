package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The examples of A2A discussion 1404, as they stand there.
const (
	seedGrants   = `[ { "id": "documents:read", "description": "Read documents accessible to the user principal", "operations": ["retrieve", "search", "list"], "attenuable": true }, { "id": "documents:write", "description": "Create and modify documents", "operations": ["create", "update", "delete"], "attenuable": true, "requires": ["documents:read"] }, { "id": "documents:admin", "description": "Full access (legacy wrapper)", "operations": ["*"], "attenuable": false, "legacy": true } ]`
	seedRequest  = `{ "jsonrpc": "2.0", "id": 1, "method": "a2a/capabilities/request", "params": { "grants": ["documents:read"], "purpose": "Summarize quarterly reports", "resourceQuery": { "collection": "reports", "filter": {"quarter": "2025-Q1"} }, "expires": "2025-01-09T13:00:00Z" } }`
	seedInvoke   = `{ "jsonrpc": "2.0", "id": 2, "method": "a2a/skill/invoke", "params": { "skill": "retrieve_document", "arguments": {"resourceHandle": "rh_001"}, "capabilityId": "cap_7f3a9b" } }`
	seedNarrow   = `{ "jsonrpc": "2.0", "method": "a2a/capabilities/attenuate", "params": { "capabilityId": "cap_7f3a9b", "constraints": { "resourceHandles": ["rh_001"], "operations": ["retrieve"], "expires": "2025-01-09T12:30:00Z" } } }`
	seedTaskSend = `{ "method": "a2a/task/send", "params": { "message": { "role": "user", "parts": [{"type": "text", "text": "Summarize this document"}] }, "capabilities": ["cap_7f3a9b"], "attenuations": { "cap_7f3a9b": { "operations": ["retrieve"], "expires": "2025-01-09T12:35:00Z" } } } }`
)

const seedConfiguration = `listen: 127.0.0.1:%s
issuer: {url: "http://127.0.0.1:%s"}
identity:
  dev: [{name: alice, token: %s}]
agents:
  - {id: acme-documents, upstream: %s, mode: require, enforces: context, required: ["documents:read/retrieve"]}
offers:
  acme-documents: %s
skills:
  acme-documents:
    - {skill: retrieve_document, grant: "documents:read", operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: "documents:read", operation: search, effect: read}
    - {skill: list_documents, grant: "documents:read", operation: list, effect: read}
    - {skill: create_document, grant: "documents:write", operation: create}
    - {skill: administer, grant: "documents:admin", operation: administer}
resources:
  acme-documents:
    items:
      - {collection: reports, id: /vault/1.pdf, name: Q1 Financial Summary, attributes: {quarter: 2025-Q1}}
      - {collection: reports, id: /vault/2.pdf, name: Q1 Sales Report, attributes: {quarter: 2025-Q1}}
      - {collection: reports, id: /vault/3.pdf, name: Q2 Sales Report, attributes: {quarter: 2025-Q2}}
policies: [policies.cedar]
`

// The user may retrieve and search, so that is what the seed's answer has.
const seedPolicies = `
permit(principal == User::"user:alice", action in [Action::"acme-documents/documents:read/retrieve", Action::"acme-documents/documents:read/search"], resource in Collection::"acme-documents/reports");
`

func seedTown(t *testing.T) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir(), documents: newStock(t, "retrieve_document", "search_documents", "list_documents", "create_document", "administer")}
	w.mail = &stock{}
	port := freePort(t)
	w.url = "http://127.0.0.1:" + port
	w.write("policies.cedar", seedPolicies)
	w.write("powerbox.yaml", fmt.Sprintf(seedConfiguration, port, port, aliceToken, w.documents.url, seedGrants))
	if filepath.Base(w.dir) == "" {
		t.Fatal("no folder")
	}
	w.boot()
	return w
}

// Every example goes through the binary with its own values. Only the times,
// which have passed, and the ids, which the server chooses, are replaced.
func TestSEP28_SeedExamples(t *testing.T) {
	asGiven(t)
	w := seedTown(t)
	alice := w.caller(aliceToken)
	const agent = "acme-documents"
	hour := time.Now().Add(50 * time.Minute).UTC().Truncate(time.Second)
	adapt := func(s string, pairs ...string) []byte {
		for _, at := range []struct {
			seed string
			ours time.Time
		}{{"13:00", hour}, {"12:30", hour.Add(-30 * time.Minute)}, {"12:35", hour.Add(-25 * time.Minute)}} {
			pairs = append(pairs, "2025-01-09T"+at.seed+":00Z", at.ours.Format(time.RFC3339))
		}
		return []byte(strings.NewReplacer(pairs...).Replace(s))
	}
	t.Run("SEP-28 card", func(t *testing.T) {
		var got struct {
			CapabilityGrants []any `json:"capabilityGrants"`
		}
		var want []any
		if err := json.Unmarshal(w.get(w.agentURL(agent)+"/.well-known/agent-card.json"), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(seedGrants), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.CapabilityGrants); diff != "" {
			t.Errorf("(-seed +we):\n%s", diff)
		}
	})
	if a := alice.send(agent, []byte(seedRequest)); a.reason() != "expires_invalid" {
		t.Errorf("SEP-28 the request as it stands has expired: %s", a.Raw)
	}
	a := alice.send(agent, adapt(seedRequest))
	if a.Error != nil {
		t.Fatalf("SEP-28 request: %s", a.Raw)
	}
	c := capabilities(t, a)[0]
	names := []string{c.ResourceHandles[0].DisplayName, c.ResourceHandles[1].DisplayName}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"Q1 Financial Summary", "Q1 Sales Report"}, names); diff != "" || len(c.ResourceHandles) != 2 {
		t.Errorf("SEP-28 result, handles (-seed +we):\n%s", diff)
	}
	if c.Grant != "documents:read" || !cmp.Equal(c.Operations, []string{"retrieve", "search"}) || !c.Expires.Equal(hour) ||
		!strings.HasPrefix(c.Principal, "user:") || !strings.HasPrefix(c.RevocationID, "rv_") || !strings.HasPrefix(c.ID, "cap_") {
		t.Errorf("SEP-28 result: %+v", c)
	}
	if r := w.records("agent=" + agent + "&limit=1"); r[0].Intent.Purpose != "Summarize quarterly reports" {
		t.Errorf("SEP-28 purpose: %+v", r[0].Intent)
	}
	ids := []string{"cap_7f3a9b", c.ID, "rh_001", c.ResourceHandles[0].Handle}
	t.Run("SEP-28 invoke", func(t *testing.T) { allowed(t, alice.send(agent, adapt(seedInvoke, ids...))) })
	t.Run("SEP-28 attenuate", func(t *testing.T) {
		if a := alice.send(agent, adapt(seedNarrow, ids...)); a.Error == nil || a.Error.Code != -32600 {
			t.Errorf("a call without id: %s", a.Raw)
		}
		a := alice.send(agent, adapt(seedNarrow, append(ids, `"jsonrpc": "2.0",`, `"jsonrpc": "2.0", "id": 3,`)...))
		if a.Error != nil {
			t.Fatalf("%s", a.Raw)
		}
		child := capabilities(t, a)[0]
		if len(child.ResourceHandles) != 1 || !cmp.Equal(child.Operations, []string{"retrieve"}) || !child.Expires.Equal(hour.Add(-30*time.Minute)) {
			t.Errorf("got %+v", child)
		}
	})
	t.Run("SEP-28 task send", func(t *testing.T) {
		before := len(w.documents.got())
		if a := alice.send(agent, adapt(seedTaskSend, ids...)); a.Error == nil || a.Error.Code != -32600 || len(w.documents.got()) != before {
			t.Errorf("a call without id: %s", a.Raw)
		}
		a := alice.send(agent, adapt(seedTaskSend, append(ids, `{ "method"`, `{ "jsonrpc": "2.0", "id": 4, "method"`)...))
		allowed(t, a)
		if !strings.Contains(string(a.Raw), "echo: Summarize this document") {
			t.Errorf("the agent answers %s", a.Raw)
		}
		d := w.decided(a)
		if !slices.Contains(d.Powerbox.Gate.Allowed, "acme-documents/documents:read/retrieve") || slices.Contains(d.Powerbox.Gate.Allowed, "acme-documents/documents:read/search") {
			t.Errorf("the task runs under %v", d.Powerbox.Gate.Allowed)
		}
	})
}
