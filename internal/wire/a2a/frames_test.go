package a2a

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const stream = "\uFEFFid: 1\ndata: {\"a\":1}\n\n: keep-alive\n\nevent: x\r\ndata:{\"b\":\r\ndata: 2}\r\n\r\ndata\rdata\r\rid: 9\n\ndata: last"

var streamEvents = []string{`{"a":1}`, "{\"b\":\n2}", "\n", "last"}

// split feeds a stream in pieces of n bytes.
func split(s string, n, limit int) []string {
	var got []string
	f := NewFrames(limit, func(payload []byte, whole bool) {
		if !whole {
			got = append(got, "too long")
			return
		}
		got = append(got, string(payload))
	})
	for len(s) > 0 {
		k := min(n, len(s))
		if w, err := f.Write([]byte(s[:k])); w != k || err != nil {
			panic(fmt.Sprint("Write kept bytes: ", w, err))
		}
		s = s[k:]
	}
	f.Close()
	return got
}

func TestFrames(t *testing.T) {
	for n := 1; n <= len(stream); n++ {
		if diff := cmp.Diff(streamEvents, split(stream, n, 1000)); diff != "" {
			t.Errorf("pieces of %d bytes (-want +got):\n%s", n, diff)
		}
	}
}

// TestATK164_BytesOfAnEventThatHasBegun counts the bytes that belong to an event or a line
// that has begun, however the stream is cut into pieces.
func TestATK164_BytesOfAnEventThatHasBegun(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   int
	}{
		{"", 0},
		{"da", 2},
		{"data: 1", 7},
		{"data: 1\n", 8},
		{"data: 1\r\n", 9},
		{"data: 1\n: x\n", 12},
		{"event: x\n", 9},
		{"data: 1\n\n", 0},
		{"data: 1\r\n\r\n", 0},
		{"data: 1\n\ndata", 4},
		{": x\n", 0},
		{": x\r\n", 0},
		{": x\n: y", 3},
		{"\n\n\n", 0},
	} {
		for n := 1; n <= max(1, len(c.stream)); n++ {
			f := NewFrames(1000, func([]byte, bool) {})
			for rest := c.stream; rest != ""; rest = rest[min(n, len(rest)):] {
				if _, err := f.Write([]byte(rest[:min(n, len(rest))])); err != nil {
					t.Fatal(err)
				}
			}
			if got := f.Begun(); got != c.want {
				t.Errorf("ATK-164 %q in pieces of %d: %d bytes have begun; want %d", c.stream, n, got, c.want)
			}
			if f.Close(); f.Begun() != 0 {
				t.Errorf("ATK-164 %q at its end: %d bytes have begun; want 0", c.stream, f.Begun())
			}
		}
	}
}

func TestFramesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 200)
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"a long line":        {"data: " + long + "\n\ndata: ok\n\n", []string{"too long", "ok"}},
		"many lines":         {strings.Repeat("data: x\n", 200) + "\ndata: ok\n\n", []string{"too long", "ok"}},
		"empty lines":        {strings.Repeat("data:\n", 200) + "\ndata: ok\n\n", []string{"too long", "ok"}},
		"a long comment":     {": " + long + "\ndata: ok\n\ndata: ok\n\n", []string{"too long", "ok"}},
		"a line without end": {"data: " + long + long, []string{"too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 7, 1000} {
				if diff := cmp.Diff(c.want, split(c.stream, n, 50)); diff != "" {
					t.Errorf("pieces of %d bytes (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}
