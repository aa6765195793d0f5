package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	cedarast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
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
	default: // all, and is: the rest is for Cedar
		return nil
	}
}

// withoutHead returns p without the parts of its scope that the closures of the index
// answer exactly: that something is in one of the entities of the head. It keeps that
// something is one entity or of one type, which needs no look at any entity.
func withoutHead(p *cedar.Policy) *cedar.Policy {
	rest := *(*ast.Policy)(p.AST())
	rest.Principal = scopeRest(rest.Principal).(ast.IsPrincipalScopeNode)
	rest.Action = scopeRest(rest.Action).(ast.IsActionScopeNode)
	rest.Resource = scopeRest(rest.Resource).(ast.IsResourceScopeNode)
	return cedar.NewPolicyFromAST((*cedarast.Policy)(&rest))
}

func scopeRest(scope ast.IsScopeNode) ast.IsScopeNode {
	switch s := scope.(type) {
	case ast.ScopeTypeIn, ast.ScopeTypeInSet:
		return ast.ScopeTypeAll{}
	case ast.ScopeTypeIsIn:
		return ast.ScopeTypeIs{Type: s.Type}
	default:
		return scope
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
	joined, ok := err.(interface{ Unwrap() []error }) // the joined form itself
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
		n.has(v.Arg, string(v.Value))
	case ast.NodeTypeEquals:
		n.compared(v.BinaryNode, "==")
	case ast.NodeTypeNotEquals:
		n.compared(v.BinaryNode, "!=")
	case ast.NodeTypeIn:
		n.compared(v.BinaryNode, "in")
	case ast.NodeTypeIs:
		n.entityType(v.EntityType)
	case ast.NodeTypeIsIn:
		n.entityType(v.EntityType)
	case ast.NodeTypeHasTag, ast.NodeTypeGetTag:
		n.fail("nothing has tags; attributes are in principal.attributes and resource.attributes")
	default: // names no entity and asks for no attribute: for Cedar's validation
	}
	return true
}

// comparableTypes are the types of entity that a variable can be, and be in.
// Comparing with another is always false, which Cedar lets pass.
func comparableTypes(variable, operator string) []string {
	switch {
	case variable == "principal" && operator == "in":
		return []string{typeUser, typeGroup, typeRole}
	case variable == "principal":
		return []string{typeUser}
	case variable == "resource" && operator == "in":
		return []string{typeResource, typeCollection, typeAgent}
	case variable == "resource":
		return []string{typeResource, typeAgent}
	case variable == "action":
		return []string{typeAction}
	}
	return entityTypes()
}

func (n *nameCheck) compared(pair ast.BinaryNode, operator string) {
	variable, ok := pair.Left.(ast.NodeTypeVariable)
	with := pair.Right
	if !ok {
		variable, _ = pair.Right.(ast.NodeTypeVariable)
		with = pair.Left
	}
	elements := []ast.IsNode{with}
	if set, ok := with.(ast.NodeTypeSet); ok {
		elements = set.Elements
	}
	fitting := comparableTypes(string(variable.Name), operator)
	for _, e := range elements {
		v, _ := e.(ast.NodeValue)
		if id, ok := v.Value.(cedar.EntityUID); ok && !slices.Contains(fitting, string(id.Type)) {
			n.fail("%s %s %s is the same for every request; want one of %s", variable.Name, operator, id, listed(fitting))
		}
	}
}

// has checks the name that a condition asks for. Cedar takes asking for one
// that nothing has as false.
func (n *nameCheck) has(of ast.IsNode, name string) {
	access, nested := of.(ast.NodeTypeAccess)
	if !nested || access.Value != "attributes" {
		n.attribute(name, []string{"principal.attributes", "principal.id", "resource.attributes"}, "attributes", "id")
		return
	}
	ofResource := slices.Collect(maps.Keys(n.rules.attributes))
	ofPrincipal := slices.Collect(maps.Keys(n.vocabulary.attributes))
	variable, _ := access.Arg.(ast.NodeTypeVariable)
	switch {
	case variable.Name == "resource" && n.rules.torn[name]:
		n.fail("attribute %q has another type in each collection; name one collection in the scope", name)
	case variable.Name == "resource":
		n.attribute(name, ofResource, ofResource...)
	case variable.Name == "principal":
		n.attribute(name, ofPrincipal, ofPrincipal...)
	default:
		both := slices.Concat(ofResource, ofPrincipal)
		n.attribute(name, both, both...)
	}
}

func (n *nameCheck) attribute(name string, shown []string, known ...string) {
	if !slices.Contains(known, name) {
		n.fail("attribute %q is unknown; known are %s", name, listed(slices.Clone(shown)))
	}
}

func (n *nameCheck) entityType(t cedar.EntityType) {
	if !slices.Contains(entityTypes(), string(t)) {
		n.fail("entity type %s is unknown; known are %s", t, listed(entityTypes()))
	}
}

func entityTypes() []string {
	return []string{typeAction, typeAgent, typeCollection, typeGroup, typeResource, typeRole, typeUser}
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
		n.entityType(e.Type)
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
