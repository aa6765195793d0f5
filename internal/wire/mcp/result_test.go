package mcp

import (
	"fmt"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// ATK-115: a result is its structured content, and without that its texts. An error says
// nothing that could vouch for a value: servers repeat arguments in errors.
func TestATK115_ResultsOfTools(t *testing.T) {
	limits := powerbox.Limits{Bytes: 1 << 20, Depth: 32, Nodes: 1 << 16}
	for answer, want := range map[string]string{
		`{"result":{"structuredContent":{"a":1},"content":[{"type":"text","text":"{\"a\":2}"}]}}`:   `[{"a":1}]`,
		`{"result":{"content":[{"type":"text","text":"{\"a\":2}"},{"type":"text","text":"4711"}]}}`: `[{"a":2} "4711"]`,
		`{"result":{"content":[{"type":"text","text":"[1"},{"type":"image","text":"x"}]}}`:          `["[1"]`,
		`{"result":{"isError":true,"content":[{"type":"text","text":"no account AT99EVIL"}]}}`:      `[]`,
		`{"error":{"message":"no account AT99EVIL"}}`:                                               `[]`,
		`{"result":`: `[]`,
	} {
		if got := fmt.Sprint(Results([]byte(answer), limits)); got != want {
			t.Errorf("%s: %s; want %s", answer, got, want)
		}
	}
}
