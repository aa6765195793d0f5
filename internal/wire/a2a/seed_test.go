package a2a

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

func value(t *testing.T, raw []byte) powerbox.Value {
	t.Helper()
	v, err := powerbox.ParseValue(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// The result of the seed, as it stands there, is what we write for its values.
func TestSEP28_SeedResult(t *testing.T) {
	const seed = `{ "jsonrpc": "2.0", "id": 1, "result": { "capabilities": [ { "id": "cap_7f3a9b", "grant": "documents:read", "token": "<opaque-capability-token>", "resourceHandles": [ {"handle": "rh_001", "displayName": "Q1 Financial Summary"}, {"handle": "rh_002", "displayName": "Q1 Sales Report"} ], "operations": ["retrieve", "search"], "expires": "2025-01-09T13:00:00Z", "revocationId": "rv_abc123", "principal": "user:[email protected]" } ] } }`
	var response struct {
		ID     json.RawMessage
		Result struct{ Capabilities []Capability }
	}
	if err := json.Unmarshal([]byte(seed), &response); err != nil {
		t.Fatal(err)
	}
	got, err := Result(response.ID, CapabilitiesResult{Capabilities: response.Result.Capabilities})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value(t, []byte(seed)).String(), value(t, got).String()); diff != "" {
		t.Errorf("SEP-6 (-seed +we):\n%s", diff)
	}
}

// The card of the seed is what we write for its grants.
func TestSEP28_SeedCard(t *testing.T) {
	const seed = `{ "name": "acme-documents", "version": "1.0", "capabilityGrants": [ { "id": "documents:read", "description": "Read documents accessible to the user principal", "operations": ["retrieve", "search", "list"], "attenuable": true }, { "id": "documents:write", "description": "Create and modify documents", "operations": ["create", "update", "delete"], "attenuable": true, "requires": ["documents:read"] }, { "id": "documents:admin", "description": "Full access (legacy wrapper)", "operations": ["*"], "attenuable": false, "legacy": true } ] }`
	var card struct{ CapabilityGrants []CardGrant }
	if err := json.Unmarshal([]byte(seed), &card); err != nil {
		t.Fatal(err)
	}
	behind := `{"name":"acme-documents","version":"1.0","url":"http://b/"}`
	got, err := RewriteCard([]byte(behind), Rewrite{PublicURL: "https://g.example", Grants: card.CapabilityGrants, LegacyMember: true})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := value(t, []byte(seed)).Get("capabilityGrants")
	top, _ := value(t, got).Get("capabilityGrants")
	if diff := cmp.Diff(want.String(), top.String()); diff != "" {
		t.Errorf("SEP-1 (-seed +we):\n%s", diff)
	}
	view, err := ReadCard(got)
	if err != nil || view.Interfaces[0].URL != "https://g.example" || !cmp.Equal(view.Extensions, []string{ExtensionURI}) {
		t.Errorf("SEP-24 the card reads as %+v, %v", view, err)
	}
}

func TestResults(t *testing.T) {
	for want, result := range map[string]any{
		`{"capabilities":[]}`: CapabilitiesResult{},
		`{"capabilities":[{"id":"c","grant":"g","resourceHandles":[],"operations":[],"expires":"0001-01-01T00:00:00Z","revocationId":"r","principal":"p","legacy":true}]}`: CapabilitiesResult{Capabilities: []Capability{{ID: "c", Grant: "g", RevocationID: "r", Principal: "p", Legacy: true}}},
		`{"pending":{"id":"a","approvalUrl":"https://g/approve/A?x=1&y=2","expires":"0001-01-01T00:00:00Z","interval":5}}`:                                                 CapabilitiesResult{Pending: &Pending{ID: "a", ApprovalURL: "https://g/approve/A?x=1&y=2", Interval: 5}},
		`{"revocationId":"r","revokedAt":"0001-01-01T00:00:00Z"}`:                                                                                                          RevokeResult{RevocationID: "r"},
		`{"n":9007199254740993}`: json.RawMessage(`{"n":9007199254740993}`),
	} {
		got, err := Result([]byte("1"), result)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(`{"jsonrpc":"2.0","id":1,"result":`+want+`}`, string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := Result([]byte("1"), make(chan int)); err == nil {
		t.Error("a result that is no JSON is accepted")
	}
}
