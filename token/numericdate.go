package token

import (
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox"
)

// lastSecond is the end of the year 9999, beyond which RFC 3339 has no times.
const lastSecond = 253402300799

// NumericDate reads a NumericDate, seconds since 1970, which RFC 7519 section 2 lets have
// a fraction. It keeps milliseconds. False is anything else: a string, a time before 1970
// or after the year 9999.
func NumericDate(v powerbox.Value) (time.Time, bool) {
	d, ok := v.Decimal()
	if !ok {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(d.String(), 64)
	if err != nil || seconds < 0 || seconds > lastSecond {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}
