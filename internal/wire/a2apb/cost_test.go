package a2apb

import (
	"bytes"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// BenchmarkHostileMessage shows CPU and memory of the worst messages that are read.
func BenchmarkHostileMessage(b *testing.B) {
	for name, message := range map[string][]byte{
		"parts":   field(2, bytes.Repeat(field(5, nil), maxElements)),
		"texts":   field(2, bytes.Repeat(field(8, []byte("t")), maxElements)),
		"toomany": field(2, bytes.Repeat(field(5, nil), 2<<20)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Decode(Service1+"SendMessage", message, a2a.Header{}, powerbox.Limits{Bytes: 4 << 20, Depth: 64})
			}
		})
	}
}
