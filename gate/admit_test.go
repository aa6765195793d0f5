package gate

import "testing"

// TestATK81_OnlyAHolderIsCountedByItsCapability shows a capability on record to the one who
// counts calls: with it for its holder, and without it for another caller.
func TestATK81_OnlyAHolderIsCountedByItsCapability(t *testing.T) {
	for caller, want := range map[string]string{"key:holder": "cap_one", "key:other": "", "": ""} {
		w := newTown(t)
		w.gate.References = onRecord{"cap_one": Held{Capability: "cap_one", Root: "cap_one", Holder: "key:holder", Authority: authority(t, "read")}}
		call := w.call(Require, try(t, "read"))
		call.Caller.Holder, call.Presented = caller, []Presented{{Reference: "cap_one"}}
		var counted []string
		call.Ask.Admit = func(h Held) error {
			counted = append(counted, h.Capability)
			return nil
		}
		w.check(call)
		if len(counted) != 1 || counted[0] != want {
			t.Errorf("ATK-81 a caller with holder %q is counted by %q; want once by %q", caller, counted, want)
		}
	}
}
