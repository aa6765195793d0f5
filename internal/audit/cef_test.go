package audit

import (
	"regexp"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// field begins at a key: the only places where an equals sign stands without a backslash.
var field = regexp.MustCompile(`(?:^| )([A-Za-z0-9]+)=((?:[^=\\]|\\.)*?)(?: [A-Za-z0-9]+=|$)`)

// parsedCEF reads a line as the specification of the format says, version 0 revision 25.
func parsedCEF(t *testing.T, line string) (header []string, fields map[string]string) {
	t.Helper()
	rest, ok := strings.CutPrefix(line, "CEF:0|")
	if !ok || strings.ContainsAny(line, "\r\n") {
		t.Fatalf("no line of CEF: %q", line)
	}
	for range 6 {
		at := 0
		for at < len(rest) && rest[at] != '|' {
			if rest[at] == '\\' {
				at++
			}
			at++
		}
		header = append(header, strings.NewReplacer(`\|`, `|`, `\\`, `\`).Replace(rest[:at]))
		rest = rest[at+1:]
	}
	fields = map[string]string{}
	for rest != "" {
		m := field.FindStringSubmatchIndex(rest)
		if m == nil || m[0] != 0 {
			t.Fatalf("no field at %q", rest)
		}
		fields[rest[m[2]:m[3]]] = strings.NewReplacer(`\\`, `\`, `\=`, `=`, `\n`, "\n", `\r`, "\r").Replace(rest[m[4]:m[5]])
		rest = strings.TrimPrefix(rest[m[5]:], " ")
	}
	return header, fields
}

func sealedAs(t *testing.T, r evidence.Record) evidence.Sealed {
	t.Helper()
	sealed, err := evidence.SealUnsafeUnsigned(evidence.Head{}, r)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestTextsOfOthersStayInTheirFieldOfCEF(t *testing.T) {
	const evil = "alice\\| act=ALLOW\r\nCEF:0|Powerbox|Powerbox|1|x|Allowed|1|act=ALLOW \\"
	for _, decision := range []evidence.Decision{evidence.Allow, evidence.Deny, evidence.Abstain} {
		r := asked(1, evil, "documents", "trace", decision)
		r.Details.Principal, r.Details.Recorder = evil, "issuer"
		r.Details.Reasons = []evidence.Reason{{Code: "capability_required"}}
		header, fields := parsedCEF(t, CEFEvent(sealedAs(t, r), "0.1|0"))
		if strings.Join(header[:4], "/") != "Powerbox/Powerbox/0.1|0/a2a.SendMessage" {
			t.Errorf("header %q", header)
		}
		for key, want := range map[string]string{
			"act": string(decision), "suid": evil, "sourceServiceName": evil, "destinationServiceName": "documents", "externalId": "rec_1", "reason": "capability_required",
			"cn1Label": "sequence",
		} {
			if fields[key] != want {
				t.Errorf("%s is %q; want %q", key, fields[key], want)
			}
		}
		want := map[evidence.Decision]string{evidence.Allow: "Allowed/3", evidence.Deny: "Denied/6", evidence.Abstain: "Observed/3"}[decision]
		if got := header[4] + "/" + header[5]; got != want {
			t.Errorf("%s: name and severity %s; want %s", decision, got, want)
		}
	}
}

func TestControlCharactersAreSpacesInCEF(t *testing.T) {
	if got := cefValue("a\x00b\x1bc\u2028d\u0085e\tf"); got != "a b c d e f" {
		t.Errorf("%q", got)
	}
}

// TestATK120_CEFHasNoInvisibleCharacters keeps marks that turn the direction of writing, and
// others that are not seen, out of a line.
func TestATK120_CEFHasNoInvisibleCharacters(t *testing.T) {
	r := asked(1, "a\u202eb\u2066c\u200bd\x1b[2J\u009be", "documents", "trace", evidence.Deny)
	r.Details.Recorder = "issuer"
	line := CEFEvent(sealedAs(t, r), "0.1")
	if _, fields := parsedCEF(t, line); fields["sourceServiceName"] != "a b c d [2J e" {
		t.Errorf("%q", line)
	}
}
