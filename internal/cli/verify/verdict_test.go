package verify

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// Evidence under keys that are not pinned is not called tampered, and fails as before. One other
// problem beside that is tampering.
func TestEvidenceUnderOtherKeysIsNotCalledTampered(t *testing.T) {
	unknown := evidence.Problem{Kind: evidence.UnknownKey, Line: 1, Message: "x"}
	for want, problems := range map[string][]evidence.Problem{
		"signed by keys that are not pinned: ": {unknown, unknown},
		"tampered: ":                           {unknown, {Kind: evidence.HashMismatch, Line: 2, Message: "y"}},
		"malformed: ":                          {{Kind: evidence.Malformed, Line: 2, Message: "z"}},
		"ok: ":                                 nil,
	} {
		var out, talk strings.Builder
		err := printReport(&cli.Program{Stdout: &out, Stderr: &talk}, evidence.Report{Records: 1, Origin: "log", Problems: problems}, "text")
		if !strings.HasPrefix(out.String(), want) || (err == nil) != (problems == nil) {
			t.Errorf("%q: %v %s", want, err, out.String())
		}
		if hint := strings.Contains(talk.String(), "trust file"); hint != strings.HasPrefix(want, "signed") {
			t.Errorf("%q: %s", want, talk.String())
		}
	}
}
