package evidence

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

// canonicalCases are also written to the vectors. An empty want is a refusal.
var canonicalCases = []struct{ name, input, want string }{
	{"EXT-22 members are sorted", `{"b":1, "a":2}`, `{"a":2,"b":1}`},
	{"EXT-22 the fill price of the extension document", `{"status": "filled", "fill_price": 187.420, "fill_quantity": 100}`, `{"fill_price":187.42,"fill_quantity":100,"status":"filled"}`},
	{"ATK-40 names are sorted by UTF-16 code unit, so U+1F600 is before U+FB33", "{\"\ufb33\":1,\"\U0001F600\":2}", "{\"\U0001F600\":2,\"\ufb33\":1}"},
	{"ATK-40 escapes have one spelling", `"\u0041\u20ac\u000f\u000a\/\"\\"`, "\"A\u20ac\\u000f\\n/\\\"\\\\\""},
	{"ATK-40 a surrogate pair is one character", `"\ud83d\ude00"`, "\"\U0001F600\""},
	{"ATK-40 no HTML escapes", `"<&>"`, `"<&>"`},
	{"a scalar alone", ` true `, `true`},
	{"numbers have one spelling", `[1.0,1E3,1e-7,0.000001,123456789012345.6]`, `[1,1000,1e-7,0.000001,123456789012345.6]`},
	{"zero", `[0,0.0,0e5]`, `[0,0,0]`},
	{"17 digits that a float has", `0.30000000000000004`, `0.30000000000000004`},
	{"the smallest float", `5e-324`, `5e-324`},
	{"the largest integer", `[9007199254740991,-9007199254740991]`, `[9007199254740991,-9007199254740991]`},
	{"64 levels", nested(64), nested(64)},
	{"ATK-39 an integer beyond 2^53-1", `9007199254740992`, ""},
	{"ATK-39 an integer that a float would change", `9007199254740993`, ""},
	{"ATK-39 the same behind a point", `9007199254740993.0`, ""},
	{"ATK-39 a negative integer beyond", `{"a":[-9007199254740992]}`, ""},
	{"ATK-39 a large float", `1e300`, ""},
	{"ATK-39 overflow", `1e400`, ""},
	{"ATK-39 underflow", `1e-400`, ""},
	{"ATK-39 minus zero", `-0`, ""},
	{"ATK-39 minus zero with a point", `-0.0`, ""},
	{"ATK-39 negative underflow", `-1e-400`, ""},
	{"ATK-39 digits that are lost", `0.10000000000000001`, ""},
	{"ATK-39 an exponent beyond all", `1e-99999999999999999999`, ""},
	{"ATK-39 NaN", `NaN`, ""},
	{"ATK-39 a leading zero", `01`, ""},
	{"ATK-39 a plus sign", `+1`, ""},
	{"a name twice", `{"a":1,"a":1}`, ""},
	{"a name twice, once escaped", `{"a":1,"\u0061":1}`, ""},
	{"a lone surrogate", `"\ud83d"`, ""},
	{"two values", `1 2`, ""},
	{"no value", ` `, ""},
	{"an open object", `{"a":1`, ""},
	{"65 levels", nested(65), ""},
	{"too large", `"` + strings.Repeat("a", MaxRecord-1) + `"`, ""},
}

func TestEXT22_Canonical(t *testing.T) {
	for _, test := range canonicalCases {
		t.Run(test.name, func(t *testing.T) {
			input := []byte(test.input)
			got, err := Canonical(input)
			if string(got) != test.want || (err == nil) == (test.want == "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
			if string(input) != test.input {
				t.Error("the input was changed")
			}
		})
	}
	if _, err := Canonical([]byte("\"\xff\"")); err == nil {
		t.Error("invalid UTF-8 was accepted")
	}
}

func TestEXT22_CanonicalSaysWhereAndWhat(t *testing.T) {
	_, err := Canonical([]byte(`{"amounts":[1,9007199254740993]}`))
	wantError(t, err, `"/amounts/1"`)
	wantError(t, err, "write it as a string")
}

// agree holds Canonical against another implementation of RFC 8785.
func agree(t interface{ Fatalf(string, ...any) }, data []byte) {
	got, err := Canonical(data)
	if err != nil {
		return
	}
	want, err := jcs.Transform(data)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("input %q: %q, the other implementation has %q, %v", data, got, want, err)
	}
	again, err := Canonical(got)
	if err != nil || !bytes.Equal(again, got) {
		t.Fatalf("canonical form %q is not its own: %q, %v", got, again, err)
	}
}

func TestATK40_TwoImplementationsAgree(t *testing.T) {
	for _, test := range canonicalCases {
		agree(t, []byte(test.input))
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		data := drawJSON(4).Draw(t, "json")
		if _, err := Canonical([]byte(data)); err == nil {
			accepted++
		}
		agree(t, []byte(data))
	})
	t.Logf("%d accepted", accepted)
	if accepted < 20 {
		t.Errorf("only %d texts were accepted: the property shows little", accepted)
	}
}

func drawJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 4).Draw(t, "kind")
		if depth == 0 {
			kind %= 3
		}
		switch kind {
		case 0:
			return rapid.StringMatching(`-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,4})?(e[+-]?[0-9]{1,2})?`).Draw(t, "number")
		case 1:
			return rapid.SampledFrom([]string{"true", "false", "null", "-0", `"\u00e9"`}).Draw(t, "literal")
		case 2:
			return drawText().Draw(t, "text")
		case 3:
			return "[" + strings.Join(rapid.SliceOfN(drawJSON(depth-1), 0, 4).Draw(t, "array"), ", ") + "]"
		}
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, drawText().Draw(t, "name")+" :"+drawJSON(depth-1).Draw(t, "value"))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func drawText() *rapid.Generator[string] {
	return rapid.Map(rapid.String(), func(text string) string {
		quoted, _ := canonicalValue(text)
		return string(quoted)
	})
}
