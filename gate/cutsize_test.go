package gate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// TestSizeOfWhatIsCut compares the estimate with the JSON of the longest escapes and of
// many short texts.
func TestSizeOfWhatIsCut(t *testing.T) {
	link := 99
	for name, text := range map[string]string{"empty": "", "letters": "abc", "control": strings.Repeat("\x01", 50), "line separators": strings.Repeat("\u2028", 50), "not UTF-8": strings.Repeat("\xff", 50), "angle": strings.Repeat("<", 50)} {
		object, err := json.Marshal(map[string]string{"a": text})
		if err != nil {
			t.Fatal(err)
		}
		many := make([]string, 100)
		for n := range many {
			many[n] = text
		}
		reasons := make([]evidence.Reason, 100)
		for n := range reasons {
			reasons[n] = evidence.Reason{Code: text, Link: &link, Operation: text, Argument: text, Constraint: text, Message: text}
		}
		r := evidence.Record{TaskID: text, Intent: evidence.Intent{Operation: text, Purpose: text, Details: object}, Details: evidence.Details{
			Requester: text, Principal: text, Tenant: text, TraceID: text, Capability: text, Granted: many, Exercised: many,
			Gate: &evidence.Gate{Origin: text, Target: text, Required: many, Allowed: many, Missing: many}, Reasons: reasons, Arguments: object,
		}}
		if estimate, exact := maxEscape*bytesOf(&r), written(&r); estimate < exact {
			t.Errorf("ATK-4 %s: estimated as %d bytes at most; it has %d", name, estimate, exact)
		}
	}
}
