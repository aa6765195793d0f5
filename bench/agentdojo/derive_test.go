package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// A tool of each sort, of no suite.
const schemas = `[
{"name": "transfer_funds", "parameters": {"type": "object", "properties": {"recipient": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}}}},
{"name": "mail_letter", "parameters": {"type": "object", "properties": {"addresses": {"type": "array", "items": {"type": "string"}, "description": "Email addresses."}, "subject": {"type": "string"}}}},
{"name": "plan_event", "parameters": {"type": "object", "properties": {"title": {"type": "string"}, "day": {"type": "string", "format": "date"}, "start": {"type": "string", "format": "date-time"}}}},
{"name": "remove_note", "parameters": {"type": "object", "properties": {"note_id": {"type": "integer"}, "author_id": {"type": "string"}}}},
{"name": "change_passcode", "parameters": {"type": "object", "properties": {"passcode": {"type": "string"}, "silent": {"type": "boolean"}, "how": {"enum": ["now", "later"], "type": "string"}}}},
{"name": "fetch_page", "parameters": {"type": "object", "properties": {"url": {"type": "string"}, "limit": {"type": "integer"}}}},
{"name": "write_file", "parameters": {"type": "object", "properties": {"filePath": {"type": "string"}, "discount_rate": {"type": "number"}}}}
]`

func toolsOf(t *testing.T) []tool {
	t.Helper()
	var all []tool
	if err := json.Unmarshal([]byte(schemas), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		var err error
		if all[i].arguments, err = readSchema(all[i].Parameters); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// The prompt pins the arguments that it names, by their kind, in the sentence
// that asks for the tool; the rest stays open.
func TestGATE9_ArgumentsArePinnedToWhatThePromptSays(t *testing.T) {
	all := toolsOf(t)
	for _, c := range []struct{ name, prompt, tool, want string }{
		{"an account and an amount", "Transfer 12.50 to XK051212012345678906.", "transfer_funds", `amount=[12.5] recipient=["XK051212012345678906"]`},
		{"an exact decimal, with a currency and thousands", "Transfer $1,234.10 to XK051212012345678906 please.", "transfer_funds", `amount=[1234.1] recipient=["XK051212012345678906"]`},
		{"an amount that is worked out", "Transfer the difference of 3.20 to XK051212012345678906.", "transfer_funds", `recipient=["XK051212012345678906"]`},
		{"a share", "Pay XK051212012345678906 5% of 100.00.", "transfer_funds", `recipient=["XK051212012345678906"]`},
		{"a count", "Pay XK051212012345678906 for 3 lamps.", "transfer_funds", `recipient=["XK051212012345678906"]`},
		{"a name that is referred to", "Jonas lent me some cash. Please pay him back.", "transfer_funds", `recipient=["Jonas"]`},
		{"names in a list", "Please pay Maria Rossi, Jonas and Li Wei what I owe to the club.", "transfer_funds", `recipient=["Maria Rossi","Jonas","Li Wei"]`},
		{"a place that somebody is asked to", "Invite Ada to Rome, and pay her what I owe.", "transfer_funds", ""},
		{"words after a colon", "Send everybody this message: Congratulations.", "transfer_funds", ""},
		{"a page before a sentence without a space", "Fetch www.x.example.Then rest.", "fetch_page", `url=["www.x.example"]`},
		{"a template", "Plan an event. The title should be 'Tea with {guest}'.", "plan_event", ""},
		{"the day before", "Plan an event a day before 2027-05-01.", "plan_event", ""},
		{"a name that is said", "Please pay Maria Rossi what I owe.", "transfer_funds", `recipient=["Maria Rossi"]`},
		{"an account of somebody else", "The account of my new landlord is XK051212012345678906. Also transfer 10.00 back to my friend.", "transfer_funds", `amount=[10]`},
		{"an account before the pronoun", "The plumber has account XK051212012345678906. Pay him 80.00.", "transfer_funds", `amount=[80] recipient=["XK051212012345678906"]`},
		{"an account that is assigned", "Set up a transfer of what I owe. The recipient is XK051212012345678906.", "transfer_funds", `recipient=["XK051212012345678906"]`},
		{"nobody", "Please pay the bill.", "transfer_funds", ""},
		{"addresses", "Mail a@x.example and b.c@y.example.", "mail_letter", `addresses=["a@x.example","b.c@y.example"]`},
		{"an address in the sentence after", "Mail Ada. Her address is 'ada@x.example'.", "mail_letter", `addresses=["ada@x.example"]`},
		{"an address that is asked for nowhere", "Do what the note of 'ada@x.example' says.", "mail_letter", `addresses=["ada@x.example"]`},
		{"words that are assigned", "Mail a@x.example. The subject of the letter should be 'It's time'.", "mail_letter", `addresses=["a@x.example"] subject=["It's time"]`},
		{"printed quotation marks", "Mail a@x.example. The subject should be \u201cIt\u2019s time\u201d.", "mail_letter", "addresses=[\"a@x.example\"] subject=[\"It\u2019s time\"]"},
		{"words that describe", "Read the letter with the subject 'Plans'.", "mail_letter", ""},
		{"a title and a day", "Plan an event titled \"Tea\" on 2027-05-01.", "plan_event", `day=["2027-05-01"] start=2027-05-01* title=["Tea"]`},
		{"a day in words", "Plan an event on the 2nd of June, 2027.", "plan_event", `day=["2027-06-02"] start=2027-06-02*`},
		{"a day without a year", "Plan an event on June 2nd.", "plan_event", `day=*-06-02 start=*-06-02*`},
		{"a relative day", "Plan an event tomorrow, not on 2027-05-01.", "plan_event", ""},
		{"a day that is not understood", "Plan an event on the 13th, not on 2027-05-01.", "plan_event", ""},
		{"a weekday in a quotation", "Plan an event titled 'Every Monday' on 2027-05-01.", "plan_event", `day=["2027-05-01"] start=2027-05-01* title=["Every Monday"]`},
		{"an id", "Remove the note with ID '17'.", "remove_note", `note_id=["17"]`},
		{"a number that is no id", "Remove the 17.00 note.", "remove_note", ""},
		{"a secret", "Change the passcode to 'q-1'.", "change_passcode", `passcode=["q-1"]`},
		{"a page", "Fetch https://x.example/a?b=c, please.", "fetch_page", `url=["https://x.example/a?b=c"]`},
		{"a limit of what is read", "Fetch 3.5 pages.", "fetch_page", ""},
		{"a file", "Write a poem to poems/spring.txt and give 3.5 for it.", "write_file", `filePath=["poems/spring.txt"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := slices.IndexFunc(all, func(one tool) bool { return one.Name == c.tool })
			var got []string
			for _, p := range derive(c.prompt, all[i:i+1]).pins[c.tool] {
				said := p.Constraint.JSON().String()
				said = strings.NewReplacer(`{"constraint_type":"one_of","values":`, "", `{"allowed":`, "", `,"constraint_type":"subset"}`, "",
					`{"constraint_type":"any","constraints":[{"constraint_type":"glob","pattern":"`, "", `"}]}`, "", "]}", "]").Replace(said)
				got = append(got, p.Argument.Name+"="+said)
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.prompt, got, c.want)
			}
		})
	}
}

// One sentence asks for one tool, another one for another.
func TestGATE9_SentencesThatAskForAnotherToolSayNothing(t *testing.T) {
	a := derive("Mail ada@x.example and tell it. Transfer 5.00 to XK051212012345678906.", toolsOf(t))
	got := map[string]string{}
	for name, pins := range a.pins {
		for _, p := range pins {
			got[name] += p.Argument.Name + " "
		}
	}
	want := "map[mail_letter:addresses  transfer_funds:amount recipient ]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v; want %s", got, want)
	}
}

// A file that is to be written is not what a reader is bound to.
func TestGATE9_ReadersAreNotBoundToWhatIsWritten(t *testing.T) {
	var all []tool
	for _, name := range []string{"fetch_page", "post_page"} {
		args, err := readSchema(json.RawMessage(`{"properties": {"url": {"type": "string"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tool{Name: name, arguments: args})
	}
	for prompt, want := range map[string]int{
		"Post what you learn to https://a.example.":                         0,
		"See https://b.example. Post what you learn to https://a.example.":  1,
		"Fetch https://b.example and post it to https://a.example at once.": 1,
	} {
		a := derive(prompt, all)
		if len(a.pins["fetch_page"]) != want || len(a.pins["post_page"]) != 1 {
			t.Errorf("%q: %v", prompt, a.pins)
		}
	}
}

func TestGATE9_ToolsAreChosenByVerbAndThing(t *testing.T) {
	all := toolsOf(t)
	for prompt, want := range map[string]string{
		"Please plan an event for Ada.":                    "[plan_event]",
		"What does https://x.example say?":                 "[fetch_page]",
		"Remove the note and change the passcode.":         "[change_passcode remove_note]",
		"Delete notes.txt.":                                "[remove_note]",
		"How are you?":                                     "[]",
		"The event was planned. My passcode is a note.":    "[]",
		"Tell me about the removal of your old passcodes.": "[]",
	} {
		if got := fmt.Sprint(choose(prompt, all)); got != want {
			t.Errorf("%q: got %s; want %s", prompt, got, want)
		}
	}
}

func TestSchemasSayWhatAnArgumentTakes(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type": "string", "description": "The email address of the sender."}`:                            "email address false false",
		`{"type": "string", "description": "The subject of the email."}`:                                   "text false false",
		`{"anyOf": [{"type": "array", "items": {"type": "string", "format": "email"}}, {"type": "null"}]}`: "email address true true",
		`{"type": ["string", "null"], "description": "In ISO format."}`:                                    "date false true",
		`{"$ref": "#/$defs/money"}`:                                   "number false false",
		`{"$ref": "#/$defs/loop"}`:                                    "none false false",
		`{"$ref": "#/$defs/nothing"}`:                                 "none false false",
		`{"oneOf": [{"type": "string"}, {"type": "number"}]}`:         "none false false",
		`{"type": "string", "format": "date-time"}`:                   "date and time false false",
		`{"type": "string", "format": "uri"}`:                         "URL false false",
		`{"type": "string", "description": "IBAN of the other side"}`: "party false false",
		`{"type": "object"}`:                                          "none false false",
	} {
		args, err := readSchema(json.RawMessage(`{"type": "object", "properties": {"x": ` + schema + `}, "$defs": {"money": {"type": "number"}, "loop": {"$ref": "#/$defs/loop"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(args[0].Kind, args[0].List, args[0].Nullable); got != want {
			t.Errorf("%s: got %s; want %s", schema, got, want)
		}
	}
	for _, bad := range []string{`[]`, `{"properties": {"x": null}}`} {
		if a, err := readSchema(json.RawMessage(bad)); err == nil {
			t.Errorf("%s is %v", bad, a)
		}
	}
}

// For every prompt the pinned arguments are well formed, and the same in two runs.
func FuzzGATE9_Prompts(f *testing.F) {
	f.Add("Pay Ada \u20ac12.50 on May 2nd, 2027. The subject should be 'x y'.\n1. Fetch https://x.example/a.b, \u0130stanbul and Bo.", "_")
	f.Add("Mail a@x.example and \"b\". Her ID is 'q-1'. Plan it on 2027-01-01 at 9:00 pm.", "plan_event")
	f.Fuzz(func(t *testing.T, text, name string) {
		var all []tool
		if err := json.Unmarshal([]byte(schemas), &all); err != nil {
			t.Fatal(err)
		}
		all = append(all, tool{Name: name, Parameters: []byte(`{"properties": {"_": {"type": "string"}, "id": {"type": "string"}}}`)})
		for i := range all {
			var err error
			if all[i].arguments, err = readSchema(all[i].Parameters); err != nil {
				t.Fatal(err)
			}
		}
		a, b := derive(text, all), derive(text, all)
		first, second := fmt.Sprint(a.pins, choose(text, all)), fmt.Sprint(b.pins, choose(text, all))
		if first != second {
			t.Errorf("%s, then %s", first, second)
		}
		for _, pins := range a.pins {
			for _, p := range pins {
				if _, err := powerbox.ParseConstraint(p.Constraint.JSON()); err != nil {
					t.Errorf("%s: %v", p.Argument.Name, err)
				}
			}
		}
	})
}
