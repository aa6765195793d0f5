package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// Test is one row of a table beside the policies: a question, and the answer that is wanted.
type Test struct {
	Name       string         `yaml:"name"`
	User       string         `yaml:"user"`
	Groups     []string       `yaml:"groups"`
	Roles      []string       `yaml:"roles"`
	Attributes map[string]any `yaml:"attributes"`
	Operation  string         `yaml:"operation"`
	Resource   string         `yaml:"resource"`
	Expect     string         `yaml:"expect"`
	Approval   string         `yaml:"approval"`
}

// Result is the answer to a test, beside the answer that it wants.
type Result struct {
	Want, Got string
	Policies  []string // that decided
	Reason    string
}

// Passed reports whether the answer is the one that is wanted.
func (r Result) Passed() bool { return r.Want == r.Got }

// Tested is what tests ask about.
type Tested interface {
	// Operations are those that an agent offers, by their qualified names.
	Operations(agent string) []string
	// Resource is a resource of an agent's catalogue, nil for an empty id.
	Resource(agent, id string) (*catalogue.Item, error)
}

// ReadTests reads a table strictly: a test that says nothing of what it expects is none.
func ReadTests(data []byte) ([]Test, error) {
	var table struct {
		Tests []Test `yaml:"tests"`
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&table); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf(": %w", err)
	}
	if len(table.Tests) == 0 {
		return nil, errors.New(": no tests; want a list under tests")
	}
	for n, t := range table.Tests {
		if t.Expect != "allow" && t.Expect != "deny" {
			return nil, fmt.Errorf(", test %d (%s): expect is %q; want allow or deny", n+1, t.Name, t.Expect)
		}
		if t.User == "" || strings.Count(t.Operation, "/") < 2 {
			return nil, fmt.Errorf(", test %d (%s): want user, such as user:alice, and operation as agent/grant/operation", n+1, t.Name)
		}
		if t.Expect == "deny" && t.Approval != "" {
			return nil, fmt.Errorf(", test %d (%s): approval is for what is allowed", n+1, t.Name)
		}
	}
	return table.Tests, nil
}

// Run asks an engine.
func (t Test) Run(e *Engine, of Tested) (Result, error) {
	parts := strings.SplitN(t.Operation, "/", 3)
	resource, err := of.Resource(parts[0], t.Resource)
	if err != nil {
		return Result{}, err
	}
	u := Principal{ID: t.User, Groups: t.Groups, Roles: t.Roles, Attributes: map[string]powerbox.Value{}}
	for name, v := range t.Attributes {
		text, err := json.Marshal(v)
		if err != nil {
			return Result{}, fmt.Errorf("attributes, %s: %w", name, err)
		}
		if u.Attributes[name], err = powerbox.ParseValue(text); err != nil {
			return Result{}, fmt.Errorf("attributes, %s: %w", name, err)
		}
	}
	if offered := of.Operations(parts[0]); !slices.Contains(offered, t.Operation) {
		return Result{}, fmt.Errorf("operation %q is not offered; agent %q offers %s", t.Operation, parts[0], strings.Join(offered, ", "))
	}
	answer := e.Permits(u, t.Operation, resource, parts[0], parts[1])
	out := Result{Want: t.Expect, Got: map[bool]string{true: "allow", false: "deny"}[answer.Allow], Policies: append([]string{}, answer.Policies...), Reason: answer.Reason}
	if answer.Allow && answer.Approval != "" {
		out.Got += ", with approval by " + answer.Approval
	}
	if t.Approval != "" {
		out.Want += ", with approval by " + t.Approval
	}
	return out, nil
}
