package powerbox

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestATK27_NamesThatDifferInCase finds two spellings of one name wherever they stand,
// in any script that has cases, and in small objects and large ones.
func TestATK27_NamesThatDifferInCase(t *testing.T) {
	var many strings.Builder
	for i := range 20 {
		many.WriteString(`"n` + strconv.Itoa(i) + `":1,`)
	}
	for text, want := range map[string][2]string{
		`1`:                                   {},
		`{}`:                                  {},
		`{"a":1,"b":{"a":2}}`:                 {},
		`[{"a":1},{"A":1}]`:                   {},
		`{"a":1,"A":2}`:                       {"A", "a"},
		`{"x":{"to":1,"To":2}}`:               {"To", "to"},
		`{"x":[1,{"y":[{"aB":1,"Ab":2}]}]}`:   {"Ab", "aB"},
		`{"class":1,"cla\u017fs":2}`:          {"class", "cla\u017fs"},
		`{"key":1,"\u212aey":2}`:              {"key", "\u212aey"},
		`{"title":1,"t\u0131tle":2}`:          {"title", "t\u0131tle"},
		`{"\u00c9":1,"\u00e9":2}`:             {"\u00c9", "\u00e9"},
		`{"\u00e9":1,"e":2}`:                  {},
		`{` + many.String() + `"z":1}`:        {},
		`{` + many.String() + `"N7":1}`:       {"N7", "n7"},
		`{"task_id":1,"taskId":2}`:            {},
		`{"a":[{"b\u0000":1}]}`:               {"b", "b\x00"},
		`{"b":1,"b\u0000c":1}`:                {"b", "b\x00c"},
		`{"a":[{"b":1}],"c":[{"d":1,"D":2}]}`: {"D", "d"},
	} {
		v, err := ParseValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		one, other, found := v.sameButCase()
		if [2]string{one, other} != want || found != (want[0] != "") {
			t.Errorf("%s: %q, %q, %v; want %q", text, one, other, found, want)
		}
		err = v.CheckNames()
		if (err != nil) != found || found && strings.Contains(err.Error(), "U+0000") != strings.Contains(other, "\x00") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestATK27_FoldsAreThoseOfUnicode: the table of folds equals the computed fold of every
// rune, and two runes of one orbit have one fold.
func TestATK27_FoldsAreThoseOfUnicode(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got, want := foldRune(r), computeFold(r); got != want && (r > unicode.MaxASCII || got != unicode.ToUpper(r)) {
			t.Fatalf("%U is folded to %U; want %U", r, got, want)
		}
		if next := unicode.SimpleFold(r); r > unicode.MaxASCII && foldRune(next) != foldRune(r) && r != 'İ' && r != 'ı' {
			t.Fatalf("%U and %U are one letter to some readers and are folded to %U and %U", r, next, foldRune(r), foldRune(next))
		}
	}
}
