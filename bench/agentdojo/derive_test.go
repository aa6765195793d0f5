package main

import (
	"encoding/json"
	"fmt"
	"testing"
)

// The forms of a prompt pin arguments of their kind, of tools that change something; words
// pin nothing.
func TestGATE9_ArgumentsArePinnedToWhatThePromptNames(t *testing.T) {
	schema := `{"properties": {"payee": {"type": "string", "description": "Account of the recipient."}, "cc": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}, "amount": {"type": "number"}}, "required": ["payee", "amount"]}`
	arguments, err := readSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	pay := tool{Name: "pay", arguments: arguments}
	look := pay
	look.hints.ReadOnly = true
	for prompt, want := range map[string]string{
		"Pay XK051212012345678906 12.50.":             `[payee {"constraint_type":"one_of","values":["XK051212012345678906"]}]`,
		"Pay XK051212012345678906, tell a@x.example.": `[cc {"constraint_type":"any","constraints":[{"allowed":["a@x.example"],"constraint_type":"subset"},{"constraint_type":"exact","value":null}]} payee {"constraint_type":"one_of","values":["XK051212012345678906"]}]`,
		"Please pay Maria Rossi what I owe.":          `[]`,
	} {
		var got []string
		for _, p := range derive(prompt, []tool{pay}).pins["pay"] {
			got = append(got, p.Argument.Name+" "+p.Constraint.JSON().String())
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %s; want %s", prompt, got, want)
		}
		if n := len(derive(prompt, []tool{look}).pins); n != 0 {
			t.Errorf("%q pins %d arguments of a tool that only reads", prompt, n)
		}
	}
	if got := fmt.Sprint(pay.deciding(), tool{arguments: arguments[1:2]}.deciding()); got != "[amount payee] [cc]" {
		t.Errorf("deciding are %s", got)
	}
}
