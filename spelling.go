package powerbox

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// sameButCase finds an object in v, at any depth, with two names that differ in
// letter case alone, as readers that ignore it have it: which of the two counts
// depends on the reader. A name with U+0000 is found, too, as other with what stands
// before that as one: readers whose texts end there take it for one. Whatever decides on a
// value that another reader reads after it asks this first (ATK-27).
func (v Value) sameButCase() (one, other string, found bool) {
	if elements, ok := v.Elements(); ok {
		for _, e := range elements {
			if one, other, found = e.sameButCase(); found {
				return one, other, true
			}
		}
		return "", "", false
	}
	members, _ := v.Members()
	if one, other, found = sameButCase(members); found {
		return one, other, true
	}
	for _, m := range members {
		if one, other, found = m.Value.sameButCase(); found {
			return one, other, true
		}
	}
	return "", "", false
}

// CheckNames words what [Value.sameButCase] finds for the one who sent the value, nil for
// nothing.
func (v Value) CheckNames() error {
	one, other, found := v.sameButCase()
	switch {
	case !found:
		return nil
	case strings.Contains(other, "\x00"):
		return fmt.Errorf("a member is named %.64q, which some readers take for %.64q; send no U+0000 in names", other, one)
	default:
		return fmt.Errorf("members %.64q and %.64q of one object differ in letter case alone; readers would choose differently, send one", one, other)
	}
}

// sameButCase finds two members whose names differ in letter case alone. A few
// names in ASCII, which is what calls are made of, are compared in place.
func sameButCase(members []Member) (one, other string, found bool) {
	if len(members) <= 12 && !slices.ContainsFunc(members, func(m Member) bool { return !isText(m.Name) }) {
		for i, m := range members {
			for _, n := range members[:i] {
				if len(m.Name) == len(n.Name) && strings.EqualFold(m.Name, n.Name) {
					return n.Name, m.Name, true
				}
			}
		}
		return "", "", false
	}
	seen := make(map[string]string, len(members))
	for _, m := range members {
		if end := strings.IndexByte(m.Name, 0); end >= 0 {
			return m.Name[:end], m.Name, true
		}
		folded := FoldCase(m.Name)
		if earlier, ok := seen[folded]; ok {
			return earlier, m.Name, true
		}
		seen[folded] = m.Name
	}
	return "", "", false
}

// isText reports whether a name is of ASCII without U+0000.
func isText(s string) bool {
	for i := range len(s) {
		if s[i] == 0 || s[i] > unicode.MaxASCII {
			return false
		}
	}
	return true
}

// FoldCase maps a name to what a reader that ignores letter case takes it for.
// Simple folding makes U+017F an s and U+212A a k, as encoding/json does.
func FoldCase(name string) string { return strings.Map(foldRune, name) }

// foldRune returns the smallest rune of r's orbit under simple folding.
func foldRune(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r - 'a' + 'A' // of whose orbits every other rune is higher
	}
	if r <= unicode.MaxASCII {
		return r
	}
	if table := foldsOfPlane0(); int(r) < len(table) {
		return rune(table[r])
	}
	return computeFold(r)
}

// foldsOfPlane0 are the folds of the runes that almost all texts are made of, which lie in
// the same plane. To compute
// one takes thirty times as long, and strangers choose the names that are folded.
var foldsOfPlane0 = sync.OnceValue(func() *[1 << 16]uint16 {
	var table [1 << 16]uint16
	for r := range table {
		table[r] = uint16(computeFold(rune(r)))
	}
	return &table
})

// computeFold goes through both cases first, which makes U+0130 and U+0131 an i, as Java
// has it.
func computeFold(r rune) rune {
	r = unicode.ToLower(unicode.ToUpper(r))
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}
