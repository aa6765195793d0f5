package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDenialsAreDescribed holds docs/reference/denials.md to the code, both ways: a code
// without a row leaves anyone who meets it alone, and a row without a code is a
// promise that nothing keeps.
func TestDenialsAreDescribed(t *testing.T) {
	root := mustRoot(t)
	document, err := os.ReadFile(filepath.Join(root, denialsFile))
	if err != nil {
		t.Fatal(err)
	}
	codes, err := denialCodes(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"revoked", "rate_limited", "skill_unmapped", "syntax", "outcome_unknown", "denials_repeated", "evidence_unavailable", "legacy_grant"} {
		if codes[known] == "" {
			t.Errorf("%s was not found in the code", known)
		}
	}
	described := describedCodes(string(document))
	for code, place := range codes {
		if _, there := described[code]; !there {
			t.Errorf("%s has no row for `%s` (%s)", denialsFile, code, place)
		}
	}
	for code, anchor := range described {
		if anchor != code || strings.Count(string(document), `<a id="`+code+`">`) != 1 {
			t.Errorf("%s: the row of `%s` does not have its anchor once, to which denials link; run house denials -write", denialsFile, code)
		}
		if codes[code] == "" {
			t.Errorf("%s has a row for `%s`, which no code gives", denialsFile, code)
		}
	}
}
