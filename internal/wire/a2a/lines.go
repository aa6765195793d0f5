package a2a

import (
	"errors"
	"io"
	"slices"
)

// NewLines returns a stream of server-sent events in which no line ends except where all
// readers see it end (ATK-33). Many take U+0085, U+2028 and U+2029 for the end of one,
// as Python's splitlines does. The rest of a text that someone wrote is then an event of
// its own. In the JSON of an event the three come as escapes, which say the same. A
// control character that JSON has nowhere and at which such readers split, too, ends the
// stream.
func NewLines(from io.ReadCloser) io.ReadCloser { return &lines{from: from} }

type lines struct {
	from io.ReadCloser
	tail []byte // of the bytes that came, that may begin one of the three
	out  []byte // bytes that are still to be read
	err  error
	room [4 << 10]byte
}

var errSplit = errors.New("the stream has a control character at which readers end lines differently")

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.out) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		n, err := l.from.Read(l.room[:])
		came := l.room[:n]
		if len(l.tail) > 0 {
			came = append(l.tail, came...)
		}
		l.out = l.escape(came, err != nil)
		if l.err == nil {
			l.err = err
		}
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *lines) Close() error { return l.from.Close() }

// odd reports whether a byte is one of those controls, or begins one of the three.
func odd(c byte) bool {
	return c == 0 || c == '\v' || c == '\f' || c >= 0x1c && c <= 0x1e || c == 0xC2 || c == 0xE2
}

// escape returns the bytes that came with escapes. Bytes that may begin one of the three
// are kept for later, unless nothing comes any more.
func (l *lines) escape(came []byte, last bool) []byte {
	l.tail = nil
	if !slices.ContainsFunc(came, odd) {
		return came
	}
	out := make([]byte, 0, len(came))
	for n := 0; n < len(came); n++ {
		c := came[n]
		switch {
		case !odd(c):
			out = append(out, c)
			continue
		case c < 0x80:
			l.err = errSplit
			return out
		}
		rest := came[n:]
		if short := len(rest) < 2 || c == 0xE2 && rest[1] == 0x80 && len(rest) < 3; short && !last {
			l.tail = append([]byte(nil), rest...)
			return out
		}
		switch {
		case len(rest) > 1 && c == 0xC2 && rest[1] == 0x85:
			out, n = append(out, `\u0085`...), n+1
		case len(rest) > 2 && c == 0xE2 && rest[1] == 0x80 && (rest[2] == 0xA8 || rest[2] == 0xA9):
			out, n = append(out, `\u202`+string('8'+rest[2]-0xA8)...), n+2
		default:
			out = append(out, c)
		}
	}
	return out
}
