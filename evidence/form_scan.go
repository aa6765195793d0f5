package evidence

import (
	"bytes"
	"unicode/utf8"
)

// canonicalObject returns the size in bytes of the JSON object that data begins
// with, or 0 where it is not sure that the object is in canonical form.
func canonicalObject(data []byte) int {
	if len(data) == 0 || data[0] != '{' {
		return 0
	}
	return canonicalPart(data, 0)
}

// maxQuickDepth leaves room for the objects around a free object.
const maxQuickDepth = maxDepth / 2

// canonicalPart is [canonicalObject] for a value of any kind.
func canonicalPart(data []byte, depth int) int {
	if len(data) == 0 || depth > maxQuickDepth {
		return 0
	}
	switch data[0] {
	case '{':
		return canonicalList(data, '}', depth+1)
	case '[':
		return canonicalList(data, ']', depth+1)
	case '"':
		return canonicalText(data)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(data, []byte(word)) {
			return len(word)
		}
	}
	return canonicalInteger(data)
}

// canonicalList takes an object or an array, whichever has that end.
func canonicalList(data []byte, end byte, depth int) int {
	if len(data) > 1 && data[1] == end {
		return 2
	}
	at := 0
	var last []byte
	for at == 0 || data[at] == ',' {
		at++
		if end == '}' {
			size := canonicalName(data[at:], last)
			if size == 0 {
				return 0
			}
			last = data[at+1 : at+size-2]
			at += size
		}
		size := canonicalPart(data[at:], depth)
		if at += size; size == 0 || at == len(data) {
			return 0
		}
	}
	if data[at] != end {
		return 0
	}
	return at + 1
}

// canonicalName takes the name of a member with its colon. Names ascend behind
// the last one. It is sure of ASCII alone: RFC 8785 compares UTF-16.
func canonicalName(data, last []byte) int {
	size := canonicalText(data)
	if size == 0 || size == len(data) || data[size] != ':' {
		return 0
	}
	name := data[1 : size-1]
	if last != nil && bytes.Compare(last, name) >= 0 {
		return 0
	}
	for _, c := range name {
		if c >= utf8.RuneSelf {
			return 0
		}
	}
	return size + 1
}

// canonicalText takes a text in which nothing is escaped.
func canonicalText(data []byte) int {
	if len(data) == 0 || data[0] != '"' {
		return 0
	}
	for i, c := range data[1:] {
		switch {
		case c == '"' && utf8.Valid(data[:i+1]):
			return i + 2
		case c == '"' || c < ' ' || c == '\\':
			return 0
		}
	}
	return 0
}

// canonicalInteger takes integers of up to 15 digits, which stand as they are.
func canonicalInteger(data []byte) int {
	size, digits := 0, 0
	if bytes.HasPrefix(data, []byte("-")) {
		size++
	}
	for size < len(data) && '0' <= data[size] && data[size] <= '9' {
		size++
		digits++
	}
	if digits == 0 || digits > 15 || data[size-digits] == '0' && size > 1 {
		return 0
	}
	return size
}
