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
	Bundle []byte
	// Go and Node are the verdicts; Node is "" where Node.js is not installed.
	Go, Node string
	Records  int
	// Done is what callers did at agents, and Refused why they could not, in order:
	// read from the bundle and nothing else.
	Done    []Deed
	Refused []string
}

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
	bundle, trust := filepath.Join(dir, "bundle.jsonl"), filepath.Join(dir, "trust.json")
	if _, err := p.Operate(ctx, "evidence", "export", "--out", bundle); err != nil {
		return a, err
	}
	if _, err := p.Operate(ctx, "evidence", "trust", "--out", trust); err != nil {
		return a, err
	}
	if err := p.stop(); err != nil {
		return a, err
	}
	if a.Bundle, err = os.ReadFile(bundle); err != nil {
		return a, err
	}
	if err := a.read(); err != nil {
		return a, err
	}
	files := []string{"bundle.jsonl", "--trust", "trust.json", "--output", "json"}
	if a.Go, a.Records, err = judged(ctx, dir, p.binary, append([]string{"evidence", "verify"}, files...)...); err != nil {
		return a, err
	}
	node, missing := exec.LookPath("node")
	if missing != nil {
		return a, nil // said in the report: the verdict is empty
	}
	script, err := exec.CommandContext(ctx, p.binary, "evidence", "verifier").Output() //nolint:gosec // what Open built
	if err != nil {
		return a, err
	}
	if err := os.WriteFile(filepath.Join(dir, "verify.mjs"), script, 0o600); err != nil {
		return a, err
	}
	a.Node, _, err = judged(ctx, dir, node, append([]string{"verify.mjs"}, files...)...)
	return a, err
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
		case r.Action != "a2a.SendMessage": // header, leaves, checkpoint, and what is not a call
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
	cmd.Dir = p.dir
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("powerbox %v: %w\n%s", verb, err, talk.String())
	}
	return out, nil
}

// judged runs a verifier in a folder, without environment.
func judged(ctx context.Context, dir, name string, args ...string) (verdict string, records int, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, []string{}
	out, ended := cmd.Output()
	var report struct {
		Verdict string `json:"verdict"`
		Records int    `json:"records"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return "", 0, fmt.Errorf("%s has no report: %w", name, errors.Join(ended, err))
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
	if a.Go != "ok" || a.Node != "ok" && a.Node != "" {
		s.Fail("the evidence does not verify: %q by the binary, %q by verify.mjs", a.Go, a.Node)
	}
	second := "verify.mjs " + a.Node
	if a.Node == "" {
		second = "verify.mjs not run, Node.js is not installed"
	}
	s.Say("The server is stopped. The auditor, offline, with pinned keys: %d records; powerbox %s, %s.", a.Records, a.Go, second)
	return a
}
