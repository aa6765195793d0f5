package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/reliability"
)

// page holds the published results.
type page struct {
	began    time.Time
	command  string
	revision string
	results  []reliability.Result
	others   []string // further tables
}

// The lines of docs/assurance/reliability.md between which the tables stand.
const (
	beginMark = "<!-- the last run -->"
	endMark   = "<!-- end of the last run -->"
)

// text is the tables.
func (p *page) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, revision %s, %s, by `%s`.\n", p.began.UTC().Format(time.DateOnly), p.revision, machine(), p.command)
	if len(p.results) > 0 {
		out.WriteString("\n| trial | times | allowed | denied rightly | part away | no answer | lost | wrong allow | wrong deny | records verified | without an allowed call, median and longest |\n" +
			"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	}
	for _, r := range p.results {
		c := r.Counts
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %s |\n",
			r.Name, r.Times, c.Allowed, c.Denied-c.WrongDeny, c.Unavailable, c.Unanswered, r.Lost, c.WrongAllow, c.WrongDeny, r.Records, spread(r.Without))
	}
	if len(p.results) > 0 {
		out.WriteString("\n| trial | the agent's answers | refusals with a decision | executed at the agent | not on record as told |\n| --- | --- | --- | --- | --- |\n")
	}
	for _, r := range p.results {
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d |\n", r.Name, r.Compared.Answers, r.Compared.Refusals, r.Compared.Executed, r.Compared.Wrong)
	}
	for _, r := range p.results {
		for _, n := range r.Notes {
			fmt.Fprintf(&out, "\n- %s: %s.", r.Name, n)
		}
	}
	for _, o := range p.others {
		fmt.Fprintf(&out, "\n\n%s", o)
	}
	return strings.TrimSpace(out.String()) + "\n"
}

// spread is the median and the longest of some times.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "-"
	}
	all = slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%v, %v", all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
}

// writeTo puts the tables into the page of the documentation.
func (p *page) writeTo(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(beginMark+"\n"))
	_, after, okEnd := bytes.Cut(rest, []byte(endMark))
	if !ok || !okEnd {
		return fmt.Errorf("%s: the lines %s and %s are missing", path, beginMark, endMark)
	}
	text := string(before) + beginMark + "\n" + p.text() + endMark + string(after)
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a page of the documentation
}
