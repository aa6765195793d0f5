package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// TestDemo runs the demo as a viewer does. It fails when any try succeeds, is
// refused for another reason, or has an effect: the demo itself counts them.
func TestDemo(t *testing.T) {
	var out, talk bytes.Buffer
	if code := Run(t.Context(), []string{"demo"}, func(string) string { return "" }, nil, &out, &talk); code != cli.ExitFine {
		t.Fatalf("exit %d\n%s\n%s", code, talk.String(), out.String())
	}
	acts := strings.SplitN(out.String(), "Act 1:", 2)
	if len(acts) != 2 || !strings.Contains(acts[0], quarterly.SalaryLine) || strings.Contains(acts[1], quarterly.SalaryLine) {
		t.Errorf("the salary line must stand in act 0 and nowhere later:\n%s", out.String())
	}
	for _, want := range []string{
		"letters in the outbox: 0; documents in the library: 5 of 5", "handle_not_granted", "operation_not_granted", "proof_signature",
		"proof_replayed", "message_not_bound", "capability_required", "revoked", "hash_mismatch", "and the records verify",
		"NOT SENT: Capability scope violation: {a2a.message, mail/mail:send/send}", "does not declare streaming_message", "What the mail agent received: 0 bytes",
		"origin summariser, target mail, required {mail/mail:send/send, a2a.message}, missing {a2a.message, mail/mail:send/send}",
		"summariser    documents     create, delete, follow, list, retrieve, search            retrieve", "mail          send                                                      -",
		"retrieve on Q2 Financial Summary", "powerbox (Go)      tampered: line ", "verify.mjs (Node)  tampered: line ",
	} {
		if !strings.Contains(acts[1], want) {
			t.Errorf("act 1 does not show %q", want)
		}
	}
}
