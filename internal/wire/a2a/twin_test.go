package a2a

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// twins holds every member of an allowlist, and of those below it, to one rule: a lone name
// of protobuf is read as the member, and both names together are refused.
func twins(t *testing.T, where string, k *Known, seen map[*Known]bool) {
	t.Helper()
	if k == nil || seen[k] {
		return
	}
	seen[k] = true
	for at, m := range k.members {
		value := map[KnownType]string{IsText: `"x"`, IsScalar: `"x"`, IsTexts: `["x"]`, IsObject: `{}`, IsMap: `{}`, IsTextMap: `{}`, IsList: `[]`, IsAny: `1`}[m.Is]
		lone, err := powerbox.ParseValue([]byte(fmt.Sprintf(`{%q:%s}`, snake(m.Name), value)))
		if err != nil {
			t.Fatal(err)
		}
		written, wrong := k.Write(where, lone)
		if wrong != nil {
			t.Errorf("%s: a lone %s is refused: %s", where, snake(m.Name), wrong.Message)
		} else if _, ok := written.Value.Get(m.Name); !ok {
			t.Errorf("%s: a lone %s is not written as %s: %s", where, snake(m.Name), k.members[at].Name, written.Value.AppendJSON(nil))
		}
		if snake(m.Name) != m.Name {
			both, err := powerbox.ParseValue([]byte(fmt.Sprintf(`{%q:%s,%q:%s}`, snake(m.Name), value, m.Name, value)))
			if err != nil {
				t.Fatal(err)
			}
			if _, wrong := k.Write(where, both); wrong == nil || wrong.Reason != ReasonVariant || !strings.Contains(wrong.Message, m.Name) {
				t.Errorf("%s: both names of %s are not refused: %v", where, m.Name, wrong)
			}
		}
		twins(t, below(where, m.Name), m.Of, seen)
	}
}

// TestEveryMemberIsReadByItsNameInProtobuf: stock clients send either name of a member, and
// readers differ on both, so one is taken and both are refused, for every member of A2A.
func TestEveryMemberIsReadByItsNameInProtobuf(t *testing.T) {
	seen := map[*Known]bool{}
	for method, k := range knownParams {
		twins(t, method.String(), k, seen)
	}
	twins(t, "SendMessage in protobuf", knownSendProto, seen)
	if len(seen) < 15 {
		t.Errorf("%d allowlists", len(seen))
	}
}
