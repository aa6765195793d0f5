package capability

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// A call outside the caller's scope is denied under every capability, so none is advised.
func TestAdviceOutsideAScopeIsNoCapability(t *testing.T) {
	op, err := powerbox.ParseOperation("notes/notes:write/write")
	if err != nil {
		t.Fatal(err)
	}
	agent := holder.Agent{
		Base: "http://127.0.0.1/agents/notes", Skills: map[string]holder.Skill{"write": {Operation: op}},
		Grants: []holder.Grant{{ID: "notes:write", Operations: []string{"write"}}},
	}
	for code, want := range map[string]string{gate.CodeScope: "no capability is enough", gate.CodeCapabilityRequired: "powerbox request"} {
		var out strings.Builder
		advise(&cli.Program{Stderr: &out}, agent, callFlags{skill: "write"}, &holder.Denied{Code: powerbox.Code(code)})
		if !strings.Contains(out.String(), want) || code == gate.CodeScope && strings.Contains(out.String(), "powerbox request") {
			t.Errorf("%s: %q, want %q", code, out.String(), want)
		}
	}
}
