package agentauth

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Whatever is read as constraints is written back in the protocol's form, is read
// again as the same, and admits what a reader of that form admits (AAP-G1, ATK-27).
func FuzzConstraints(f *testing.F) {
	for _, s := range []string{
		`{"amount":{"min":0,"max":1000},"currency":{"in":["USD","EUR"]},"to":"acc_1","not":{"not_in":[1,2]}}`, `{"a":{"max":1.5,"not_in":[1]}}`,
		`{"a":{"maximum":1}}`, `{"a":{}}`, `{"a":null}`, `{"a":[1,{"b":2}]}`, `{"a":{"in":[{"b":1}]}}`, `{"a":{"eq":1}}`, `{"a":{"min":2,"max":1}}`, `[]`,
	} {
		f.Add([]byte(s), []byte(`{"amount":5,"currency":"USD","to":"acc_1","a":1}`))
	}
	f.Fuzz(func(t *testing.T, text, arguments []byte) {
		v, err := powerbox.ParseValue(text)
		if err != nil {
			return
		}
		shape, err := Options{}.ParseConstraints(v)
		if err != nil {
			if _, ours := err.(*Error); !ours { //nolint:errorlint // it is the kind that is asked about
				t.Fatalf("%s: %v is no refusal of ours", text, err)
			}
			return
		}
		back, sayable := Constraints(shape)
		if !sayable {
			if !shape.Empty() {
				t.Fatalf("%s cannot be written back", text)
			}
			return
		}
		again, err := Options{}.ParseConstraints(back)
		if err != nil && !shape.Empty() {
			t.Fatalf("%s is written as %s, which is refused: %v", text, back, err)
		}
		if err == nil && (!again.Covers(shape) || !shape.Covers(again)) {
			t.Fatalf("%s is written as %s, which is another", text, back)
		}
		args, err := powerbox.ParseValue(arguments)
		if err != nil || args.Kind() != powerbox.KindObject || shape.Empty() {
			return
		}
		if (len(Violations(shape, args)) == 0) != admits(v, args) {
			t.Fatalf("%s and %s: violations are %v", text, arguments, Violations(shape, args))
		}
	})
}

// admits is the protocol's section 2.13, word by word.
func admits(constraints, args powerbox.Value) bool {
	fields, _ := constraints.Members()
	for _, f := range fields {
		given, there := args.Get(f.Name)
		operators, isObject := f.Value.Members()
		if !isObject {
			if !there || !given.Equal(f.Value) {
				return false
			}
			continue
		}
		for _, op := range operators {
			list, _ := op.Value.Elements()
			among := false
			for _, one := range list {
				among = among || there && given.Equal(one)
			}
			n, isNumber := given.Decimal()
			bound, _ := op.Value.Decimal()
			switch op.Name {
			case opMax:
				if !there || !isNumber || n.Compare(bound) > 0 {
					return false
				}
			case opMin:
				if !there || !isNumber || n.Compare(bound) < 0 {
					return false
				}
			case opIn:
				if !among {
					return false
				}
			case opNotIn:
				if among {
					return false
				}
			}
		}
	}
	return true
}

// No text is a token of both kinds, and a token has the same claims for every reader
// (ATK-13, ATK-27).
func FuzzToken(f *testing.F) {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, head := range []string{`{"alg":"EdDSA","typ":"host+jwt"}`, `{"alg":"EdDSA","typ":"agent+jwt","kid":"a"}`, `{"alg":"none","typ":"host+jwt"}`, `{"typ":"host+jwt","typ":"agent+jwt","alg":"EdDSA"}`} {
		f.Add(part(head) + "." + part(`{"iss":"a","sub":"b","aud":"c","iat":1,"exp":2,"jti":"d","capabilities":["x"]}`) + "." + part(strings.Repeat("s", 64)))
	}
	f.Fuzz(func(t *testing.T, compact string) {
		host, errHost := ParseToken(compact, TypeHost)
		agent, errAgent := ParseToken(compact, TypeAgent)
		if errHost == nil && errAgent == nil {
			t.Fatalf("%q is both", compact)
		}
		one := host
		if errHost != nil {
			one = agent
		}
		if errHost != nil && errAgent != nil {
			return
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(compact, ".")[1])
		var lenient struct {
			Audience json.RawMessage `json:"aud"`
			Subject  json.RawMessage `json:"sub"`
		}
		if err != nil || json.Unmarshal(payload, &lenient) != nil {
			t.Fatalf("%q: another reader refuses it", compact)
		}
		for _, c := range []struct {
			ours   string
			theirs json.RawMessage
		}{{one.Audience, lenient.Audience}, {one.Subject, lenient.Subject}} {
			var text string
			if c.theirs != nil && (json.Unmarshal(c.theirs, &text) != nil || text != c.ours) {
				t.Fatalf("%q: another reader finds %s, not %q", compact, c.theirs, c.ours)
			}
		}
		_ = one.CheckTimes(time.Unix(1, 0), time.Unix(0, 0))
	})
}
