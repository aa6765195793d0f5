package evidence

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formReader reads a record. When it is no longer sure it continues, and what it
// has read is not used.
type formReader struct {
	source string
	full   []byte // the same
	at     int
	sure   bool
	body   []byte // full without hashes and signature, up to kept
	kept   int
}

// quickSealed is [ParseSealed] for a record in its one form, and false where
// the form is not sure.
func quickSealed(data []byte) (Sealed, bool) {
	if len(data) > maxQuick || !bytes.HasPrefix(data, []byte("{")) || !unescaped(data) {
		return Sealed{}, false
	}
	// Texts share one string; free objects, the bytes that are kept.
	both := append(make([]byte, 0, 2*len(data)), data...)
	f := formReader{source: string(data), full: both[:len(data):len(data)], body: both[len(data):], sure: true}
	s := Sealed{wire: &wire{}, full: f.full}
	f.expect("{")
	s.wire.walk(&f)
	f.keep(f.at)
	s.body = f.body
	var errTime, errSignature error
	s.wire.Time, errTime = parseTimestamp(s.wire.Timestamp)
	s.signature, errSignature = unbase64(s.wire.Signature)
	return s, f.sure && f.at == len(data) && errTime == nil && errSignature == nil && s.wire.check() == nil
}

// unescaped tells whether every text in data stands as it is.
func unescaped(data []byte) bool {
	high := byte(0)
	for _, c := range data {
		if c < ' ' || c == '\\' {
			return false
		}
		high |= c
	}
	return high < utf8.RuneSelf || utf8.Valid(data)
}

// keep adds the bytes behind kept to the body.
func (f *formReader) keep(to int) { f.body = append(f.body, f.full[f.kept:to]...) }

func (f *formReader) expect(text string) {
	if !strings.HasPrefix(f.source[f.at:], text) {
		f.sure = false
		return
	}
	f.at += len(text)
}

// named goes behind the name of a member if that is what stands here.
func (f *formReader) named(name string) bool {
	rest := f.source[f.at:]
	if f.source[f.at-1] != '{' {
		if !strings.HasPrefix(rest, ",") {
			return false
		}
		rest = rest[1:]
	}
	if len(rest) < len(name)+3 || rest[0] != '"' || rest[1:len(name)+1] != name || rest[len(name)+1:len(name)+3] != `":` {
		return false
	}
	f.at = len(f.source) - len(rest) + len(name) + 3
	return true
}

func (f *formReader) must(name string) {
	f.sure = f.named(name) && f.sure
}

// quoted takes a text, which has no escapes.
func (f *formReader) quoted() string {
	f.expect(`"`)
	size := strings.IndexByte(f.source[f.at:], '"')
	if size < 0 {
		f.sure = false
		return ""
	}
	f.at += size + 1
	return f.source[f.at-size-1 : f.at-1]
}

func (f *formReader) text(name string, value *string) {
	f.must(name)
	*value = f.quoted()
}

func (f *formReader) optional(name string, value *string) {
	if f.named(name) {
		*value = f.quoted()
		f.sure = f.sure && *value != ""
	}
}

func (f *formReader) list(name string, values *[]string) {
	if !f.named(name) {
		return
	}
	f.expect("[")
	*values = append(*values, f.quoted())
	for f.sure && strings.HasPrefix(f.source[f.at:], ",") {
		f.at++
		*values = append(*values, f.quoted())
	}
	f.expect("]")
}

func (f *formReader) object(name string, value *json.RawMessage) {
	if f.named(name) {
		size := canonicalObject(f.full[f.at:])
		*value = f.full[f.at : f.at+size : f.at+size]
		f.at += size
		f.sure = f.sure && size > 0
	}
}

func (f *formReader) number(name string, value *int64) {
	f.must(name)
	*value = f.integer()
}

func (f *formReader) integer() int64 {
	size := canonicalInteger(f.full[f.at:])
	n, err := strconv.ParseInt(f.source[f.at:f.at+size], 10, 64)
	f.sure = f.sure && err == nil
	f.at += size
	return n
}

func (f *formReader) link(name string, value **int) {
	if f.named(name) {
		n := int(f.integer())
		*value = &n
	}
}

func (f *formReader) hex(name string, value []byte) {
	f.must(name)
	size := len(f.quoted())
	f.sure = f.sure && unhex(value, f.full[f.at-1-size:f.at-1]) == nil
}

func (f *formReader) begins(name string) {
	f.must(name)
	f.expect("{")
}

func (f *formReader) opens(name string, _ bool) bool {
	there := f.named(name)
	if there {
		f.expect("{")
	}
	return there
}

func (f *formReader) item(name string, index int, _ bool) bool {
	switch {
	case index == 0 && !f.named(name):
		return false
	case index == 0:
		f.expect("[{")
	case strings.HasPrefix(f.source[f.at:], ","):
		f.expect(",{")
	default:
		f.expect("]")
		return false
	}
	return f.sure
}

func (f *formReader) closes() { f.expect("}") }

func (f *formReader) hashes(w *wire) {
	f.keep(f.at)
	w.Prev, w.Hash = &Hash{}, &Hash{}
	f.hex("prev_record_hash", w.Prev[:])
	f.hex("record_hash", w.Hash[:])
	f.kept = f.at
}

func (f *formReader) signature(w *wire) {
	f.keep(f.at)
	f.optional("signature", &w.Signature)
	f.kept = f.at
}
