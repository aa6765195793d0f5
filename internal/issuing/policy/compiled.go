package policy

import (
	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/powerbox-project/powerbox"
)

// verdict is what a compiled condition says of a question.
type verdict uint8

// A condition that is beyond may hold, not hold or fail: Cedar decides the question.
const (
	beyond verdict = iota
	holds
	fails
)

func verdictOf(b bool) verdict {
	if b {
		return holds
	}
	return fails
}

// condition answers a part of a policy from the question alone, without entities.
type condition func(w *world) verdict

// always is the condition that holds.
func always(*world) verdict { return holds }

// compiled returns p as one condition. Comparisons of attributes with a literal, has,
// and what joins them are compiled. Everything else is beyond, so that Cedar alone says
// what it means.
func compiled(p *cedar.Policy) condition {
	tree := (*ast.Policy)(p.AST())
	all := both(both(scoped(tree.Principal, principalUID), scoped(tree.Action, actionUID)), scoped(tree.Resource, resourceUID))
	for _, c := range tree.Conditions {
		body := compiledNode(c.Body)
		if c.Condition == ast.ConditionUnless {
			body = negated(body)
		}
		all = both(all, body)
	}
	return all
}

func principalUID(w *world) cedar.EntityUID { return w.user.uid }
func actionUID(w *world) cedar.EntityUID    { return w.action.UID }
func resourceUID(w *world) cedar.EntityUID  { return w.resource.uid }

// scoped compiles a part of a scope that [withoutHead] has left.
func scoped(scope ast.IsScopeNode, of func(*world) cedar.EntityUID) condition {
	switch s := scope.(type) {
	case ast.ScopeTypeAll:
		return always
	case ast.ScopeTypeEq:
		return func(w *world) verdict { return verdictOf(of(w) == s.Entity) }
	case ast.ScopeTypeIs:
		return func(w *world) verdict { return verdictOf(of(w).Type == s.Type) }
	default:
		return outside
	}
}

// outside is the condition that is always beyond.
func outside(*world) verdict { return beyond }

// both is a && b. As in Cedar, b is not looked at where a does not hold.
func both(a, b condition) condition {
	return func(w *world) verdict {
		if v := a(w); v != holds {
			return v
		}
		return b(w)
	}
}

func negated(a condition) condition {
	return func(w *world) verdict {
		switch a(w) {
		case holds:
			return fails
		case fails:
			return holds
		default:
			return beyond
		}
	}
}

func compiledNode(node ast.IsNode) condition {
	switch n := node.(type) {
	case ast.NodeTypeAnd:
		return both(compiledNode(n.Left), compiledNode(n.Right))
	case ast.NodeTypeOr:
		// a || b is !(!a && !b), also where b is not looked at.
		return negated(both(negated(compiledNode(n.Left)), negated(compiledNode(n.Right))))
	case ast.NodeTypeNot:
		return negated(compiledNode(n.Arg))
	case ast.NodeTypeEquals:
		return compared(n.Left, n.Right)
	case ast.NodeTypeNotEquals:
		return negated(compared(n.Left, n.Right))
	case ast.NodeTypeHas:
		return has(n)
	case ast.NodeValue:
		if b, ok := n.Value.(cedar.Boolean); ok {
			return func(*world) verdict { return verdictOf(bool(b)) }
		}
	default: // beyond
	}
	return outside
}

// attribute finds the value of an attribute; ok is false where there is none.
type attribute func(w *world) (v powerbox.Value, ok bool)

// attributesOf returns whose attributes a node reads: those of principal.attributes or
// resource.attributes. It returns nil for every other node.
func attributesOf(node ast.IsNode) func(w *world) *subject {
	access, _ := node.(ast.NodeTypeAccess)
	variable, _ := access.Arg.(ast.NodeTypeVariable)
	switch {
	case access.Value != "attributes":
		return nil
	case variable.Name == "principal":
		return func(w *world) *subject { return w.user }
	case variable.Name == "resource":
		return func(w *world) *subject { return &w.resource }
	}
	return nil
}

// attributeOf compiles principal.attributes.name and resource.attributes.name.
func attributeOf(node ast.IsNode) attribute {
	access, _ := node.(ast.NodeTypeAccess)
	of := attributesOf(access.Arg)
	if of == nil {
		return nil
	}
	name := string(access.Value)
	return func(w *world) (powerbox.Value, bool) { return of(w).attribute(name) }
}

// attribute returns an attribute that is declared.
func (s *subject) attribute(name string) (powerbox.Value, bool) {
	if _, ok := s.declared[name]; !ok {
		return powerbox.Value{}, false
	}
	v, ok := s.attributes[name]
	return v, ok
}

// has compiles `has`. What has no attributes at all makes Cedar fail.
func has(n ast.NodeTypeHas) condition {
	of, name := attributesOf(n.Arg), string(n.Value)
	if of == nil {
		return outside
	}
	return func(w *world) verdict {
		s := of(w)
		if s.declared == nil {
			return beyond
		}
		_, ok := s.attribute(name)
		return verdictOf(ok)
	}
}

// compared compiles the comparison of an attribute with a literal of its type. Where the
// attribute is missing or of another type, it is beyond.
func compared(left, right ast.IsNode) condition {
	of, literal := attributeOf(left), right
	if of == nil {
		of, literal = attributeOf(right), left
	}
	v, _ := literal.(ast.NodeValue)
	if of == nil {
		return outside
	}
	switch want := v.Value.(type) {
	case cedar.String:
		return equals(of, powerbox.Value.Text, string(want))
	case cedar.Boolean:
		return equals(of, powerbox.Value.Truth, bool(want))
	case cedar.Long:
		return equals(of, integer, int64(want))
	default:
		return outside
	}
}

func integer(v powerbox.Value) (int64, bool) {
	d, _ := v.Decimal()
	n, ok := d.Int64()
	return n, ok && v.Kind() == powerbox.KindNumber
}

func equals[T comparable](of attribute, read func(powerbox.Value) (T, bool), want T) condition {
	return func(w *world) verdict {
		v, ok := of(w)
		got, typed := read(v)
		if !ok || !typed {
			return beyond
		}
		return verdictOf(got == want)
	}
}

// shortcut answers without Cedar where the compiled conditions of all statements know.
func shortcut(w *world, statements []*statement) (a Answer, ok bool) {
	var permits, forbids []string
	for _, s := range statements {
		switch s.compiled(w) {
		case holds:
			if s.forbid {
				forbids = append(forbids, s.place)
			} else {
				permits = append(permits, s.place)
			}
		case beyond:
			return Answer{}, false
		case fails:
		}
	}
	if len(forbids) > 0 {
		return concluded(false, forbids, statements), true
	}
	return concluded(len(permits) > 0, permits, statements), true
}
