package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// agentAuthNode runs a client of agentauthjs against a provider, and returns the steps
// that it got through. Without node or its packages the test fails: make test installs
// both.
func agentAuthNode(t *testing.T, script string, args ...string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join("agentauthjs", "node_modules", "jose")); err != nil {
		t.Fatal("the clients in JavaScript lack their packages: run make test-deps, or npm ci in e2e/agentauthjs")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: run make test-deps, or install Node.js 20 or newer")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join("agentauthjs", script)}, args...)...)
	cmd.Env = append(os.Environ(), "POWERBOX="+binary)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", script, args, err, out, stderrOf(err))
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// wholeTour are the steps of agentauthjs/tour.mjs.
var wholeTour = []string{
	"discover", "list and describe", "register", "approve", "execute", "one token, one call", "violate a constraint", "escalate", "stream", "async",
	"rotate the agent's key", "rotate the host's key", "revoke", "revoke the host",
}

// TestAAPJ2_PlainNodeTour has a client in plain Node that follows the specification
// take the whole tour, with iss in its agents' tokens and without (AAP-D1, C1, R1, A2, E1,
// E3, E5, G1, Q1, K1 to K4).
func TestAAPJ2_PlainNodeTour(t *testing.T) {
	asGiven(t)
	for _, how := range []string{"full", "silent"} {
		if got := agentAuthNode(t, "tour.mjs", startExampleBank(t), how); !slices.Equal(got, wholeTour) {
			t.Errorf("%s: %q", how, got)
		}
	}
}

// TestAAPJ2_PlainNodeStrict: where the switch is strict, a token without iss is refused.
func TestAAPJ2_PlainNodeStrict(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      require_issuer: true"})
	if got := agentAuthNode(t, "tour.mjs", b.url, "strict"); !slices.Contains(got, "strict") {
		t.Errorf("%q", got)
	}
}

// TestAAPV3_PlainNodeReactivates: an agent that expired comes back with the defaults alone.
func TestAAPV3_PlainNodeReactivates(t *testing.T) {
	asGiven(t)
	b := startBank(t, "--session-ttl", "4s")
	if got := agentAuthNode(t, "tour.mjs", b.url, "expire"); !slices.Contains(got, "reactivate") {
		t.Errorf("%q", got)
	}
}

// TestAAPR1_StockClient drives what npm serves of the protocol's own client:
// @better-auth/agent-auth.
func TestAAPR1_StockClient(t *testing.T) {
	asGiven(t)
	if got := agentAuthNode(t, "stock.mjs", startExampleBank(t)); !slices.Equal(got, []string{"stock"}) {
		t.Errorf("%q", got)
	}
}

// TestATK77_TheStockClientLearnsOfARejection has a person refuse an unknown host. The
// protocol's own client, which takes no notice of errors while it polls, learns of it, asks
// again within the limit, and is approved.
func TestATK77_TheStockClientLearnsOfARejection(t *testing.T) {
	b := newBank(t, bankOptions{})
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "unknown_hosts: 0", "unknown_hosts: 4", 1))
	})
	want := []string{"rejected", "approved after a rejection", "one agent is rejected", "limited"}
	if got := agentAuthNode(t, "rejected.mjs", b.url, "4"); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}
