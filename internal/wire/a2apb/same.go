package a2apb

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Same reports whether two requests to the method of a path have the same fields with the
// same bytes, in any order of different fields. A message that was written again is the
// same as the one that came only where all readers agree on that: no field is unknown,
// occurs twice, or has its value in a longer form than needed.
func Same(path string, one, other []byte) bool {
	r, err := find(path)
	return err == nil && r.input != nil && same(r.input.Descriptor(), one, other, maxNesting)
}

// OneReading returns why kits may take an answer of a method for different ones, nil where all
// take it for the same. Of a field that occurs twice some take the last copy, and others merge
// both (ATK-165).
func OneReading(path string, answer []byte) error {
	r, err := find(path)
	if err != nil || r.output == nil || once(r.output.Descriptor(), answer, maxNesting) {
		return err
	}
	return fmt.Errorf("answer to %s: a field occurs twice, or two fields of which one is meant, or the message cannot be read", path)
}

// once reports whether each field occurs once that is no list, and one field of each choice.
func once(d protoreflect.MessageDescriptor, message []byte, depth int) bool {
	var seen []int // numbers of fields, and of choices below 0
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeField(message)
		if n < 0 || depth == 0 {
			return false
		}
		raw, field := message[:n], d.Fields().ByNumber(number)
		message = message[n:]
		if field == nil {
			continue
		}
		is := int(number)
		if choice := field.ContainingOneof(); choice != nil {
			is = -1 - choice.Index()
		}
		if field.Cardinality() != protoreflect.Repeated {
			if slices.Contains(seen, is) {
				return false
			}
			seen = append(seen, is)
		}
		if field.Message() == nil || kind != protowire.BytesType {
			continue
		}
		_, _, tag := protowire.ConsumeTag(raw)
		if inner, _ := protowire.ConsumeBytes(raw[tag:]); !once(field.Message(), inner, depth-1) {
			return false
		}
	}
	return true
}

// value is one field on the wire.
type value struct {
	number protowire.Number
	kind   protowire.Type
	raw    []byte
	key    []byte // of an entry in a map
}

func same(d protoreflect.MessageDescriptor, one, other []byte, depth int) bool {
	a, fine := values(d, one)
	b, also := values(d, other)
	return fine && also && depth > 0 && slices.EqualFunc(a, b, func(a, b value) bool {
		if a.number != b.number || a.kind != b.kind {
			return false
		}
		field := d.Fields().ByNumber(a.number)
		if field == nil || field.Message() == nil || a.kind != protowire.BytesType {
			return bytes.Equal(a.raw, b.raw)
		}
		return same(field.Message(), a.raw, b.raw, depth-1)
	})
}

// values are the fields of a message in the order of their numbers, and entries of a map in
// the order of their keys.
func values(d protoreflect.MessageDescriptor, message []byte) (all []value, whole bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 || n != protowire.SizeTag(number) {
			return nil, false
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil, false
		}
		v := value{number: number, kind: kind, raw: message[:n]}
		message = message[n:]
		if kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(v.raw)
			if len(v.raw) != protowire.SizeBytes(len(inner)) {
				return nil, false
			}
			v.raw = inner
			if field := d.Fields().ByNumber(number); field != nil && field.IsMap() {
				v.key = keyOf(inner)
			}
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b value) int {
		if a.number != b.number {
			return int(a.number) - int(b.number)
		}
		return bytes.Compare(a.key, b.key)
	})
	return all, true
}

// keyOf is the key of an entry of a map, nil for an entry without one.
func keyOf(entry []byte) []byte {
	for len(entry) > 0 {
		number, kind, n := protowire.ConsumeField(entry)
		if n < 0 {
			return nil
		}
		if number == 1 && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(entry)
			key, _ := protowire.ConsumeBytes(entry[tag:])
			return key
		}
		entry = entry[n:]
	}
	return nil
}
