package evidence

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// formWriter writes the body of a record.
type formWriter struct {
	body []byte
	sure bool
}

// formRoom is room for the body of a usual record, in bytes.
const formRoom = 4 << 10

// formWriters are kept for their room: a record's body is copied out of it, in its
// own length, since it stays for as long as the record.
var formWriters = sync.Pool{New: func() any { return &formWriter{body: make([]byte, 0, formRoom)} }}

// quickBody is [wire.slowBody] for a record that has passed check, and false
// where the form is not sure.
func (w *wire) quickBody() ([]byte, bool) {
	f := formWriters.Get().(*formWriter)
	f.body, f.sure = append(f.body[:0], '{'), true
	w.walk(f)
	sure := f.sure && len(f.body) <= maxQuick
	var body []byte
	if sure {
		body = bytes.Clone(f.body)
	}
	if cap(f.body) <= 2*formRoom { // a large record's is not kept for ever
		formWriters.Put(f)
	}
	return body, sure
}

func (f *formWriter) add(text string) { f.body = append(f.body, text...) }

func (f *formWriter) name(name string) {
	if f.body[len(f.body)-1] != '{' {
		f.add(",")
	}
	f.add(`"`)
	f.add(name)
	f.add(`":`)
}

func (f *formWriter) quote(value string) {
	if plain(value) {
		f.add(`"`)
		f.add(value)
		f.add(`"`)
		return
	}
	// It fails on broken UTF-8 alone, which check has refused.
	f.body, _ = jsontext.AppendQuote(f.body, value)
}

// plain tells whether a text stands in JSON as it is. Records have whole tokens in them,
// so it looks at eight bytes at a time.
func plain(value string) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(value) >= 8; value = value[8:] {
		w := uint64(value[0]) | uint64(value[1])<<8 | uint64(value[2])<<16 | uint64(value[3])<<24 |
			uint64(value[4])<<32 | uint64(value[5])<<40 | uint64(value[6])<<48 | uint64(value[7])<<56
		quote, backslash := w^'"'*each, w^'\\'*each
		control, quoted, escaped := w-' '*each, (quote-each)&^quote, (backslash-each)&^backslash
		// The lowest byte that is not plain leaves its high bit in one of them: only
		// higher ones can be borrowed from.
		if (w|control|quoted|escaped)&high != 0 {
			return false
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (f *formWriter) text(name string, value *string) {
	f.name(name)
	f.quote(*value)
}

func (f *formWriter) optional(name string, value *string) {
	if *value != "" {
		f.text(name, value)
	}
}

func (f *formWriter) list(name string, values *[]string) {
	if len(*values) == 0 {
		return
	}
	f.name(name)
	separator := "["
	for _, value := range *values {
		f.add(separator)
		f.quote(value)
		separator = ","
	}
	f.add("]")
}

func (f *formWriter) object(name string, value *json.RawMessage) {
	if len(*value) > 0 {
		f.name(name)
		f.sure = f.sure && canonicalObject(*value) == len(*value)
		f.body = append(f.body, *value...)
	}
}

func (f *formWriter) number(name string, value *int64) {
	f.name(name)
	f.sure = f.sure && *value <= maxInteger
	f.body = strconv.AppendInt(f.body, *value, 10)
}

func (f *formWriter) link(name string, value **int) {
	if *value != nil {
		n := int64(**value)
		f.number(name, &n)
		f.sure = f.sure && n >= 0
	}
}

func (f *formWriter) hex(name string, value []byte) {
	f.name(name)
	f.add(`"`)
	f.body = hex.AppendEncode(f.body, value)
	f.add(`"`)
}

func (f *formWriter) begins(name string) { f.opens(name, true) }

func (f *formWriter) opens(name string, there bool) bool {
	if there {
		f.name(name)
		f.add("{")
	}
	return there
}

func (f *formWriter) item(name string, index int, there bool) bool {
	switch {
	case there && index == 0:
		f.name(name)
		f.add("[{")
	case there:
		f.add(",{")
	case index > 0:
		f.add("]")
	}
	return there
}

func (f *formWriter) closes()         { f.add("}") }
func (f *formWriter) hashes(*wire)    {}
func (f *formWriter) signature(*wire) {}
