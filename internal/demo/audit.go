package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/powerbox-project/powerbox/evidence"
)

// audit is the last act: the evidence goes to an auditor's folder with the keys
// that the auditor pins, and is verified there; one bit of it is flipped, and two
// implementations name the record.
func (d *demo) audit(ctx context.Context) (err error) {
	d.out.act("The auditor: a folder with the evidence and two pinned keys, no server")
	dir, err := os.MkdirTemp("", "powerbox-auditor-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var bundle bytes.Buffer
	if err := d.instance.Store.Export(ctx, &bundle, d.instance.Admin.Keys); err != nil {
		return err
	}
	trust, err := json.Marshal(d.instance.Admin.Trust)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"trust.json": trust, "verify.mjs": []byte(evidence.JavaScript())} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	report, err := evidence.Verify(bytes.NewReader(bundle.Bytes()), d.instance.Admin.Trust)
	if err != nil {
		return err
	}
	d.out.say("  %d records in %d chains, %d bytes: %s", report.Records, len(report.Chains), bundle.Len(), d.out.green(string(report.Verdict())))
	if report.Verdict() != evidence.OK {
		d.failures = append(d.failures, "the evidence does not verify")
	}
	for _, r := range d.refusals {
		if r.ID == "" || !bytes.Contains(bundle.Bytes(), []byte(r.ID)) {
			d.failures = append(d.failures, "a refusal before a hand-off left no evidence")
		}
	}
	return d.flipped(ctx, dir, oneBit(bundle.Bytes()))
}

// oneBit flips the last bit of the milliseconds of the first denial.
func oneBit(bundle []byte) []byte {
	denial := bytes.Index(bundle, []byte(`"decision":"DENY"`))
	mark := []byte(`"timestamp_utc":"`)
	at := denial + bytes.Index(bundle[denial:], mark) + len(mark) + len("2026-01-02T15:04:05.00")
	bundle[at] ^= 1
	return bundle
}

// flipped has both implementations verify the bundle of which a bit was flipped.
func (d *demo) flipped(ctx context.Context, dir string, bundle []byte) error {
	d.out.say("  One bit is flipped, in the time of a denial.")
	report, err := evidence.Verify(bytes.NewReader(bundle), d.instance.Admin.Trust)
	if err != nil {
		return err
	}
	named := d.found("powerbox (Go)", string(report.Verdict()), report.Problems)
	if err := os.WriteFile(filepath.Join(dir, "bundle.jsonl"), bundle, 0o600); err != nil {
		return err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		d.out.say("    verify.mjs: Node.js is not installed here, so the second implementation was not run")
		return nil
	}
	cmd := exec.CommandContext(ctx, node, "verify.mjs", "bundle.jsonl", "--trust", "trust.json", "--output", "json") //nolint:gosec // Node, where it is installed
	cmd.Dir = dir
	out, err := cmd.Output()
	var second struct {
		evidence.Report
		Verdict string `json:"verdict"`
	}
	if json.Unmarshal(out, &second) != nil {
		return fmt.Errorf("verify.mjs in %s: %w", node, errors.Join(err, errors.New("no report")))
	}
	if again := d.found("verify.mjs (Node)", second.Verdict, second.Problems); again != named {
		d.failures = append(d.failures, "the two verifiers do not agree")
	}
	return nil
}

// found says what a verifier found, and returns the record that it names.
func (d *demo) found(who, verdict string, problems []evidence.Problem) string {
	if verdict != string(evidence.Tampered) || len(problems) == 0 || problems[0].RecordID == "" {
		d.failures = append(d.failures, "a flipped bit was not found by "+who)
		return ""
	}
	p := problems[0]
	d.out.say("    %-18s %s: line %d, %s, record %s", who, d.out.red(verdict), p.Line, p.Kind, p.RecordID)
	return p.RecordID
}
