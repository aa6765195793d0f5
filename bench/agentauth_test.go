package main

import (
	"strings"
	"testing"
	"time"
)

// Our contestant of the Agent Auth rows registers and executes, each call once; the
// peer's answers are looked at in every run of the bench itself.
func TestContestantOfAgentAuth(t *testing.T) {
	world := &town{folder: t.TempDir(), binary: program}
	defer func() { must(t, world.close()) }()
	ours, err := world.ourAccounts(t.Context(), ourAccounts, "record")
	must(t, err)
	into := round{}
	for _, f := range ours.fronts(40, 40) {
		must(t, f.cpuTrial().measure(into, time.Millisecond))
		if into[f.name] <= 0 {
			t.Errorf("%s took no time", f.name)
		}
		conns, err := f.load.dialAll(t.Context(), 1)
		must(t, err)
		if err := f.load.call(conns[0], f.request(0)); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s again: %v", f.name, err)
		}
		must(t, closeConns(conns))
	}
}
