package config

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox"
)

const masked = "********"

// Secret is text that is not shown: however it is printed, logged or
// marshalled, it is masked.
type Secret struct{ text string }

// NewSecret returns a secret that was not read from a file.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.text }

// String returns a mask.
func (s Secret) String() string { return masked }

// Format implements [fmt.Formatter] with a mask, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, masked) }

// LogValue implements [slog.LogValuer] with a mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalJSON returns a mask.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// Path is a file, or a pattern of files. In the file it is relative to the
// file that it stands in; here it is complete.
type Path string

// Size is a number of bytes.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// ParseSize reads a number of bytes, such as 512KiB, 4MiB or 1048576.
func ParseSize(s string) (Size, error) {
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(s, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n <= 0 || n > (1<<40)/unit.bytes {
			break
		}
		return Size(n * unit.bytes), nil
	}
	return 0, fmt.Errorf("%q is not a size; want a number of bytes such as 512KiB or 4MiB, at most 1024GiB", s)
}

// String returns s with the largest unit that fits.
func (s Size) String() string {
	for _, unit := range []int{2, 1, 0} {
		u := sizeUnits[unit]
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Constraint is a constraint on one argument, in its object form.
type Constraint struct{ powerbox.Constraint }
