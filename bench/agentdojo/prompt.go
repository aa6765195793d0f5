package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// prompt is what the user said, as the procedure reads it.
type prompt struct {
	text      string
	sentences []sentence
	literals  []literal
	// relative says that the prompt tells days other than by their dates, so that
	// the dates that it has are not all it is about.
	relative bool
}

// sentence is one of the prompt. A quotation does not end it.
type sentence struct {
	start, end int // in the prompt
	words      []word
}

// word is a run of letters, digits and apostrophes outside quotations.
type word struct {
	text       string // lower case
	start, end int    // in the prompt
	first      bool   // of its sentence
	upper      bool   // has a capital
}

// literal is a value that the prompt has in so many words.
type literal struct {
	kind       kind
	value      string // as the schema would write it
	sentence   int
	start, end int
}

var (
	emailPattern    = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`)
	urlPattern      = regexp.MustCompile(`(?:https?://|www\.)[^\s'"<>]*[^\s'"<>.,;:!?)]`)
	runOnPattern    = regexp.MustCompile(`^((?:https?://)?[^/]*[a-z0-9])\.[A-Z][a-z]+$`) // the next sentence begins without a space
	filePattern     = regexp.MustCompile(`(?:[~.]{0,2}/)?(?:[\w-]+/)*[\w-]+\.[A-Za-z][A-Za-z0-9]{1,4}\b`)
	partyPattern    = regexp.MustCompile(`\b[A-Z]{2}[0-9A-Z]*[0-9][0-9A-Z]{7,}\b`)
	isoPattern      = regexp.MustCompile(`\b(\d{4})-(\d{2})-(\d{2})\b`)
	monthDayPattern = regexp.MustCompile(`(?i)\b(` + months + `)\.? (\d{1,2})(?:st|nd|rd|th)?\b(?:,? (\d{4})\b)?`)
	dayMonthPattern = regexp.MustCompile(`(?i)\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? (` + months + `)\b(?:,? (\d{4})\b)?`)
	monthPattern    = regexp.MustCompile(`(?i)\b(?:` + months + `) \d{4}\b`)
	clockPattern    = regexp.MustCompile(`(?i)\b\d{1,2}:\d{2}(?:\s?[ap]m)?\b|\b\d{1,2}\s?[ap]m\b`)
	percentPattern  = regexp.MustCompile(`\d+(?:\.\d+)?\s?(?:%|percent\b)`)
	ordinalPattern  = regexp.MustCompile(`\b\d{1,2}(?:st|nd|rd|th)\b`)
	idPattern       = regexp.MustCompile(`\b(?:ID|id|Id)s?\b(?: is| of|:|=| number)? *['"]?([\w-]*\d[\w-]*)`)
	numberPattern   = regexp.MustCompile(`([$€£¥]\s?)?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?`)
	templatePattern = regexp.MustCompile(`\{[^}]*\}|<[^>]*>|\[[^\]]*\]`) // has a place for something else
	wordPattern     = regexp.MustCompile(`[\pL\d]+(?:['\x{2019}-][\pL\d]+)*`)
	relativePattern = regexp.MustCompile(`(?i)\b(?:today|tonight|tomorrow|yesterday|next|following|previous|week|weeks|weekend|month|months|days|nights|daily|weekly|monthly|until|till|day (?:before|after|later|earlier)|between|through|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b`)
)

const months = `January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec`

// readPrompt finds the sentences and the literals of a prompt.
func readPrompt(text string) *prompt {
	p := &prompt{text: text}
	quotes := quotations(text)
	p.split(quotes)
	taken := make([]bool, len(text)) // bytes that are part of a literal
	take := func(pattern *regexp.Regexp, k kind, value func(groups []string) string) {
		for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
			if slices.Contains(taken[at[0]:at[1]], true) {
				continue
			}
			groups := make([]string, len(at)/2)
			for i := range groups {
				if at[2*i] >= 0 {
					groups[i] = text[at[2*i]:at[2*i+1]]
				}
			}
			for i := at[0]; i < at[1]; i++ {
				taken[i] = true
			}
			if v := value(groups); v != "" {
				p.add(k, v, at[0], at[1])
			}
		}
	}
	whole := func(g []string) string { return g[0] }
	nothing := func([]string) string { return "" }
	take(emailPattern, kindEmail, whole)
	take(urlPattern, kindURL, func(g []string) string { return runOnPattern.ReplaceAllString(g[0], "$1") })
	take(filePattern, kindFile, whole)
	take(partyPattern, kindParty, whole)
	take(isoPattern, kindDate, whole)
	take(monthDayPattern, kindDate, func(g []string) string { return isoDate(g[3], g[1], g[2]) })
	take(dayMonthPattern, kindDate, func(g []string) string { return isoDate(g[3], g[2], g[1]) })
	take(monthPattern, kindNone, nothing)
	take(clockPattern, kindNone, nothing)
	take(percentPattern, kindPercent, whole)
	take(idPattern, kindID, func(g []string) string { return g[1] })
	for _, at := range relativePattern.FindAllStringIndex(text, -1) {
		p.relative = p.relative || !inside(at[0], quotes)
	}
	for _, at := range ordinalPattern.FindAllStringIndex(text, -1) {
		p.relative = p.relative || !taken[at[0]] && !inside(at[0], quotes)
	}
	for _, q := range quotes {
		if !templatePattern.MatchString(text[q[0]:q[1]]) {
			p.add(kindQuoted, text[q[0]:q[1]], q[0], q[1])
		}
	}
	p.numbers(taken, quotes)
	return p
}

func (p *prompt) add(k kind, value string, start, end int) {
	i := slices.IndexFunc(p.sentences, func(s sentence) bool { return start < s.end })
	p.literals = append(p.literals, literal{k, value, i, start, end})
}

// isoDate is a date as ISO 8601 writes it, with an asterisk for a year that was
// not said.
func isoDate(year, month, day string) string {
	m := 0
	for i, name := range []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"} {
		if strings.HasPrefix(strings.ToLower(month), name) {
			m = i + 1
		}
	}
	d, err := strconv.Atoi(day)
	if err != nil || m == 0 || d < 1 || d > 31 {
		return ""
	}
	if year == "" {
		year = "*"
	}
	return fmt.Sprintf("%s-%02d-%02d", year, m, d)
}

// quotations returns where the text in quotation marks is, without the marks. An
// apostrophe is none: a mark opens after a space and closes before one or before
// punctuation.
func quotations(text string) [][2]int {
	closing := map[rune]rune{'\'': '\'', '"': '"', '\u2018': '\u2019', '\u201c': '\u201d', '`': '`'}
	var out [][2]int
	before := ' '
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		end, opens := closing[r]
		if opens && (unicode.IsSpace(before) || strings.ContainsRune("([:,", before)) {
			if length := closes(text[i+n:], end); length > 0 {
				out = append(out, [2]int{i + n, i + n + length})
				i, before = i+n+length, end
				_, m := utf8.DecodeRuneInString(text[i:])
				i += m
				continue
			}
		}
		before = r
		i += n
	}
	return out
}

// closes is how long a quotation is that has begun, 0 where it does not end.
func closes(text string, mark rune) int {
	for j, r := range text {
		if r == '\n' {
			return 0
		}
		if r != mark {
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[j+utf8.RuneLen(r):])
		if next == utf8.RuneError || unicode.IsSpace(next) || strings.ContainsRune(".,;:!?)]", next) {
			return j
		}
	}
	return 0
}

func inside(at int, quotes [][2]int) bool {
	return slices.ContainsFunc(quotes, func(q [2]int) bool { return q[0] <= at && at < q[1] })
}

// split finds the sentences and their words.
func (p *prompt) split(quotes [][2]int) {
	start := 0
	end := func(at int) {
		if strings.TrimSpace(p.text[start:at]) != "" {
			p.sentences = append(p.sentences, sentence{start: start, end: at})
		}
		start = at
	}
	for i, r := range p.text {
		stops := r == '\n' || strings.ContainsRune(".!?", r) && (i+1 == len(p.text) || unicode.IsSpace(rune(p.text[i+1])))
		if stops && !inside(i, quotes) {
			end(i + 1)
		}
	}
	end(len(p.text))
	for i := range p.sentences {
		s := &p.sentences[i]
		for _, at := range wordPattern.FindAllStringIndex(p.text[s.start:s.end], -1) {
			if inside(s.start+at[0], quotes) {
				continue
			}
			w := p.text[s.start+at[0] : s.start+at[1]]
			s.words = append(s.words, word{strings.ToLower(w), s.start + at[0], s.start + at[1], len(s.words) == 0, capital(w)})
		}
	}
}

// numbers finds amounts: numbers that are no part of a name or an address, no
// count of something and no length of time.
func (p *prompt) numbers(taken []bool, quotes [][2]int) {
	for _, at := range numberPattern.FindAllStringSubmatchIndex(p.text, -1) {
		start, end := at[0], at[1]
		if slices.Contains(taken[start:end], true) || inside(start, quotes) || !p.alone(start, end) {
			continue
		}
		marked := at[2] >= 0 || at[6] >= 0 // with a currency, or with decimals
		if !marked && p.counts(start, end) {
			continue
		}
		digits := strings.ReplaceAll(p.text[at[4]:at[5]], ",", "")
		if at[6] >= 0 {
			digits += p.text[at[6]:at[7]]
		}
		p.add(kindNumber, digits, start, end)
	}
}

// alone reports whether what stands there is not part of a longer word.
func (p *prompt) alone(start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(p.text[:start])
	after, _ := utf8.DecodeRuneInString(p.text[end:])
	joined := func(r rune) bool {
		return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_/", r))
	}
	return !joined(before) && before != '.' && !joined(after)
}

// counts reports whether a number counts what follows it, or belongs to a name
// that begins before or after it: "3 files", "14 Main Street", "NY 12345".
func (p *prompt) counts(start, end int) bool {
	before := strings.TrimRight(p.text[:start], " ")
	if last := lastWord(before); len(before) < start && last != "" && capital(last) && !p.begins(len(before)-len(last)) {
		return true
	}
	after, spaced := strings.CutPrefix(p.text[end:], " ")
	next := wordPattern.FindString(after)
	if !spaced || next == "" || !strings.HasPrefix(after, next) {
		return strings.HasPrefix(p.text[end:], ".") && p.begins(start) // the number of a list
	}
	return capital(next) || !slices.Contains(afterAmount, next)
}

// begins reports whether a sentence begins there.
func (p *prompt) begins(at int) bool {
	return slices.ContainsFunc(p.sentences, func(s sentence) bool { return len(s.words) > 0 && s.words[0].start == at })
}

func lastWord(text string) string {
	all := wordPattern.FindAllString(text, -1)
	if len(all) == 0 || !strings.HasSuffix(text, all[len(all)-1]) {
		return ""
	}
	return all[len(all)-1]
}

// capital reports whether a word has a capital letter anywhere.
func capital(word string) bool { return strings.ToLower(word) != word }
