package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// callAs makes a call with someone's session and no capability.
func (w *town) callAs(token string, body []byte) answer {
	w.t.Helper()
	return w.caller(token).sends("documents", body)
}

// TestEXT2_RolesAndAttributes has callers without a capability do what policy
// allows their role or their attributes, which their identity provider says and
// they cannot, on every binding.
func TestEXT2_RolesAndAttributes(t *testing.T) {
	const users = `    - {name: carol, token: carol-session-token, roles: [reader]}
    - {name: dave, token: dave-session-token, roles: [reader, librarian], attributes: {clearance: 5}}
    - {name: erin, token: erin-session-token, attributes: {clearance: 2}}
`
	const byRole = "{model: ROLE, roles: {reader: [documents:read/search], librarian: [documents:read, documents:write], writer: [documents:write]}}"
	search, remove := func() []byte { return data("search_documents", map[string]any{}) }, func() []byte {
		return data("delete_document", map[string]any{"resourceHandle": "/vault/q1-financial.pdf"})
	}
	everywhereAndApart(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, dev: users + "    - {name: frank, token: frank-session-token, roles: [writer]}\n", agent: "    enforces: context\n    authorization: " + byRole})
		for name, body := range map[string][]byte{"carol": search(), "dave": remove()} {
			a := w.callAs(name+"-session-token", body)
			allowed(t, a)
			if r := w.decided(a); r.Decision != "ALLOW" || r.Powerbox.Mode != "require/policy" {
				t.Errorf("EXT-2 %s: the record says %s in %s", name, r.Decision, r.Powerbox.Mode)
			}
		}
		claims := func() []byte {
			var call map[string]any
			if err := json.Unmarshal(remove(), &call); err != nil {
				t.Fatal(err)
			}
			params := call["params"].(map[string]any)
			params["metadata"] = map[string]any{"roles": []string{"librarian"}, "role": "librarian", "clearance": 9}
			params["message"].(map[string]any)["metadata"] = map[string]any{"roles": []string{"librarian"}, "clearance": 9}
			out, err := json.Marshal(call)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		w.repel(
			t,
			attack{"EXT-2 a role that may not", "outside_role", func() answer { return w.callAs("carol-session-token", remove()) }},
			attack{"EXT-2 a role that the message claims", "outside_role", func() answer { return w.callAs("carol-session-token", claims()) }},
			attack{"EXT-2 a role that a header claims", "outside_role", func() answer {
				carol := w.caller("carol-session-token")
				h := carol.headers(w.agentURL("documents"))
				h["X-Roles"], h["Roles"] = []string{"librarian"}, []string{"librarian"}
				return w.post(w.agentURL("documents"), remove(), h)
			}},
			attack{"EXT-2 no role", "outside_role", func() answer { return w.callAs(bobToken, search()) }},
			attack{"EXT-2 a grant without the one that it requires", "outside_role", func() answer { return w.callAs("frank-session-token", remove()) }},
			attack{"EXT-2 nobody", "capability_required", func() answer { return w.caller("").sends("documents", search()) }},
			attack{"EXT-2 an operation that no grant has", "skill_unmapped", func() answer {
				return w.callAs("dave-session-token", data("unmapped_skill", map[string]any{}))
			}},
		)
		// A task that was begun by role belongs to its user alone.
		dave := w.caller("dave-session-token")
		var begun struct{ Task struct{ ID string } }
		if a := dave.sends("documents", text("SendMessage", "task open")); json.Unmarshal(a.Result, &begun) != nil || begun.Task.ID == "" {
			t.Fatalf("no task: %s", a.Raw)
		}
		read := func() []byte { return rpc("GetTask", map[string]any{"id": begun.Task.ID}) }
		allowed(t, dave.sends("documents", read()))
		if a := w.callAs("carol-session-token", read()); a.Error == nil || a.Error.Code != -32001 {
			t.Errorf("ATK-18 a task of another user: %s", a.Raw)
		}

		const policies = defaultPolicies + `permit(principal, action in Action::"documents/documents:read", resource) when { principal.attributes has clearance && principal.attributes.clearance > 3 };` + "\n"
		w = start(t, options{on: on, dev: users, policies: policies, agent: "    enforces: context\n    authorization: {model: ATTRIBUTE}"})
		allowed(t, w.callAs("dave-session-token", search()))
		w.repel(
			t,
			attack{"EXT-2 an attribute that does not suffice", "outside_role", func() answer { return w.callAs("erin-session-token", search()) }},
			attack{"EXT-2 no attribute", "outside_role", func() answer { return w.callAs("carol-session-token", search()) }},
			attack{"EXT-2 an attribute for something else", "outside_role", func() answer { return w.callAs("dave-session-token", remove()) }},
			attack{"EXT-2 policies about single resources", "outside_role", func() answer { return w.callAs(bobToken, search()) }},
		)

		// The same table where capabilities are the model: it says who gets them.
		w = start(t, options{on: on, dev: users, agent: "    authorization: " + strings.Replace(byRole, "ROLE", "CAPABILITY", 1)})
		w.repel(t, attack{"EXT-2 without a capability", "capability_required", func() answer { return w.callAs("carol-session-token", search()) }})
		carol := w.caller("carol-session-token")
		held := carol.request("documents", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "operations": []string{"search"}})[0]
		allowed(t, carol.present("documents", search(), proven{chain: []string{held.Token}, operation: opSearch}))
	})
}
