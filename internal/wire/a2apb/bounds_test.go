package a2apb

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
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
	if err := bounded(mustInput(t), bytes.Repeat(field(9999, nil), maxFields+1), powerbox.Limits{}); !errors.Is(err, errTooLarge) {
		t.Errorf("ATK-55: unknown fields are not counted: %v", err)
	}
}

// A list of the service has at most as many elements over gRPC as in JSON, also where a
// caller spreads it over copies of the message that readers merge. A caller that may send
// few values may send as few fields. Arguments are no list of the service.
func TestATK55_ListsAreBoundedBeforeTheyAreRead(t *testing.T) {
	parts := func(n int) []byte { return field(2, bytes.Repeat(field(5, nil), n)) }
	tasks := func(n int) []byte { return field(2, bytes.Repeat(field(8, []byte("t")), n)) }
	value := field(1, []byte{0x20, 1}) // an element of a ListValue: true
	list := field(2, field(5, field(4, field(6, bytes.Repeat(value, 2000)))))
	for _, c := range []struct {
		name    string
		message []byte
		nodes   int
		want    string
	}{
		{"parts", parts(maxElements), 0, ""},
		{"a part too many", parts(maxElements + 1), 0, "parts has more than 256 elements"},
		{"parts in two copies of the message", append(parts(maxElements), parts(1)...), 0, "parts has more than 256 elements"},
		{"referenceTaskIds", tasks(maxElements + 1), 0, "referenceTaskIds has more than 256 elements"},
		{"a list of data", list, 0, ""},
		{"a list of data of a caller that may send few values", list, 1000, "more than 1000 fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := bounded(mustInput(t), c.message, powerbox.Limits{Nodes: c.nodes})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("ATK-55: %v; want %q", err, c.want)
			}
		})
	}
	_, wrong := Decode(Service1+"SendMessage", list, a2a.Header{}, powerbox.Limits{Bytes: 4 << 20, Depth: 64, Nodes: 1000})
	if wrong == nil || wrong.Reason != a2a.ReasonTooLarge {
		t.Errorf("ATK-55: %v; want %s, since the limits allow 1000 values", wrong, a2a.ReasonTooLarge)
	}
}

// A text of controls is six times as long in JSON, where it is decided on. Text with many
// lines passes, and so do bytes.
func TestATK55_JSONFormIsBounded(t *testing.T) {
	const size = 60 << 10
	for _, c := range []struct {
		name string
		part []byte
		fits bool
	}{
		{"lines", field(1, bytes.Repeat([]byte("\n"), size)), true},
		{"bytes", field(2, bytes.Repeat([]byte{1}, size)), true},
		{"controls", field(1, bytes.Repeat([]byte{1}, size)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			message := field(2, append(field(1, []byte("m")), append([]byte{0x20, 1}, field(5, c.part)...)...))
			_, wrong := Decode(Service1+"SendMessage", message, a2a.Header{Version: "1.0"}, powerbox.Limits{Bytes: 64 << 10, Depth: 64})
			if c.fits && wrong != nil || !c.fits && (wrong == nil || wrong.Reason != a2a.ReasonTooLarge) {
				t.Errorf("ATK-55: %v", wrong)
			}
		})
	}
}

// A text whose JSON form is too long is refused before it is written.
func TestATK55_JSONFormIsBoundedBeforeItIsWritten(t *testing.T) {
	const size = 4 << 20
	message := field(2, field(5, field(1, bytes.Repeat([]byte{1}, size-64))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, wrong := Decode(Service1+"SendMessage", message, a2a.Header{Version: "1.0"}, powerbox.Limits{Bytes: size, Depth: 64})
	runtime.ReadMemStats(&after)
	if wrong == nil || wrong.Reason != a2a.ReasonTooLarge {
		t.Errorf("ATK-55: %v; want %s", wrong, a2a.ReasonTooLarge)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("ATK-55: %d bytes were allocated; want at most 1 MiB", n)
	}
}

// A message that is written again has each singular field once and no unknown field.
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
