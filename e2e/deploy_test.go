package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// used are the names of metrics in the dashboard, the alerts and the docs.
func used(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"../deploy/grafana/powerbox.json", "../deploy/prometheus/alerts.yaml", "../docs/how-to/operations.md", "../docs/how-to/runbook.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\b(powerbox|process|go|mcp_server)_[a-z][a-z_]+\b`).FindAllString(string(data), -1) {
			out[m] = name
		}
	}
	return out
}

// TestDeploy_Metrics compares every metric that a dashboard, an alert or a page
// names with what the running program tells, and every one that it tells with the
// page that says what it means.
func TestDeploy_Metrics(t *testing.T) {
	address, section := telemetryAt(t, "")
	w := start(t, options{extra: section + "limits: {denials: 2}\n"})
	alice := w.caller(aliceToken)
	allowed(t, alice.search(alice.reports().Token))
	for range 5 {
		alice.send("documents", data("search_documents", nil))
	}
	counted(t, address, `powerbox_hijack_signals_total{agent="documents"}`, "1")
	agent := newRawAgent(t)
	agent.quiet()
	streams, section := telemetryAt(t, "")
	w = behind(t, agent.stock, "observe", section)
	stream := w.open("documents", streaming(), nil)
	counted(t, streams, `powerbox_streams_open{agent="documents"}`, "1")
	w.run("freeze", "agent:documents", "--reason", "r")
	stream.cut("frozen")
	counted(t, streams, `powerbox_streams_cut_total{agent="documents",reason="frozen"}`, "1")
	tools, section := telemetryAt(t, ", logs: true") // to no collector
	w = start(t, options{on: wire{overMCP, "2025-11-25"}, extra: section})
	w.post(w.agentURL("documents"), data("search_documents", nil), nil)
	counted(t, tools, `powerbox_denials_total{agent="documents",mode="require",reason="capability_required"}`, "1")
	told := map[string]bool{}
	for _, at := range []string{address, streams, tools} {
		for series := range metrics(t, at) {
			name, _, _ := strings.Cut(series, "{")
			told[name] = true
		}
	}
	names := used(t)
	for name, file := range names {
		// Pages name a histogram, queries one of its series.
		if !told[name] && (!strings.HasSuffix(file, ".md") || !told[name+"_bucket"]) {
			t.Errorf("%s names %s, which the program does not tell of", file, name)
		}
	}
	page, err := os.ReadFile("../docs/how-to/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range told {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if strings.HasPrefix(name, "powerbox_") && !strings.Contains(string(page), "`"+base+"`") {
			t.Errorf("docs/how-to/operations.md does not say what %s means", base)
		}
	}
}

// TestDeploy_EnrolBeforeEveryStart enrols once, and afterwards does nothing.
func TestDeploy_EnrolBeforeEveryStart(t *testing.T) {
	_, all := startRemote(t, 1, options{})
	before, err := os.ReadFile(filepath.Join(all[0].state, "enrolment.json"))
	if err != nil {
		t.Fatal(err)
	}
	enroll := []string{"gateway", "enroll", "--server", all[0].w.url, "--token-file", "/nowhere", "--state", all[0].state}
	if out, err := exec.CommandContext(t.Context(), binary, append(enroll, "--unless-enrolled")...).CombinedOutput(); err != nil || !strings.Contains(string(out), "enrolled already") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), binary, enroll...).CombinedOutput(); err == nil {
		t.Errorf("it is enrolled twice: %s", out)
	}
	after, err := os.ReadFile(filepath.Join(all[0].state, "enrolment.json"))
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("the enrolment has changed: %v", err)
	}
}
