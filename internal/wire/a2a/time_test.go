package a2a

import (
	"encoding/json"
	"strings"
	"testing"
)

// The zero time stands for no limit, so no request may name it.
func TestATK101_NoEndIsTheZeroTime(t *testing.T) {
	for _, expires := range []string{"0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00", "soon"} {
		body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "a2a/capabilities/request", "params": map[string]any{"grants": []string{"g"}, "purpose": "p", "expires": expires}})
		if _, err := Decode(body, Header{Version: "1.0"}, testLimits); err == nil || !strings.Contains(err.Message, "is not a time of RFC 3339") {
			t.Errorf("%s: %v", expires, err)
		}
	}
}
