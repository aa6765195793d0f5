package a2apb

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxFields is how many fields a request may have, at all levels together. A field
// of two bytes becomes a structure of more than a hundred and then JSON, so that
// a bound on bytes alone bounds neither memory nor time.
const maxFields = 1 << 14

// errTooMany is a request with more fields than that.
var errTooMany = errors.New("the message has too many fields")

// bounded counts the fields of a message on the wire, before anything is allocated
// for them, and stops at the first that is too many or nests too deep.
func bounded(d protoreflect.MessageDescriptor, message []byte) error {
	left := maxFields
	return count(d, message, maxNesting, &left)
}

func count(d protoreflect.MessageDescriptor, message []byte, depth int, left *int) error {
	if depth == 0 {
		return fmt.Errorf("messages nest deeper than %d", maxNesting)
	}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if *left--; *left < 0 {
			return fmt.Errorf("%w: more than %d", errTooMany, maxFields)
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
		inner, _ := protowire.ConsumeBytes(value)
		switch {
		case field.Message() != nil:
			if err := count(field.Message(), inner, depth-1, left); err != nil {
				return err
			}
		case field.IsList() && field.Kind() != protoreflect.StringKind && field.Kind() != protoreflect.BytesKind:
			// Packed numbers: one is a byte at least.
			if *left -= len(inner); *left < 0 {
				return fmt.Errorf("%w: more than %d", errTooMany, maxFields)
			}
		}
	}
	return nil
}
