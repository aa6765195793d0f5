package provider

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Sensitivity says how strong an approval must be (AAP-P3, AAP-A10).
type Sensitivity string

// The sensitivities. A high one is never granted without a person.
const (
	Read  Sensitivity = "read"
	Write Sensitivity = "write"
	High  Sensitivity = "high"
)

// Capability is an offer of the provider (section 2.12).
type Capability struct {
	Name        string
	Description string
	Input       powerbox.Value // JSON Schema, null for none
	Output      powerbox.Value
	Location    string // of another service, "" for the provider's own
	Sensitivity Sensitivity
	Default     bool           // granted at once to agents of linked hosts that ask for nothing else
	Public      bool           // listed without authentication
	Proof       bool           // executed with a token that is bound alone
	Blocked     bool           // cannot be asked for
	Autonomous  bool           // granted at once to autonomous agents of hosts without a user
	Budgets     Budgets        // of each grant
	Lifetime    time.Duration  // of each grant, from when it is given; 0 for that of the agent
	Constraints powerbox.Shape // of the server; the zero Shape is set to any arguments

	schema  *jsonschema.Schema // of Input
	results *jsonschema.Schema // of Output; nil for any result
}

// MustLimit reports whether a grant of c by hand takes a limit that the person names: c
// changes something, takes arguments, and the server holds them to nothing.
func (c *Capability) MustLimit() bool {
	takes := true
	if names, closed := topLevel(c.Input); closed {
		takes = len(names) > 0
	}
	return c.Sensitivity != Read && takes && len(c.Constraints.Fields()) == 0
}

func (c *Capability) check() error {
	switch {
	case !agentauth.ValidName(c.Name):
		return fmt.Errorf("provider: capability %q; want a name of a to z, digits and _", c.Name)
	case c.Description == "":
		return fmt.Errorf("provider: capability %q has no description; people decide by it", c.Name)
	case c.Blocked && (c.Default || c.Autonomous):
		return fmt.Errorf("provider: capability %q is blocked and granted without a person; want one or the other (AAP-R10)", c.Name)
	case (c.Default || c.Autonomous) && c.Sensitivity == High:
		return fmt.Errorf("provider: capability %q is high-risk and granted without a person; want one or the other (AAP-R12)", c.Name)
	}
	switch c.Sensitivity {
	case Read, Write, High:
	default:
		return fmt.Errorf("provider: capability %q has sensitivity %q; want read, write or high", c.Name, c.Sensitivity)
	}
	if c.Constraints.Rest() != powerbox.RestAny {
		if len(c.Constraints.Fields()) > 0 {
			return fmt.Errorf("provider: capability %q: constraints that admit nothing else cannot be said in the protocol", c.Name)
		}
		c.Constraints = powerbox.AnyArguments()
	}
	var err error
	if c.Output.Kind() != powerbox.KindNull && c.Location == "" {
		if c.results, err = compile(c.Name+":output", c.Output); err != nil {
			return fmt.Errorf("provider: capability %q: output: %w", c.Name, err)
		}
	}
	if c.Input.Kind() == powerbox.KindNull {
		return nil
	}
	if c.schema, err = compile(c.Name, c.Input); err != nil {
		return fmt.Errorf("provider: capability %q: input: %w", c.Name, err)
	}
	return nil
}

// compile compiles a schema that refers to nothing outside itself.
func compile(name string, schema powerbox.Value) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.AppendJSON(nil)))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	url := "urn:powerbox:capability:" + name
	if err := compiler.AddResource(url, document); err != nil {
		return nil, err
	}
	return compiler.Compile(url)
}

// CheckSchema returns why a schema cannot be that of arguments, nil where it can.
func CheckSchema(schema powerbox.Value) error {
	if schema.Kind() == powerbox.KindNull {
		return nil
	}
	_, err := compile("schema", schema)
	return err
}

// validate checks arguments against the input schema (AAP-C9).
func (c *Capability) validate(arguments powerbox.Value) *agentauth.Error {
	if arguments.Kind() != powerbox.KindObject {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "arguments are JSON %s; want an object", arguments.Kind())
	}
	if c.schema == nil {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments.AppendJSON(nil)))
	if err == nil {
		err = c.schema.Validate(v)
	}
	if err != nil {
		_, what, _ := strings.Cut(err.Error(), "\n")
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "arguments are not as the input schema of %q has them: %s; describe the capability for its schema", c.Name, strings.TrimSpace(what))
	}
	return nil
}

// The words for the server's treatment of an output schema, as a listing has them.
const (
	ChecksResults = "checked"   // of every result, and of no event of a stream
	ChecksNothing = "unchecked" // another service executes the capability
)

// Checks says whether results are checked against the output schema, "" without one.
func (c *Capability) Checks() string {
	switch {
	case c.Output.Kind() == powerbox.KindNull:
		return ""
	case c.results == nil:
		return ChecksNothing
	}
	return ChecksResults
}

// holds returns the error for a result that breaks the output schema, nil for none. It
// repeats nothing of the result, which the caller is not to have.
func (c *Capability) holds(r Result) *agentauth.Error {
	if c.results == nil || r.Failed != nil || r.Stream != nil || r.Job != "" {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Data.AppendJSON(nil)))
	if err == nil {
		err = c.results.Validate(v)
	}
	if err == nil {
		return nil
	}
	return agentauth.Errorf(agentauth.CodeInternal, "the service behind %q was called, and its answer breaks the output schema of the capability, so the answer is withheld; its operator has to correct the service or the schema", c.Name)
}

// Listing is a page of capabilities.
type Listing struct {
	Capabilities []*Capability
	Status       map[string]string // grant_status by name; nil where the viewer is no agent
	Next         string            // cursor, "" after the last
}

// The bounds of a page.
const (
	pageSize    = 50
	maxPageSize = 100
)

// List returns a page of the capabilities that a viewer may see, by name (AAP-C1,
// AAP-P9).
func (p *Provider) List(v Viewer, query, cursor string, limit int) (Listing, error) {
	after, err := parsePlace(cursor)
	if err != nil {
		return Listing{}, err
	}
	limit = min(cmp.Or(limit, pageSize), maxPageSize)
	out := Listing{Capabilities: []*Capability{}}
	if v.Agent != nil {
		out.Status = map[string]string{}
	}
	for _, at := range p.found(v, query) {
		if cursor != "" && at.compare(after) <= 0 {
			continue
		}
		if last := len(out.Capabilities); last == limit {
			c := out.Capabilities[last-1]
			out.Next = place{score(c, words(query)), c.Name}.String()
			break
		}
		out.Capabilities = append(out.Capabilities, p.capabilities[at.name])
		if v.Agent != nil {
			out.Status[at.name] = v.status(at.name)
		}
	}
	return out, nil
}

// place is where a capability stands in a list: by how many words of the query it has,
// and then by name.
type place struct {
	score int
	name  string
}

func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
}

// String is the place as a cursor.
func (a place) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(a.score) + " " + a.name))
}

// parsePlace reads a cursor, "" for the beginning.
func parsePlace(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, name, _ := strings.Cut(string(text), " ")
	score, noNumber := strconv.Atoi(number)
	if err != nil || noNumber != nil || !agentauth.ValidName(name) {
		return place{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "cursor is not one that was given out")
	}
	return place{score, name}, nil
}

// found are the capabilities that someone may see and that have a word of the query, all
// of them where it has none, best first.
func (p *Provider) found(v Viewer, query string) []place {
	wanted := words(query)
	var out []place
	for _, name := range p.order {
		c := p.capabilities[name]
		if at := (place{score(c, wanted), name}); v.sees(c) && (at.score > 0 || len(wanted) == 0) {
			out = append(out, at)
		}
	}
	sorting.Sort(out, place.compare)
	return out
}

// words are those of a query, each once.
func words(query string) []string {
	all := strings.Fields(strings.ToLower(query))
	slices.Sort(all)
	return slices.Compact(all)
}

// score is how many of some words stand in name or description.
func score(c *Capability, wanted []string) int {
	text := strings.ToLower(c.Name + " " + strings.ReplaceAll(c.Name, "_", " ") + " " + c.Description)
	n := 0
	for _, word := range wanted {
		if strings.Contains(text, word) {
			n++
		}
	}
	return n
}

// Describe returns one capability and its grant_status, "" where the viewer is no agent.
// A capability that the viewer cannot see is answered as one that does not exist
// (AAP-P8).
func (p *Provider) Describe(v Viewer, name string) (*Capability, string, error) {
	c := p.capabilities[name]
	if c == nil || !v.sees(c) {
		return nil, "", agentauth.Errorf(agentauth.CodeCapabilityNotFound, "there is no capability %q", clipped(name))
	}
	if v.Agent == nil {
		return c, "", nil
	}
	return c, v.status(name), nil
}

// Viewer looks at the capabilities: a stranger where both are nil, a host, or an agent.
type Viewer struct {
	Host   *Host
	Agent  *Agent
	active map[string]bool
}

// sees reports whether a capability is visible: strangers see the public ones, hosts and
// agents see all that can be asked for.
func (v Viewer) sees(c *Capability) bool {
	if v.Host == nil && v.Agent == nil {
		return c.Public
	}
	return true
}

func (v Viewer) status(name string) string {
	if v.active[name] {
		return "granted"
	}
	return "not_granted"
}

func clipped(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
