package a2a

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// numbered returns n different ids.
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("id", i)
	}
	return ids
}

// Lists are read before the caller is authenticated, so they are short.
func TestATK55_ListsAreShort(t *testing.T) {
	attenuations, delegations := map[string]any{}, []any{}
	for i, id := range numbered(maxList + 1) {
		attenuations[id] = map[string]any{"operations": []string{"read"}}
		delegations = append(delegations, map[string]any{"agent": "https://c.example", "chain": []string{fmt.Sprint(i)}})
	}
	for name, c := range map[string]struct {
		method string
		params map[string]any
		at     string
	}{
		"grants":       {"a2a/capabilities/request", map[string]any{"grants": numbered(maxList + 1), "purpose": "p"}, "grants"},
		"attenuations": {"a2a/task/send", map[string]any{"message": map[string]any{}, "capabilities": numbered(maxList), "attenuations": attenuations}, "attenuations"},
		"delegations": {"SendMessage", map[string]any{
			"message": map[string]any{"parts": []any{}}, "metadata": map[string]any{ExtensionURI: map[string]any{"delegations": delegations}},
		}, "delegations"},
	} {
		t.Run("ATK-55 "+name, func(t *testing.T) {
			body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": c.method, "params": c.params})
			_, err := Decode(body, Header{Version: "1.0"}, testLimits)
			if err == nil || !strings.Contains(err.Message, c.at+" lists 257 elements; want at most 256") {
				t.Errorf("257 of them: %v", err)
			}
		})
	}
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "a2a/capabilities/request", "params": map[string]any{"grants": numbered(maxList), "purpose": "p"}})
	if _, err := Decode(body, Header{Version: "1.0"}, testLimits); err != nil {
		t.Errorf("256 of them: %v", err)
	}
}
