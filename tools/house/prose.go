package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// idiomsFile lists phrases that readers have to read twice, for the prose linter.
const idiomsFile = ".vale/styles/Powerbox/Idioms.yml"

// longSentence is how many words a sentence may have.
const longSentence = 30

// idiom is one phrase of the list.
type idiom struct {
	find        *regexp.Regexp
	unlessAsked bool // a question may have it
}

// notInQuestions is how the list says that a question may have a phrase. Go's regular
// expressions do not look ahead.
const notInQuestions = `(?![^.?!]*\?)`

var idiomLine = regexp.MustCompile(`(?m)^  '([^']+)':`)

// readIdioms reads the list of the prose linter.
func readIdioms(file string) ([]idiom, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var idioms []idiom
	for _, found := range idiomLine.FindAllStringSubmatch(string(data), -1) {
		text, unlessAsked := strings.CutSuffix(found[1], notInQuestions)
		find, err := regexp.Compile("(?i)" + text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		idioms = append(idioms, idiom{find, unlessAsked})
	}
	if len(idioms) == 0 {
		return nil, fmt.Errorf("%s has no phrases", file)
	}
	return idioms, nil
}

// countIdioms counts the phrases in a text.
func countIdioms(idioms []idiom, text string) int {
	n := 0
	for _, i := range idioms {
		for _, at := range i.find.FindAllStringIndex(text, -1) {
			rest := text[at[1]:]
			end := strings.IndexAny(rest, ".?!")
			if !i.unlessAsked || end < 0 || rest[end] != '?' {
				n++
			}
		}
	}
	return n
}

// measuredProse counts words, long sentences and phrases of the pages, and the phrases of
// the comments. The changelog is history, and is left out.
func measuredProse(t *sourceTree, idioms []idiom) ([]measurement, error) {
	words, long, inDocs, inComments := 0, 0, 0, 0
	err := walkFiles(t.root, func(rel string) error {
		if !strings.HasSuffix(rel, ".md") || inTestdata(rel) || rel == "CHANGELOG.md" {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		text := plainText(string(data))
		words += len(strings.Fields(text))
		inDocs += countIdioms(idioms, text)
		for _, sentence := range sentences(text) {
			if len(strings.Fields(sentence)) > longSentence {
				long++
			}
		}
		return nil
	})
	for _, comment := range t.comments {
		inComments += countIdioms(idioms, comment)
	}
	return []measurement{
		{"words of docs", fmt.Sprint(words)},
		{"sentences of docs over 30 words", fmt.Sprint(long)},
		{"forbidden idioms in docs", fmt.Sprint(inDocs)},
		{"forbidden idioms in comments of Go", fmt.Sprint(inComments)},
	}, err
}

var inlineCode = regexp.MustCompile("`[^`]*`")

// plainText is a page without its code. Cells of tables, items of lists and headings
// become paragraphs.
func plainText(page string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			line = ""
		}
		if fenced {
			continue
		}
		line = inlineCode.ReplaceAllString(line, "code")
		switch {
		case strings.HasPrefix(line, "|"):
			b.WriteString("\n\n" + strings.ReplaceAll(strings.Trim(line, "|"), "|", "\n\n") + "\n\n")
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "- "), strings.HasPrefix(line, "* "), listNumber.MatchString(line):
			b.WriteString("\n\n" + line + "\n")
			if strings.HasPrefix(line, "#") {
				b.WriteString("\n")
			}
		default:
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

var (
	listNumber   = regexp.MustCompile(`^[0-9]+\. `)
	endsSentence = regexp.MustCompile(`[.!?][)"*_]*\s+|\n\s*\n`)
)

func sentences(text string) []string { return endsSentence.Split(text, -1) }
