package a2a

import (
	"bytes"
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
			if string(got) != want || err != nil {
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
