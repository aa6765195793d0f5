package handoff

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
)

// maxFileBytes is the size of the largest file that is read.
const maxFileBytes = 64 << 20

// Place is where in which file something is declared. Line 0 is none.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Agent is an agent with its surface: what its card's skills are as operations,
// or a list.
type Agent struct {
	ID         string
	Place      Place
	Card       string            // file of its card, "" without
	Skills     map[string]string // operation by skill of the card
	Operations []string          // a surface without a card: its tools, its functions
	Unmapped   []string          // skills of the card that are no operation
	Declared   bool              // it has a card or a list
	Prefix     string            // of operations as the gate names them: ID/ for agents behind a gateway
}

// Scope is what From may have done by To.
type Scope struct {
	From, To string
	Place    Place
	Entries  []string
}

// Wire is one hand-off that was built.
type Wire struct {
	From, To string
	Place    Place
	Requires []string
	Gate     string // where it is checked: gateway, interceptor, plugin, middleware, wrapper, none; "" if absent
	Failure  string // what a refusal becomes: failed, input_required, auth_required, raise; "" if absent
}

// Declarations are all files together.
type Declarations struct {
	Files  []string
	Agents map[string]*Agent
	Scopes []Scope
	Wires  []Wire

	scoped map[[2]string]Place
}

// New returns declarations of nothing.
func New() *Declarations {
	return &Declarations{Agents: map[string]*Agent{}, scoped: map[[2]string]Place{}}
}

// gates and Failures are the words that wires have for where they are checked and
// what a refusal becomes.
var (
	gates    = []string{"gateway", "interceptor", "plugin", "middleware", "wrapper", "none"}
	failures = []string{"failed", "input_required", "auth_required", "raise"}
)

// maxEntries bounds a list of one agent, scope or wire.
const maxEntries = 1024

// Read adds a file, YAML or JSON. surface returns the ids of the skills of a card,
// whose file an agent names relative to this one.
func (d *Declarations) Read(name string, data []byte, surface func(card string) ([]string, error)) error {
	if len(data) > maxFileBytes {
		return fmt.Errorf("%s: %d bytes; want at most %d", name, len(data), maxFileBytes)
	}
	root, err := parse(name, data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	d.Files = append(d.Files, name)
	f := file{name, d, surface}
	return f.top(root)
}

// parse reads JSON where the file says so, which is faster, and YAML otherwise.
func parse(name string, data []byte) (*yaml.Node, error) {
	if strings.HasSuffix(name, ".json") {
		return parseJSON(data)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	if len(root.Content) != 1 {
		return nil, errors.New("empty; want version: 1 and agents, scopes or wiring")
	}
	return root.Content[0], nil
}

// file reads one file.
type file struct {
	name    string
	d       *Declarations
	surface func(card string) ([]string, error)
}

func (f file) fail(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", Place{f.name, n.Line}, fmt.Sprintf(format, args...))
}

// keys calls each for every key of a mapping, in its order, and refuses keys that
// are there twice.
func (f file) keys(n *yaml.Node, what string, each func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return f.fail(n, "%s is no mapping", what)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || !isText(key.Value) || seen[key.Value] {
			return f.fail(key, "%s has the key %q twice, or one that is no name", what, key.Value)
		}
		seen[key.Value] = true
		if err := each(key.Value, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (f file) unknown(n *yaml.Node, what, key string, known ...string) error {
	return f.fail(n, "%s has no key %q; want %s", what, key, strings.Join(known, ", "))
}

func (f file) text(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || !isText(n.Value) {
		return "", f.fail(n, "%s is no text", what)
	}
	return n.Value, nil
}

// maxText is the length in bytes of the longest name.
const maxText = 512

// isText reports whether s is a name that can be shown to people: not empty, and
// without what a terminal or a picture would obey.
func isText(s string) bool {
	return s != "" && len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (f file) texts(n *yaml.Node, what string) ([]string, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxEntries {
		return nil, f.fail(n, "%s is no list of at most %d texts", what, maxEntries)
	}
	out := []string{}
	for _, e := range n.Content {
		s, err := f.text(e, "an element of "+what)
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, s) {
			return nil, f.fail(e, "%s has %q twice", what, s)
		}
		out = append(out, s)
	}
	return out, nil
}

func (f file) word(n *yaml.Node, what string, words []string) (string, error) {
	s, err := f.text(n, what)
	if err == nil && !slices.Contains(words, s) {
		err = f.fail(n, "%s is %q; want one of %s", what, s, strings.Join(words, ", "))
	}
	return s, err
}

func (f file) top(n *yaml.Node) error {
	version := false
	err := f.keys(n, "the file", func(key string, v *yaml.Node) error {
		switch key {
		case "version":
			if v.Tag != "!!int" || v.Value != "1" {
				return f.fail(v, "version is %q; want 1", v.Value)
			}
			version = true
			return nil
		case "agents":
			return f.keys(v, "agents", f.agent)
		case "scopes":
			return f.keys(v, "scopes", func(from string, v *yaml.Node) error {
				return f.keys(v, "scopes."+from, func(to string, v *yaml.Node) error { return f.scope(from, to, v) })
			})
		case "wiring":
			if v.Kind != yaml.SequenceNode {
				return f.fail(v, "wiring is no list")
			}
			for _, w := range v.Content {
				if err := f.wire(w); err != nil {
					return err
				}
			}
			return nil
		}
		return f.unknown(v, "the file", key, "version", "agents", "scopes", "wiring")
	})
	if err == nil && !version {
		err = f.fail(n, "version is missing; want version: 1")
	}
	return err
}

func (f file) agent(id string, n *yaml.Node) error {
	if have := f.d.Agents[id]; have != nil {
		return f.fail(n, "agent %s is declared already, at %s", id, have.Place)
	}
	a := &Agent{ID: id, Place: Place{f.name, n.Line}}
	if n.Tag == "!!null" {
		f.d.Agents[id] = a
		return nil
	}
	err := f.keys(n, "agent "+id, func(key string, v *yaml.Node) (err error) {
		switch key {
		case "card":
			a.Card, err = f.text(v, "card")
		case "operations":
			a.Declared = true
			a.Operations, err = f.texts(v, "operations")
		case "skills":
			a.Skills = map[string]string{}
			err = f.keys(v, "skills", func(skill string, v *yaml.Node) (err error) {
				a.Skills[skill], err = f.text(v, "the operation of "+skill)
				return err
			})
		default:
			err = f.unknown(v, "agent "+id, key, "card", "skills", "operations")
		}
		return err
	})
	if err != nil {
		return err
	}
	if a.Card == "" && len(a.Skills) > 0 {
		return f.fail(n, "agent %s maps skills and has no card; want card, or operations", id)
	}
	if a.Card != "" && a.Operations != nil {
		return f.fail(n, "agent %s has a card and a list of operations; want one of them", id)
	}
	f.d.Agents[id] = a
	if a.Card == "" {
		return f.operations(n, a.Operations)
	}
	if !filepath.IsAbs(a.Card) {
		a.Card = filepath.Join(filepath.Dir(f.name), a.Card)
	}
	skills, err := f.surface(a.Card)
	if err != nil {
		return f.fail(n, "card of agent %s: %v", id, err)
	}
	if err := a.Carries(skills); err != nil {
		return f.fail(n, "%v", err)
	}
	return f.operations(n, a.Operations)
}

// Carries gives an agent the surface that a card with these skills has. A skill
// that is no operation adds nothing (GATE-4).
func (a *Agent) Carries(skills []string) error {
	a.Declared, a.Operations, a.Unmapped = true, []string{}, []string{}
	for _, s := range skills {
		op, ok := a.Skills[s]
		switch {
		case !ok:
			a.Unmapped = append(a.Unmapped, s)
		case !slices.Contains(a.Operations, op):
			a.Operations = append(a.Operations, op)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(a.Skills)) {
		if !slices.Contains(skills, s) {
			return fmt.Errorf("agent %s maps the skill %q, and its card has no such skill", a.ID, s)
		}
	}
	return nil
}

func (f file) operations(n *yaml.Node, names []string) error {
	for _, name := range names {
		if _, err := powerbox.ParseOperation(name); err != nil {
			return f.fail(n, "operation %q: %v", name, err)
		}
		if strings.Contains(name, "*") { // only scopes have patterns; nothing else means more than it says
			return f.fail(n, "operation %q has a *; want an exact name", name)
		}
	}
	return nil
}

func (f file) scope(from, to string, n *yaml.Node) error {
	entries, err := f.texts(n, "scopes."+from+"."+to)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := pattern("", e); err != nil {
			return f.fail(n, "scopes.%s.%s: %q: %v", from, to, e, err)
		}
	}
	if err := f.d.AddScope(Scope{from, to, Place{f.name, n.Line}, entries}); err != nil {
		return f.fail(n, "%v", err)
	}
	return nil
}

// AddScope adds a scope. There is one for each pair.
func (d *Declarations) AddScope(s Scope) error {
	if at, twice := d.scoped[[2]string{s.From, s.To}]; twice {
		return fmt.Errorf("the scope of %s at %s is declared already, at %s", s.From, s.To, at)
	}
	d.scoped[[2]string{s.From, s.To}] = s.Place
	d.Scopes = append(d.Scopes, s)
	return nil
}

func (f file) wire(n *yaml.Node) error {
	w := Wire{Place: Place{f.name, n.Line}}
	err := f.keys(n, "a wire", func(key string, v *yaml.Node) (err error) {
		switch key {
		case "from":
			w.From, err = f.text(v, "from")
		case "to":
			w.To, err = f.text(v, "to")
		case "requires":
			if w.Requires, err = f.texts(v, "requires"); err == nil {
				err = f.operations(v, w.Requires)
			}
		case "gate":
			w.Gate, err = f.word(v, "gate", gates)
		case "on_violation":
			w.Failure, err = f.word(v, "on_violation", failures)
		default:
			err = f.unknown(v, "a wire", key, "from", "to", "requires", "gate", "on_violation")
		}
		return err
	})
	if err == nil && (w.From == "" || w.To == "") {
		err = f.fail(n, "a wire has no from or no to")
	}
	f.d.Wires = append(f.d.Wires, w)
	return err
}

// pattern reads an entry of a scope: an operation, or everything below a name,
// written NAME.* (EXT-6).
func pattern(prefix, entry string) (powerbox.Pattern, error) {
	if name, below := strings.CutSuffix(entry, ".*"); below && !strings.Contains(name, "*") {
		return powerbox.NewPattern(powerbox.Below, prefix+name)
	}
	if strings.Contains(entry, "*") {
		return powerbox.Pattern{}, errors.New("want an operation, or NAME.* for what is below a name")
	}
	op, err := powerbox.ParseOperation(prefix + entry)
	return powerbox.ExactPattern(op), err
}

// Admits reports whether the entries of a scope have an operation in them. An entry
// that is none admits nothing.
func Admits(entries []string, operation string) bool {
	op, err := powerbox.ParseOperation(operation)
	return err == nil && slices.ContainsFunc(entries, func(e string) bool {
		p, err := pattern("", e)
		return err == nil && p.Matches(op)
	})
}

// Graph is what the gate makes of the declarations. Agents that only scopes or
// wires name are in it, with no surface.
func (d *Declarations) Graph() (*graph.Graph, error) {
	for _, s := range d.Scopes {
		d.mention(s.From, s.Place)
		d.mention(s.To, s.Place)
	}
	for _, w := range d.Wires {
		d.mention(w.From, w.Place)
		d.mention(w.To, w.Place)
	}
	var nodes []graph.Node
	for _, id := range slices.Sorted(maps.Keys(d.Agents)) {
		a := d.Agents[id]
		ops, err := operationsOf(a.Prefix, a.Operations)
		if err != nil {
			return nil, fmt.Errorf("%s: agent %s: %w", a.Place, id, err)
		}
		nodes = append(nodes, graph.Node{ID: id, Surface: ops})
	}
	var spans []graph.Span
	for _, s := range d.Scopes {
		span := graph.Span{From: s.From, To: s.To}
		for _, e := range s.Entries {
			p, err := pattern(d.Agents[s.To].Prefix, e)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", s.Place, e, err)
			}
			span.Patterns = append(span.Patterns, p)
		}
		spans = append(spans, span)
	}
	var wires []graph.Wire
	for _, w := range d.Wires {
		ops, err := operationsOf(d.Agents[w.To].Prefix, w.Requires)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Place, err)
		}
		wires = append(wires, graph.Wire{From: w.From, To: w.To, Requires: ops})
	}
	return graph.New(nodes, spans, wires)
}

func (d *Declarations) mention(id string, at Place) {
	if d.Agents[id] == nil {
		d.Agents[id] = &Agent{ID: id, Place: at}
	}
}

func operationsOf(prefix string, names []string) ([]powerbox.Operation, error) {
	out := make([]powerbox.Operation, 0, len(names))
	for _, name := range names {
		op, err := powerbox.ParseOperation(prefix + name)
		if err != nil {
			return nil, err
		}
		out = append(out, op)
	}
	return out, nil
}
