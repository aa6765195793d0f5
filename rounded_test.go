package powerbox_test

import (
	"testing"

	"github.com/powerbox-project/powerbox"
)

func TestATK39_RoundedArgumentIsNamed(t *testing.T) {
	for arguments, want := range map[string]string{
		`{}`:                                "",
		`null`:                              "",
		`[9007199254740993]`:                "", // no arguments
		`{"a":9007199254740992}`:            "",
		`{"a":0.1,"b":1e300,"c":"x"}`:       "",
		`{"a":1.10,"b":true,"c":null}`:      "",
		`{"a":9007199254740993}`:            "a",
		`{"a":1,"b":0.1234567890123456789}`: "b",
		`{"a":[1,[2,9007199254740993]]}`:    "a",
		`{"a":{"b":[{"c":-1e22}]}}`:         "",
		`{"a":{"b":[{"c":1.00000000000000000001}]},"d":1}`: "a",
	} {
		v, err := powerbox.ParseValue([]byte(arguments))
		if err != nil {
			t.Fatal(err)
		}
		if name, found := powerbox.RoundedArgument(v); name != want || found != (want != "") {
			t.Errorf("ATK-39 %s: %q, %t; want %q", arguments, name, found, want)
		}
	}
}
