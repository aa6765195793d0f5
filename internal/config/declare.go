package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

const envPrefix = "POWERBOX_"

var (
	configType     = reflect.TypeFor[Config]()
	durationType   = reflect.TypeFor[time.Duration]()
	sizeType       = reflect.TypeFor[Size]()
	pathType       = reflect.TypeFor[Path]()
	secretType     = reflect.TypeFor[Secret]()
	valueType      = reflect.TypeFor[powerbox.Value]()
	constraintType = reflect.TypeFor[Constraint]()
)

// field is one declared key: what the tags of config.go say.
type field struct {
	index     int
	key, doc  string
	def       string
	hasDef    bool
	enum      []string
	format    string
	required  bool
	bounded   bool
	low, high int
	of        reflect.Type
}

// fieldsOf returns the declared keys of a struct type in their order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		f := field{
			index: i, key: tag.Get("key"), doc: tag.Get("doc"), format: tag.Get("format"),
			required: tag.Get("required") == "true", of: t.Field(i).Type,
		}
		f.def, f.hasDef = tag.Lookup("default")
		if enum, ok := tag.Lookup("enum"); ok {
			f.enum = strings.Split(enum, ",")
		}
		if _, ok := tag.Lookup("min"); ok {
			f.bounded = true
			f.low, _ = strconv.Atoi(tag.Get("min"))
			f.high, _ = strconv.Atoi(tag.Get("max"))
		}
		fields = append(fields, f)
	}
	return fields
}

func fieldNames(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	return names
}

// isScalar reports whether one piece of text is a value of the type.
func isScalar(t reflect.Type) bool {
	switch t {
	case valueType, constraintType:
		return false
	case secretType:
		return true
	}
	return slices.Contains([]reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64}, t.Kind())
}

// typeName says what a value of the type is, to people.
func typeName(t reflect.Type) string {
	switch t {
	case durationType:
		return "duration"
	case sizeType:
		return "size"
	case pathType:
		return "path"
	case secretType:
		return "secret"
	case valueType:
		return "any"
	case constraintType:
		return "constraint"
	}
	switch t.Kind() { //nolint:exhaustive // config.go declares no others
	case reflect.Slice:
		return "list of " + plural(t.Elem())
	case reflect.Map:
		return "map of " + plural(t.Elem())
	case reflect.Struct:
		return "section"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "number"
	}
	return "text"
}

// plural is typeName for many.
func plural(t reflect.Type) string {
	switch name := typeName(t); name {
	case "text":
		return "texts"
	case "any":
		return "anything"
	case "section", "path", "constraint":
		return name + "s"
	default:
		return strings.Replace(strings.Replace(name, "list ", "lists ", 1), "map ", "maps ", 1)
	}
}

// row is one line of the table of all settings.
type row struct {
	field
	key string // the whole path: [] for an element of a list, NAME for any key
	env string // empty where the environment cannot set it
}

// describe lists every setting there is.
func describe() []row { return describeStruct(configType, "", true) }

func describeStruct(t reflect.Type, prefix string, fixed bool) []row {
	var rows []row
	for _, f := range fieldsOf(t) {
		r := row{field: f, key: prefix + f.key}
		if fixed && isScalar(f.of) {
			r.env = envPrefix + strings.ToUpper(strings.ReplaceAll(r.key, ".", "_"))
		}
		rows = append(rows, r)
		rows = append(rows, describeInner(f.of, r.key, fixed)...)
	}
	return rows
}

func describeInner(t reflect.Type, key string, fixed bool) []row {
	if t == valueType || t == constraintType || isScalar(t) {
		return nil
	}
	switch t.Kind() { //nolint:exhaustive // config.go declares no others
	case reflect.Slice:
		return describeInner(t.Elem(), key+"[]", false)
	case reflect.Map:
		return describeInner(t.Elem(), key+".NAME", false)
	}
	return describeStruct(t, key+".", fixed)
}
