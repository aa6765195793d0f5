package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// Whatever a service sends as a stream, each event is one of the protocol's, with
// JSON on one line or nothing (ATK-33).
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"a\":1}\n\nevent: done\ndata: 1\n\n"))
	f.Add([]byte("event: data\r\ndata: a\r\ndata: b\r\n\r\n: comment\nid: 1\n\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := newStream(io.NopCloser(bytes.NewReader(sent)), func() {}, 1<<16)
		for {
			name, data, err := s.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && len(sent) < 1<<16 {
					t.Fatalf("%q: %v", sent, err)
				}
				return
			}
			if name != "data" && name != "error" && name != "done" || bytes.ContainsAny(data, "\r\n") || len(data) > 0 && !json.Valid(data) {
				t.Fatalf("%q gives event %q with %q", sent, name, data)
			}
		}
	})
}
