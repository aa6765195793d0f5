package a2a

import (
	"fmt"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// ATK-115: what an agent says is in its message and its artifacts. The history of a task
// repeats its caller's words, which the caller could then have vouched for.
func TestATK115_ResultsAreWhatTheAgentSays(t *testing.T) {
	limits := powerbox.Limits{Bytes: 1 << 20, Depth: 32, Nodes: 1 << 16}
	for answer, want := range map[string]string{
		`{"result":{"message":{"role":"ROLE_AGENT","parts":[{"data":{"a":1}},{"text":"t"}]}}}`:                                    `[{"a":1} "t"]`,
		`{"result":{"kind":"message","role":"agent","parts":[{"kind":"text","text":"t"}]}}`:                                       `["t"]`,
		`{"result":{"task":{"artifacts":[{"parts":[{"text":"x"}]}],"history":[{"role":"ROLE_USER","parts":[{"text":"mine"}]}]}}}`: `["x"]`,
		`{"artifactUpdate":{"artifact":{"parts":[{"data":[1]}]}}}`:                                                                `[[1]]`,
		`{"result":{"message":{"role":"ROLE_USER","parts":[{"text":"mine"}]}}}`:                                                   `[]`,
		`{"result":{"role":"user","parts":[{"text":"mine"}]}}`:                                                                    `[]`,
		`{"result":{"message":{"parts":[{"text":"whose"}]}}}`:                                                                     `[]`,
		`{"error":{"message":"t"}}`: `[]`,
		`{"result":`:                `[]`,
	} {
		if got := fmt.Sprint(Results([]byte(answer), limits)); got != want {
			t.Errorf("%s: %s; want %s", answer, got, want)
		}
	}
}
