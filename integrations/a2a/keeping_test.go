package powerboxa2a

import (
	"bytes"
	"runtime"
	"testing"
	"weak"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The bytes of a message are there until they are taken, whatever fields a sender
// makes up, and are freed with a message that is never taken, as after a
// cancelled call.
func TestATK55_BytesOfAMessageGoWithIt(t *testing.T) {
	raw := protowire.AppendBytes(protowire.AppendTag(nil, keptField, protowire.BytesType), []byte("made up"))
	got := new(a2apb.SendMessageRequest)
	if err := (keeping{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, got); err != nil {
		t.Fatal(err)
	}
	if b := (keeping{}).take(got); !bytes.Equal(b, raw) || !bytes.Equal(got.ProtoReflect().GetUnknown(), raw) {
		t.Errorf("%x is taken and %x is left; want both %x", b, got.ProtoReflect().GetUnknown(), raw)
	}
	kept := &keeping{}
	left := func() weak.Pointer[a2apb.SendMessageRequest] {
		m := new(a2apb.SendMessageRequest)
		if err := kept.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m); err != nil {
			t.Fatal(err)
		}
		return weak.Make(m)
	}()
	runtime.GC()
	if left.Value() != nil {
		t.Error("ATK-55: a message that nobody took is still there")
	}
	runtime.KeepAlive(kept)
}
