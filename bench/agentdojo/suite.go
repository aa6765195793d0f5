package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSuite bounds the file of one suite, in bytes.
const maxSuite = 32 << 20

// suite is one file of the benchmark, as far as the replay reads it.
type suite struct {
	Name           string `json:"suite"`
	Tools          []tool `json:"tools"`
	UserTasks      []task `json:"user_tasks"`
	InjectionTasks []task `json:"injection_tasks"`
}

// tool is a tool as a client of MCP sees it.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema

	hints     hints
	arguments []argument // of Parameters
}

// hints are the annotations of a tool as MCP has them, which an operator wrote for a suite.
// Without them a tool changes something, and its results are open to the world.
type hints struct {
	ReadOnly  bool  `json:"readOnlyHint"`
	OpenWorld *bool `json:"openWorldHint"`
}

// reads reports whether the tool changes nothing.
func (t tool) reads() bool { return t.hints.ReadOnly }

// trusted reports whether strangers cannot write the tool's results.
func (t tool) trusted() bool { return t.hints.OpenWorld != nil && !*t.hints.OpenWorld }

//go:embed testdata/annotations
var annotations embed.FS

// annotate reads the operator's annotations of a suite, if there are some.
func (s *suite) annotate() error {
	raw, err := annotations.ReadFile("testdata/annotations/" + s.Name + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := map[string]hints{}
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	for i := range s.Tools {
		s.Tools[i].hints = all[s.Tools[i].Name]
	}
	return err
}

// paraphrase is a prompt of a task in other words.
type paraphrase struct{ Suite, Task, Prompt string }

// paraphrased keeps the tasks that have a paraphrase, with that as their prompt.
func (s *suite) paraphrased(all []paraphrase) {
	var kept []task
	for _, t := range s.UserTasks {
		for _, p := range all {
			if p.Suite == s.Name && p.Task == t.ID {
				t.Prompt = p.Prompt
				kept = append(kept, t)
			}
		}
	}
	s.UserTasks = kept
}

// task is what a user or an attacker wants, and the calls that do it.
type task struct {
	ID           string `json:"id"`
	Prompt       string `json:"prompt"` // the user's words
	GroundTruth  []call `json:"ground_truth"`
	DerivedCalls []call `json:"derived_calls"` // where the benchmark has no ground truth
}

// call is one tool call, with its arguments as the file has them.
type call struct {
	Function string          `json:"function"`
	Args     json.RawMessage `json:"args"`
}

// calls are those that do the task.
func (t task) calls() []call {
	if len(t.GroundTruth) > 0 {
		return t.GroundTruth
	}
	return t.DerivedCalls
}

// toolNames are the names of the tools that the calls need, each once, in order.
func (t task) toolNames() []string {
	var names []string
	for _, c := range t.calls() {
		if !slices.Contains(names, c.Function) {
			names = append(names, c.Function)
		}
	}
	slices.Sort(names)
	return names
}

// tool returns the tool of that name.
func (s *suite) tool(name string) (tool, bool) {
	i := slices.IndexFunc(s.Tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return tool{}, false
	}
	return s.Tools[i], true
}

// granted are the tools of those names.
func (s *suite) granted(names []string) []tool {
	var out []tool
	for _, t := range s.Tools {
		if slices.Contains(names, t.Name) {
			out = append(out, t)
		}
	}
	return out
}

var errNoData = errors.New("the benchmark is not part of this repository")

// suiteFiles are the suites to replay: the files that are named, or those of the
// folder.
func suiteFiles(folder string, named []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w, and %s has no *.json: name a folder with its suites as JSON by -data, or files (docs/assurance/agentdojo.md says what they hold)", errNoData, folder)
	}
	return files, nil
}

// readSuite reads one file.
func readSuite(name string) (*suite, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w, and there is no %s", errNoData, name)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	raw, err := io.ReadAll(io.LimitReader(f, maxSuite+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxSuite {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxSuite)
	}
	s, err := parseSuite(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// suiteName is what a suite may be called: it becomes an agent's id.
var suiteName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

func parseSuite(raw []byte) (*suite, error) {
	s := &suite{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("it is no suite: %w", err)
	}
	switch {
	case !suiteName.MatchString(s.Name):
		return nil, fmt.Errorf("suite is %q; want lower-case letters, digits and hyphens", s.Name)
	case len(s.Tools) == 0 || len(s.UserTasks) == 0 || len(s.InjectionTasks) == 0:
		return nil, fmt.Errorf("it has %d tools, %d user_tasks and %d injection_tasks; want some of each", len(s.Tools), len(s.UserTasks), len(s.InjectionTasks))
	}
	for i := range s.Tools {
		t := &s.Tools[i]
		if slices.ContainsFunc(s.Tools[:i], func(u tool) bool { return u.Name == t.Name }) {
			return nil, fmt.Errorf("tool %q is there twice", t.Name)
		}
		var err error
		if t.arguments, err = readSchema(t.Parameters); err != nil {
			return nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
	}
	if err := s.annotate(); err != nil {
		return nil, fmt.Errorf("annotations: %w", err)
	}
	for _, tasks := range [][]task{s.UserTasks, s.InjectionTasks} {
		for i, t := range tasks {
			if t.ID == "" || slices.ContainsFunc(tasks[:i], func(u task) bool { return u.ID == t.ID }) {
				return nil, fmt.Errorf("task %d has no id of its own: %q", i, t.ID)
			}
			if err := s.check(t); err != nil {
				return nil, fmt.Errorf("%s: %w", t.ID, err)
			}
		}
	}
	for _, t := range s.UserTasks {
		if strings.TrimSpace(t.Prompt) == "" {
			return nil, fmt.Errorf("%s has no prompt, from which its grant would be derived", t.ID)
		}
	}
	for _, t := range s.InjectionTasks {
		if len(t.calls()) == 0 {
			return nil, fmt.Errorf("%s has neither ground_truth nor derived_calls, so nothing of it can be replayed", t.ID)
		}
	}
	return s, nil
}

// check looks at the calls of a task.
func (s *suite) check(t task) error {
	for _, c := range t.calls() {
		if _, ok := s.tool(c.Function); !ok {
			return fmt.Errorf("it calls %q, which is no tool of the suite", c.Function)
		}
		if !bytes.HasPrefix(bytes.TrimSpace(c.Args), []byte("{")) {
			return fmt.Errorf("args of %q are no object", c.Function)
		}
	}
	return nil
}
