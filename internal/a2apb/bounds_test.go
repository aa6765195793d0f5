package a2apb

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/a2a"
)

func field(n protowire.Number, inner []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), inner)
}

// A request of many tiny messages is refused before memory is allocated for them.
func TestATK55_FieldsAreCounted(t *testing.T) {
	part := field(5, nil) // of a message: parts, empty
	message := field(2, bytes.Repeat(part, 2<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, wrong := Decode(Service1+"SendMessage", message, a2a.Header{}, powerbox.Limits{Bytes: 4 << 20, Depth: 64})
	runtime.ReadMemStats(&after)
	if wrong == nil || wrong.Reason != a2a.ReasonTooLarge {
		t.Errorf("ATK-55: %v; want %s", wrong, a2a.ReasonTooLarge)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("ATK-55: %d bytes were allocated; want at most 1 MiB", n)
	}
	if err := bounded(mustInput(t), bytes.Repeat(field(9999, nil), maxFields+1)); !errors.Is(err, errTooMany) {
		t.Errorf("ATK-55: unknown fields are not counted: %v", err)
	}
}

// What is written again has each singular field once and nothing that is unknown.
func TestATK56_WrittenIsWhatWasParsed(t *testing.T) {
	id := func(text string) []byte { return field(1, []byte(text)) } // of a message: message_id
	unknown := field(9999, []byte("junk"))
	sent := append(field(2, append(id("one"), unknown...)), field(2, id("two"))...)
	sent = append(sent, unknown...)
	call, _ := Decode(Service1+"SendMessage", sent, a2a.Header{}, powerbox.Limits{Bytes: 1 << 20, Depth: 64})
	if want := field(2, id("two")); !bytes.Equal(call.Written.Body, want) {
		t.Errorf("ATK-56 written as %x; want %x", call.Written.Body, want)
	}
}

func mustInput(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	r, err := find(Service1 + "SendMessage")
	if err != nil {
		t.Fatal(err)
	}
	return r.input.Descriptor()
}
