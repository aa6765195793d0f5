package e2e

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// delegation is a small company: one that reads, one that writes reports, one that
// sends mail.
const delegation = `version: 1
agents:
  analyst:
  reports:
    operations: [reports.read, reports.write]
  mailer:
    operations: [mail.send, mail.read]
scopes:
  analyst:
    reports: [reports.read]
  reports:
    mailer: [mail.send]
wiring:
  - {from: analyst, to: reports, requires: [reports.read], gate: gateway}
  - {from: reports, to: mailer, requires: [mail.send], gate: wrapper, on_violation: raise}
`

// TestGATE12_StaticAnalysis: from files alone, with exit codes for CI.
func TestGATE12_StaticAnalysis(t *testing.T) {
	asGiven(t)
	good := put(t, "delegation.yaml", []byte(delegation))
	answers(t, "GATE-12", 0, []string{"graph", "check", good}, "0 findings")
	for name, c := range map[string]struct {
		from, to string
		exit     int
		want     string
	}{
		"an edge that can never pass":     {"requires: [mail.send]", "requires: [mail.send, mail.read]", 4, "error: reports to mailer: Capability scope violation: {mail.read}"},
		"a requirement that nobody knows": {"requires: [mail.send], ", "", 4, "error: reports to mailer: Capability scope violation: {}; the wire does not say what it requires"},
		"no scope":                        {"    mailer: [mail.send]", "    reports: [x]", 4, "{mail.send}; no scope is declared for the pair"},
		"more than the target can do":     {"operations: [mail.send, mail.read]", "operations: [mail.read]", 4, "{mail.send}"},
		"a target that declares nothing":  {"    operations: [mail.send, mail.read]", "", 4, "mailer is handed tasks and declares no surface"},
		"an over-broad scope":             {"mailer: [mail.send]", "mailer: [mail.*]", 0, "warning: reports at mailer: mail.* allows mail.read, which no wire requires"},
		"a scope of nothing":              {"mailer: [mail.send]", "mailer: [mail.send, mail.purge]", 0, "warning: reports at mailer: mail.purge matches nothing that mailer can do"},
		"a circle":                        {"wiring:\n", "wiring:\n  - {from: mailer, to: reports, requires: [reports.read]}\n", 4, "warning: mailer, reports hand to each other in a circle"},
	} {
		changed := strings.Replace(delegation, c.from, c.to, 1)
		if changed == delegation {
			t.Fatalf("%s: nothing is changed", name)
		}
		answers(t, "GATE-12 "+name, c.exit, []string{"graph", "check", put(t, "delegation.yaml", []byte(changed))}, c.want)
		if c.exit == 0 {
			answers(t, "GATE-12 "+name, 4, []string{"graph", "check", "--strict", put(t, "delegation.yaml", []byte(changed))}, c.want)
		}
	}
	answers(t, "GATE-12", 0, []string{"graph", "show", good, "--from", "analyst"}, "mailer   reports  mail.read, mail.send         -", "If analyst were taken over")
	answers(t, "GATE-12", 0, []string{"graph", "show", good}, "analyst       2 agents  4 operations  1 agent   1 operation")
	answers(t, "GATE-12", 0, []string{"graph", "show", good, "--output", "dot"}, `"reports" -> "mailer" [label="mail.send"];`)
	answers(t, "GATE-12", 0, []string{"graph", "show", good, "--output", "mermaid"}, "flowchart LR", `n1 -->|"mail.send"| n2`)
	var picture struct {
		Paths []struct {
			Title string `xml:"title"`
		} `xml:"path"`
		Boxes []struct {
			Title string `xml:"title"`
		} `xml:"g"`
	}
	svg := answers(t, "GATE-12", 0, []string{"graph", "show", good, "--output", "svg"})
	if err := xml.Unmarshal([]byte(svg), &picture); err != nil || len(picture.Boxes) != 3 || len(picture.Paths) != 2 || strings.Contains(svg, "script") {
		t.Errorf("GATE-12 %v: %+v", err, picture)
	}
}

// TestGATE12_SARIF: findings with file and line, for the review tools of code
// hosts.
func TestGATE12_SARIF(t *testing.T) {
	asGiven(t)
	file := put(t, "delegation.yaml", []byte(strings.Replace(delegation, "requires: [mail.send]", "requires: [mail.read]", 1)))
	out := answers(t, "GATE-12", 4, []string{"graph", "check", file, "--output", "sarif"})
	var sarif struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Rules []struct{ ID string }
				}
			}
			Results []struct {
				RuleID, Level string
				Message       struct{ Text string }
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &sarif); err != nil || sarif.Version != "2.1.0" || len(sarif.Runs) != 1 {
		t.Fatalf("GATE-12 %v\n%s", err, out)
	}
	known := map[string]bool{}
	for _, r := range sarif.Runs[0].Tool.Driver.Rules {
		known[r.ID] = true
	}
	for _, r := range sarif.Runs[0].Results {
		if at := r.Locations[0].PhysicalLocation; !known[r.RuleID] || at.ArtifactLocation.URI != file || at.Region.StartLine == 0 {
			t.Errorf("GATE-12 %+v", r)
		}
	}
	if first := sarif.Runs[0].Results[0]; first.RuleID != "never_passes" || first.Level != "error" || first.Locations[0].PhysicalLocation.Region.StartLine != 15 {
		t.Errorf("GATE-12 %+v", first)
	}
}

// TestGATE12_Fleet shows and checks 200 agents.
func TestGATE12_Fleet(t *testing.T) {
	asGiven(t)
	type agent struct {
		Operations []string `json:"operations"`
	}
	type wire struct {
		From     string   `json:"from"`
		To       string   `json:"to"`
		Requires []string `json:"requires"`
	}
	file := struct {
		Version int                            `json:"version"`
		Agents  map[string]agent               `json:"agents"`
		Scopes  map[string]map[string][]string `json:"scopes"`
		Wiring  []wire                         `json:"wiring"`
	}{1, map[string]agent{}, map[string]map[string][]string{}, nil}
	name := func(i int) string { return fmt.Sprintf("agent-%03d", i) }
	for i := range 200 {
		file.Agents[name(i)] = agent{[]string{name(i) + ".read", name(i) + ".write"}}
	}
	for i := range 199 {
		for _, to := range []int{i + 1, i + 7} {
			if to > 199 {
				continue
			}
			file.Wiring = append(file.Wiring, wire{name(i), name(to), []string{name(to) + ".read"}})
			if file.Scopes[name(i)] == nil {
				file.Scopes[name(i)] = map[string][]string{}
			}
			if to != 100 { // no agent may call agent 100
				file.Scopes[name(i)][name(to)] = []string{name(to) + ".read"}
			}
		}
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	fleet := put(t, "fleet.json", data)
	out := answers(t, "GATE-12", 4, []string{"graph", "check", fleet}, "agent-099 to agent-100: Capability scope violation: {agent-100.read}", "agent-093 to agent-100", "200 agents")
	if n := strings.Count(out, "error"); n != 2 {
		t.Errorf("GATE-12 %d errors; want 2\n%s", n, out)
	}
	shown := answers(t, "GATE-12", 0, []string{"graph", "show", fleet}, "agent-000", "199 agents  398 operations  2 agents  2 operations", "and 180 agents with less")
	if lines := strings.Count(shown, "\n"); lines > len(file.Wiring)+30 {
		t.Errorf("GATE-12 %d lines for %d wires", lines, len(file.Wiring))
	}
}

// TestGATE13_Declarations: one format, checked key by key with file and line, and
// who gains or loses what.
func TestGATE13_Declarations(t *testing.T) {
	asGiven(t)
	good := put(t, "delegation.yaml", []byte(delegation))
	wider := put(t, "delegation.yaml", []byte(strings.Replace(delegation, "mailer: [mail.send]", "mailer: [mail.*]", 1)))
	answers(t, "GATE-13", 0, []string{"graph", "diff", good, wider}, "+ reports gains mail.read at mailer")
	answers(t, "GATE-13", 4, []string{"graph", "diff", good, wider, "--consent"}, "+ reports gains mail.read at mailer")
	answers(t, "GATE-13", 0, []string{"graph", "diff", wider, good, "--consent"}, "- reports loses mail.read at mailer")
	// An agent whose surface grows gives more to anyone who has a wildcard.
	grown := put(t, "delegation.yaml", []byte(strings.NewReplacer("mailer: [mail.send]", "mailer: [mail.*]", "[mail.send, mail.read]", "[mail.send, mail.read, mail.purge]").Replace(delegation)))
	answers(t, "GATE-13", 4, []string{"graph", "diff", wider, grown, "--consent"}, "+ reports gains mail.purge at mailer")
	for change, want := range map[[2]string]string{
		{"version: 1", "version: 2"}:                              "version is",
		{"version: 1\n", ""}:                                      "version is missing",
		{"operations: [mail", "operation: [mail"}:                 "has no key",
		{"requires: [mail.send]", "requires: mail.send"}:          "no list",
		{"gate: wrapper", "gate: hope"}:                           "want one of gateway",
		{"on_violation: raise", "on_violation: ignore"}:           "want one of failed",
		{"from: reports, ", ""}:                                   "no from",
		{"[reports.read, reports.write]", "[\"a\\u001b\"]"}:       "no text",
		{"mailer: [mail.send]", "mailer: [mail.send, mail.send]"}: "twice",
		{"[mail.send, mail.read]", "['*']"}:                       "operation",
	} {
		changed := strings.Replace(delegation, change[0], change[1], 1)
		cmd := exec.CommandContext(t.Context(), binary, "graph", "check", put(t, "delegation.yaml", []byte(changed)))
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 4 || !strings.Contains(string(out), want) || !strings.Contains(string(out), "delegation.yaml:") {
			t.Errorf("GATE-13 %q: exit %d %s; want %q", change, cmd.ProcessState.ExitCode(), out, want)
		}
	}
}

// TestGATE14_Checklist: the five questions, each with the missing parts.
func TestGATE14_Checklist(t *testing.T) {
	asGiven(t)
	file := put(t, "delegation.yaml", []byte(delegation))
	out := answers(t, "GATE-14", 4, []string{"graph", "checklist", file}, "[x] every agent declares its surface", "[x] every orchestrator declares a scope", "[x] the gate is in place", "[x] a refusal is an explicit failure", "delegation.yaml is not under version control")
	if strings.Count(out, "[ ]") != 1 {
		t.Errorf("GATE-14 %s", out)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "x"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = filepath.Dir(file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	answers(t, "GATE-14", 0, []string{"graph", "checklist", file}, "[x] declarations are under version control")
	for change, want := range map[[2]string]string{
		{"    operations: [mail.send, mail.read]", ""}: "mailer declares neither a card nor operations",
		{"    mailer: [mail.send]", "    reports: []"}: "reports to mailer: no scope",
		{"gate: wrapper", "gate: none"}:                "reports to mailer: no gate",
		{", on_violation: raise", ""}:                  "reports to mailer: on_violation says nothing",
	} {
		answers(t, "GATE-14", 4, []string{"graph", "checklist", put(t, "delegation.yaml", []byte(strings.Replace(delegation, change[0], change[1], 1)))}, want)
	}
}

// TestGATE1_Preflight: the check before a hand-off, in the very words of GATE-3.
func TestGATE1_Preflight(t *testing.T) {
	asGiven(t)
	file := put(t, "delegation.yaml", []byte(delegation))
	answers(t, "GATE-1", 0, []string{"graph", "preflight", "reports", "mailer", "--requires", "mail.send", file}, "yes")
	out := answers(t, "GATE-3", 3, []string{"graph", "preflight", "reports", "mailer", "--requires", "mail.read,mail.send,mail.purge", file})
	if out != "Capability scope violation: {mail.purge, mail.read}\n" {
		t.Errorf("GATE-3 %q", out)
	}
	answers(t, "GATE-2", 3, []string{"graph", "preflight", "analyst", "mailer", "--requires", "mail.send", file}, "Capability scope violation: {mail.send}")
}
