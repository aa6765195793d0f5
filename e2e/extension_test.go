package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestEXT36_Activation asks for the extension in every form, and is told that
// it is active; who does not ask is told nothing, and nothing else changes.
func TestEXT36_Activation(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		held := alice.reports()
		for name, ask := range map[string]http.Header{
			"alone":                    {"A2a-Extensions": {extension}},
			"behind a comma":           {"A2a-Extensions": {"https://example.org/x/v1 , " + extension}},
			"in a second field":        {"A2a-Extensions": {"https://example.org/x/v1", extension}},
			"by the name of 0.3":       {"X-A2a-Extensions": {extension}},
			"not":                      {},
			"another version":          {"A2a-Extensions": {strings.TrimSuffix(extension, "1") + "2"}},
			"as a prefix of another's": {"A2a-Extensions": {extension + "/more"}},
		} {
			t.Run("EXT-36 "+name, func(t *testing.T) {
				body := data("search_documents", map[string]any{})
				h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
				want := ""
				for field, values := range ask {
					h[field] = values
					if !strings.HasPrefix(name, "a") || name == "alone" {
						want = field
					}
				}
				a := w.post(w.agentURL("documents"), body, h)
				allowed(t, a)
				for _, field := range []string{"A2a-Extensions", "X-A2a-Extensions"} {
					got := strings.Join(a.Header.Values(field), ",")
					if active := got == extension; active != (field == want) {
						t.Errorf("%s: %q", field, got)
					}
				}
				// The agent behind gets what the caller asked for, as it asked.
				reached := w.documents.got()
				for field, values := range ask {
					if len(reached) != 1 || strings.Join(reached[0].header.Values(field), "|") != strings.Join(values, "|") {
						t.Errorf("the agent got %v", reached)
					}
				}
				w.documents.forget()
			})
		}
	})
}

// TestEXT36_Required has an agent that is called with the extension alone: the
// card says so, and a call without it is told by the protocol's own error.
func TestEXT36_Required(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    extension_required: true"})
		alice := w.caller(aliceToken)
		held := alice.reports()
		send := func(h http.Header) answer {
			body := data("search_documents", map[string]any{})
			for name, v := range alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}) {
				h[name] = v
			}
			return w.post(w.agentURL("documents"), body, h)
		}
		a := send(http.Header{})
		w.refused(t, a, "extension_required")
		if a.Error == nil || a.Error.Code != -32008 {
			t.Errorf("EXT-36 %s", a.Raw)
		}
		allowed(t, send(http.Header{"A2a-Extensions": {extension}}))
		if on == (wire{}) { // its own methods ask for it
			allowed(t, alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{}, "capabilityId": held.ID}))
		}
		if card := string(w.get(w.agentURL("documents") + cardPath)); !strings.Contains(card, `"required":true`) {
			t.Errorf("EXT-36 the card: %s", card)
		}
	})
}

// TestATK54_Downgrade omits the extension, and what comes with it: the agent's
// mode decides what becomes of that, and where it is let through, it is on
// record as what it is.
func TestATK54_Downgrade(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		for mode, want := range map[string]string{"require": "capability_required", "scoped": "outside_caller_scope", "prefer": ""} {
			w := start(t, options{on: on, mode: mode})
			alice := w.caller(aliceToken)
			a := alice.send("documents", data("search_documents", map[string]any{}))
			r := w.decided(a)
			if a.reason() != want {
				t.Errorf("ATK-54 in %s: %s", mode, a.Raw)
			}
			if ambient := strings.Contains(r.Powerbox.Mode, "ambient"); ambient != (mode == "prefer") {
				t.Errorf("ATK-54 in %s the record says %q", mode, r.Powerbox.Mode)
			}
			// A capability that is there is enforced: leaving the proof out, or the
			// chain, is not a way to be treated as if none were.
			held := alice.reports()
			w.documents.forget()
			body := data("delete_document", map[string]any{"resourceHandle": held.ResourceHandles[0].Handle})
			for _, drop := range []string{"Powerbox-Proof", "Powerbox-Capability"} {
				h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opDelete, arguments: map[string]any{"resourceHandle": held.ResourceHandles[0].Handle}})
				h.Del(drop)
				if a := w.post(w.agentURL("documents"), body, h); a.Error == nil || len(w.documents.got()) > 0 {
					t.Errorf("ATK-54 in %s without %s: %s", mode, drop, a.Raw)
				}
			}
		}
	})
}
