package provider

import (
	"fmt"
	"io"
	"strings"
)

// codeAlphabet has no letter that can be taken for another or for a digit: five
// bits a character.
const codeAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// codeLength makes forty bits (AAP-A2, ATK-50).
const codeLength = 8

// newCode returns a user code as it is shown.
func newCode(random io.Reader) (string, error) {
	var b [codeLength]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("provider: making a code: %w", err)
	}
	for i := range b {
		b[i] = codeAlphabet[b[i]&31]
	}
	return string(b[:4]) + "-" + string(b[4:]), nil
}

// NormalCode returns a code as it is hashed, and false for a text that is no code.
// People type in small letters, with spaces, and O for 0.
func NormalCode(s string) (string, bool) {
	s = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '-', '\t':
			return -1
		case 'O':
			return '0'
		case 'I', 'L':
			return '1'
		}
		return r
	}, strings.ToUpper(s))
	if len(s) != codeLength || strings.Trim(s, codeAlphabet) != "" {
		return "", false
	}
	return s, true
}
