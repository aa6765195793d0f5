package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxRecord is the size in bytes of the largest JSON text that [Canonical]
// takes, and so of the largest record without its two hashes and its signature.
const MaxRecord = 60 << 10

// maxDepth is how many arrays and objects may stand inside each other.
const maxDepth = 64

// maxInteger is 2^53-1, the largest integer that every JSON implementation
// keeps apart from its neighbours (RFC 7493, section 2.2).
const maxInteger = 1<<53 - 1

// Canonical returns data in the canonical form of RFC 8785, after a gate that
// refuses every JSON text which two implementations could read differently:
// duplicate names, lone surrogates, invalid UTF-8, trailing data, more than 64
// levels, more than [MaxRecord] bytes, and numbers that a 64-bit float would
// change (overflow, underflow, integers beyond 2^53-1, minus zero, digits that
// are lost). Amounts that do not fit are written as strings.
// (EXT-22, ATK-39, ATK-40)
func Canonical(data []byte) ([]byte, error) {
	return canonical(data, MaxRecord)
}

func canonical(data []byte, limit int) ([]byte, error) {
	if len(data) > limit {
		return nil, fmt.Errorf("evidence: JSON of %d bytes, at most %d are allowed", len(data), limit)
	}
	if err := gate(data); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	value := jsontext.Value(bytes.Clone(data))
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("evidence: one JSON value expected: %w", err)
	}
	return value, nil
}

// gate reads data once and refuses what RFC 8785 would change without a word.
// Duplicate names and broken Unicode are refused by the decoder itself.
func gate(data []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if decoder.StackDepth() > maxDepth {
			return fmt.Errorf("JSON nested deeper than %d levels at byte %d", maxDepth, decoder.InputOffset())
		}
		if token.Kind() != '0' {
			continue
		}
		if err := checkNumber(token.String()); err != nil {
			return fmt.Errorf("number at %q: %w", decoder.StackPointer(), err)
		}
	}
}

// checkNumber takes a valid JSON number and refuses it if a float64 does not
// keep it exactly: two different amounts must never share a hash (ATK-39).
func checkNumber(text string) error {
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return errors.New("too large for a 64-bit float; write it as a string")
	case value == 0 && math.Signbit(value):
		return errors.New("minus zero; write 0")
	case value == math.Trunc(value) && math.Abs(value) > maxInteger:
		return errors.New("integer beyond 2^53-1; write it as a string")
	}
	digits, exponent := decimal(text)
	kept, keptExponent := decimal(strconv.FormatFloat(value, 'e', -1, 64))
	if digits != kept || exponent != keptExponent {
		return errors.New("more digits than a 64-bit float keeps; write it as a string")
	}
	return nil
}

// decimal splits a JSON number into its significant digits and the power of ten
// of the last one, so that equal numbers give equal answers. The sign is left
// out. An exponent that does not fit in 32 bits belongs to a number that is
// refused anyway, or to zero.
func decimal(text string) (digits string, exponent int64) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	exponent, _ = strconv.ParseInt(power, 10, 32)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= int64(len(fraction))
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(trimmed))
	if trimmed == "" {
		return "", 0
	}
	return trimmed, exponent
}
