package e2e

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// hostile is a text that tries to begin a new line, cell, member, element and terminal sequence.
const hostile = "x\nFORGED\t\x1b[2J\u009b31m\r\u202eFORGED\u2066\u2028FORGED,\"=1+1\";|cs9=FORGED<script>alert(1)</script>"

// hostileTown is a town whose records have hostile texts of callers and agents wherever these choose texts.
func hostileTown(t *testing.T) *town {
	t.Helper()
	w := start(t, options{mode: "observe", callers: "  callers: []\n"})
	w.client = http.DefaultClient
	alice := w.caller(aliceToken)
	held := alice.request("documents", map[string]any{
		"grants": []string{"documents:read"}, "purpose": hostile,
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	})[0]
	for _, skill := range []string{"search_documents", "retrieve_document", hostile} {
		arguments := map[string]any{"query": hostile, hostile: hostile, "resourceHandle": hostile}
		alice.present("documents", data(skill, arguments), proven{chain: []string{held.Token}, operation: opSearch, arguments: arguments})
	}
	part := func(kind map[string]any) map[string]any {
		return map[string]any{"message": map[string]any{"messageId": hostile, "role": "ROLE_USER", "parts": []any{kind}}}
	}
	alice.call("documents", "SendMessage", part(map[string]any{"text": hostile}))
	withTask := part(map[string]any{"text": hostile})
	withTask["message"].(map[string]any)["taskId"] = hostile
	withTask["message"].(map[string]any)["contextId"] = hostile
	alice.call("documents", "SendMessage", withTask)
	alice.call("documents", "GetTask", map[string]any{"id": hostile, "tenant": hostile})
	alice.call("documents", hostile, map[string]any{"id": hostile})
	alice.call("documents", "SendMessage", map[string]any{"tenant": hostile, "message": part(map[string]any{"text": hostile})["message"]})
	for _, grants := range [][]string{{hostile}, {"documents:read"}} {
		alice.call("documents", "a2a/capabilities/request", map[string]any{"grants": grants, "purpose": hostile, "task": hostile, "resourceQuery": map[string]any{"collection": hostile, "filter": map[string]any{hostile: hostile}}})
	}
	w.operates(http.MethodPost, "/v1/freezes", map[string]any{"target": held.ID, "reason": hostile})
	w.operates(http.MethodPost, "/v1/freezes", map[string]any{"target": "key:\u202eFORGED\u009b", "reason": hostile})
	w.operates(http.MethodPost, "/v1/freezes", map[string]any{"target": "user:\u202eFORGED\u009b", "reason": hostile})
	return w
}

// TestATK120_NoCellOfAnExportIsAFormula has a caller choose texts that hold a formula behind each
// separator, and reads the export as spreadsheets of several languages do.
func TestATK120_NoCellOfAnExportIsAFormula(t *testing.T) {
	w := start(t, options{mode: "observe"})
	alice := w.caller(aliceToken)
	const formula = "HYPERLINK(0)"
	for _, before := range []string{"", "x", "x ", `x"`} {
		for _, separator := range []string{";", "; ", `;"`, "\t", "\n", "|", ","} {
			for _, begins := range []string{"=", "+", "-", "@", "\uff1d"} {
				alice.call("documents", "GetTask", map[string]any{"id": before + separator + begins + formula})
			}
		}
	}
	v := (&pagesBank{t: t, url: w.url, log: w.log, dir: w.dir}).visitor("alice")
	_, text := v.get("/admin/evidence/records.csv")
	if n := strings.Count(text, formula); n < 100 {
		t.Fatalf("the export has the formula %d times: %s", n, text)
	}
	for _, separator := range []rune{',', ';', '\t', '|'} {
		reader := csv.NewReader(strings.NewReader(text))
		reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = separator, true, -1
		rows, err := reader.ReadAll()
		if err != nil {
			t.Errorf("with %q between cells: %v", separator, err)
		}
		for _, row := range rows {
			for _, cell := range row {
				for line := range strings.Lines(cell) {
					if strings.IndexAny(strings.TrimLeft(line, ` "`), "=+-@\uff1d") == 0 {
						t.Errorf("with %q between cells, a spreadsheet calculates %q", separator, line)
					}
				}
			}
		}
	}
}

// TestATK120_TextsOfCallersForgeNoLine has callers choose hostile texts for all that they choose,
// and reads them back by every command that shows records, by exports, and on pages.
func TestATK120_TextsOfCallersForgeNoLine(t *testing.T) {
	w := hostileTown(t)
	_, records := w.operates(http.MethodGet, "/v1/records?limit=100", nil)
	ids := regexp.MustCompile(`"record_id":"(rec_\w+)"`).FindAllStringSubmatch(records, -1)
	held := regexp.MustCompile(`cap_\w+`).FindString(records)
	if len(ids) < 8 || !strings.Contains(records, "FORGED") || held == "" {
		t.Fatalf("%d records, and hostile texts are not in them: %s", len(ids), records)
	}
	said := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), binary, append(args, "-c", filepath.Join(w.dir, "powerbox.yaml"))...)
		cmd.Dir = w.dir
		out, _ := cmd.CombinedOutput() // some say that nothing is there
		return string(out)
	}
	commands := [][]string{
		{"report"},
		{"report", "--agent", "documents"},
		{"report", "--grants"},
		{"usage", "documents"},
		{"freeze"},
		{"evidence", "list"},
		{"graph"},
		{"trust", "documents"},
		{"trace", hostile},
		{"trace", "--incident", "documents"},
		{"revoke", held, "--dry-run"},
		{"explain", held},
		{"registry", "search"},
		{"explain", "last"},
		{"evidence", "export", "--format", "cef"},
	}
	for _, id := range ids {
		commands = append(commands, []string{"explain", id[1]}, []string{"trace", id[1]})
	}
	forged := 0
	for _, args := range commands {
		text := said(args...)
		forged += strings.Count(text, "FORGED")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "FORGED") || strings.ContainsFunc(strings.TrimRight(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }) {
				t.Errorf("powerbox %q prints a line that a caller wrote, or that a terminal obeys: %q", args, line)
			}
		}
	}
	if forged < 10 {
		t.Errorf("the commands show hostile texts %d times; want to see what becomes of them", forged)
	}
	for line := range strings.Lines(said("evidence", "export", "--format", "cef")) {
		if !strings.HasPrefix(line, "CEF:0|Powerbox|Powerbox|") {
			t.Errorf("a line of CEF begins otherwise: %q", line)
		}
	}
	for _, format := range []string{"jsonl", "ocsf"} {
		for line := range strings.Lines(said("evidence", "export", "--format", format)) {
			if !json.Valid([]byte(line)) {
				t.Errorf("a line of %s is no JSON: %q", format, line)
			}
		}
	}
	v := (&pagesBank{t: t, url: w.url, log: w.log, dir: w.dir}).visitor("alice")
	pages := []string{"/admin", "/admin/agents/documents", "/admin/capabilities", "/admin/capabilities/" + held, "/admin/evidence", "/admin/graph", "/admin/revoke?target=" + held}
	for _, id := range ids {
		pages = append(pages, "/admin/evidence/"+id[1])
	}
	for _, path := range pages {
		if status, text := v.get(path); status != http.StatusOK || strings.Contains(text, "<script>alert") || strings.Contains(text, "\x1b") || strings.Contains(text, "\u202e") {
			t.Errorf("the page %s: HTTP %d, with what a caller wrote: %q", path, status, text)
		}
	}
	_, text := v.get("/admin/evidence/records.csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < len(ids) {
		t.Errorf("%d rows of CSV: %v", len(rows), err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r") {
				t.Errorf("a cell that a spreadsheet calculates: %q", cell)
			}
		}
	}
}
