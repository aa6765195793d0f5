package guard

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/guard/shell"
)

// Limits list the permitted operations. Paths are relative to the project and hold for
// everything below them.
type Limits struct {
	Read   []string `yaml:"read,omitempty"`
	Edit   []string `yaml:"edit,omitempty"`
	Delete []string `yaml:"delete,omitempty"`
	Run    []string `yaml:"run,omitempty"`    // commands of the table, or exact words
	Hosts  []string `yaml:"hosts,omitempty"`  // names, or "*." and a domain; with a port where one is used
	Tools  []string `yaml:"tools,omitempty"`  // of MCP servers: server/tool, "*" for any run of characters
	Start  []string `yaml:"start,omitempty"`  // types of sub-agents
	Search bool     `yaml:"search,omitempty"` // the web, by the client's own tool
}

// Section is what one holder may do, and what a person is asked about first.
type Section struct {
	Limits `yaml:",inline"`
	Ask    Limits `yaml:"ask,omitempty"`
	// Minutes is how long the lease of a sub-agent is good; 0 for as long as its parent's.
	Minutes int `yaml:"minutes,omitempty"`
}

// Grant is what the user gives a session.
type Grant struct {
	Version int `yaml:"version"`
	Section `yaml:",inline"`
	// Main is what the main agent uses of the grant, nil for all of it. Sub-agents are not
	// bounded by it, so that a coordinator may hold less than the agents that it starts.
	Main *Section `yaml:"main,omitempty"`
	// Agents are the leases of sub-agents by type, "*" for all others.
	Agents map[string]Section `yaml:"agents,omitempty"`
	// Untrusted holds the session and its sub-agents to the origin of what they read.
	Untrusted Untrusted `yaml:"untrusted,omitempty"`
}

// MaxGrantBytes bounds the text of a grant.
const MaxGrantBytes = 64 << 10

// ParseGrant reads the YAML of a grant. Unknown members are refused.
func ParseGrant(text []byte) (Grant, error) {
	var g Grant
	if len(text) > MaxGrantBytes {
		return g, fmt.Errorf("the grant has more than %d bytes", MaxGrantBytes)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&g); err != nil {
		return g, fmt.Errorf("the grant cannot be read: %w", err)
	}
	if err := d.Decode(new(any)); err != io.EOF { //nolint:errorlint // the decoder returns exactly this value
		return g, fmt.Errorf("the grant has more than one document")
	}
	if g.Version != 1 {
		return g, fmt.Errorf("version is %d; want 1", g.Version)
	}
	return g, nil
}

// Authority returns the whole grant as authority. A grant that says nothing of sub-agents lets
// a session start them: each has a lease of its own, and reads if nothing else is said.
func (g Grant) Authority(at shell.Place, window powerbox.Window) (powerbox.Authority, error) {
	if len(g.Start)+len(g.Ask.Start) == 0 {
		g.Start = []string{"*"}
	}
	return g.Section.Authority(at, window)
}

// Check reports what in a grant cannot be used in a project.
func (g Grant) Check(at shell.Place) error {
	if err := g.Untrusted.check(at); err != nil {
		return err
	}
	sections := map[string]Section{"": g.Section}
	if g.Main != nil {
		sections["main: "] = *g.Main
	}
	for name, s := range g.Agents {
		sections["agents: "+name+": "] = s
	}
	for _, where := range slices.Sorted(maps.Keys(sections)) {
		if _, err := sections[where].Authority(at, powerbox.Window{}); err != nil {
			return fmt.Errorf("%s%w", where, err)
		}
		if m := sections[where].Minutes; m < 0 {
			return fmt.Errorf("%sminutes is %d; want a positive number", where, m)
		}
	}
	return nil
}

// DefaultGrant reads the project and nothing else.
func DefaultGrant() Grant {
	return Grant{Version: 1, Section: Section{Limits: Limits{Read: []string{"."}}}}
}

// Authority returns a section as authority in a project, for a window of time.
func (s Section) Authority(at shell.Place, window powerbox.Window) (powerbox.Authority, error) {
	plain, err := s.Limits.constraints(at)
	if err != nil {
		return powerbox.Authority{}, err
	}
	asked, err := s.Ask.constraints(at)
	if err != nil {
		return powerbox.Authority{}, fmt.Errorf("ask: %w", err)
	}
	var clauses []powerbox.Clause
	for _, op := range operations {
		if fields := plain[op]; len(fields) > 0 {
			clauses = append(clauses, clause(op, fields))
		}
		// Where a parent has to ask, its child that was given the same has to ask as well.
		if fields := slices.Concat(asked[op], plain[op]); len(fields) > 0 {
			clauses = append(clauses, clause(AskPrefix+op, fields))
		}
	}
	return powerbox.NewAuthority(window, maxDepth, clauses...)
}

// maxDepth is how often a lease may be passed on.
const maxDepth = 8

var operations = []string{OpRead, OpEdit, OpDelete, OpRun, OpExact, OpFetch, OpSearch, OpTool, OpStart}

// argument names the constrained argument of each operation.
var argument = map[string]string{
	OpRead: "path", OpEdit: "path", OpDelete: "path", OpRun: "command", OpExact: "line", OpFetch: "url", OpSearch: "engine", OpTool: "tool", OpStart: "type",
}

// admitted are the values of an operation's argument, with the folder of exact commands.
type admitted struct {
	constraint powerbox.Constraint
	dir        string
}

func clause(operation string, list []admitted) powerbox.Clause {
	name := strings.TrimPrefix(operation, AskPrefix)
	var all []powerbox.Constraint
	for _, a := range list {
		all = append(all, a.constraint)
	}
	one := all[0]
	if len(all) > 1 {
		one = powerbox.AnyOf{Constraints: all}
	}
	fields := []powerbox.Field{{Name: argument[name], Constraint: one, Required: true}}
	if name == OpExact {
		fields = append(fields, powerbox.Field{Name: "dir", Constraint: powerbox.ExactValue{Value: powerbox.String(list[0].dir)}, Required: true})
	}
	shape, err := powerbox.NewShape(powerbox.RestNone, fields...)
	if err != nil {
		panic(err) // the names are ours, and differ
	}
	op, err := powerbox.ParseOperation(operation)
	if err != nil {
		panic(err)
	}
	return powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape}
}

func (l Limits) constraints(at shell.Place) (map[string][]admitted, error) {
	out := map[string][]admitted{}
	root, err := at.Resolve("/", at.Dir)
	if err != nil {
		return nil, err
	}
	for op, names := range map[string][]string{OpRead: l.Read, OpEdit: l.Edit, OpDelete: l.Delete} {
		for _, name := range names {
			if rest, ok := strings.CutPrefix(name, "~/"); ok && at.Home != "" {
				name = at.Home + "/" + rest
			}
			to, err := at.Resolve(root, name)
			if err != nil {
				return nil, err
			}
			c := powerbox.PathUnder{Root: to}
			if !c.Admits(powerbox.String(to)) {
				return nil, fmt.Errorf("the path %q has characters that some programs read differently; name a folder above it", name)
			}
			out[op] = append(out[op], admitted{constraint: c})
		}
	}
	if err := l.commands(out, root); err != nil {
		return nil, err
	}
	for _, host := range l.Hosts {
		c, err := hostConstraint(host)
		if err != nil {
			return nil, err
		}
		out[OpFetch] = append(out[OpFetch], admitted{constraint: c})
	}
	for _, tool := range l.Tools {
		if strings.Count(tool, "/") != 1 {
			return nil, fmt.Errorf("the tool %q is not of the form server/tool", tool)
		}
		out[OpTool] = append(out[OpTool], admitted{constraint: text(tool)})
	}
	for _, kind := range l.Start {
		out[OpStart] = append(out[OpStart], admitted{constraint: text(kind)})
	}
	if l.Search {
		out[OpSearch] = []admitted{{constraint: powerbox.ExactValue{Value: powerbox.String("web")}}}
	}
	return out, nil
}

// commands parts the commands of the table from exact words.
func (l Limits) commands(out map[string][]admitted, root string) error {
	for _, line := range l.Run {
		words, err := shell.Words(line)
		if err != nil {
			return fmt.Errorf("run: %w", err)
		}
		op, value := OpExact, shell.Quote(words)
		if name := strings.Join(words, " "); slices.Contains(shell.Names(), name) {
			op, value = OpRun, name
		}
		out[op] = append(out[op], admitted{constraint: powerbox.ExactValue{Value: powerbox.String(value)}, dir: root})
	}
	return nil
}

// text admits a name, or names that match where it has a star.
func text(s string) powerbox.Constraint {
	if strings.Contains(s, "*") {
		return powerbox.Glob{Pattern: s}
	}
	return powerbox.ExactValue{Value: powerbox.String(s)}
}

func hostConstraint(host string) (powerbox.Constraint, error) {
	m := powerbox.URLMatch{Schemes: []string{"https"}, Hosts: []string{strings.ToLower(host)}}
	if name, port, err := net.SplitHostPort(host); err == nil {
		m = powerbox.URLMatch{Schemes: []string{"http", "https"}, Hosts: []string{strings.ToLower(name)}, Ports: []string{port}}
	}
	if _, err := powerbox.ParseConstraint(m.JSON()); err != nil {
		return nil, fmt.Errorf("the host %q: %w", host, err)
	}
	return m, nil
}
