package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox"
)

// Effective returns the configuration as it holds, as YAML: every default
// filled in, included files in their place, paths complete, secrets masked.
func (c *Config) Effective() ([]byte, error) {
	whole := *c
	whole.Include = nil
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(encode(reflect.ValueOf(whole))); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return out.Bytes(), encoder.Close()
}

func text(s string) *yaml.Node {
	n := new(yaml.Node)
	n.SetString(s)
	return n
}

func plain(tag, s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s} }

func encode(v reflect.Value) *yaml.Node {
	switch value := v.Interface().(type) {
	case time.Duration:
		return text(shortDuration(value))
	case Secret:
		return text(value.String())
	case Size:
		return text(value.String())
	case powerbox.Value:
		return encodeFree(value)
	case Constraint:
		return encodeFree(value.JSON())
	}
	switch v.Kind() { //nolint:exhaustive // config.go declares no others
	case reflect.Bool:
		return plain("!!bool", strconv.FormatBool(v.Bool()))
	case reflect.Int:
		return plain("!!int", strconv.FormatInt(v.Int(), 10))
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			n.Content = append(n.Content, encode(v.Index(i)))
		}
		return n
	case reflect.Map:
		return encodeMap(v)
	case reflect.Struct:
		return encodeStruct(v)
	}
	return text(v.String())
}

// shortDuration writes 1h for what the standard library calls 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if cut, ok := strings.CutSuffix(s, "m0s"); ok {
		s = cut + "m"
	}
	if cut, ok := strings.CutSuffix(s, "h0m"); ok {
		s = cut + "h"
	}
	return s
}

func encodeStruct(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, f := range fieldsOf(v.Type()) {
		value := v.Field(f.index)
		// An absent map of arguments is not an empty one, and what has no
		// default says nothing when it is not set.
		if value.IsZero() && !f.hasDef && value.Kind() != reflect.Bool && value.Kind() != reflect.Int {
			continue
		}
		n.Content = append(n.Content, text(f.key), encode(value))
	}
	return n
}

func encodeMap(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	keys := make(map[string]reflect.Value, v.Len())
	for _, k := range v.MapKeys() {
		keys[k.String()] = v.MapIndex(k)
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		n.Content = append(n.Content, text(k), encode(keys[k]))
	}
	return n
}

func encodeFree(v powerbox.Value) *yaml.Node {
	switch v.Kind() {
	case powerbox.KindNull:
		return plain("!!null", "null")
	case powerbox.KindBool, powerbox.KindNumber:
		tag := map[bool]string{true: "!!bool", false: "!!float"}[v.Kind() == powerbox.KindBool]
		if _, ok := integer(v); ok {
			tag = "!!int"
		}
		return plain(tag, v.String())
	case powerbox.KindList:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		elements, _ := v.Elements()
		for _, e := range elements {
			n.Content = append(n.Content, encodeFree(e))
		}
		return n
	case powerbox.KindObject:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		members, _ := v.Members()
		for _, m := range members {
			n.Content = append(n.Content, text(m.Name), encodeFree(m.Value))
		}
		return n
	case powerbox.KindString:
	}
	s, _ := v.Text()
	return text(s)
}

func integer(v powerbox.Value) (int64, bool) {
	d, ok := v.Decimal()
	if !ok {
		return 0, false
	}
	return d.Int64()
}
