package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox"
)

// envTag marks text from the environment, which has no types.
const envTag = "!environment"

// decoder fills the typed configuration from the joined tree.
type decoder struct {
	*loader
	main string
	at   map[string]Problem // the place of every value, by its path
	// broken are the paths of values that could not be read. What depends on one of them is
	// not reported after it, since it may be good once that is corrected.
	broken  map[string]bool
	decoded bool
	// declared are the keys of types that were read, since a configuration may have 1,000 values of one.
	declared map[reflect.Type][]field
}

func (d *decoder) fieldsOf(t reflect.Type) []field {
	fields, known := d.declared[t]
	if !known {
		fields = fieldsOf(t)
		d.declared[t] = fields
	}
	return fields
}

func (d *decoder) top(root *yaml.Node, c *Config) {
	d.structure(root, reflect.ValueOf(c).Elem(), "")
}

func newDecoder(l *loader, main string) *decoder {
	return &decoder{loader: l, main: main, at: make(map[string]Problem), broken: make(map[string]bool), declared: make(map[reflect.Type][]field)}
}

// place reports a problem with the value at the path, or with what it would
// stand in when it is absent.
func (d *decoder) place(path, format string, args ...any) {
	if d.decoded && d.follows(path) {
		return
	}
	if !d.decoded {
		d.broken[path] = true
	}
	d.put(path, format, args...)
}

// put is place for a problem that depends on no value.
func (d *decoder) put(path, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	for at := path; ; {
		if p, ok := d.at[at]; ok {
			d.problems = append(d.problems, Problem{p.File, p.Line, path + ": " + message})
			return
		}
		cut := max(strings.LastIndexByte(at, '.'), strings.LastIndexByte(at, '['))
		if cut < 0 {
			d.problems = append(d.problems, Problem{d.main, 1, path + ": " + message})
			return
		}
		at = at[:cut]
	}
}

// follows reports whether a value at the path, in it or around it could not be read.
func (d *decoder) follows(path string) bool {
	for b := range d.broken {
		if within(path, b) || within(b, path) {
			return true
		}
	}
	return false
}

// within reports whether one path is another or leads into it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// value decodes one node. f describes scalars.
func (d *decoder) value(n *yaml.Node, v reflect.Value, f field, path string) {
	d.at[path] = Problem{File: d.files[n], Line: n.Line}
	switch t := v.Type(); {
	case t == valueType:
		if value, ok := d.free(n, path); ok {
			v.Set(reflect.ValueOf(value))
		}
	case t == constraintType:
		d.constraint(n, v, path)
	case isScalar(t):
		d.scalar(n, v, f, path)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		// A key without a value is as if it were not there.
	case t.Kind() == reflect.Slice:
		d.list(n, v, f, path)
	case t.Kind() == reflect.Map:
		d.mapping(n, v, f, path)
	default:
		d.structure(n, v, path)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	fields := d.fieldsOf(v.Type())
	d.defaults(v, fields)
	if n.Kind != yaml.MappingNode {
		d.place(path, "is %s; want keys: %s", kindName(n), strings.Join(fieldNames(fields), ", "))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		known := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value })
		if known < 0 {
			d.problem(key, "%s is unknown%s", join(path, key.Value), didYouMean(key.Value, fieldNames(fields)))
			if near, ok := nearest(key.Value, fieldNames(fields)); ok {
				d.broken[join(path, near)] = true
			}
			continue
		}
		d.value(n.Content[i+1], v.Field(fields[known].index), fields[known], join(path, key.Value))
	}
	for _, f := range fields {
		if f.required && get(n, f.key) == nil {
			d.place(path, "%s is missing: %s", f.key, f.doc)
			delete(d.broken, path)
			d.broken[join(path, f.key)] = true
		}
	}
}

// defaults fills in a struct and the structs in it.
func (d *decoder) defaults(v reflect.Value, fields []field) {
	for _, f := range fields {
		target := v.Field(f.index)
		switch {
		case f.hasDef:
			if err := setScalar(target, f.def); err != nil {
				panic("config.go: default of " + f.key + ": " + err.Error())
			}
			if f.of == pathType {
				target.SetString(string(relative(d.main, f.def)))
			}
		case target.Kind() == reflect.Struct && !isScalar(f.of):
			if f.of != valueType && f.of != constraintType {
				d.defaults(target, d.fieldsOf(f.of))
			}
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, f field, path string) {
	if n.Kind != yaml.SequenceNode {
		d.place(path, "is %s; want %s", kindName(n), wanted(v.Type()))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		if e.Tag == "!!null" && list.Index(i).Kind() == reflect.Struct && list.Index(i).Type() != valueType {
			d.problem(e, "%s[%d]: is empty; want keys", path, i)
			d.broken[path+"["+strconv.Itoa(i)+"]"] = true
			continue
		}
		d.value(e, list.Index(i), field{key: f.key, format: f.format, enum: f.enum}, path+"["+strconv.Itoa(i)+"]")
	}
	v.Set(list)
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, f field, path string) {
	if n.Kind != yaml.MappingNode {
		d.place(path, "is %s; want %s", kindName(n), wanted(v.Type()))
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], element, field{key: f.key}, join(path, n.Content[i].Value))
		m.SetMapIndex(reflect.ValueOf(n.Content[i].Value), element)
	}
	v.Set(m)
}

// wanted says what a value of the type would be.
func wanted(t reflect.Type) string {
	switch name := typeName(t); name {
	case "duration":
		return "a duration such as 30s, 15m or 1h"
	case "size":
		return "a size such as 512KiB or 4MiB"
	case "number":
		return "a whole number"
	case "text", "secret":
		return "text"
	case "true or false":
		return name
	default:
		return "a " + name
	}
}

// scalarTags are the YAML types that a value may be written in. The others
// would change it on the way: 1e3 as text, yes as true.
func scalarTags(t reflect.Type) []string {
	switch {
	case t.Kind() == reflect.Bool:
		return []string{"!!bool"}
	case t.Kind() == reflect.Int:
		return []string{"!!int"}
	case t == sizeType:
		return []string{"!!str", "!!int"}
	}
	return []string{"!!str", "!!timestamp"}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, f field, path string) {
	if n.Kind != yaml.ScalarNode || n.Tag != envTag && !slices.Contains(scalarTags(v.Type()), n.Tag) {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" && wanted(v.Type()) == "text" {
			hint = " in quotes"
		}
		d.place(path, "is %s; want %s%s", kindName(n), wanted(v.Type()), hint)
		return
	}
	if len(f.enum) > 0 && !slices.Contains(f.enum, n.Value) && (n.Value != "" || f.hasDef) {
		d.place(path, "%q is not one of %s", n.Value, strings.Join(f.enum, ", "))
		return
	}
	if err := setScalar(v, n.Value); err != nil {
		d.place(path, "%v", err)
		return
	}
	if v.Type() == pathType {
		from := d.files[n]
		if n.Tag == envTag {
			from = d.main
		}
		v.SetString(string(relative(from, n.Value)))
	}
	if f.bounded && (v.Int() < int64(f.low) || v.Int() > int64(f.high)) {
		d.place(path, "%s is out of range; want %d to %d", n.Value, f.low, f.high)
	}
	if check := formats[f.format]; check != nil {
		if err := check(n.Value); err != nil {
			d.place(path, "%v", err)
		}
	}
}

// setScalar parses text into a scalar of any declared type.
func setScalar(v reflect.Value, text string) error {
	switch v.Type() {
	case durationType:
		lasts, err := time.ParseDuration(text)
		if err != nil || lasts <= 0 {
			return fmt.Errorf("%q is not a duration; want one such as 30s, 15m or 1h", text)
		}
		v.SetInt(int64(lasts))
		return nil
	case sizeType:
		size, err := ParseSize(text)
		v.SetInt(int64(size))
		return err
	case secretType:
		v.Set(reflect.ValueOf(Secret{text}))
		return nil
	}
	switch v.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not a truth value; want true or false", text)
		}
		v.SetBool(b)
	case reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil || strconv.Itoa(i) != text {
			return fmt.Errorf("%q is not a whole number in decimal digits", text)
		}
		v.SetInt(int64(i))
	default:
		v.SetString(text)
	}
	return nil
}

func (d *decoder) constraint(n *yaml.Node, v reflect.Value, path string) {
	value, ok := d.free(n, path)
	if !ok {
		return
	}
	c, err := powerbox.ParseConstraint(value)
	if err != nil {
		d.place(path, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(Constraint{c}))
}

// free decodes a value of any shape as in JSON.
func (d *decoder) free(n *yaml.Node, path string) (powerbox.Value, bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		elements := make([]powerbox.Value, 0, len(n.Content))
		for i, e := range n.Content {
			v, ok := d.free(e, path+"["+strconv.Itoa(i)+"]")
			if !ok {
				return powerbox.Value{}, false
			}
			elements = append(elements, v)
		}
		return powerbox.List(elements...), true
	case yaml.MappingNode:
		members := make([]powerbox.Member, 0, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			v, ok := d.free(n.Content[i+1], join(path, n.Content[i].Value))
			if !ok {
				return powerbox.Value{}, false
			}
			members = append(members, powerbox.Member{Name: n.Content[i].Value, Value: v})
		}
		return powerbox.Object(members...), true
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	return d.freeScalar(n, path)
}

func (d *decoder) freeScalar(n *yaml.Node, path string) (powerbox.Value, bool) {
	switch n.Tag {
	case "!!null":
		return powerbox.Value{}, true
	case "!!bool":
		return powerbox.Bool(strings.EqualFold(n.Value, "true")), true
	case "!!int", "!!float":
		number, err := powerbox.ParseDecimal(n.Value)
		if err != nil {
			d.place(path, "%v; put it in quotes if it is text", err)
			return powerbox.Value{}, false
		}
		return powerbox.Number(number), true
	}
	return powerbox.String(n.Value), true
}

// kindName says what a node is, to people.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a section of keys"
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	switch n.Tag {
	case "!!null":
		return "empty"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	}
	return "text"
}
