package location

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// read reads an execution. Each member occurs once, by its exact name: another
// reader must not find another capability, or other arguments, than were decided on.
func read(body []byte) (Call, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Call{}, errors.New("want a JSON object with capability and arguments")
	}
	var c Call
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return Call{}, errors.New("not JSON")
		}
		for _, known := range []string{"capability", "arguments"} {
			if name != known && strings.EqualFold(name, known) {
				return Call{}, fmt.Errorf("member %.40q; want %s", name, known)
			}
		}
		if seen[name] {
			return Call{}, fmt.Errorf("member %.40q occurs twice", name)
		}
		seen[name] = true
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return Call{}, errors.New("not JSON")
		}
		switch name {
		case "capability":
			if json.Unmarshal(v, &c.Capability) != nil || c.Capability == "" {
				return Call{}, errors.New("capability; want a name")
			}
		case "arguments":
			c.Arguments = v
		}
	}
	if _, err := d.Token(); err != nil {
		return Call{}, errors.New("not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Call{}, errors.New("something follows the object")
	}
	switch {
	case c.Capability == "":
		return Call{}, errors.New("capability is missing")
	case c.Arguments == nil || string(c.Arguments) == "null":
		c.Arguments = json.RawMessage("{}")
	case c.Arguments[0] != '{':
		return Call{}, errors.New("arguments; want an object")
	}
	return c, nil
}
