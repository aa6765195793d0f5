package premises

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Audit is what a stranger found, with two verifiers and no server.
type Audit struct {
	Bundle  []byte
	Records int
	// Found is the verdict of each verifier, by its name: on the bundle, and on the
	// bundle with one letter of a record changed. verify.mjs is left out where
	// Node.js is not installed.
	Found []Finding
	// Done is what callers did at agents, and Refused why they could not, in order:
	// read from the bundle and nothing else.
	Done    []Deed
	Refused []string
}

// Finding is what one verifier said.
type Finding struct{ Verifier, Whole, Changed string }

// Deed is one call that an agent has answered.
type Deed struct{ Requester, Operation string }

// Audit exports the evidence, stops the server for good, and has both verifiers
// judge the bundle in an empty folder, by the keys that the auditor pins.
func (p *Premises) Audit(ctx context.Context) (a Audit, err error) {
	dir, err := os.MkdirTemp("", "powerbox-auditor-")
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if a.Bundle, err = p.handOver(ctx, dir); err != nil {
		return a, err
	}
	if err := errors.Join(p.stop(), a.read()); err != nil {
		return a, err
	}
	verifiers := [][]string{{p.binary, "evidence", "verify"}}
	if node, err := exec.LookPath("node"); err == nil {
		verifiers = append(verifiers, []string{node, "verify.mjs"})
	}
	for i, verifier := range verifiers {
		f := Finding{Verifier: []string{"powerbox", "verify.mjs"}[i]}
		if f.Whole, a.Records, err = judged(ctx, dir, verifier, "bundle.jsonl"); err != nil {
			return a, err
		}
		if f.Changed, _, err = judged(ctx, dir, verifier, "changed.jsonl"); err != nil {
			return a, err
		}
		a.Found = append(a.Found, f)
	}
	return a, nil
}

// handOver puts what the operator hands out into the auditor's folder: the bundle,
// the keys to pin and the second verifier; and a bundle with one letter changed, in
// what the first call was.
func (p *Premises) handOver(ctx context.Context, dir string) (bundle []byte, err error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := p.export(ctx, dir); err != nil {
		return nil, err
	}
	script, err := exec.CommandContext(ctx, p.binary, "evidence", "verifier").Output() //nolint:gosec // what Open built
	if err != nil {
		return nil, err
	}
	if bundle, err = os.ReadFile(in("bundle.jsonl")); err != nil {
		return nil, err
	}
	changed := bytes.Replace(bundle, []byte(`"a2a.SendMessage"`), []byte(`"a2a.SendMassage"`), 1)
	return bundle, errors.Join(
		os.WriteFile(in("verify.mjs"), script, 0o600),
		os.WriteFile(in("changed.jsonl"), changed, 0o600)) //nolint:gosec // into the folder made above
}

// export writes bundle and keys into a folder.
func (p *Premises) export(ctx context.Context, dir string) error {
	if _, err := p.Operate(ctx, "evidence", "export", "--out", filepath.Join(dir, "bundle.jsonl")); err != nil {
		return err
	}
	_, err := p.Operate(ctx, "evidence", "trust", "--out", filepath.Join(dir, "trust.json"))
	return err
}

// read takes from the bundle what its records say of calls.
func (a *Audit) read() error {
	for line := range bytes.Lines(a.Bundle) {
		var r struct {
			Action   string `json:"action_type"`
			Decision string `json:"decision"`
			Outcome  string `json:"outcome_status"`
			Intent   struct {
				Operation string `json:"operation"`
			} `json:"intent"`
			Powerbox struct {
				Requester string `json:"requester"`
				Reasons   []struct {
					Code string `json:"code"`
				} `json:"reasons"`
			} `json:"powerbox"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("the bundle: %w", err)
		}
		switch {
		case r.Action != "a2a.SendMessage": // header, leaves, checkpoint, and records of no call
		case r.Decision == "ALLOW" && r.Outcome == "ACHIEVED":
			a.Done = append(a.Done, Deed{r.Powerbox.Requester, r.Intent.Operation})
		case r.Decision == "DENY" && len(r.Powerbox.Reasons) > 0:
			a.Refused = append(a.Refused, r.Powerbox.Reasons[0].Code)
		}
	}
	return nil
}

// Operate runs a verb of the program as the operator of the server, and returns
// what it prints.
func (p *Premises) Operate(ctx context.Context, verb ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.binary, append(verb, "-c", "powerbox.yaml")...) //nolint:gosec // what Open built
	cmd.Dir, cmd.Env = p.dir, environment()
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("powerbox %v: %w\n%s", verb, err, talk.String())
	}
	return out, nil
}

// judged runs a verifier on a bundle in a folder, without environment.
func judged(ctx context.Context, dir string, verifier []string, bundle string) (verdict string, records int, err error) {
	args := append(verifier[1:len(verifier):len(verifier)], bundle, "--trust", "trust.json", "--output", "json")
	cmd := exec.CommandContext(ctx, verifier[0], args...) //nolint:gosec // our own program, or Node where it is installed
	cmd.Dir, cmd.Env = dir, []string{}
	out, ended := cmd.Output()
	var report struct {
		Verdict string `json:"verdict"`
		Records int    `json:"records"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return "", 0, fmt.Errorf("%s has no report: %w", verifier[0], errors.Join(ended, err))
	}
	return report.Verdict, report.Records, nil
}

// Audited is the last act of every example.
func (s *Story) Audited(ctx context.Context, p *Premises) Audit {
	a, err := p.Audit(ctx)
	if err != nil {
		s.Fail("the audit: %v", err)
		return a
	}
	s.Say("The server is stopped. The auditor has %d records, pinned keys and:", a.Records)
	for _, f := range a.Found {
		if f.Whole != "ok" || f.Changed != "tampered" {
			s.Fail("%s finds the evidence %s, and with a letter changed %s", f.Verifier, f.Whole, f.Changed)
		}
		s.Say("  %-66s %s; with a letter changed: %s", f.Verifier, f.Whole, f.Changed)
	}
	if len(a.Found) < 2 {
		s.Say("  %-66s not run: Node.js is not installed", "verify.mjs")
	}
	return a
}
