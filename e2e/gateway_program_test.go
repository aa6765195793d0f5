package e2e

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// gatewayProgram is powerbox-gateway, built as for a release.
func gatewayProgram() (string, error) {
	return built("powerbox-gateway", "..", "-tags", "grpcnotrace", "./cmd/powerbox-gateway")
}

// The program without a server enrolls at a server of another process, and decides for it: it
// takes a capability, hears of a freeze and denies, and its records reach the server.
func TestGatewayProgramDecidesForAServer(t *testing.T) {
	program, err := gatewayProgram()
	if err != nil {
		t.Fatal(err)
	}
	w, all := startRemote(t, 1, options{gateway: program})
	alice := w.caller(aliceToken)
	held := alice.reports()
	allowed := alice.looksUp(held)
	if allowed.Error != nil {
		t.Fatalf("search: %s\n%s\n%s", allowed.Raw, all[0].log, w.log)
	}
	if got := w.documents.got(); len(got) != 1 || got[0].header.Get("Powerbox-Context") == "" {
		t.Errorf("the agent got %d calls, the first without a context", len(got))
	}
	w.run("freeze", "agent:documents", "--reason", "r")
	eventually(t, atOnce, func() string { return "a freeze is not known" }, func() bool { return alice.looksUp(held).reason() == "frozen" })
	id := allowed.Header.Get("Powerbox-Decision")
	eventually(t, atOnce, func() string { return "a record does not reach the server\n" + all[0].log.String() }, func() bool {
		return id != "" && strings.Contains(string(w.operator("GET", "/v1/evidence/bundle", nil)), `"`+id+`"`)
	})

	// The configuration of a server is refused, with the program that runs it.
	for _, args := range [][]string{{"serve"}, {"serve", "-c", "powerbox.yaml", "--dev"}} {
		said, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		var failed *exec.ExitError
		if !errors.As(err, &failed) || failed.ExitCode() != 2 || !strings.Contains(string(said), "Run powerbox serve") {
			t.Errorf("%v: %v\n%s", args, err, said)
		}
	}
	// The other commands have the same flags as in powerbox.
	for _, verb := range [][]string{{"gateway"}, {"gateway", "enroll"}, {"attach"}, {"relay"}, {"witness"}, {"request"}, {"call"}, {"token"}} {
		help := func(program string) string {
			out, err := exec.CommandContext(t.Context(), program, append(verb, "--help")...).Output()
			if err != nil {
				t.Fatalf("%s %v: %v", program, verb, err)
			}
			_, flags, _ := strings.Cut(string(out), "Flags:")
			return strings.ReplaceAll(flags, "powerbox-gateway", "powerbox")
		}
		if here, there := help(program), help(binary); here != there || here == "" {
			t.Errorf("%v has other flags:\n%s\n%s", verb, here, there)
		}
	}
}
