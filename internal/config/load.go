package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

const (
	maximumFileBytes = 4 << 20
	maximumDepth     = 64
)

// Load reads the file, what it includes, and the environment over it, in the
// form of [os.Environ]: POWERBOX_ISSUER_URL sets issuer.url. Defaults fill in
// absent values. An error is [Problems], every one of them, unless the file
// itself cannot be read.
func Load(path string, read func(string) ([]byte, error), env []string) (*Config, error) {
	c, l, err := load(path, read, env)
	switch {
	case err != nil:
		return nil, err
	case len(l.problems) > 0:
		return nil, l.sorted()
	}
	return c, nil
}

// Check is [Load] for a report of everything that is wrong: with problems it returns what
// could be read, which must not be used to serve. A configuration without any setting is a
// problem here. The error is one of reading the file.
func Check(path string, read func(string) ([]byte, error), env []string) (*Config, Problems, error) {
	c, l, err := load(path, read, env)
	if err != nil {
		return nil, nil, err
	}
	if l.empty && len(l.problems) == 0 {
		return c, Problems{{path, 0, "the file is empty, so the server would serve nothing. agents is missing: add an agent with id, upstream and mode, or write the file with powerbox init"}}, nil
	}
	return c, l.sorted(), nil
}

func load(path string, read func(string) ([]byte, error), env []string) (*Config, *loader, error) {
	data, err := read(path)
	if err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	l := &loader{read: read, files: make(map[*yaml.Node]string)}
	root := l.parse(path, data)
	l.includes(path, root)
	whole := len(l.problems) == 0
	l.empty = len(root.Content) == 0
	l.environment(root, env)
	d := newDecoder(l, path)
	c := new(Config)
	d.top(root, c)
	// Without a part of the text, a name that seems to be unknown may be in that part.
	if whole {
		d.decoded = true
		c.complete(func(path string) bool { _, ok := d.at[path]; return ok })
		check(c, d)
	}
	return c, l, nil
}

// Files returns the files that the patterns name, each once. A pattern with *
// may name none; a plain name is returned whether or not it exists, so that
// reading it names the missing file.
func Files(patterns []Path) ([]string, error) {
	var all []string
	for _, p := range patterns {
		if !strings.ContainsAny(string(p), "*?[") {
			all = append(all, string(p))
			continue
		}
		found, err := filepath.Glob(string(p))
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", string(p), err)
		}
		all = append(all, found...)
	}
	seen := make(map[string]bool)
	return slices.DeleteFunc(all, func(f string) bool {
		again := seen[f]
		seen[f] = true
		return again
	}), nil
}

// loader gathers the nodes of all files into one tree, and the problems.
type loader struct {
	read     func(string) ([]byte, error)
	files    map[*yaml.Node]string // where each node is from
	problems Problems
	empty    bool // the file has no setting
}

func (l *loader) problem(n *yaml.Node, format string, args ...any) {
	l.problems = append(l.problems, Problem{l.files[n], n.Line, fmt.Sprintf(format, args...)})
}

func (l *loader) sorted() Problems {
	order := make(map[string]int) // files in the order of their first problem
	for _, p := range l.problems {
		if _, ok := order[p.File]; !ok {
			order[p.File] = len(order)
		}
	}
	sorting.Stable(l.problems, func(a, b Problem) int {
		if a.File != b.File {
			return order[a.File] - order[b.File]
		}
		return a.Line - b.Line
	})
	return slices.Compact(l.problems)
}

// parse reads one file as a mapping. Each error is a problem, and
// the readable part is returned.
func (l *loader) parse(file string, data []byte) *yaml.Node {
	empty := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}
	l.files[empty] = file
	if len(data) > maximumFileBytes {
		l.problem(empty, "the file has %d bytes; want at most %d", len(data), maximumFileBytes)
		return empty
	}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	err := reader.Decode(&document)
	if errors.Is(err, io.EOF) {
		return empty
	}
	if err != nil {
		l.problems = append(l.problems, syntaxProblem(file, err))
		return empty
	}
	if err := reader.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		l.problem(empty, "the file has more than one YAML document; want one")
	}
	root := document.Content[0]
	l.adopt(root, file, maximumDepth)
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return empty
	}
	if root.Kind != yaml.MappingNode {
		l.problem(root, "the file is %s; want keys such as listen: and agents:", kindName(root))
		return empty
	}
	return root
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntaxProblem takes the line out of the decoder's message, since it has no
// field for it.
func syntaxProblem(file string, err error) Problem {
	m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return Problem{file, 0, "not YAML: " + err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	what := "not YAML: " + m[2]
	if strings.Contains(what, "cannot start any token") {
		what += "; want spaces to indent with, never tabs, and quotes around a text that begins with @ or `"
	}
	return Problem{file, line, what}
}

// adopt notes the file of every node and refuses what would make a file mean
// something else than it says: repeated keys, aliases, tags.
func (l *loader) adopt(n *yaml.Node, file string, depth int) {
	l.files[n] = file
	if depth == 0 {
		l.problem(n, "nested deeper than %d", maximumDepth)
		n.Content = nil
		return
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		l.problem(n, "anchors and aliases are not supported; write the value out")
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
		return
	}
	if n.Style&yaml.TaggedStyle != 0 {
		l.problem(n, "tag %s is not supported; leave it out", n.Tag)
	}
	for _, child := range n.Content {
		l.adopt(child, file, depth-1)
	}
	if n.Kind == yaml.MappingNode {
		l.keys(n)
	}
}

// keys drops every key that is no text or stands twice, with a problem.
func (l *loader) keys(n *yaml.Node) {
	lines := make(map[string]int)
	var kept []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Value == "" || key.Tag == "!!merge" || key.Tag == "!!null" {
			l.problem(key, "a key is not text; want a name")
			continue
		}
		if line, again := lines[key.Value]; again {
			l.problem(key, "key %q stands twice, first on line %d", key.Value, line)
			continue
		}
		lines[key.Value] = key.Line
		kept = append(kept, key, n.Content[i+1])
	}
	n.Content = kept
}

// includes joins the files that the main file includes.
func (l *loader) includes(path string, root *yaml.Node) {
	list := get(root, "include")
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	for _, n := range list.Content {
		files, err := Files([]Path{relative(path, n.Value)})
		if n.Kind != yaml.ScalarNode || err != nil {
			l.problem(n, "include %q is not a file or pattern of files", n.Value)
			continue
		}
		for _, file := range files {
			data, err := l.read(file)
			if err != nil {
				l.problem(n, "include: %v", err)
				continue
			}
			part := l.parse(file, data)
			if nested := get(part, "include"); nested != nil {
				l.problem(nested, "only the main file includes others")
				continue
			}
			l.join(root, part, "")
		}
	}
}

// join adds one tree to another: mappings by key, lists end to end. Nothing is
// set twice, so that the order of files does not matter.
func (l *loader) join(into, from *yaml.Node, path string) {
	for i := 0; i < len(from.Content); i += 2 {
		key, value := from.Content[i], from.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		present := get(into, key.Value)
		switch {
		case present == nil:
			into.Content = append(into.Content, key, value)
		case present.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			l.join(present, value, name)
		case present.Kind == yaml.SequenceNode && value.Kind == yaml.SequenceNode:
			present.Content = append(present.Content, value.Content...)
		default:
			l.problem(key, "%s is set twice, first at %s:%d", name, l.files[present], present.Line)
		}
	}
}

// get returns the value of a key of a mapping, or nil.
func get(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// relative returns the path of a file that is named in another.
func relative(from, name string) Path {
	if name == "" || filepath.IsAbs(name) {
		return Path(name)
	}
	return Path(filepath.Join(filepath.Dir(from), name))
}

// environment sets what POWERBOX_... variables set. Every other name of this form is refused
// as an unknown key of the file is, unless it is one of another use ([otherVariable]).
func (l *loader) environment(root *yaml.Node, env []string) {
	ours := func(setting string) bool { return strings.HasPrefix(setting, envPrefix) }
	if !slices.ContainsFunc(env, ours) {
		return // to list all settings takes 3 ms
	}
	known := make(map[string][]string)
	for _, r := range describe() {
		if r.env != "" {
			known[r.env] = strings.Split(r.key, ".")
		}
	}
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		path, ok := known[name]
		switch {
		case ok:
			l.set(root, path, name, value)
		case strings.HasPrefix(name, envPrefix) && !otherVariable(name, value):
			message := "there is no such setting" + nearestSettings(name, slices.Sorted(maps.Keys(known)))
			l.problems = append(l.problems, Problem{name, 0, message})
		}
	}
}

// otherVariables are no settings of a server: they are for other commands in the same
// shell, and for the service of a relay.
var otherVariables = []string{
	"POWERBOX_SESSION", "POWERBOX_OPERATOR_TOKEN", "POWERBOX_SERVER", "POWERBOX_FEED_KEY",
	"POWERBOX_AGENTS_STORE", "POWERBOX_AGENTS_PASSPHRASE", "POWERBOX_AGENTS_HOST_NAME", "POWERBOX_AGENTS_DIRECTORY", "POWERBOX_AGENTS_PROVIDERS",
}

// serviceLink matches the variables that Kubernetes sets for each service: a service that is
// called powerbox, or begins so, gives every pod of its namespace some of these.
var serviceLink = regexp.MustCompile(`^POWERBOX_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$`)

// otherVariable reports whether a POWERBOX_... variable is for something else than the configuration.
func otherVariable(name, value string) bool {
	switch {
	case slices.Contains(otherVariables, name), serviceLink.MatchString(name):
		return true
	case strings.HasPrefix(name, "POWERBOX_TEST_"), strings.HasPrefix(name, "POWERBOX_FAULT_"): // of our own tests
		return true
	}
	// Another one of Kubernetes, of which the name alone could be meant as a setting.
	return strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

func (l *loader) set(root *yaml.Node, path []string, name, value string) {
	n := root
	for _, key := range path[:len(path)-1] {
		n = l.child(n, key, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, name)
	}
	scalar := l.child(n, path[len(path)-1], &yaml.Node{}, name)
	*scalar = yaml.Node{Kind: yaml.ScalarNode, Tag: envTag, Value: value}
	l.files[scalar] = name
}

// child returns the value of a key, which becomes the given one where there is
// none yet.
func (l *loader) child(n *yaml.Node, key string, otherwise *yaml.Node, file string) *yaml.Node {
	if present := get(n, key); present != nil {
		if otherwise.Kind == yaml.MappingNode && present.Tag == "!!null" {
			*present = *otherwise
		}
		return present
	}
	name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
	l.files[name], l.files[otherwise] = file, file
	n.Content = append(n.Content, name, otherwise)
	return otherwise
}
