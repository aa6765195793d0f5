package gate

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

// TestGATE3_Preflight: the denial lists all missing permissions, sorted, in the exact words.
func TestGATE3_Preflight(t *testing.T) {
	h := Handoff{
		From: "a", To: "b", Required: operations(t, "z", "b", "x.read", "b"),
		Caps: authority(t, "x.read", "b", "y"), Scope: authority(t, "x.read", "z"),
	}
	f := Preflight(h, at)
	if f == nil || f.Error() != "Capability scope violation: {b, z}" || !errors.Is(f, powerbox.ErrDenied) {
		t.Fatalf("GATE-3 %v", f)
	}
	want := &Failure{From: "a", To: "b", Required: []string{"b", "x.read", "z"}, Allowed: []string{"x.read"}, Missing: []string{"b", "z"}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error("GATE-10", diff)
	}
	h.Required = operations(t, "x.read")
	if f := Preflight(h, at); f != nil {
		t.Errorf("GATE-1 %v", f)
	}
	if f := Preflight(h, at.Add(2*time.Hour)); f == nil {
		t.Error("GATE-1 a scope that is over admits")
	}
	h.Required = nil
	if f := Preflight(h, at); f == nil || f.Error() != "Capability scope violation: {}" {
		t.Errorf("GATE-5 a task of unknown needs is admitted: %v", f)
	}
}
