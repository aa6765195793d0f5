package main

import (
	"context"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/internal/programtest"
)

func address(t *testing.T) string {
	t.Helper()
	return freeport.Address(t)
}

// casesInCI of every binding have every family of cases, as TestCaseIsAFunctionOfItsNumber sees.
const casesInCI = 2000

// commitSeed makes every commit try other cases, and one commit always the same.
func commitSeed(ctx context.Context) uint64 {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return 1
	}
	seed, err := strconv.ParseUint(strings.TrimSpace(string(out)), 16, 64)
	if err != nil {
		return 1
	}
	return seed
}

// TestGatewayForwardsWhatItDecided is make differential, with fewer cases.
func TestGatewayForwardsWhatItDecided(t *testing.T) {
	var out strings.Builder
	o := options{bindings: bindings, cases: casesInCI, part: casesInCI, seed: commitSeed(t.Context()), out: t.TempDir(), dir: t.TempDir(), powerbox: os.Getenv(programtest.Variable)}
	whole, err := o.run(t.Context(), &out)
	t.Logf("seed %d\n%s", o.seed, out.String())
	if err != nil {
		t.Fatal(err)
	}
	if whole.Cases != casesInCI*len(bindings) || whole.Executed < whole.Cases/10 {
		t.Errorf("%d cases and %d executed; want %d, of which a tenth is executed", whole.Cases, whole.Executed, casesInCI*len(bindings))
	}
	if whole.Differences != 0 {
		t.Errorf("%d differences; try them with make differential DIFFERENTIAL='-seed %d -cases %d'", whole.Differences, o.seed, casesInCI)
	}
}

// TestCaseIsAFunctionOfItsNumber makes cases twice, in another order.
func TestCaseIsAFunctionOfItsNumber(t *testing.T) {
	for _, binding := range bindings {
		g, err := newGenerator(binding)
		if err != nil {
			t.Fatal(err)
		}
		families := map[string]bool{}
		var first []*request
		for i := range 2000 {
			first = append(first, g.make(7, i))
			families[first[i].Family] = true
		}
		again, err := newGenerator(binding)
		if err != nil {
			t.Fatal(err)
		}
		for i := len(first) - 1; i >= 0; i -= 100 {
			if got := again.make(7, i); !reflect.DeepEqual(got, first[i]) {
				t.Fatalf("%s, case %d: %+v; want %+v", binding, i, got, first[i])
			}
		}
		if len(families) < 12 || families[""] {
			t.Errorf("%s: families %v; want at least twelve, each with a name", binding, families)
		}
	}
}
