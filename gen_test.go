package powerbox_test

import (
	"net/netip"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

// The generators draw from small domains, so that two of them often meet.

var scalars = values(`null, true, false, 0, 1, 2, 3, 1.5, "a", "b", "/a", "/a/b", "/b/c", "10.0.0.1", "10.1.2.3", "https://a.example/x", "abc"`)

var (
	paths    = []string{"/", "/a", "/a/b", "/b", "/b/c"}
	prefixes = []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "fd00::/8", "::/0"}
	globs    = []string{"*", "a*", "*b*", "a*c", "abc", "/a/*", "*.1"}
	hosts    = []string{"a.example", "*.example", "*.a.example", "b.a.example", "::1"}
	bounds   = []string{"0", "1", "1.5", "2", "3"}
)

func drawScalar(t *rapid.T) powerbox.Value { return rapid.SampledFrom(scalars).Draw(t, "scalar") }

func drawScalars(t *rapid.T, most int) []powerbox.Value {
	return rapid.SliceOfN(rapid.SampledFrom(scalars), 0, most).Draw(t, "scalars")
}

func drawRange(t *rapid.T) powerbox.Range {
	var r powerbox.Range
	if rapid.IntRange(0, 3).Draw(t, "bounded") > 0 {
		r.Min, r.MinExclusive = bound(rapid.SampledFrom(bounds).Draw(t, "min")), rapid.Bool().Draw(t, "open")
	}
	if rapid.IntRange(0, 3).Draw(t, "bounded") > 0 {
		r.Max, r.MaxExclusive = bound(rapid.SampledFrom(bounds).Draw(t, "max")), rapid.Bool().Draw(t, "open")
	}
	return r
}

func drawURL(t *rapid.T) powerbox.URLMatch {
	u := powerbox.URLMatch{
		Schemes: rapid.SliceOfN(rapid.SampledFrom([]string{"https", "http"}), 1, 2).Draw(t, "schemes"),
		Hosts:   rapid.SliceOfN(rapid.SampledFrom(hosts), 1, 3).Draw(t, "hosts"),
		Ports:   rapid.SliceOfN(rapid.SampledFrom([]string{"443", "8443"}), 0, 2).Draw(t, "ports"),
	}
	if rapid.Bool().Draw(t, "prefixed") {
		u.Prefix = rapid.SampledFrom(paths).Draw(t, "prefix")
	}
	return u
}

func drawConstraint(t *rapid.T, depth int) powerbox.Constraint {
	most := 15
	if depth == 0 {
		most = 10
	}
	switch rapid.IntRange(0, most).Draw(t, "type") {
	case 0:
		return powerbox.ExactValue{Value: drawScalar(t)}
	case 1:
		return powerbox.OneOf{Values: drawScalars(t, 5)}
	case 2:
		return powerbox.NotOneOf{Excluded: drawScalars(t, 3)}
	case 3:
		return powerbox.Contains{Required: drawScalars(t, 2)}
	case 4:
		return powerbox.Subset{Allowed: drawScalars(t, 4)}
	case 5:
		return powerbox.Wildcard{}
	case 6:
		return powerbox.PathUnder{Root: rapid.SampledFrom(paths).Draw(t, "root")}
	case 7:
		return drawURL(t)
	case 8:
		return powerbox.CIDR{Prefix: netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "prefix"))}
	case 9:
		return powerbox.Glob{Pattern: rapid.SampledFrom(globs).Draw(t, "pattern")}
	case 10:
		return drawRange(t)
	case 11, 12, 13:
		return powerbox.All{Constraints: drawConstraints(t, depth-1)}
	default:
		return powerbox.AnyOf{Constraints: drawConstraints(t, depth-1)}
	}
}

func drawConstraints(t *rapid.T, depth int) []powerbox.Constraint {
	cs := make([]powerbox.Constraint, rapid.IntRange(0, 3).Draw(t, "clauses"))
	for i := range cs {
		cs[i] = drawConstraint(t, depth)
	}
	return cs
}

// drawNear draws a constraint that often has to do with c.
func drawNear(t *rapid.T, c powerbox.Constraint) powerbox.Constraint {
	fresh := drawConstraint(t, 2)
	switch rapid.IntRange(0, 4).Draw(t, "near") {
	case 0:
		return powerbox.All{Constraints: []powerbox.Constraint{fresh, c}}
	case 1:
		return powerbox.AnyOf{Constraints: []powerbox.Constraint{c, fresh}}
	case 2:
		return powerbox.OneOf{Values: edges(c)}
	default:
		return fresh
	}
}

// edges returns values at the boundary of c, some inside and some outside.
func edges(c powerbox.Constraint) []powerbox.Value {
	switch c := c.(type) {
	case powerbox.ExactValue:
		return []powerbox.Value{c.Value, powerbox.List(c.Value)}
	case powerbox.OneOf:
		return c.Values
	case powerbox.NotOneOf:
		return append(values(`"other"`), c.Excluded...)
	case powerbox.Contains:
		return listEdges(c.Required)
	case powerbox.Subset:
		return listEdges(c.Allowed)
	case powerbox.Range:
		return values(`-1, 0, 0.5, 1, 1.2, 1.5, 1.7, 2, 2.5, 3, 4`)
	case powerbox.PathUnder:
		return texts(c.Root, strings.TrimSuffix(c.Root, "/")+"/x", c.Root+"x", c.Root+"/../b", c.Root+"/")
	case powerbox.URLMatch:
		return urlEdges(c)
	case powerbox.CIDR:
		return texts(c.Prefix.Addr().String(), c.Prefix.Addr().Next().String(), c.Prefix.Addr().Prev().String(), "11.0.0.1")
	case powerbox.Glob:
		return texts(c.Pattern, strings.ReplaceAll(c.Pattern, "*", ""), strings.ReplaceAll(c.Pattern, "*", "ab"), c.Pattern+"z")
	case powerbox.All:
		return innerEdges(c.Constraints)
	case powerbox.AnyOf:
		return innerEdges(c.Constraints)
	default:
		return nil
	}
}

func innerEdges(cs []powerbox.Constraint) []powerbox.Value {
	var out []powerbox.Value
	for _, c := range cs {
		out = append(out, edges(c)...)
	}
	return out
}

func listEdges(vs []powerbox.Value) []powerbox.Value {
	out := []powerbox.Value{powerbox.List(), powerbox.List(vs...), powerbox.List(append(values(`"other"`), vs...)...)}
	if len(vs) > 0 {
		out = append(out, powerbox.List(vs[1:]...), vs[0])
	}
	return out
}

func urlEdges(c powerbox.URLMatch) []powerbox.Value {
	port := ""
	if len(c.Ports) > 0 {
		port = ":" + c.Ports[0]
	}
	var out []powerbox.Value
	for _, h := range c.Hosts {
		h = strings.Replace(h, "*", "b", 1)
		if strings.Contains(h, ":") {
			h = "[" + h + "]"
		}
		base := c.Schemes[0] + "://" + h + port
		out = append(out, texts(base, base+c.Prefix, base+c.Prefix+"/x", base+":1"+c.Prefix)...)
	}
	return out
}

func texts(ss ...string) []powerbox.Value {
	vs := make([]powerbox.Value, len(ss))
	for i, s := range ss {
		vs[i] = powerbox.String(s)
	}
	return vs
}

// drawProbes returns values to try against constraints: their edges, and a few
// that have nothing to do with them.
func drawProbes(t *rapid.T, cs ...powerbox.Constraint) []powerbox.Value {
	out := append([]powerbox.Value{powerbox.List(drawScalars(t, 3)...), drawScalar(t)}, values(`{}, [], {"a":1}, "other"`)...)
	for _, c := range cs {
		out = append(out, edges(c)...)
	}
	return out
}

var argumentNames = []string{"x", "y", "z"}

func drawShape(t *rapid.T) powerbox.Shape {
	var fields []powerbox.Field
	for _, name := range argumentNames {
		if rapid.IntRange(0, 2).Draw(t, "named") > 0 {
			c := powerbox.Constraint(powerbox.OneOf{Values: values(`1, 2, "a"`)})
			if rapid.Bool().Draw(t, "free") {
				c = drawConstraint(t, 1)
			}
			fields = append(fields, powerbox.Field{Name: name, Constraint: c, Required: rapid.Bool().Draw(t, "required")})
		}
	}
	return shape(powerbox.Rest(rapid.IntRange(0, 1).Draw(t, "rest")), fields...)
}

// drawCall draws arguments aimed at the edges of the shapes.
func drawCall(t *rapid.T, shapes ...powerbox.Shape) powerbox.Value {
	var ms []powerbox.Member
	for _, name := range append([]string{"other"}, argumentNames...) {
		pool := values(`1, 2, "a"`)
		odds := 1
		for _, s := range shapes {
			if f, ok := s.Field(name); ok {
				odds = 4
				for _, v := range edges(f.Constraint) {
					if f.Constraint.Admits(v) {
						pool = append(pool, v, v, v)
					}
				}
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "given") < odds {
			ms = append(ms, powerbox.Member{Name: name, Value: rapid.SampledFrom(pool).Draw(t, name)})
		}
	}
	return powerbox.Object(ms...)
}

var operationNames = []string{"t", "t.a", "t.a.b", "t.b", "t-r", "t-r.a", "u", "u.a"}

func drawPattern(t *rapid.T) powerbox.Pattern {
	kind := powerbox.PatternKind(rapid.IntRange(1, 3).Draw(t, "kind"))
	return must(powerbox.NewPattern(kind, rapid.SampledFrom(operationNames).Draw(t, "name")))
}

// drawAuthority adds clauses as long as the constructor takes them.
func drawAuthority(t *rapid.T) powerbox.Authority {
	shapes := []powerbox.Shape{drawShape(t), powerbox.AnyArguments(), powerbox.AnyArguments()}
	w := powerbox.Window{From: at(rapid.IntRange(0, 1).Draw(t, "from")), Until: at(rapid.IntRange(3, 5).Draw(t, "until"))}
	depth := rapid.IntRange(0, 2).Draw(t, "depth")
	var clauses []powerbox.Clause
	a := must(powerbox.NewAuthority(w, depth))
	for range rapid.IntRange(1, 5).Draw(t, "clauses") {
		c := powerbox.Clause{Pattern: drawPattern(t), Shape: rapid.SampledFrom(shapes).Draw(t, "shape")}
		if b, err := powerbox.NewAuthority(w, depth, append(clauses, c)...); err == nil {
			clauses, a = append(clauses, c), b
		}
	}
	return a
}

// drawAttempt draws an attempt aimed at the authorities.
func drawAttempt(t *rapid.T, as ...powerbox.Authority) powerbox.Attempt {
	names := slices.Clone(operationNames)
	for _, name := range operationNames {
		if !slices.ContainsFunc(as, func(a powerbox.Authority) bool { _, ok := a.Shape(op(name)); return !ok }) {
			names = append(names, name, name, name, name)
		}
	}
	name := rapid.SampledFrom(names).Draw(t, "operation")
	if rapid.IntRange(0, 5).Draw(t, "admission") == 0 {
		return powerbox.Admission(op(name), op(rapid.SampledFrom(operationNames).Draw(t, "operation")))
	}
	var shapes []powerbox.Shape
	for _, a := range as {
		if s, ok := a.Shape(op(name)); ok {
			shapes = append(shapes, s)
		}
	}
	return must(powerbox.Invocation(op(name), drawCall(t, shapes...)))
}
