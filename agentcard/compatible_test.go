package agentcard_test

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/agentcard"
)

// minimal is a card of 1.0 with other capabilities and interfaces.
func minimal(capabilities, interfaces, more string) []byte {
	return []byte(`{"name":"A","description":"D","version":"1","capabilities":` + capabilities + `,"supportedInterfaces":` + interfaces + more + `,
		"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"S","tags":["t"]}]}`)
}

const oneInterface = `[{"url":"https://a.example.com","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]`

// TestCARD2_SaidTwice: of a card that says yes and no, in whatever order, no
// counts, even if no caller asks whether to rely on it.
func TestCARD2_SaidTwice(t *testing.T) {
	for _, said := range [][2]string{{"true", "false"}, {"false", "true"}} {
		card, problems := agentcard.Lint(minimal(`{"context_reuse":`+said[0]+`,"extensions":[{"uri":"`+agentcard.ContractURI+`","params":{"context_reuse":`+said[1]+`}}]}`, oneInterface, ""), false)
		if card.Supports("context_reuse") || agentcard.Relied(problems) {
			t.Errorf("CARD-2 %v: supported %t, problems %v", said, card.Supports("context_reuse"), problems)
		}
	}
}

// TestCARD7_RangesOfInterfaces: what a declared range lends an interface.
func TestCARD7_RangesOfInterfaces(t *testing.T) {
	for _, c := range []struct {
		version, low, high, asked string
		want                      bool
	}{
		{"1.0", "1.0", "2.0", "1.5", true},
		{"1.0", "1.0", "2.0", "2.0", false}, // another major version is another protocol
		{"0.3", "0.2", "1.0", "0.2", false}, // 0.x promises nothing between minors
		{"0.3", "0.2", "1.0", "0.3", true},
		{"2.1", "", "2.4", "2.4.9", true},
		{"2.1", "", "2.4", "2.5", false},
		{"2.1", "2.0", "", "2.77", true},
		{"1.1", "", "", "1.0", false},
	} {
		more := ""
		if c.low != "" {
			more += `,"min_protocol_version":"` + c.low + `"`
		}
		if c.high != "" {
			more += `,"max_protocol_version":"` + c.high + `"`
		}
		card, err := agentcard.Parse(minimal(`{}`, strings.Replace(oneInterface, `"1.0"`, `"`+c.version+`"`, 1), more))
		if err != nil {
			t.Fatal(err)
		}
		a := agentcard.Compatible(card, agentcard.Needs{Versions: []string{c.asked}})
		if a.Compatible != c.want {
			t.Errorf("CARD-7 %+v: %+v", c, a)
		}
	}
}

// TestCARD11_Removal: when a capability may be gone.
func TestCARD11_Removal(t *testing.T) {
	for _, c := range []struct {
		introduced, deprecated, before, after string
		want                                  bool
	}{
		{"1.0", "2.0", "2.0", "3.0", true},
		{"1.4", "2.7", "2.9", "3.0", true},
		{"1.0", "2.0", "2.0", "2.1", false}, // within a major version
		{"1.0", "", "2.0", "3.0", false},    // not announced
		{"1.0", "3.0", "3.0", "3.1", false}, // announced in the same one
		{"2.0", "2.1", "2.1", "3.0", false}, // too soon
		{"2.0", "3.0", "3.0", "4.0", true},
	} {
		tier, deprecated := `"declared"`, ""
		if c.deprecated != "" {
			tier, deprecated = `"deprecated"`, `,"deprecated":"`+c.deprecated+`"`
		}
		before, err := agentcard.ParseContract([]byte(`{"contract":"` + c.before + `","capabilities":[{"name":"a","tier":` + tier + `,"introduced":"` + c.introduced + `","meaning":"A"` + deprecated + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		after, err := agentcard.ParseContract([]byte(`{"contract":"` + c.after + `","capabilities":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		changes := agentcard.DiffContracts(before, after)
		if agentcard.Has(changes, agentcard.Breach) == c.want {
			t.Errorf("CARD-11 %+v: %v", c, changes)
		}
	}
	for _, bad := range []string{
		`{"contract":"1.0","capabilities":[{"name":"a","tier":"declared","introduced":"1.1","meaning":"A"}]}`,
		`{"contract":"1.0","capabilities":[{"name":"a","tier":"vendor","introduced":"1.0","meaning":"A"}]}`,
		`{"contract":"1.0","capabilities":[{"name":"a","tier":"deprecated","introduced":"1.0","meaning":"A"}]}`,
		`{"contract":"2.0","capabilities":[{"name":"a","tier":"deprecated","introduced":"1.0","deprecated":"2.0","removed":"2.0","meaning":"A"}]}`,
		`{"contract":"1.0","capabilities":[{"name":"a","tier":"declared","introduced":"1.0"}]}`,
		`{"contract":"1.0","Capabilities":[]}`, `{"contract":"1","capabilities":[]}`, `{"contract":"1.0","contract":"1.1","capabilities":[]}`, `{"contract":"1.0","capabilities":[]} {}`,
	} {
		if _, err := agentcard.ParseContract([]byte(bad)); err == nil {
			t.Errorf("CARD-11 %s is read", bad)
		}
	}
}

// TestCARD13_Digest: the digest is of what the card says, not of how it is
// written or who signed it.
func TestCARD13_Digest(t *testing.T) {
	digest := func(raw []byte) string {
		card, err := agentcard.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return card.Digest()
	}
	plain := minimal(`{"streaming":true}`, oneInterface, "")
	one := digest(plain)
	if !strings.HasPrefix(one, "sha256:") || len(one) != len("sha256:")+64 {
		t.Fatalf("CARD-13 digest %q", one)
	}
	if spaced := digest([]byte(strings.ReplaceAll(string(plain), ":", " : "))); spaced == one {
		t.Error("CARD-13 the colon within a URL is part of what is said")
	}
	if same := digest([]byte(strings.ReplaceAll(string(plain), ",", " ,\n "))); same != one {
		t.Error("CARD-13 white space changes the digest")
	}
	if signed := digest(minimal(`{"streaming":true}`, oneInterface, `,"signatures":[]`)); signed != one {
		t.Error("CARD-13 a signature changes the digest")
	}
	for _, other := range []string{`{"streaming":false}`, `{"streaming":true,"x":1}`} {
		if digest(minimal(other, oneInterface, "")) == one {
			t.Errorf("CARD-13 %s has the same digest", other)
		}
	}
	card, err := agentcard.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	if a := agentcard.Compatible(card, agentcard.Needs{Digest: "sha256:0"}); a.Compatible || a.Reasons[0].Code != "card_changed" {
		t.Errorf("CARD-13 %+v", a)
	}
}

// TestCARD11_Cards: what differs between two cards, and of what kind it is.
func TestCARD11_Cards(t *testing.T) {
	base := string(minimal(`{"streaming":true,"context_reuse":true}`, oneInterface, `,"securitySchemes":{"m":{"mtlsSecurityScheme":{}}},"securityRequirements":[{"schemes":{"m":{}}}]`))
	before, err := agentcard.Parse([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, kind, subject string }{
		{`"context_reuse":true`, `"context_reuse":false`, agentcard.Breach, "feature context_reuse"},
		{`,"context_reuse":true`, ``, agentcard.Breach, "feature context_reuse"},
		{`"streaming":true`, `"streaming":true,"multi_tenant":true`, agentcard.Widens, "feature multi_tenant"},
		{`"id":"s"`, `"id":"t"`, agentcard.Breach, "skill s"},
		{`"skills":[`, `"skills":[{"id":"u","name":"U","description":"U","tags":["t"]},`, agentcard.Widens, "skill u"},
		{`"description":"S"`, `"description":"S, and sends it to my server"`, agentcard.Widens, "skill s"},
		{`https://a.example.com`, `https://b.example.com`, agentcard.Breach, "interface JSONRPC 1.0 at https://a.example.com"},
		{`https://a.example.com`, `https://b.example.com`, agentcard.Widens, "interface JSONRPC 1.0 at https://b.example.com"},
		{`"protocolVersion":"1.0"`, `"protocolVersion":"1.1"`, agentcard.Breach, "interface JSONRPC 1.0 at https://a.example.com"},
		{`,"securityRequirements":[{"schemes":{"m":{}}}]`, ``, agentcard.Widens, "security requirements"},
		{`"mtlsSecurityScheme":{}`, `"apiKeySecurityScheme":{"location":"header","name":"k"}`, agentcard.Breach, "security requirements"},
		{`"streaming":true`, `"streaming":true,"extensions":[{"uri":"https://x.example.com","required":true}]`, agentcard.Breach, "extension https://x.example.com"},
		{`"defaultInputModes":["text/plain"]`, `"defaultInputModes":["text/html"]`, agentcard.Breach, "input mode text/plain"},
		{`"version":"1"`, `"version":"2"`, agentcard.Note, "version"},
		{`"tags":["t"]`, `"tags":["u"]`, agentcard.Note, "card"},
	} {
		text := strings.Replace(base, c.from, c.to, 1)
		if text == base {
			t.Fatalf("no %s", c.from)
		}
		after, err := agentcard.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		changes := agentcard.DiffCards(before, after)
		for _, change := range changes {
			found = found || change.Kind == c.kind && change.Subject == c.subject
		}
		if !found {
			t.Errorf("CARD-11 %s in place of %s: %v; want %s %s", c.to, c.from, changes, c.kind, c.subject)
		}
	}
}

// TestCARD12_OnlyADeclaredFeatureCounts: an absent feature and one that is false may not be
// relied on.
func TestCARD12_OnlyADeclaredFeatureCounts(t *testing.T) {
	for _, feature := range []string{"streaming", "streaming_message", "push_notifications", "extended_agent_card", "pause_resume"} {
		for declared, want := range map[string]bool{`{}`: false, `{"` + feature + `":false}`: false, `{"` + feature + `":true}`: true} {
			card, err := agentcard.Parse(minimal(declared, oneInterface, ""))
			if err != nil || card.Supports(feature) != want {
				t.Errorf("CARD-12 %s with %s: %t %v", feature, declared, card.Supports(feature), err)
			}
		}
	}
}
