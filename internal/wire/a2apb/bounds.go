package a2apb

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/powerbox-project/powerbox"
)

// maxFields is how many fields a request may have, at all levels together. A field
// of two bytes becomes a structure of more than a hundred and then JSON, so that
// a bound on bytes alone bounds neither memory nor time.
const maxFields = 1 << 14

// maxElements is how many elements one list of the service may have in a request, in
// all its copies together, since readers merge them. A list of the protocol has at most
// as many in JSON; arguments and metadata are no such list, and maxFields alone bounds them.
const maxElements = 256

// errTooLarge is a request beyond the bounds of fields, elements or the length of its JSON form.
var errTooLarge = errors.New("the message is too large")

// scan counts the fields and bytes that a request may still have.
type scan struct {
	most, left int
	text       int // bytes that its texts have in JSON, at least; more than there may be refuses
	longest    int
	elements   map[protoreflect.FieldDescriptor]int // of each list, so far
}

// bounded counts the fields of a message on the wire, before anything is allocated
// for them, and stops at the first that is too many or nests too deep. A caller that
// may send fewer values, nodes, may send at most as many fields; 0 is no such bound. It
// stops where texts alone make the JSON form too long, since each byte can become six.
func bounded(d protoreflect.MessageDescriptor, message []byte, limits powerbox.Limits) error {
	s := scan{most: maxFields, longest: limits.Bytes * maxGrowth, elements: map[protoreflect.FieldDescriptor]int{}}
	if limits.Nodes > 0 {
		s.most = min(s.most, limits.Nodes)
	}
	s.left = s.most
	return s.count(d, message, maxNesting)
}

// take counts n fields.
func (s *scan) take(n int) error {
	if s.left -= n; s.left < 0 {
		return fmt.Errorf("%w: it has more than %d fields", errTooLarge, s.most)
	}
	return nil
}

// element counts one element of a list of the service.
func (s *scan) element(field protoreflect.FieldDescriptor) error {
	if !field.IsList() || field.FullName().Parent().Parent() == "google.protobuf" {
		return nil
	}
	if s.elements[field]++; s.elements[field] > maxElements {
		return fmt.Errorf("%w: %s has more than %d elements", errTooLarge, field.JSONName(), maxElements)
	}
	return nil
}

// escapes is how many bytes a byte of text has in JSON beyond itself.
var escapes = func() (t [256]uint8) {
	for b := range 0x20 {
		t[b] = 5
	}
	for _, b := range []byte("\b\f\n\r\t\"\\") {
		t[b] = 1
	}
	return t
}()

// string counts the bytes of a text in JSON, without those that UTF-8 might add.
func (s *scan) string(value []byte) error {
	s.text += len(value)
	for _, b := range value {
		s.text += int(escapes[b])
	}
	if s.longest > 0 && s.text > s.longest {
		return fmt.Errorf("%w: its JSON form has more than %d bytes", errTooLarge, s.longest)
	}
	return nil
}

func (s *scan) count(d protoreflect.MessageDescriptor, message []byte, depth int) error {
	if depth == 0 {
		return fmt.Errorf("messages nest deeper than %d", maxNesting)
	}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := s.take(1); err != nil {
			return err
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return protowire.ParseError(n)
		}
		value := message[:n]
		message = message[n:]
		field := d.Fields().ByNumber(number)
		if field == nil || kind != protowire.BytesType {
			continue // unknown fields are skipped whole
		}
		if err := s.element(field); err != nil {
			return err
		}
		inner, _ := protowire.ConsumeBytes(value)
		var err error
		switch {
		case field.Message() != nil:
			err = s.count(field.Message(), inner, depth-1)
		case field.Kind() == protoreflect.StringKind:
			err = s.string(inner)
		case field.IsList() && field.Kind() != protoreflect.StringKind && field.Kind() != protoreflect.BytesKind:
			err = s.take(len(inner)) // packed numbers: one is a byte at least
		}
		if err != nil {
			return err
		}
	}
	return nil
}
