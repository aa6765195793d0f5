package setup

import (
	"testing"

	"pgregory.net/rapid"

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
