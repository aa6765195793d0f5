package powerbox_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// hostileJSON are the inputs that cost the decoder most for their length, at a
// length of about n bytes.
func hostileJSON(n int) map[string]string {
	list := func(element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n/(len(element)+1)), ",") + "]"
	}
	deep := strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60)
	// A stack that is full when a deep value begins: were the levels to keep stacks
	// of their own, each would copy all that stands before.
	full := list("1")
	return map[string]string{
		"empty arrays":        list("[]"),
		"empty objects":       list("{}"),
		"digits":              list("1"),
		"fractions":           list("0.1"),
		"arrays of one":       list("[1]"),
		"objects of one":      list(`{"a":1}`),
		"empty texts":         list(`""`),
		"escapes":             list(`"\n"`),
		"deep arrays":         list(deep),
		"deep behind many":    full[:len(full)-1] + "," + deep + "]",
		"deep behind a power": "[" + strings.Repeat("1,", 1<<14) + deep + "]",
		"one long text":       `"` + strings.Repeat(`\n`, n/2) + `"`,
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The decoder allocates at most 64 bytes for each byte of its input, whatever the
// input says, and so never has more than that in memory (ATK-55).
func TestATK55_DecodingCostsMemoryInProportion(t *testing.T) {
	const most = 64
	for _, size := range []int{4 << 10, 32 << 10, 128 << 10, 1 << 20, 4 << 20} {
		for name, in := range hostileJSON(size) {
			data := []byte(in)
			n := allocated(func() { _, _ = powerbox.DecodeValue(data, powerbox.Limits{Bytes: len(data), Depth: 64}) })
			if n > most*uint64(len(data)) {
				t.Errorf("%s of %d bytes: %d bytes allocated, %d for each byte sent; want at most %d", name, len(data), n, n/uint64(len(data)), most)
			}
		}
	}
}

func TestATK55_ValuesAreCounted(t *testing.T) {
	list := func(n int) []byte { return []byte("[" + strings.Repeat("1,", n-2) + "1]") } // n values with the list itself
	for _, c := range []struct {
		name   string
		in     []byte
		limits powerbox.Limits
		text   string
	}{
		{"the default", list(1 << 16), powerbox.Limits{Bytes: 4 << 20, Depth: 64}, ""},
		{"beyond the default", list(1<<16 + 1), powerbox.Limits{Bytes: 4 << 20, Depth: 64}, "JSON at byte 131071: more than 65536 values"},
		{"beyond the default in ParseValue", list(1<<16 + 1), powerbox.Limits{}, "more than 65536 values"},
		{"at every level", []byte(`[[1],{"a":[2]}]`), powerbox.Limits{Bytes: 100, Depth: 8, Nodes: 5}, "JSON at byte 11: more than 5 values"},
		{"exactly", []byte(`[[1],{"a":[2]}]`), powerbox.Limits{Bytes: 100, Depth: 8, Nodes: 6}, ""},
		{"more by choice", list(1<<16 + 1), powerbox.Limits{Bytes: 4 << 20, Depth: 64, Nodes: 1 << 20}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			decode := func(in []byte) (powerbox.Value, error) { return powerbox.DecodeValue(in, c.limits) }
			if c.limits == (powerbox.Limits{}) {
				decode = powerbox.ParseValue
			}
			if _, err := decode(c.in); c.text != "" {
				wantError(t, err, c.text)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkHostileJSON shows CPU and memory of the worst inputs of 4 MiB.
func BenchmarkHostileJSON(b *testing.B) {
	for name, in := range hostileJSON(4 << 20) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			data := []byte(in)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = powerbox.DecodeValue(data, powerbox.Limits{Bytes: len(data), Depth: 64})
			}
		})
	}
}

// BenchmarkDecodeCall decodes a call as agents send them.
func BenchmarkDecodeCall(b *testing.B) {
	data := []byte(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","messageId":"m-1","parts":[{"kind":"data","data":{"skill":"export","arguments":{"collection":"public","dry_run":true,"limit":10}}}]},"metadata":{"a":1}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := powerbox.ParseValue(data); err != nil {
			b.Fatal(err)
		}
	}
}
