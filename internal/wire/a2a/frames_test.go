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
