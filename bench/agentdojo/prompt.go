package main

import (
	"regexp"
	"slices"
)

// The forms in which a prompt names whom or what a call is for. They are looked for in this
// order, and no byte is part of two.
var forms = []struct {
	kind    kind
	pattern *regexp.Regexp
}{
	{kindEmail, regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`)},
	{kindURL, regexp.MustCompile(`(?:https?://|www\.)[^\s'"<>]*[^\s'"<>.,;:!?)]`)},
	{kindParty, regexp.MustCompile(`\b[A-Z]{2}[0-9A-Z]*[0-9][0-9A-Z]{7,}\b`)}, // an account
}

// literals are the values of a prompt by their kind, each once.
func literals(text string) map[kind][]string {
	out, taken := map[kind][]string{}, make([]bool, len(text))
	for _, f := range forms {
		for _, at := range f.pattern.FindAllStringIndex(text, -1) {
			if slices.Contains(taken[at[0]:at[1]], true) {
				continue
			}
			for i := at[0]; i < at[1]; i++ {
				taken[i] = true
			}
			if v := text[at[0]:at[1]]; !slices.Contains(out[f.kind], v) {
				out[f.kind] = append(out[f.kind], v)
			}
		}
	}
	return out
}
