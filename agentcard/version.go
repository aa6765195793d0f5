package agentcard

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of the protocol, Major.Minor, with a patch number that
// compatibility does not look at (A2A 1.0, section 3.6). The zero Version is
// none. Versions are comparable with ==.
type Version struct {
	major, minor int
	patch        int // -1 where there is none
	set          bool
}

// maxNumber bounds each number of a version.
const maxNumber = 9999

// ParseVersion reads Major.Minor or Major.Minor.Patch, in decimal without
// leading zeros (CARD-7).
func ParseVersion(s string) (Version, error) {
	parts := strings.Split(s, ".")
	v := Version{patch: -1, set: true}
	if len(parts) != 2 && len(parts) != 3 {
		return Version{}, fmt.Errorf("version %q; want Major.Minor such as 1.0, or with a patch number 1.0.1", s)
	}
	for i, to := range []*int{&v.major, &v.minor, &v.patch}[:len(parts)] {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 || n > maxNumber || strconv.Itoa(n) != parts[i] {
			return Version{}, fmt.Errorf("version %q has a part %q; want numbers from 0 to %d without leading zeros", s, parts[i], maxNumber)
		}
		*to = n
	}
	return v, nil
}

// HeaderVersion reads what the header A2A-Version says. Absent and empty are
// version 0.3 (A2A 1.0, section 3.6.2).
func HeaderVersion(s string) (Version, error) {
	if s = strings.TrimSpace(s); s == "" {
		return Version{minor: 3, patch: -1, set: true}, nil
	}
	return ParseVersion(s)
}

// IsZero reports whether v is no version.
func (v Version) IsZero() bool { return !v.set }

// String is the version as it was written, "" for none.
func (v Version) String() string {
	switch {
	case !v.set:
		return ""
	case v.patch >= 0:
		return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	}
	return fmt.Sprintf("%d.%d", v.major, v.minor)
}

// MarshalText is [Version.String].
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText is [ParseVersion]; empty text is the zero Version.
func (v *Version) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*v = Version{}
		return nil
	}
	*v, err = ParseVersion(string(text))
	return err
}

// line is the version without its patch number, which is what two sides agree on.
func (v Version) line() Version {
	v.patch = -1
	return v
}

// compare orders versions by their numbers: 1.10 is newer than 1.9. Without
// patch is before 1.2.0, as 1.2 is where the line begins.
func (v Version) compare(w Version) int {
	return cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor), cmp.Compare(v.patch, w.patch))
}

// Range is an interval of versions, both ends included, by Major.Minor: a maximum
// of 1.2 includes every 1.2.x. An end that is zero is open. The zero Range has
// every version.
type Range struct {
	Min Version `json:"min,omitzero"`
	Max Version `json:"max,omitzero"`
}

// contains reports whether v is within r.
func (r Range) contains(v Version) bool {
	return (r.Min.IsZero() || v.line().compare(r.Min.line()) >= 0) && (r.Max.IsZero() || v.line().compare(r.Max.line()) <= 0)
}

// inverted reports whether no version is within r.
func (r Range) inverted() bool {
	return !r.Min.IsZero() && !r.Max.IsZero() && r.Min.line().compare(r.Max.line()) > 0
}

// IsZero reports whether both ends are open.
func (r Range) IsZero() bool { return r.Min.IsZero() && r.Max.IsZero() }

func (r Range) String() string {
	switch {
	case r.IsZero():
		return "any version"
	case r.Min.IsZero():
		return "up to " + r.Max.String()
	case r.Max.IsZero():
		return "from " + r.Min.String()
	case r.Min == r.Max:
		return r.Min.String()
	}
	return r.Min.String() + " to " + r.Max.String()
}
