package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/powerbox-project/powerbox/internal/catalogue"
)

// checker checks policies against the vocabulary when they are loaded.
type checker struct {
	vocabulary *vocabulary
	schemas    map[string]*rules // by the collections that a policy is about
}

// rules are what a policy about certain collections is checked against.
type rules struct {
	attributes map[string]catalogue.Attribute
	torn       map[string]bool
	validator  *validate.Validator
}

func newChecker(v *vocabulary) *checker {
	return &checker{vocabulary: v, schemas: map[string]*rules{}}
}

func (c *checker) rules(collections []string) (*rules, error) {
	key := strings.Join(collections, " ")
	if r, ok := c.schemas[key]; ok {
		return r, nil
	}
	attributes, torn := c.vocabulary.shared(collections)
	var s schema.Schema
	if err := s.UnmarshalCedar([]byte(c.vocabulary.schema(attributes))); err != nil {
		return nil, fmt.Errorf("policy schema: %w", err)
	}
	resolved, err := s.Resolve()
	if err != nil {
		return nil, fmt.Errorf("policy schema: %w", err)
	}
	r := &rules{attributes, torn, validate.New(resolved, validate.WithStrict())}
	c.schemas[key] = r
	return r, nil
}

// headOf reads the entities that a policy's scope names.
func headOf(p *cedar.Policy) head {
	tree := (*ast.Policy)(p.AST())
	return head{scopeEntities(tree.Principal), scopeEntities(tree.Action), scopeEntities(tree.Resource)}
}

func scopeEntities(scope ast.IsScopeNode) []cedar.EntityUID {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeIn:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeIsIn:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeInSet:
		return append([]cedar.EntityUID{}, s.Entities...)
	default: // all, and is: what is left is for Cedar
		return nil
	}
}

// check returns every way in which a policy does not fit the vocabulary.
func (c *checker) check(p *cedar.Policy, h head) []error {
	var kind, id string
	if len(h.resource) == 1 {
		kind, id = string(h.resource[0].Type), string(h.resource[0].ID)
	}
	r, err := c.rules(c.vocabulary.within(kind, id))
	if err != nil {
		return []error{err}
	}
	tree := (*ast.Policy)(p.AST())
	names := &nameCheck{vocabulary: c.vocabulary, rules: r}
	names.scope(h)
	for _, condition := range tree.Conditions {
		ast.Inspect(ast.NewNode(condition.Body), names.node)
	}
	if len(names.errs) > 0 {
		return names.errs // what Cedar says about them would only repeat it
	}
	var errs []error
	for _, err := range flatten(r.validator.Policy("", tree)) {
		errs = append(errs, errors.New(c.withHint(err.Error(), r)))
	}
	return errs
}

// flatten takes joined errors apart and leaves out repetitions.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // it is the joined form itself that is looked for
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		for _, e := range flatten(e) {
			if !slices.ContainsFunc(errs, func(was error) bool { return was.Error() == e.Error() }) {
				errs = append(errs, e)
			}
		}
	}
	return errs
}

// nameCheck finds names that Cedar's validation lets pass because they are
// data to it: a forbid about a collection or an attribute that does not exist
// would never apply.
type nameCheck struct {
	vocabulary *vocabulary
	rules      *rules
	errs       []error
}

func (n *nameCheck) fail(format string, args ...any) {
	n.errs = append(n.errs, fmt.Errorf(format, args...))
}

func (n *nameCheck) scope(h head) {
	for _, e := range slices.Concat(h.principal, h.action, h.resource) {
		n.entity(e)
	}
	for _, resource := range h.resource {
		agent, _, _ := strings.Cut(string(resource.ID), "/")
		for _, action := range h.action {
			if of, _, _ := strings.Cut(string(action.ID), "/"); of != agent && len(n.errs) == 0 {
				n.fail("action %s never meets resource %s; want both of one agent", action, resource)
			}
		}
	}
}

// node is called for every node of a condition.
func (n *nameCheck) node(node ast.IsNode) bool {
	switch v := node.(type) {
	case ast.NodeValue:
		if e, ok := v.Value.(cedar.EntityUID); ok {
			n.entity(e)
		}
	case ast.NodeTypeHas:
		n.has(variableOf(v.Arg), string(v.Value))
	case ast.NodeTypeHasTag, ast.NodeTypeGetTag:
		n.fail("nothing has tags; attributes are in principal.attributes and resource.attributes")
	}
	return true
}

// variableOf returns X of X.attributes where X is a variable, else "".
func variableOf(node ast.IsNode) string {
	access, ok := node.(ast.NodeTypeAccess)
	if !ok || access.Value != "attributes" {
		return ""
	}
	variable, _ := access.Arg.(ast.NodeTypeVariable)
	return string(variable.Name)
}

func (n *nameCheck) has(of, name string) {
	known := slices.Collect(maps.Keys(n.rules.attributes))
	switch of {
	case "resource":
		if n.rules.torn[name] {
			n.fail("attribute %q has another type in each collection; name one collection in the scope", name)
			return
		}
	case "principal":
		known = slices.Collect(maps.Keys(n.vocabulary.attributes))
	default:
		known = slices.AppendSeq(known, maps.Keys(n.vocabulary.attributes))
		known = append(known, "attributes", "id")
	}
	if !slices.Contains(known, name) {
		n.fail("attribute %q is unknown; known are %s", name, listed(known))
	}
}

func (n *nameCheck) entity(e cedar.EntityUID) {
	id := string(e.ID)
	switch e.Type {
	case typeAgent:
		if !n.vocabulary.agents[id] {
			n.fail("agent %q is unknown; known are %s", id, listed(slices.Collect(maps.Keys(n.vocabulary.agents))))
		}
	case typeCollection:
		if _, ok := n.vocabulary.collections[id]; !ok {
			n.fail("collection %q is unknown; known are %s", id, listed(slices.Collect(maps.Keys(n.vocabulary.collections))))
		}
	case typeResource:
		if len(n.vocabulary.within(typeResource, id)) == 0 {
			n.fail("resource %q is in no known collection; want \"agent/collection/id\"", id)
		}
	case typeAction:
		if !n.vocabulary.isAction(id) {
			n.fail("action %q is unknown; want the name of an operation (%s) or a grant (agent/grant)", id, listed(n.vocabulary.operations))
		}
	case typeUser, typeGroup, typeRole:
		if id == "" {
			n.fail("%s with an empty name; no principal has one", e.Type)
		}
	default:
		n.fail("entity type %s is unknown; known are %s", e.Type, listed([]string{
			typeAction, typeAgent, typeCollection, typeGroup, typeResource, typeRole, typeUser,
		}))
	}
}

// withHint adds to what Cedar's validation says what would be right.
func (c *checker) withHint(message string, r *rules) string {
	switch {
	case strings.Contains(message, "attribute `attributes` on entity type `Agent`"):
		return message + "; a question can be about the agent itself: write `resource is Resource` in the scope, or name a collection"
	case strings.Contains(message, "attribute `attributes.") && strings.Contains(message, "`Resource` not found"):
		for name := range r.torn {
			if strings.Contains(message, "`attributes."+name+"`") {
				return message + "; it has another type in each collection: name one collection in the scope"
			}
		}
		return message + "; known are " + listed(slices.Collect(maps.Keys(r.attributes)))
	case strings.Contains(message, "attribute `attributes.") && strings.Contains(message, "`User` not found"):
		return message + "; known are " + listed(slices.Collect(maps.Keys(c.vocabulary.attributes)))
	case strings.Contains(message, "unable to guarantee safety of access to optional attribute"):
		return message + "; " + guard(message)
	case strings.Contains(message, "applicable action"):
		return message + "; want principal as a User or in a Group or Role, resource as a Resource or Agent or in a Collection or Agent"
	}
	return message
}

// unguarded is how Cedar's validation says that an attribute may be missing.
var unguarded = regexp.MustCompile("`attributes\\.(\\w+)` on entity type `(User|Resource)`")

func guard(message string) string {
	m := unguarded.FindStringSubmatch(message)
	if m == nil {
		return "not everything has it: ask with `has` first"
	}
	variable := map[string]string{typeUser: "principal", typeResource: "resource"}[m[2]]
	return fmt.Sprintf("not everything has it: write `%s.attributes has %s && ...` before it", variable, m[1])
}
