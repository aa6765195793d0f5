package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// written is a record's action type in a literal or an assignment, and read a test of how
// its name begins or a comparison with text.
var (
	written = regexp.MustCompile(`\bActionType(?::|\s*=[^=])\s*([^,}\n]+)`)
	read    = regexp.MustCompile(`(?:HasPrefix|HasSuffix|Contains|CutPrefix|Index)\([^,\n]*\bActionType\b|\bActionType\s*[!=]=\s*"|switch [^\n]*\bActionType\b`)
)

// actionProblems are the places of a source that go around the list of evidence/action.
func actionProblems(src string) (wrong []string) {
	for _, m := range written.FindAllStringSubmatch(src, -1) {
		if value := strings.TrimSpace(m[1]); !strings.HasSuffix(value, ".String()") && value != "of.ActionType" && value != "r.ActionType" {
			wrong = append(wrong, m[0]+" puts an action type on record that is not from evidence/action")
		}
	}
	for _, m := range read.FindAllString(src, -1) {
		wrong = append(wrong, m+" reads action types without the list of evidence/action")
	}
	return wrong
}

// TestActionTypesComeFromTheList: programs of this module write and read the action types of
// records by the list of evidence/action, so that no verb leaves a new one out. Tests and
// measurements write what other programs could.
func TestActionTypesComeFromTheList(t *testing.T) {
	root := mustRoot(t)
	seen := 0
	err := walkFiles(root, func(rel string) error {
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || inTestdata(rel) || strings.HasPrefix(rel, "bench/") {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		seen += len(written.FindAllString(string(src), -1))
		for _, problem := range actionProblems(string(src)) {
			t.Errorf("%s: %s", rel, problem)
		}
		return err
	})
	if err != nil || seen < 3 {
		t.Fatalf("%d places write records: %v", seen, err)
	}
}

func TestActionProblems(t *testing.T) {
	for src, want := range map[string]int{
		`evidence.Record{ID: id, ActionType: call.Action.String(), Time: now}`: 0,
		`r.ActionType = action.KeyUse.String()`:                                0,
		`action.KeyUse.Is(r.ActionType)`:                                       0,
		`evidence.Record{ActionType: "trade.execute"}`:                         1,
		`r.ActionType = "x." + kind`:                                           1,
		`strings.HasPrefix(r.ActionType, "a2a.")`:                              1,
		`r.ActionType == "capability.request"`:                                 1,
		`switch r.ActionType {`:                                                1,
	} {
		if got := actionProblems(src); len(got) != want {
			t.Errorf("problems of %s: %q, want %d", src, got, want)
		}
	}
}
