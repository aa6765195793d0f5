package powerbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, text string }{
		{"nothing", ``, "at byte 0: want a value"},
		{"white space", " \t\r\n", "at byte 4: want a value"},
		{"duplicate", `{"a":1,"b":2,"a":3}`, `member "a" occurs twice`},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, `member "a" occurs twice`},
		{"duplicate inside", `[{"x":{"a":1,"a":1}}]`, `member "a" occurs twice`},
		{"trailing data", `{} {}`, "at byte 3: data after the value"},
		{"trailing word", `nullx`, "data after the value"},
		{"half a word", `[tru]`, "at byte 1: want a value"},
		{"capital word", `True`, "want a value"},
		{"single quotes", `{'a':1}`, "want a member name in double quotes"},
		{"bare name", `{a:1}`, "want a member name in double quotes"},
		{"no colon", `{"a" 1}`, `want ':' after member name "a"`},
		{"no value", `{"a":}`, "want a value"},
		{"final comma", `[1,]`, "at byte 3: want a value"},
		{"final comma in an object", `{"a":1,}`, "want a member name"},
		{"two commas", `[1,,2]`, "want a value"},
		{"no comma", `[1 2]`, "want ',' or ']'"},
		{"wrong bracket", `[1}`, "want ',' or ']'"},
		{"wrong brace", `{"a":1]`, "want ',' or '}'"},
		{"open array", `[1`, "want ',' or ']'"},
		{"open object", `{`, "want a member name"},
		{"open string", `"abc`, "string has no end"},
		{"open string after an escape", `"\nabc`, "string has no end"},
		{"open escape", `"abc\`, "string has no end"},
		{"unknown escape", `"\x41"`, `unknown escape \x`},
		{"short escape", `"\u12"`, "want four hexadecimal digits"},
		{"signed escape", `"\u+123"`, "want four hexadecimal digits"},
		{"high surrogate alone", `"\ud800"`, "lone surrogate"},
		{"high surrogate and letter", `"\ud800x12345"`, "lone surrogate"},
		{"two high surrogates", `"\ud800\ud800"`, "lone surrogate"},
		{"high surrogate and bad escape", `"\ud800\uzzzz"`, "lone surrogate"},
		{"low surrogate alone", `"\udc00"`, "lone surrogate"},
		{"not UTF-8", "\"\xff\"", "string is not UTF-8"},
		{"not UTF-8 after an escape", "\"\\n\xc3\"", "string is not UTF-8"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", "string is not UTF-8"},
		{"name not UTF-8", "{\"\xff\":1}", "string is not UTF-8"},
		{"line feed in a string", "\"a\nb\"", "control character 0x0a"},
		{"control character after an escape", "\"\\n\x00\"", "control character 0x00"},
		{"byte order mark", "\xef\xbb\xbf{}", "want a value"},
		{"comment", `/**/1`, "want a value"},
		{"form feed", "\f1", "want a value"},
		{"no-break space", "\u00a01", "want a value"},
		{"ATK-39 NaN", `NaN`, "want a value"},
		{"ATK-39 Infinity", `-Infinity`, `"-" is not a JSON number`},
		{"ATK-39 negative zero", `{"a":[-0]}`, "at byte 6: number -0 is negative zero"},
		{"ATK-39 overflow", `1e400`, "cannot be held"},
		{"leading zero", `01`, "is not a JSON number"},
		{"two numbers in one", `1-2`, "is not a JSON number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := powerbox.ParseValue([]byte(c.in))
			wantError(t, err, c.text)
			var syntax *powerbox.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(c.in) {
				t.Errorf("error %#v; want a SyntaxError within the input", err)
			}
			if v.Kind() != powerbox.KindNull {
				t.Errorf("value %s beside the error", v)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : [ 1 , true , false , null , "x" ] , "a" : { } } `: `{"a":{},"b":[1,true,false,null,"x"]}`,
		`"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00\u0000"`:                `"\"\\/` + `\b\f\n\r\t` + "\u00e9\U0001F600" + `\u0000"`,
		`"\ufffd"`:                             "\"\ufffd\"",
		"\"\x7f\"":                             "\"\x7f\"",
		`1.50e3`:                               `1500`,
		`[]`:                                   `[]`,
		`{"A":1,"a":2,"\u00e9":3,"e\u0301":4}`: "{\"A\":1,\"a\":2,\"e\u0301\":4,\"\u00e9\":3}",
	} {
		v, err := powerbox.ParseValue([]byte(in))
		if err != nil || v.String() != want {
			t.Errorf("%s gives %s, %v; want %s", in, v, err, want)
		}
		if m, err := json.Marshal(v); err != nil || !json.Valid(m) {
			t.Errorf("%s marshals to %s, %v", in, m, err)
		}
	}
}

func TestATK55_DecodeLimits(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for _, c := range []struct {
		in     []byte
		limits powerbox.Limits
		text   string
	}{
		{nested(3), powerbox.Limits{Bytes: 6, Depth: 3}, ""},
		{nested(4), powerbox.Limits{Bytes: 8, Depth: 3}, "at byte 3: nested too deep"},
		{nested(3), powerbox.Limits{Bytes: 5, Depth: 3}, "input has 6 bytes; want at most 5"},
		{[]byte(`{"a":{"a":{}}}`), powerbox.Limits{Bytes: 100, Depth: 2}, "nested too deep"},
		{[]byte(`[[],[],[[]]]`), powerbox.Limits{Bytes: 100, Depth: 3}, ""},
		{[]byte(`1`), powerbox.Limits{}, "want at most 0"},
		{[]byte(`[]`), powerbox.Limits{Bytes: 2}, "nested too deep"},
		{nested(400_000), powerbox.Limits{Bytes: 1 << 20, Depth: 64}, "nested too deep"},
	} {
		_, err := powerbox.DecodeValue(c.in, c.limits)
		if c.text != "" {
			wantError(t, err, c.text)
		} else if err != nil {
			t.Errorf("ATK-55: %.40s: %v", c.in, err)
		}
	}
	quick(t, func() {
		var b strings.Builder
		for i := range 60_000 {
			fmt.Fprintf(&b, `,"%d":0`, i*7919%60_000)
		}
		if _, err := powerbox.ParseValue([]byte("{" + b.String()[1:] + "}")); err != nil {
			t.Errorf("ATK-55: many members: %v", err)
		}
	})
	_, err := powerbox.ParseValue(make([]byte, 1<<20+1))
	wantError(t, err, "want at most 1048576")
}

// drawJSON writes a value with white space and escapes that mean nothing.
func drawJSON(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "})
	gap := func() string { return space.Draw(t, "space") }
	text := func() string {
		return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", `\u0061`, `\n`, "\u00e9", `\ud83d\ude00`, `\"`, `\\`, `\/`, "\u2028", `\u0000`}), 0, 3).Draw(t, "text"), "") + `"`
	}
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	switch {
	case kind == 0:
		return gap() + rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word") + gap()
	case kind == 1:
		return gap() + numbers.Draw(t, "number") + gap()
	case kind < 4 || depth == 0:
		return gap() + text() + gap()
	case kind == 4:
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			parts = append(parts, drawJSON(t, depth-1))
		}
		return gap() + "[" + strings.Join(parts, ",") + gap() + "]" + gap()
	default:
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			parts = append(parts, gap()+text()+gap()+":"+drawJSON(t, depth-1))
		}
		return gap() + "{" + strings.Join(parts, ",") + gap() + "}" + gap()
	}
}

func TestDecoderAgreesWithOthers(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		in := drawJSON(t, 4)
		if rapid.IntRange(0, 3).Draw(t, "broken") == 0 {
			at := rapid.IntRange(0, len(in)-1).Draw(t, "at")
			in = in[:at] + rapid.SampledFrom([]string{"", "x", `"`, ",", "\x00", "\xff", "0", "]", "}"}).Draw(t, "insert") + in[at+1:]
		}
		accepted := agreeOnJSON(t, []byte(in))
		r.note("accepted", accepted)
		r.note("refused", !accepted)
		r.note("accepted and nested", accepted && strings.ContainsAny(in, "{["))
	})
	r.atLeast(t, 5)
}

// fataler is a test or a rapid test.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// agreeOnJSON compares the strict decoder with two others, and says whether it
// accepts: what it accepts, both accept and read alike; what jsontext accepts,
// it accepts except for its own rules on numbers and limits.
func agreeOnJSON(t fataler, in []byte) bool {
	t.Helper()
	v, err := powerbox.ParseValue(in)
	theirs := jsontext.Value(in).IsValid()
	if err != nil {
		for _, own := range []string{"negative zero", "exponent out of range", "cannot be held", "characters; want at most", "significant digits", "nested too deep", "input has"} {
			if strings.Contains(err.Error(), own) {
				return false
			}
		}
		if theirs {
			t.Fatalf("jsontext accepts %q, we do not: %v", in, err)
		}
		return false
	}
	if !theirs {
		t.Fatalf("we accept %q, jsontext does not", in)
	}
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	var other any
	if err := d.Decode(&other); err != nil {
		t.Fatalf("we accept %q, encoding/json does not: %v", in, err)
	}
	if diff := cmp.Diff(fromAny(other), v); diff != "" {
		t.Fatalf("%q (-encoding/json +ours):\n%s", in, diff)
	}
	out := v.AppendJSON(nil)
	again, err := powerbox.ParseValue(out)
	if err != nil || !again.Equal(v) || !bytes.Equal(again.AppendJSON(nil), out) || !jsontext.Value(out).IsValid() {
		t.Fatalf("%q is written as %q, which does not come back: %v", in, out, err)
	}
	handedOn := json.NewDecoder(bytes.NewReader(v.AppendSource(nil)))
	handedOn.UseNumber()
	var read any
	if err := handedOn.Decode(&read); err != nil || !reflect.DeepEqual(read, other) {
		t.Fatalf("%q is handed on as %q: %v", in, v.AppendSource(nil), err)
	}
	return true
}

func fromAny(x any) powerbox.Value {
	switch x := x.(type) {
	case bool:
		return powerbox.Bool(x)
	case json.Number:
		return powerbox.Number(num(x.String()))
	case string:
		return powerbox.String(x)
	case []any:
		vs := make([]powerbox.Value, len(x))
		for i := range x {
			vs[i] = fromAny(x[i])
		}
		return powerbox.List(vs...)
	case map[string]any:
		var ms []powerbox.Member
		for name, v := range x {
			ms = append(ms, powerbox.Member{Name: name, Value: fromAny(v)})
		}
		return powerbox.Object(ms...)
	default:
		return powerbox.Value{}
	}
}

func TestValues(t *testing.T) {
	ascending := values(`null, false, true, -1, 0, 2, "", "a", "b", [], [1], [1,2], [2], {}, {"a":1}, {"a":1,"b":0}, {"a":2}, {"b":1}`)
	for i, v := range ascending {
		for j, w := range ascending {
			if got, want := v.Compare(w), sign(i-j); got != want || v.Equal(w) != (i == j) {
				t.Errorf("%s against %s: %d; want %d", v, w, got, want)
			}
		}
	}
	object := powerbox.Object(powerbox.Member{Name: "b", Value: value("1")}, powerbox.Member{Name: "a", Value: value("2")}, powerbox.Member{Name: "b", Value: value("3")})
	if object.String() != `{"a":2,"b":3}` {
		t.Errorf("object %s; want the later of two members", object)
	}
	if _, ok := object.Get("c"); ok {
		t.Error("a member that is not there is found")
	}
	if v, ok := object.Get("b"); !ok || !v.Equal(value("3")) {
		t.Errorf("member b is %s", v)
	}
	if _, ok := value(`"B"`).Get("B"); ok {
		t.Error("a string has members")
	}
	names := ""
	for k := powerbox.KindNull; k <= powerbox.KindObject+1; k++ {
		names += k.String() + " "
	}
	if names != "null boolean number string array object unknown " {
		t.Errorf("kinds are %s", names)
	}
	if b, ok := value("true").Truth(); !b || !ok {
		t.Error("true is not true")
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// TestAppendSource: a value that is handed on has its numbers as they were written;
// names in order and strings by one encoder, as in the other form.
func TestAppendSource(t *testing.T) {
	for in, want := range map[string]string{
		`1`: `1`, `-1`: `-1`, `0`: `0`, `1.0`: `1.0`, `-1.50`: `-1.50`, `0.5`: `0.5`, `1e2`: `1e2`, `1E+2`: `1E+2`, `0.0`: `0.0`, `0e9`: `0e9`,
		`1000000000000000000000`:                `1000000000000000000000`,
		`12345678901234567890123.25`:            `12345678901234567890123.25`,
		`-100000000000000000000000000000000`:    `-100000000000000000000000000000000`,
		` { "b" : [ 1.0 , 2 ] , "a" : 3.10 } `:  `{"a":3.10,"b":[1.0,2]}`,
		`["\u0041\/\u000a",true,false,null,{}]`: `["A/\n",true,false,null,{}]`,
	} {
		v, err := powerbox.ParseValue([]byte(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if got := string(v.AppendSource([]byte("x"))); got != "x"+want {
			t.Errorf("%s is handed on as %s; want %s", in, got[1:], want)
		}
		if again, err := powerbox.ParseValue(v.AppendJSON(nil)); err != nil || !again.Equal(v) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if got := string(powerbox.Number(powerbox.Int(7)).AppendSource(nil)); got != "7" {
		t.Errorf("a number that was not read is %s", got)
	}
}
