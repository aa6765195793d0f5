package setup

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// TestInitWritesWhatLoads: whatever a card calls its skills, the file that is
// made of it loads.
func TestInitWritesWhatLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.OneOf(
			rapid.StringN(1, 40, 200),
			rapid.SampledFrom([]string{"a2a.message", "*", "a/b", "a b", "a_b", "read\nnote", "\"}", "# x", "getReport", "null", "1"}),
		), 1, 6).Draw(t, "skills")
		d := draft{
			agent: "http://127.0.0.1:1", out: "powerbox.yaml", user: "dev", token: "0123456789",
			card: a2a.CardView{Name: rapid.String().Draw(t, "name"), Skills: names},
		}
		d.id = nameOf(d.card.Name)
		d.guess()
		if err := d.loads(); err != nil {
			t.Fatalf("%v\n%s", err, d.yaml())
		}
	})
}

// TestInitGuessesEffects: unless a tool is known to change nothing, init
// assumes that it changes something.
func TestInitGuessesEffects(t *testing.T) {
	for skill, read := range map[string]bool{
		"read_note": true, "search-documents": true, "list": true, "GET report": true,
		"delete_note": false, "send_mail": false, "read_and_delete": false, "frobnicate": false, "": false, "address": false,
	} {
		if reads(skill) != read {
			t.Errorf("%q reads: %t", skill, !read)
		}
	}
}

// TestInitReadsAnnotationsAsClaims: an annotation makes a guess narrower, or is written down
// for a person. None makes results trusted, or a tool that writes by its name read.
func TestInitReadsAnnotationsAsClaims(t *testing.T) {
	yes, no := true, false
	d := draft{mcp: "http://127.0.0.1:1/mcp", out: "powerbox.yaml", user: "dev", token: "0123456789", id: "notes"}
	err := d.guessTools([]mcpTool{
		{"frobnicate", toolHints{ReadOnly: true, OpenWorld: &no}},
		{"get_report", toolHints{Destructive: &yes, OpenWorld: &yes}},
		{"delete_note", toolHints{ReadOnly: true}},
		{"read_note", toolHints{}},
	}, "the server")
	if err != nil {
		t.Fatal(err)
	}
	text := d.yaml()
	for _, want := range []string{
		`operation: "frobnicate", effect: read} # guess; the server says readOnlyHint: true, openWorldHint: false` + "\n" +
			"      # if only you and the user can write its results, add yields: {trust: trusted, source: notes}\n",
		`operation: "get_report", effect: write} # guess; the server says destructiveHint: true, openWorldHint: true` + "\n" +
			"      # to ask a person about each call, add approval: true\n",
		`operation: "delete_note", effect: write} # guess; the server says readOnlyHint: true` + "\n",
		`operation: "read_note", effect: read} # guess` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the file lacks %q:\n%s", want, text)
		}
	}
	c, err := config.Load("powerbox.yaml", func(string) ([]byte, error) { return []byte(text), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Skills["notes"] {
		if s.Yields.Trust != "untrusted" || s.Approval {
			t.Errorf("%s is %+v by the word of the server", s.Skill, s)
		}
	}
}
