package a2apb_test

import (
	"slices"
	"testing"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// TestSameHasEveryFieldOnceAndNoOther: fields and entries of maps may stand in any order.
func TestSameHasEveryFieldOnceAndNoOther(t *testing.T) {
	const path = a2apb.Service1 + "SendMessage"
	m := &v1.SendMessageRequest{}
	if err := protojson.Unmarshal([]byte(`{"tenant":"t","message":{"messageId":"m","parts":[{"text":"a"},{"data":{"x":1,"y":{"z":[true]}}}]},"metadata":{"a":1,"b":"c","d":{"e":null}}}`), m); err != nil {
		t.Fatal(err)
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 { // maps are written in another order each time
		other, err := proto.Marshal(m)
		if err != nil || !a2apb.Same(path, want, other) {
			t.Fatalf("%q is not %q: %v", other, want, err)
		}
	}
	parts := &v1.SendMessageRequest{}
	if err := proto.Unmarshal(want, parts); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(parts.Message.Parts)
	reversed, err := proto.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	with := func(more ...byte) []byte { return append(slices.Clone(want), more...) }
	for name, other := range map[string][]byte{
		"another order of a list":       reversed,
		"an unknown field":              with(0xfa, 0x3f, 0x00),
		"a text twice":                  with(0x0a, 0x01, 't'),
		"a message twice":               with(0x12, 0x00),
		"an entry twice":                with(0x22, 0x0c, 0x0a, 0x03, 0x0a, 0x01, 'a', 0x22, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'a'),
		"a tag that is longer":          append([]byte{0x8a, 0x00}, want[1:]...),
		"a length that is longer":       append([]byte{0x0a, 0x81, 0x00}, want[2:]...),
		"a default that is spelled out": with(0x1a, 0x02, 0x20, 0x00),
		"cut short":                     want[:len(want)-1],
		"nothing":                       nil,
	} {
		if a2apb.Same(path, want, other) || a2apb.Same(path, other, want) {
			t.Errorf("%s: %q is %q", name, other, want)
		}
	}
}
