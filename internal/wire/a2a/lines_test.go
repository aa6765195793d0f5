package a2a

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestATK33_LinesEndWhereAllReadersSeeIt(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"data: {\"a\":\"b\"}\r\n\r\n":        "data: {\"a\":\"b\"}\r\n\r\n",
		"data: \"a\u2028b\u2029c\u0085d\"\n": `data: "a\u2028b\u2029c\u0085d"` + "\n",
		"\u2028\u2028":                       `\u2028\u2028`,
		"é \u00a0 € \u2027 \u202a \u3000 \U0001F600": "é \u00a0 € \u2027 \u202a \u3000 \U0001F600",
		"a\xc2":                         "a\xc2",
		"a\xe2\x80":                     "a\xe2\x80",
		"a\xe2\xc2\x85":                 "a\xe2" + `\u0085`,
		strings.Repeat("x\u2028", 4000): strings.Repeat(`x\u2028`, 4000),
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)), "at once": iotest.DataErrReader(strings.NewReader(in))} {
			got, err := io.ReadAll(NewLines(io.NopCloser(r)))
			if strings.TrimRight(string(got), ":\r\n") != strings.TrimRight(want, "\r\n") || err != nil {
				t.Errorf("ATK-33 %s %q became %q, %v; want %q", name, in, got, err, want)
			}
		}
	}
	for _, c := range "\x00\v\f\x1c\x1d\x1e" {
		got, err := io.ReadAll(NewLines(io.NopCloser(strings.NewReader("data: a" + string(c) + "data: b\n\n"))))
		if err == nil || !bytes.Equal(got, []byte("data: a")) {
			t.Errorf("ATK-33 %q: %q, %v", c, got, err)
		}
	}
}

// Bytes by which readers see different lines or events end the stream, or are written so
// that all see the same.
func TestATK125_LinesOfStreams(t *testing.T) {
	for in, want := range map[string]string{
		"\uFEFFdata: 1\n\n":             "data: 1\n\n",
		"data: \uFEFF1\n\n":             "data: \uFEFF1\n\n",
		"data: 1":                       "data: 1\n\n",
		"data: 1\n":                     "data: 1\n\n",
		"data: 1\r\n":                   "data: 1\r\n\n",
		"data: 1\r\n\r\n":               "data: 1\r\n\r\n",
		"data: 1\n\n: x":                "data: 1\n\n: x\n\n",
		"":                              "",
		"\n":                            "\n",
		"data: 1\rdata: 2\n\n":          "data: 1\ndata: 2\n\n",
		"data: {\"a\":1,\r\"b\":2}\n\n": "data: {\"a\":1,\n\"b\":2}\n\n",
		"data: 1\r\r\n":                 "data: 1\n\r\n",
		"data: 1\r\rdata: 2\r":          "data: 1\n\ndata: 2\n\n",
		"data: 1\n\uFEFFdata: 2\n\n":    "data: 1\n",
		"\uFEFF\uFEFFdata: 1\n\n":       "",
		"event\ndata\nid\r\nx\n\n":      "event:\ndata:\nid:\r\nx:\n\n",
		"event\rdata: 1\r\rdata":        "event:\ndata: 1\n\ndata:\n\n",
		": a\n:\ndata: 1\nx":            ": a\n:\ndata: 1\nx:\n\n",
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)), "at once": iotest.DataErrReader(strings.NewReader(in))} {
			got, err := io.ReadAll(NewLines(io.NopCloser(r)))
			if cut := strings.Contains(strings.TrimPrefix(in, "\uFEFF"), "\uFEFFdata"); string(got) != want || cut != errors.Is(err, ErrLines) {
				t.Errorf("ATK-125 %s %q became %q, %v; want %q", name, in, got, err, want)
			}
		}
	}
}
