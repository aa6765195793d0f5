package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/guard/shell"
)

// Usage is what the sessions of a project did, as the log has it.
type Usage struct {
	Project string
	grant   guard.Grant
	rows    map[row]int
	unread  map[string]int // denials of calls that cannot be judged, by code
}

type row struct {
	decision evidence.Decision
	kind     string // type of the sub-agent; "" for the main agent
	need     string
}

// Count reads the records of a project. Outcomes are no decisions of their own.
func Count(records []evidence.Record, project string, grant []byte) (Usage, error) {
	u := Usage{Project: project, rows: map[row]int{}, unread: map[string]int{}}
	var err error
	if u.grant, err = guard.ParseGrant(grant); err != nil {
		return u, err
	}
	for _, r := range records {
		var use Use
		if r.IsOutcome() || json.Unmarshal(r.Details.Arguments, &use) != nil || use.Project != project || strings.HasPrefix(r.Intent.Operation, "approval.") {
			continue
		}
		parts := strings.Split(r.Details.Requester, "/")
		kind := ""
		if len(parts) > 1 {
			kind = cmp.Or(strings.Join(parts[2:], ""), "*")
		}
		for _, need := range use.Needs {
			u.rows[row{r.Decision, kind, need}]++
		}
		for _, why := range r.Details.Reasons {
			if why.Operation == "" && r.Decision == evidence.Deny {
				u.unread[why.Code]++
			}
		}
	}
	return u, nil
}

// Report writes the usage as a table.
func (u Usage) Report(w io.Writer) error {
	rows := slices.SortedFunc(maps.Keys(u.rows), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.decision, b.decision), cmp.Compare(a.kind, b.kind), cmp.Compare(a.need, b.need))
	})
	words := map[evidence.Decision]string{evidence.Allow: "allowed", evidence.Deny: "denied", evidence.Abstain: "asked"}
	for _, r := range rows {
		if _, err := fmt.Fprintf(w, "%-8s %5d  %-16s %s\n", words[r.decision], u.rows[r], cmp.Or(r.kind, "main agent"), strings.ReplaceAll(r.need, u.Project+"/", "")); err != nil {
			return err
		}
	}
	for _, code := range slices.Sorted(maps.Keys(u.unread)) {
		if _, err := fmt.Fprintf(w, "%-8s %5d  %s\n", "denied", u.unread[code], code); err != nil {
			return err
		}
	}
	return nil
}

// Advise returns the grant that would have sufficed. It leaves out denied calls.
func (u Usage) Advise() ([]byte, error) {
	used := map[string]map[string]bool{}
	for r := range u.rows {
		if r.decision != evidence.Allow {
			continue
		}
		if used[r.kind] == nil {
			used[r.kind] = map[string]bool{}
		}
		used[r.kind][r.need] = true
	}
	g := guard.Grant{Version: 1}
	all := map[string]bool{} // a sub-agent's lease comes from the session's
	for kind, needs := range used {
		maps.Copy(all, needs)
		if kind != "" {
			if g.Agents == nil {
				g.Agents = map[string]guard.Section{}
			}
			g.Agents[kind] = guard.Section{Limits: u.limits(needs)}
		}
	}
	g.Section = guard.Section{Limits: u.limits(all)}
	if len(used) > 1 {
		g.Main = &guard.Section{Limits: u.limits(used[""])}
	}
	return yaml.Marshal(g)
}

func (u Usage) limits(needs map[string]bool) guard.Limits {
	var l guard.Limits
	for _, need := range slices.Sorted(maps.Keys(needs)) {
		op, value, _ := strings.Cut(need, " ")
		switch op {
		case guard.OpRead:
			l.Read = append(l.Read, u.relative(value))
		case guard.OpEdit:
			l.Edit = append(l.Edit, path.Dir(u.relative(value)))
		case guard.OpDelete:
			l.Delete = append(l.Delete, u.relative(value))
		case guard.OpRun:
			l.Run = append(l.Run, value)
		case guard.OpExact:
			l.Run = append(l.Run, u.exact(value)...)
		case guard.OpFetch:
			l.Hosts = append(l.Hosts, value)
		case guard.OpSearch:
			l.Search = true
		case guard.OpTool:
			l.Tools = append(l.Tools, value)
		case guard.OpStart:
			l.Start = append(l.Start, value)
		}
	}
	l.Read, l.Edit, l.Delete = outermost(l.Read), outermost(l.Edit), outermost(l.Delete)
	return l
}

// exact finds the words in the present grant, since the log has their digest alone.
func (u Usage) exact(digest string) []string {
	sections := []guard.Section{u.grant.Section}
	if u.grant.Main != nil {
		sections = append(sections, *u.grant.Main)
	}
	for _, s := range sections {
		for _, line := range slices.Concat(s.Run, s.Ask.Run) {
			words, err := shell.Words(line)
			if err == nil && guard.Digest(shell.Quote(words)) == digest {
				return []string{line}
			}
		}
	}
	return nil
}

func (u Usage) relative(name string) string {
	if rel, err := filepath.Rel(u.Project, name); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return name
}

// outermost drops paths that lie below another.
func outermost(names []string) []string {
	slices.Sort(names)
	var out []string
	for _, n := range slices.Compact(names) {
		if !slices.ContainsFunc(out, func(o string) bool { return o == "." && !path.IsAbs(n) || strings.HasPrefix(n, o+"/") }) {
			out = append(out, n)
		}
	}
	return out
}
