package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdImage   = regexp.MustCompile(`<img [^>]*src="([^"]+)"`)
	mdHeading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	mdAnchor  = regexp.MustCompile(`<a id="([^"]+)"`)
	mdFence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	// docsPath is a page or file of docs that a source file names.
	docsPath = regexp.MustCompile(`\bdocs/[a-z0-9A-Z_./-]+\.(?:md|json|csv|proto|svg)\b(?:#[a-z0-9-]+)?`)
)

// anchors returns the fragments that a page answers to, as GitHub makes them from headings.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range mdAnchor.FindAllStringSubmatch(page, -1) {
		all[m[1]] = true
	}
	for _, m := range mdHeading.FindAllStringSubmatch(mdFence.ReplaceAllString(page, ""), -1) {
		all[slug(m[1])] = true
	}
	return all
}

func slug(heading string) string {
	heading = mdLink.ReplaceAllString(heading, "]")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(strings.TrimSpace(heading)))
}

// linkProblems says which relative links of a page lead nowhere. read returns the text of
// a file of the tree, "" for a folder, and false where there is neither.
func linkProblems(rel, page string, read func(rel string) (string, bool)) (wrong []string) {
	links := append(mdLink.FindAllStringSubmatch(page, -1), mdImage.FindAllStringSubmatch(page, -1)...)
	for _, m := range links {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		wrong = append(wrong, targetProblem(path.Dir(rel), rel, m[1], read)...)
	}
	return wrong
}

// targetProblem returns the problem of a link from a file to a target relative to a folder.
func targetProblem(folder, rel, link string, read func(rel string) (string, bool)) []string {
	target, fragment, _ := strings.Cut(link, "#")
	file := rel
	if target != "" {
		file = path.Join(folder, target)
	}
	text, ok := read(file)
	if !ok {
		return []string{link + " leads to " + file + ", which is not in the tree"}
	}
	if fragment != "" && strings.HasSuffix(file, ".md") && !anchors(text)[fragment] {
		return []string{link + " names a heading that " + file + " does not have"}
	}
	return nil
}

// TestLinksOfPagesLeadSomewhere follows every relative link of every page, and every path
// under docs/ that a source file names.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	root := mustRoot(t)
	read := func(rel string) (string, bool) {
		file := filepath.Join(root, filepath.FromSlash(rel))
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return "", err == nil
		}
		data, err := os.ReadFile(file)
		return string(data), err == nil
	}
	followed := 0
	err := walkFiles(root, func(rel string) error {
		// The changelog names pages by the paths that they had.
		if rel == "CHANGELOG.md" || inTestdata(rel) || rel == "tools/house/links_test.go" {
			return nil
		}
		kind := path.Ext(rel)
		if !slices.Contains([]string{".md", ".go", ".yaml", ".py", ".mjs", ".service", ".csv"}, kind) {
			return nil
		}
		text, _ := read(rel)
		if kind == ".md" {
			followed += len(mdLink.FindAllString(text, -1))
			for _, problem := range linkProblems(rel, mdFence.ReplaceAllString(text, ""), read) {
				t.Errorf("%s: %s", rel, problem)
			}
		}
		for _, named := range docsPath.FindAllString(text, -1) {
			for _, problem := range targetProblem("", rel, named, read) {
				t.Errorf("%s: %s", rel, problem)
			}
		}
		return nil
	})
	if err != nil || followed < 100 {
		t.Fatalf("%d links followed: %v", followed, err)
	}
}

func TestLinkProblems(t *testing.T) {
	tree := map[string]string{"docs/a.md": "# One thing\n<a id=\"x\"></a>", "docs/b/c.md": ""}
	read := func(rel string) (string, bool) { text, ok := tree[rel]; return text, ok }
	for link, want := range map[string]int{
		"[a](../a.md)": 0, "[a](../a.md#one-thing)": 0, "[a](../a.md#x)": 0, "[a](https://x.example/no)": 0,
		"[a](../a.md#two)": 1, "[a](a.md)": 1, "[a](#own)": 1, `<img src="no.svg">`: 1, "![p](no.svg)": 1,
	} {
		if got := linkProblems("docs/b/c.md", link, read); len(got) != want {
			t.Errorf("%s: %q, want %d problems", link, got, want)
		}
	}
}
