package main

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// results are outcomes by the names of tests.
type results map[string]result

type result struct{ outcome, why string }

// said names the outcome; a test that did not run has none.
func (r result) said() string { return cmp.Or(r.outcome, "not run") }

// The outcomes of a test. A failure that the kit expects is of a requirement
// that is no MUST.
const (
	passed          = "passed"
	failed          = "failed"
	broken          = "error"
	skipped         = "skipped"
	expectedFailure = "failed as expected"
)

// parse reads what pytest reports in the form of JUnit.
func parse(raw []byte) (results, error) {
	var report struct {
		Cases []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Failure *fault `xml:"failure"`
			Error   *fault `xml:"error"`
			Skipped *fault `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(raw, &report); err != nil {
		return nil, fmt.Errorf("the kit's report: %w", err)
	}
	all := results{}
	for _, c := range report.Cases {
		r := result{outcome: passed}
		switch {
		case c.Error != nil:
			r = result{broken, c.Error.Message}
		case c.Failure != nil:
			r = result{failed, c.Failure.Message}
		case c.Skipped != nil && c.Skipped.Type == "pytest.xfail":
			r = result{expectedFailure, c.Skipped.Message}
		case c.Skipped != nil:
			r = result{skipped, c.Skipped.Message}
		}
		all[strings.TrimPrefix(c.Class, "tests.compatibility.")+"."+c.Name] = r
	}
	if len(all) == 0 {
		return nil, errors.New("the kit's report has no tests")
	}
	return all, nil
}

// fault is why a test did not pass.
type fault struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
}

// summary counts the outcomes.
func (r results) summary() string {
	counts := map[string]int{}
	for _, one := range r {
		counts[one.outcome]++
	}
	parts := []string{fmt.Sprintf("%d tests", len(r))}
	for _, outcome := range []string{passed, failed, expectedFailure, broken, skipped} {
		if counts[outcome] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[outcome], outcome))
		}
	}
	return strings.Join(parts, ", ")
}

// difference is a test that came out in two ways.
type difference struct {
	name          string
	before, after result
}

// better reports whether the test passes only after.
func (d difference) better() bool { return d.after.outcome == passed }

// String implements fmt.Stringer.
func (d difference) String() string {
	why := d.after.why
	if d.better() {
		why = "before: " + d.before.why
	}
	return fmt.Sprintf("%s: %s, then %s\n    %s", d.name, d.before.said(), d.after.said(), strings.ReplaceAll(why, "\n", " "))
}

// differences are the tests whose results differ, by name.
func differences(before, after results) []difference {
	names := maps.Clone(before)
	maps.Copy(names, after)
	var out []difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := before[name], after[name]; a.outcome != b.outcome {
			out = append(out, difference{name, a, b})
		}
	}
	return out
}

// without leaves out the tests that also differ without a gateway.
func without(all, noise []difference) []difference {
	return slices.DeleteFunc(all, func(d difference) bool {
		return slices.ContainsFunc(noise, func(n difference) bool { return n.name == d.name })
	})
}
