// Package missing says which required fields of a configuration were left out.
package missing

import (
	"fmt"
	"reflect"
	"strings"
)

// Fields returns an error that names every one of the fields that config, a struct or
// a pointer to one, leaves empty; nil where it has all. A name that is no field of
// config is a mistake in the program, and panics.
func Fields(of string, config any, names ...string) error {
	v := reflect.Indirect(reflect.ValueOf(config))
	var lacks []string
	for _, name := range names {
		f := v.FieldByName(name)
		if !f.IsValid() {
			panic(fmt.Sprintf("missing: %s has no field %s", v.Type(), name))
		}
		if empty(f) {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the configuration lacks %s", of, strings.Join(lacks, ", "))
}

func empty(v reflect.Value) bool {
	if v.IsZero() {
		return true
	}
	if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
		return v.Len() == 0
	}
	z, ok := v.Interface().(interface{ IsZero() bool })
	return ok && z.IsZero()
}
