package main

import "slices"

// choose derives the tools that a task needs from its prompt, without a list by
// an author. Of those that change something: the ones that a sentence asks for
// and whose thing it names. Of those that only read: the ones whose thing the
// prompt names, or that a chosen tool changes.
func choose(text string, tools []tool) []string {
	p := readPrompt(text)
	var all []int
	for _, s := range p.sentences {
		for _, w := range s.words {
			all = append(all, sorts(w.text)...)
			all = append(all, sorts(implied[w.text])...)
		}
	}
	for k, of := range map[kind]string{kindFile: "file", kindURL: "url", kindEmail: "email"} {
		if len(p.values(k, nil)) > 0 {
			all = append(all, sorts(of)...)
		}
	}
	var out []string
	for _, t := range tools {
		if !t.reads() && p.asksFor(t) {
			out = append(out, t.Name)
			all = append(all, t.about()...)
		}
	}
	for _, t := range tools {
		if t.reads() && overlap(t.about(), all) {
			out = append(out, t.Name)
		}
	}
	slices.Sort(out)
	return out
}

// asksFor reports whether a sentence has a verb for the tool and its thing.
func (p *prompt) asksFor(t tool) bool {
	about := t.about()
	for _, i := range p.asking(t) {
		for _, w := range p.sentences[i].words {
			if len(about) == 0 || overlap(sorts(w.text), about) || overlap(sorts(implied[w.text]), about) {
				return true
			}
		}
		if overlap(sorts("file"), about) && len(p.values(kindFile, []int{i})) > 0 {
			return true
		}
	}
	return false
}
