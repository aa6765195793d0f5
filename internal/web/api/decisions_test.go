package api

import (
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
)

// Several skills that are one operation cannot be told apart by the operation's name:
// the requirements of all of them hold, every time.
func TestGATE5_SkillsOfOneOperation(t *testing.T) {
	op, err := powerbox.ParseOperation("documents/documents:write/edit")
	if err != nil {
		t.Fatal(err)
	}
	a := Guarded{Target: gate.Target{ID: "documents"}, Skills: map[string]GuardedSkill{
		"append": {Operation: op, Write: true}, "peek": {Operation: op}, "replace": {Operation: op, Handle: "resourceHandle", Approval: true},
	}}
	for range 50 {
		for _, name := range []string{"documents/documents:write/edit", "documents:write/edit"} {
			if s, ok := a.mapped(name); !ok || !s.Write || !s.Approval || s.Handle != "resourceHandle" {
				t.Fatalf("GATE-5 %s: %+v, %t", name, s, ok)
			}
		}
	}
	if s, ok := a.mapped("peek"); !ok || s.Write || s.Approval {
		t.Errorf("GATE-5 by the skill's own name: %+v, %t", s, ok)
	}
	if _, ok := a.mapped("documents:write/delete"); ok {
		t.Error("GATE-5 an operation of no skill")
	}
}
