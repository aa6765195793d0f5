package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	requirementsFile = "docs/requirements.csv"
	conformanceFile  = "docs/conformance.csv"
	conformancePage  = "docs/assurance/conformance.md"
)

// requirement is one numbered statement that the product must honour.
type requirement struct {
	id    string // SEP-4, AAP-CL10, ATK-12
	level string // M must, S should, O may
	title string
}

// row says how far one requirement is met.
type row struct {
	id, level, status string
	tests             []string // folder:TestName or folder:TestName/subtest
	note              string
}

// conformance prints the page, or with -write puts it in its place.
func (h house) conformance(args []string) error {
	reqs, rows, err := readConformance(h.root)
	if err != nil {
		return err
	}
	page := renderConformance(reqs, rows)
	if slices.Equal(args, []string{"-write"}) {
		return os.WriteFile(filepath.Join(h.root, conformancePage), []byte(page), 0o644)
	}
	h.printf("%s", page)
	return nil
}

func readConformance(root string) ([]requirement, []row, error) {
	var reqs []requirement
	lines, err := readCSV(root, requirementsFile, "id,level,title")
	if err != nil {
		return nil, nil, err
	}
	for _, f := range lines {
		reqs = append(reqs, requirement{f[0], f[1], f[2]})
	}
	var rows []row
	lines, err = readCSV(root, conformanceFile, "id,level,status,tests,note")
	if err != nil {
		return nil, nil, err
	}
	for _, f := range lines {
		rows = append(rows, row{f[0], f[1], f[2], strings.Fields(f[3]), f[4]})
	}
	return reqs, rows, nil
}

// readCSV returns the records below the header, which must be as given.
func readCSV(root, name, header string) ([][]string, error) {
	f, err := os.Open(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(records) == 0 || strings.Join(records[0], ",") != header {
		return nil, fmt.Errorf("%s: the first line must be %s", name, header)
	}
	return records[1:], nil
}

// checkConformance lists everything that is wrong with the table. tests are the
// functions that the tree has, by folder:TestName.
func checkConformance(reqs []requirement, rows []row, tests map[string]testFunc) []string {
	var wrong []string
	complain := func(id, format string, args ...any) {
		wrong = append(wrong, id+": "+fmt.Sprintf(format, args...))
	}
	for i, req := range reqs {
		switch {
		case i >= len(rows):
			complain(req.id, "missing from %s", conformanceFile)
		case rows[i].id != req.id:
			complain(rows[i].id, "stands where %s belongs: the table has every id of %s once, in that order", req.id, requirementsFile)
			return wrong
		case rows[i].level != req.level:
			complain(req.id, "level is %q, must be %q", rows[i].level, req.level)
		}
	}
	for i, r := range rows {
		if i >= len(reqs) {
			complain(r.id, "not in %s", requirementsFile)
		}
		for _, problem := range r.problems(tests) {
			complain(r.id, "%s", problem)
		}
	}
	return wrong
}

// problems lists the errors of one row.
func (r row) problems(tests map[string]testFunc) []string {
	var wrong []string
	for _, test := range r.tests {
		if _, ok := tests[testKey(test)]; !ok {
			wrong = append(wrong, fmt.Sprintf("names %s, which is not a test of the tree (write folder:TestName)", test))
		}
	}
	switch r.status {
	case "done":
		if !slices.ContainsFunc(r.tests, func(test string) bool { return namesID(test, tests, r.id) }) {
			wrong = append(wrong, "done needs a test that names "+r.id+", in its own name or a subtest's")
		}
	case "partial":
		if !strings.Contains(r.note, " work") {
			wrong = append(wrong, "partial needs a note with the missing part and the work that finishes it (\"the gateway work\")")
		}
	case "not yet", "not ours":
		if r.note == "" {
			wrong = append(wrong, r.status+" needs a note that says why, or which work does it")
		}
	default:
		wrong = append(wrong, fmt.Sprintf("status is %q, must be done, partial, not yet or not ours", r.status))
	}
	if strings.HasPrefix(r.id, "ATK-") && (r.status == "done" || r.status == "partial") && !listsBindings(r.note) {
		wrong = append(wrong, "the note must begin with \"bindings: \" and a list, up to a semicolon, of: "+strings.Join(bindings(), ", "))
	}
	return wrong
}

// testKey is folder:TestName, without the name of a subtest.
func testKey(test string) string {
	folder, name, _ := strings.Cut(test, ":")
	name, _, _ = strings.Cut(name, "/")
	return folder + ":" + name
}

// namesID reports whether the test's name or its source has the id: SEP-11 as
// SEP-11 or SEP11, not as the start of SEP-110.
func namesID(test string, tests map[string]testFunc, id string) bool {
	prefix, number, _ := strings.Cut(id, "-")
	mention := regexp.MustCompile(`(^|[^A-Z]|Test|Fuzz)` + prefix + `[-_]?` + number + `([^0-9]|$)`)
	return mention.MatchString(test) || mention.MatchString(tests[testKey(test)].source)
}

// bindings are the surfaces on which an attack can be tried. Offline is the
// library and its verifiers alone.
func bindings() []string {
	return []string{
		"JSON-RPC", "HTTP+JSON", "gRPC", "A2A 0.3", "SEP methods", "Agent Auth", "MCP", "ext_authz", "ext_proc", "forward-auth", "OAuth", "/v1", "console", "command line", "offline",
	}
}

func listsBindings(note string) bool {
	list, ok := strings.CutPrefix(note, "bindings: ")
	if !ok {
		return false
	}
	list, _, _ = strings.Cut(list, ";")
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(bindings(), strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}

// renderConformance prints the page that people read.
func renderConformance(reqs []requirement, rows []row) string {
	var b strings.Builder
	b.WriteString("# Conformance\n\nGenerated from docs/conformance.csv and docs/requirements.csv by `make generate`; change those.\n\n" +
		"Level: M must, S should, O may. Status: done (by tests that run), partial (the note names the missing part and the work that finishes it), not yet, not ours.\n")
	writeSummary(&b, rows)
	section := ""
	for i, r := range rows {
		if s, _, _ := strings.Cut(r.id, "-"); s != section {
			section = s
			fmt.Fprintf(&b, "\n## %s: %s\n\n| id | level | requirement | status | tests | note |\n| --- | --- | --- | --- | --- | --- |\n", s, sectionTitle(s))
		}
		title := ""
		if i < len(reqs) {
			title = reqs[i].title
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.id, r.level, cell(title), r.status, cell(testNames(r.tests)), cell(r.note))
	}
	return b.String()
}

func writeSummary(b *strings.Builder, rows []row) {
	var sections []string
	counts := make(map[string]map[string]int)
	for _, r := range rows {
		s, _, _ := strings.Cut(r.id, "-")
		if counts[s] == nil {
			sections = append(sections, s)
			counts[s] = make(map[string]int)
		}
		counts[s][r.status]++
	}
	b.WriteString("\n| source | done | partial | not yet | not ours |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range sections {
		c := counts[s]
		fmt.Fprintf(b, "| %s: %s | %d | %d | %d | %d |\n", s, sectionTitle(s), c["done"], c["partial"], c["not yet"], c["not ours"])
	}
}

func sectionTitle(prefix string) string {
	switch prefix {
	case "SEP":
		return "capability negotiation for A2A"
	case "CARD":
		return "the capability contract of agent cards"
	case "EXT":
		return "authorization, delegation and audit evidence extension"
	case "AAP":
		return "Agent Auth Protocol"
	case "GATE":
		return "capability gating"
	case "ATK":
		return "attacks, each tried in a test"
	}
	return prefix
}

// testNames writes the tests of a row as code, one on a line.
func testNames(tests []string) string {
	if len(tests) == 0 {
		return ""
	}
	return "`" + strings.Join(tests, "`<br>`") + "`"
}

// cell keeps a bar in the text from ending the table cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
