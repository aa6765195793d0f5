package gate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// TestPathIsAskedWithAndWithoutCapability: a declared path that does not hold refuses a call
// under a capability as it does one without, for the caller that it names (CARD-9).
func TestPathIsAskedWithAndWithoutCapability(t *testing.T) {
	for name, c := range map[string]struct {
		mode     Mode
		presents bool
		caller   string
		want     bool
	}{
		"with a capability":     {Require, true, "orchestrator", false},
		"scoped":                {Scoped, false, "orchestrator", false},
		"on ambient authority":  {Prefer, false, "orchestrator", false},
		"another caller":        {Scoped, false, "reader", true},
		"a caller without name": {Prefer, false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			call := w.call(c.mode, try(t, "read"))
			call.Caller.Name, call.Ambient = c.caller, true
			call.Scope = func(string) powerbox.Authority { return authority(t, "read", "a2a.message") }
			call.Ask.Path = func(origin string) []evidence.Reason {
				if origin == "reader" {
					return nil
				}
				return []evidence.Reason{{Code: "path_incompatible"}}
			}
			if c.presents {
				w.present(call, w.minted(clauses(t, "read")))
			}
			v := w.check(call)
			if v.Allowed != c.want || !c.want && !cmp.Equal(codes(v), []string{"path_incompatible"}) {
				t.Errorf("allowed %t, %v", v.Allowed, codes(v))
			}
		})
	}
}
