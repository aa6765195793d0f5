package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// written is a record's action type in a literal or an assignment, asked that of a call as
// text, and read a test of how its name begins or a comparison with text.
var (
	written = regexp.MustCompile(`\bActionType(?::|\s*=[^=])\s*([^,}\n]+)`)
	asked   = regexp.MustCompile(`\b(?:Action:|c(?:all)?\.Action[^=\n]*=)\s*(?:"[^/]|[a-z]+\()[^,}\n]*`)
	listed  = regexp.MustCompile(`\.String\(\)$|^evidence\.Action[A-Z]|^(?:of|r)\.ActionType$|^call\.Action$`)
	read    = regexp.MustCompile(`(?:HasPrefix|HasSuffix|Contains|CutPrefix|Index)\([^,\n]*\bActionType\b|\bActionType\s*[!=]=\s*"|switch [^\n]*\bActionType\b`)
)

// actionProblems are the places of a source that go around the list of internal/action.
func actionProblems(src string) (wrong []string) {
	for _, m := range written.FindAllStringSubmatch(src, -1) {
		if value := strings.TrimSpace(m[1]); !listed.MatchString(value) {
			wrong = append(wrong, m[0]+" puts an action type on record that is not from internal/action")
		}
	}
	for _, m := range asked.FindAllString(src, -1) {
		wrong = append(wrong, m+" asks about an action type that is not from internal/action")
	}
	for _, m := range read.FindAllString(src, -1) {
		wrong = append(wrong, m+" reads action types without the list of internal/action")
	}
	return wrong
}

// TestActionTypesComeFromTheList: programs of this module write and read the action types of
// records by the list of internal/action, so that no verb leaves a new one out. Tests and
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
		`evidence.Record{ID: id, ActionType: call.Action, Time: now}`:  0,
		`r.ActionType = action.KeyUse.String()`:                        0,
		`evidence.Record{ActionType: evidence.ActionGap, Time: now}`:   0,
		`call.Action, call.Reads = action.GuardMessage.String(), true`: 0,
		`gate.Call{Action: action.Execute.String(), Free: free}`:       0,
		`call.Action, call.Reads = "guard.message", true`:              1,
		`gate.Call{Action: "trade.execute"}`:                           1,
		`gate.Call{Action: string(kind)}`:                              1,
		`action.KeyUse.Is(r.ActionType)`:                               0,
		`evidence.Record{ActionType: "trade.execute"}`:                 1,
		`r.ActionType = "x." + kind`:                                   1,
		`strings.HasPrefix(r.ActionType, "a2a.")`:                      1,
		`r.ActionType == "capability.request"`:                         1,
		`switch r.ActionType {`:                                        1,
	} {
		if got := actionProblems(src); len(got) != want {
			t.Errorf("problems of %s: %q, want %d", src, got, want)
		}
	}
}
