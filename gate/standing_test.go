package gate

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/trust"
)

// standings are the levels of agents by name.
type standings map[string]trust.Level

func (s standings) Level(agent string) trust.Level { return s[agent].OrNone() }

// TestEXT30_TrustThatIsNeeded: a caller below the level is denied in every mode
// but observe, which says so, whatever it presents; everything else is decided as
// without a level.
func TestEXT30_TrustThatIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		has          trust.Level
		any, reading trust.Level // that everything needs, and that reading does
		mode         Mode
		presents     bool
		change       func(*Call)
		denied       bool
	}{
		"none is needed":                 {trust.None, "", "", Require, true, nil, false},
		"as high as needed":              {trust.Moderate, "", trust.Moderate, Require, true, nil, false},
		"higher":                         {trust.High, trust.Low, trust.Moderate, Require, true, nil, false},
		"lower than the operation needs": {trust.Moderate, trust.Low, trust.High, Require, true, nil, true},
		"lower than the agent needs":     {trust.Low, trust.High, trust.Low, Require, true, nil, true},
		"unknown":                        {"", trust.Low, "", Require, true, nil, true},
		"no level":                       {"BEST", trust.Low, "", Require, true, nil, true},
		"without a name":                 {trust.High, trust.Low, "", Prefer, false, func(c *Call) { c.Caller.Name = "" }, true},
		"standing, lower":                {trust.Low, "", trust.High, Scoped, false, nil, true},
		"standing, as high":              {trust.High, "", trust.High, Scoped, false, nil, false},
		"ambient, lower":                 {trust.Low, "", trust.High, Prefer, false, nil, true},
		"ambient, as high":               {trust.High, "", trust.High, Prefer, false, nil, false},
		"another operation":              {trust.Low, "", trust.High, Require, true, func(c *Call) { c.Attempts = []powerbox.Attempt{try(t, "search")} }, false},
		"free text can be about any":     {trust.Low, "", trust.High, Prefer, false, func(c *Call) { c.Attempts, c.Free.Any = []powerbox.Attempt{try(t, "search")}, true }, true},
		"free text that is about one": {trust.Low, "", trust.High, Prefer, false, func(c *Call) {
			c.Attempts, c.Free.Any, c.Free.Of = []powerbox.Attempt{try(t, "search")}, true, operations(t, "search")[0]
		}, false},
		"free text that is about the one": {trust.Low, "", trust.High, Prefer, false, func(c *Call) {
			c.Attempts, c.Free.Any, c.Free.Of = []powerbox.Attempt{try(t, "search")}, true, operations(t, "read")[0]
		}, true},
		"to end what one began takes none": {trust.None, trust.High, "", Prefer, false, func(c *Call) { c.Cancels = true }, false},
		"looked at only":                   {trust.None, trust.High, "", Observe, false, nil, false},
	} {
		w := newTown(t)
		w.target.TrustAny, w.target.Trust = c.any, map[string]trust.Level{"read": c.reading}
		w.gate.Standing = standings{"orchestrator": c.has}
		call := w.call(c.mode, try(t, "read"))
		call.Caller.Name = "orchestrator"
		call.Scope = func(string) powerbox.Authority { return authority(t, "read", "search", "a2a.message") }
		if c.change != nil {
			c.change(call)
		}
		if c.presents {
			w.present(call, w.minted(clauses(t, "read", "search")))
		}
		v := w.check(call)
		if c.mode == Observe {
			if !v.Allowed || !slices.Contains(codes(v), CodeTrust) || v.Record.Decision != evidence.Abstain {
				t.Errorf("EXT-30 %s: allowed %t, %v", name, v.Allowed, codes(v))
			}
			continue
		}
		if v.Allowed == c.denied || c.denied && (!cmp.Equal(without(codes(v), CodeUndeclaredAmbient), []string{CodeTrust}) || v.Record.Decision != evidence.Deny) {
			t.Errorf("EXT-30 %s: allowed %t, %v", name, v.Allowed, codes(v))
		}
	}
}

// without leaves a code out.
func without(all []string, code string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == code })
}

// Without standings, a gate lets no agent reach a level.
func TestEXT30_NobodysStandingIsKnown(t *testing.T) {
	w := newTown(t)
	w.target.TrustAny = trust.Low
	if v := w.check(w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read")))); v.Allowed || !cmp.Equal(codes(v), []string{CodeTrust}) {
		t.Errorf("allowed %t, %v", v.Allowed, codes(v))
	}
}
