package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is the whole configuration of one command, in its own file.
type file interface {
	// check reports what settings say about each other.
	check(d *decoder)
}

// loadFile reads such a file into c, a pointer to its structure, strictly: as
// [Load] does, but without includes and environment.
func loadFile(path string, read func(string) ([]byte, error), c file) error {
	data, err := read(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	l := &loader{read: read, files: make(map[*yaml.Node]string)}
	d := newDecoder(l, path)
	root := l.parse(path, data)
	whole := len(l.problems) == 0
	d.structure(root, reflect.ValueOf(c).Elem(), "")
	if whole {
		d.decoded = true
		c.check(d)
	}
	if len(l.problems) > 0 {
		return l.sorted()
	}
	return nil
}

// table returns the table of all settings of such a file, for the docs.
func table(of reflect.Type) []byte {
	var b strings.Builder
	b.WriteString("| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
	writeRows(&b, describeStruct(of, "", false), false, nil)
	return []byte(b.String())
}
