package a2a

import (
	"bytes"
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
//
// Readers that follow WHATWG end a line at a carriage return alone, and the kits of A2A for
// Go and JavaScript do not: one comes as the end of a line to all (ATK-125). A mark of byte
// order at the beginning is left out, since some readers take the line behind it for none of
// theirs, and one at the beginning of a later line ends the stream. The last event gets the
// line ends without which some readers drop it.
//
// A line without a colon is a field without a value. It comes with a colon: without one, some
// readers pass over the line, and others fail.
func NewLines(from io.ReadCloser) io.ReadCloser { return &lines{from: from, empty: true} }

type lines struct {
	from io.ReadCloser
	tail []byte // of the bytes that came, that may begin something that is no single byte
	out  []byte // bytes that are still to be read
	err  error
	room [4 << 10]byte

	line  bool // of what continues, a line has begun
	named bool // that line has a colon

	begun bool // something came
	text  bool // the line has begun
	empty bool // nothing came since the last empty line
}

// ErrLines is the root of errors of a stream whose lines readers see differently.
var ErrLines = errors.New("the stream has a control character or a mark at which readers end lines differently")

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
		l.out = l.fields(l.escape(came, err != nil))
		if l.err == nil {
			l.err = err
			if errors.Is(err, io.EOF) {
				l.finish()
			}
		}
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *lines) Close() error { return l.from.Close() }

// finish ends the line and the event in which the stream ended.
func (l *lines) finish() {
	if l.text {
		l.out = append(slices.Clone(l.out), l.fields([]byte("\n"))...)
	}
	if !l.empty {
		l.out = append(slices.Clone(l.out), '\n')
	}
}

// odd reports whether a byte is one of those controls, or begins something that is looked at.
func odd(c byte) bool {
	return c == 0 || c == '\r' || c == '\v' || c == '\f' || c >= 0x1c && c <= 0x1e || c == 0xC2 || c == 0xE2 || c == 0xEF
}

// follow notes where in its lines the stream is, after bytes that continue.
func (l *lines) follow(came []byte) {
	for _, c := range came {
		switch {
		case c == '\n':
			l.empty, l.text = !l.text, false
		case c != '\r':
			l.text, l.empty = true, false
		}
	}
}

// fields returns the bytes that continue, with a colon in every line that is not empty.
func (l *lines) fields(came []byte) []byte {
	var out []byte
	passed := 0
	for from := 0; from < len(came); {
		end := len(came)
		if n := bytes.IndexByte(came[from:], '\n'); n >= 0 {
			end = from + n + 1
		}
		line := bytes.TrimRight(came[from:end], "\r\n")
		l.line = l.line || len(line) > 0
		l.named = l.named || bytes.IndexByte(line, ':') >= 0
		if came[end-1] == '\n' {
			if l.line && !l.named {
				out = append(append(out, came[passed:from+len(line)]...), ':')
				passed = from + len(line)
			}
			l.line, l.named = false, false
		}
		from = end
	}
	if out == nil {
		return came
	}
	return append(out, came[passed:]...)
}

// escape returns the bytes that came with escapes. Bytes that may begin something longer
// are kept for later, unless nothing comes any more.
func (l *lines) escape(came []byte, last bool) []byte {
	l.tail = nil
	if !slices.ContainsFunc(came, odd) {
		l.begun = l.begun || len(came) > 0
		l.follow(came)
		return came
	}
	out := make([]byte, 0, len(came))
	for n := 0; n < len(came); {
		if plain := slices.IndexFunc(came[n:], odd); plain != 0 {
			if plain < 0 {
				plain = len(came) - n
			}
			l.begun = true
			l.follow(came[n : n+plain])
			out, n = append(out, came[n:n+plain]...), n+plain
			continue
		}
		as, read := l.next(came[n:], last)
		if l.err != nil {
			return out
		}
		if read == 0 {
			l.tail = append([]byte(nil), came[n:]...)
			return out
		}
		l.begun = true
		l.follow(as)
		out, n = append(out, as...), n+read
	}
	return out
}

var mark = []byte("\uFEFF")

// next returns what continues of the beginning of rest, an odd byte, and how many bytes of it that is
// for; 0 where more must come first.
func (l *lines) next(rest []byte, last bool) (as []byte, read int) {
	c := rest[0]
	short := func(n int) bool { return len(rest) < n && !last }
	switch {
	case c == '\r' && short(2), c == 0xC2 && short(2), c == 0xE2 && (short(2) || rest[1] == 0x80 && short(3)), c == 0xEF && !l.text && short(3):
		return nil, 0
	case c == '\r' && len(rest) > 1 && rest[1] == '\n':
		return rest[:2], 2
	case c == '\r':
		return []byte("\n"), 1
	case c < 0x80:
		l.err = ErrLines
		return nil, 0
	case c == 0xC2 && len(rest) > 1 && rest[1] == 0x85:
		return []byte(`\u0085`), 2
	case c == 0xE2 && len(rest) > 2 && rest[1] == 0x80 && (rest[2] == 0xA8 || rest[2] == 0xA9):
		return []byte(`\u202` + string('8'+rest[2]-0xA8)), 3
	case c != 0xEF || l.text || !bytes.HasPrefix(rest, mark):
		return rest[:1], 1
	case l.begun:
		l.err = ErrLines
		return nil, 0
	default:
		return nil, len(mark)
	}
}
