package guard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/guard/shell"
)

// CodeUntrusted is of an attempt that a session may not make, or not without a person, after
// it has read untrusted data (ADR 149).
const CodeUntrusted = "data_origin"

// Untrusted says what a session may do after it has read what strangers can write: pages of
// the web, results of a web search, and results of MCP tools.
type Untrusted struct {
	// Trusted are sources whose content only the user can write.
	Trusted Limits `yaml:"trusted,omitempty"`
	// Ask and Refuse are kinds of operations, by their keys in a grant.
	Ask    []string `yaml:"ask,omitempty"`
	Refuse []string `yaml:"refuse,omitempty"`
}

// kinds are the operations by the keys of a grant.
var kinds = map[string][]string{
	"read": {OpRead}, "edit": {OpEdit}, "delete": {OpDelete}, "run": {OpRun, OpExact}, "hosts": {OpFetch}, "search": {OpSearch}, "tools": {OpTool}, "start": {OpStart},
}

// check reports rules that cannot be kept.
func (u Untrusted) check(at shell.Place) error {
	for _, kind := range slices.Concat(u.Ask, u.Refuse) {
		if kinds[kind] == nil {
			return fmt.Errorf("untrusted: %q is no kind of operations; want read, edit, delete, run, hosts, search, tools or start", kind)
		}
	}
	t := u.Trusted
	if t.Hosts, t.Tools = nil, nil; len(t.Read)+len(t.Edit)+len(t.Delete)+len(t.Run)+len(t.Start) > 0 || t.Search {
		return fmt.Errorf("untrusted: trusted has hosts and tools alone")
	}
	_, err := u.Trusted.constraints(at)
	return err
}

// Sources returns which of the needs read what strangers can write.
func (u Untrusted) Sources(needs []Need, at shell.Place) ([]string, error) {
	if len(u.Ask)+len(u.Refuse) == 0 {
		return nil, nil
	}
	trusted, err := u.Trusted.constraints(at)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range needs {
		if !isSource(n) {
			continue
		}
		vouched := slices.ContainsFunc(trusted[n.Operation], func(a admitted) bool { return a.constraint.Admits(n.Arguments[0].Value) })
		if name := n.Redacted(); !vouched && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// isSource reports whether a need reads what strangers can write, unless its source is trusted.
func isSource(n Need) bool {
	return n.Operation == OpFetch || n.Operation == OpSearch || n.Operation == OpTool
}

// after holds an attempt that the grant permits to the rules about untrusted data.
func (l Lease) after(v Verdict, n Need, approved func(powerbox.Authority) bool) Verdict {
	read := l.Read
	if !isSource(n) { // what the call itself reads can flow into the rest of it
		read = slices.Concat(read, l.Reads)
	}
	if v.Answer == Deny || len(read) == 0 {
		return v
	}
	why := "this session has read untrusted data (" + strings.Join(read, ", ") + ")"
	of := func(list []string) bool {
		return slices.ContainsFunc(list, func(kind string) bool { return slices.Contains(kinds[kind], n.Operation) })
	}
	switch {
	case of(l.Untrusted.Refuse):
		v.Answer, v.Asks = Deny, nil
		v.Reasons = []Reason{{Code: CodeUntrusted, Need: n, Text: n.String() + " is refused: " + why}}
	case of(l.Untrusted.Ask) && v.Answer == Allow && !slices.ContainsFunc(l.Approved, approved):
		v.Answer, v.Asks = Ask, []Need{n}
	}
	return v
}
