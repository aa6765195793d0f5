package e2e

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// granting is an authority for one operation with an amount up to a maximum, in a
// file of its own.
func granting(t *testing.T, dir, operation string, maximum int64, until time.Time) string {
	t.Helper()
	op, err := powerbox.ParseOperation(operation)
	if err != nil {
		t.Fatal(err)
	}
	top := powerbox.Int(maximum)
	shape, err := powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: "amount", Constraint: powerbox.Range{Max: &top}, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := powerbox.NewAuthority(powerbox.Window{Until: until}, 0, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "authority.json")
	if err := os.WriteFile(file, a.JSON().AppendJSON(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestATK45_ReceiptMisuse runs the 13 negatives of the Agent Passport System
// ("Receipt misuse: what a verifier must reject", README and tests/conformance at
// a1a1e45b) against receipts of this server: each is a record that is sound by
// itself, or nearly, and is presented for what it does not prove.
func TestATK45_ReceiptMisuse(t *testing.T) {
	w := start(t, options{extra: "evidence: {arguments: full}"})
	alice := w.caller(aliceToken)
	held, another := alice.reports(), alice.reports()
	args := map[string]any{"amount": 1000}
	a := alice.present("documents", data("search_documents", args), proven{chain: []string{held.Token}, operation: opSearch, arguments: args})
	allowed(t, a)
	good := w.receipt(a.Header.Get("Powerbox-Decision"))
	sealed, err := evidence.ParseSealed([]byte(strings.TrimSpace(good.record)))
	if err != nil {
		t.Fatal(err)
	}
	record := sealed.Record()
	outcome := w.receipt(w.outcomes(record.ID)[0].ID)
	trust := w.run("evidence", "trust")
	dir := t.TempDir()
	within := granting(t, t.TempDir(), opSearch, 1000, record.Time.Add(time.Hour))
	below := granting(t, t.TempDir(), opSearch, 500, record.Time.Add(time.Hour))
	expired := granting(t, t.TempDir(), opSearch, 1000, record.Time.Add(-time.Hour))
	elsewhere := granting(t, t.TempDir(), "documents/documents:write/delete", 1000, record.Time.Add(time.Hour))
	honoured := filepath.Join(dir, "honoured")

	// The agent's own word, by its own key, about the same action.
	own := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))
	signer, err := evidence.NewEd25519Signer(own)
	if err != nil {
		t.Fatal(err)
	}
	attested := record
	attested.Details.Recorder = "self"
	self, err := evidence.Seal(evidence.Genesis(evidence.ChainID{1}), attested, signer)
	if err != nil {
		t.Fatal(err)
	}
	var pins evidence.Trust
	if err := json.Unmarshal([]byte(trust), &pins); err != nil {
		t.Fatal(err)
	}
	key, err := evidence.NewKey(own.Public(), "self")
	if err != nil {
		t.Fatal(err)
	}
	pins.RecordKeys = append(pins.RecordKeys, evidence.PinnedKey{Key: key, Agents: []string{"documents"}})
	selfTrust, err := json.Marshal(pins)
	if err != nil {
		t.Fatal(err)
	}
	signature := `"signature":"` // its first characters are those of R

	verifies := func(t *testing.T, r receipt, trust string, flags ...string) (string, int) {
		t.Helper()
		for file, text := range map[string]string{"record": r.record, "proof": r.proof, "trust": trust} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, talk, code := ran(t, append([]string{"evidence", "verify", filepath.Join(dir, "record"), "--proof", filepath.Join(dir, "proof"), "--trust", filepath.Join(dir, "trust")}, flags...)...)
		return out + talk, code
	}
	is := func(pairs ...string) []string {
		var flags []string
		for _, pair := range pairs {
			flags = append(flags, "--expect", pair)
		}
		return flags
	}
	all := append(is("decision=ALLOW", "action="+record.ActionType, "operation="+opSearch, "agent=documents", "recorder=serve", "principal="+record.Details.Principal,
		"capability="+held.ID, "policy="+record.Details.PolicyDigest, "requester="+record.Details.Requester), "--under", within, "--revoked", another.ID, "--honoured", honoured)
	if out, code := verifies(t, good, trust, all...); code != 0 {
		t.Fatalf("GOLD-VALID-001: exit %d\n%s", code, out)
	}
	if out, code := verifies(t, outcome, trust, is("outcome=ACHIEVED", "outcome_of="+record.ID, "chain="+record.Details.ChainID.String())...); code != 0 {
		t.Fatalf("the outcome: exit %d\n%s", code, out)
	}
	for _, test := range []struct {
		name  string
		r     receipt
		trust string
		flags []string
		want  string
	}{
		{"NEG-SIGNATURE-INVALID", receipt{strings.Replace(good.record, signature, signature+"A", 1), good.proof}, trust, nil, "signature"},
		{"NEG-MISMATCHED-HASH", receipt{strings.Replace(good.record, `"amount":1000`, `"amount":1`, 1), good.proof}, trust, nil, "but states"},
		{"NEG-WRONG-CLAIM-TYPE", receipt{strings.Replace(good.record, record.ActionType, "payment.settle", 1), good.proof}, trust, nil, "but states"},
		{"NEG-DELEGATION-EXPIRED", good, trust, []string{"--under", expired}, "not_under"},
		{"NEG-STALE-REVOCATION", good, trust, []string{"--revoked", another.ID, "--revoked", held.ID}, "capability_revoked"},
		{"NEG-OVER-BUDGET", good, trust, []string{"--under", below}, "not_under"},
		{"NEG-WRONG-PRINCIPAL", good, trust, is("principal=pw_000000000000000000000000"), "wrong_principal"},
		{"NEG-STALE-POLICY", good, trust, is("policy=sha256:" + strings.Repeat("0", 64)), "stale_policy"},
		{"NEG-REPLAYED", good, trust, []string{"--honoured", honoured}, "replayed"},
		{"NEG-WRONG-CLAIM", good, trust, is("action=payment.settle"), "wrong_claim"},
		{"NEG-WRONG-CLAIM, another operation", good, trust, []string{"--under", elsewhere}, "not_under"},
		{"NEG-POLICY-NOT-EXECUTED", good, trust, is("outcome=ACHIEVED"), "not_executed"},
		{"NEG-POLICY-NOT-EXECUTED, the outcome of another", outcome, trust, is("outcome=ACHIEVED", "outcome_of=rec_another", "chain="+record.Details.ChainID.String()), "wrong_claim"},
		{"NEG-POLICY-NOT-EXECUTED, ATK-71 told in another chain", outcome, trust, is("outcome=ACHIEVED", "outcome_of="+record.ID, "chain="+strings.Repeat("0", 32)), "wrong_claim"},
		{"NEG-UNVERIFIED-EXTERNAL-EVIDENCE", receipt{string(self.Bytes()), good.proof}, trust, nil, "is not pinned"},
		{"NEG-UNVERIFIED-EXTERNAL-EVIDENCE, of a known agent", receipt{string(self.Bytes()), good.proof}, string(selfTrust), is("recorder=serve"), ""},
		{"NEG-DELEGATION-ROOT-MISMATCH", good, trust, is("capability=" + another.ID), "wrong_capability"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if out, code := verifies(t, test.r, test.trust, test.flags...); code != 4 || !strings.Contains(out, test.want) || strings.HasPrefix(out, "ok") {
				t.Errorf("ATK-45 exit %d, want %q\n%s", code, test.want, out)
			}
		})
	}
	if data, err := os.ReadFile(honoured); err != nil || strings.Count(string(data), record.ID) != 1 {
		t.Errorf("honoured is %q, %v: what was refused was acted on", data, err)
	}
	for _, flags := range [][]string{is("colour=red"), is("decision"), is("decision=ALLOW", "decision=DENY"), is("outcome_of=" + record.ID)} {
		if out, code := verifies(t, good, trust, flags...); code != 2 {
			t.Errorf("%v: exit %d\n%s", flags, code, out)
		}
	}
	if _, talk, code := ran(t, "evidence", "verify", "x", "--trust", "z", "--expect", "decision=ALLOW"); code != 2 || !strings.Contains(talk, "with its --proof") {
		t.Errorf("%d %s", code, talk)
	}
}
