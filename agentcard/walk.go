package agentcard

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// walk holds an object against its form: every member and every member that is
// missing.
func (l *linter) walk(pointer string, n *node, f *form) {
	if !n.is('{') {
		l.fail(pointer, codeType, "%s is %s; want an object", f.name, kindName(n))
		return
	}
	has := l.names(pointer, n)
	present := 0
	for _, m := range n.members {
		c, ok := f.find(m.name)
		if !ok {
			l.unknown(at(pointer, m.name), m, f)
			continue
		}
		present++
		l.spelled(pointer, m, c, has)
		if c.known != ours && c.known&l.speaks == 0 {
			l.warn(at(pointer, m.name), codeDialect, "%s has a member of %s; readers of %s overlook it%s", f.name, c.known, l.speaks, successor(m.name))
		}
		if m.value.kind != 'n' {
			l.value(at(pointer, m.name), m.value, c)
		}
	}
	if f.oneof && present != 1 {
		l.fail(pointer, codeScheme, "%s has %d of its kinds; want exactly one of %s", f.name, present, strings.Join(f.known(), ", "))
	}
	for _, c := range f.fields {
		if c.required&l.speaks != 0 {
			l.there(pointer, n, c, f)
		}
	}
}

// known are the names of a form.
func (f *form) known() []string {
	names := make([]string, len(f.fields))
	for i, c := range f.fields {
		names[i] = c.name
	}
	return names
}

// successor says what 1.0 has in place of a member of 0.3.
func successor(name string) string {
	now := map[string]string{
		"security": "securityRequirements", "url": "supportedInterfaces", "preferredTransport": "supportedInterfaces",
		"additionalInterfaces": "supportedInterfaces", "supportsAuthenticatedExtendedCard": "capabilities.extendedAgentCard",
		"protocolVersion": "supportedInterfaces[].protocolVersion",
	}[name]
	if now == "" {
		return ""
	}
	return "; 1.0 has " + now
}

// there asks for a member that is required. An empty value in the form of
// protobuf counts as absent.
func (l *linter) there(pointer string, n *node, c field, f *form) {
	v := n.get(c.names()...)
	here := at(pointer, c.name)
	switch {
	case v.absent():
		l.fail(here, codeMissing, "%s has no %s, which %s requires", f.name, c.name, l.requiring(c))
	case v.is('"') && c.shape == text && v.text == "":
		l.fail(here, codeEmpty, "%s has an empty %s, which counts as absent; %s requires it", f.name, c.name, l.requiring(c))
	case v.is('[') && len(v.list) == 0:
		if c.required&l.speaks&in10 == 0 { // 0.3 requires the array, and says nothing of its contents
			l.warn(here, codeEmpty, "%s has no element; 1.0 requires at least one", c.name)
			return
		}
		l.fail(here, codeEmpty, "%s has no element; A2A 1.0 requires at least one (section 5.7)", c.name)
	}
}

// requiring names who requires a field of this card.
func (l *linter) requiring(c field) dialects { return c.required & l.speaks }

// value checks the type of a member and continues below it.
func (l *linter) value(pointer string, v *node, c field) {
	switch c.shape {
	case text:
		l.want(pointer, v, '"', c.name, "a string")
	case flag:
		if v.kind != 't' && v.kind != 'f' {
			l.fail(pointer, codeType, "%s is %s; want true or false", c.name, kindName(v))
		}
	case texts:
		l.texts(pointer, v, c.name)
	case object:
		l.walk(pointer, v, c.of)
	case objects:
		if l.want(pointer, v, '[', c.name, "an array") {
			for i, e := range v.list {
				l.walk(atIndex(pointer, i), e, c.of)
			}
		}
	case dictionary:
		l.dictionary(pointer, v, c)
	case textMap:
		if l.want(pointer, v, '{', c.name, "an object") {
			l.names(pointer, v)
			for _, m := range v.members {
				l.want(at(pointer, m.name), m.value, '"', m.name, "a string")
			}
		}
	case listMaps:
		if l.want(pointer, v, '[', c.name, "an array") {
			for i, e := range v.list {
				l.listMap(atIndex(pointer, i), e)
			}
		}
	case free:
		l.want(pointer, v, '{', c.name, "an object")
		l.anything(pointer, v)
	}
}

func (l *linter) listMap(pointer string, v *node) {
	if !l.want(pointer, v, '{', "a security requirement", "an object") {
		return
	}
	l.names(pointer, v)
	for _, m := range v.members {
		l.texts(at(pointer, m.name), m.value, m.name)
	}
}

func (l *linter) dictionary(pointer string, v *node, c field) {
	if !l.want(pointer, v, '{', c.name, "an object") {
		return
	}
	l.names(pointer, v)
	for _, m := range v.members {
		f, here := c.of, at(pointer, m.name)
		if kind := m.value.get("type").str(); c.of == schemeForm && kind != "" {
			if f = olderSchemes[kind]; f == nil {
				l.fail(at(here, "type"), codeScheme, "a security scheme of type %q; want apiKey, http, oauth2, openIdConnect or mutualTLS", kind)
				continue
			}
			if l.speaks&in03 == 0 {
				l.warn(here, codeDialect, "a security scheme in the form of 0.3, which readers of 1.0 do not know; 1.0 has %s", strings.Join(schemeForm.known(), ", "))
			}
			l.older(here, m.value, f)
			continue
		}
		l.walk(here, m.value, f)
	}
}

// older is walk for what has the form of 0.3 in a card of both.
func (l *linter) older(pointer string, v *node, f *form) {
	speaks := l.speaks
	l.speaks = in03
	l.walk(pointer, v, f)
	l.speaks = speaks
}

func (l *linter) texts(pointer string, v *node, name string) {
	if !l.want(pointer, v, '[', name, "an array of strings") {
		return
	}
	for i, e := range v.list {
		if l.want(atIndex(pointer, i), e, '"', "an element of "+name, "a string") && e.text == "" {
			l.fail(atIndex(pointer, i), codeEmpty, "an element of %s is empty", name)
		}
	}
}

func (l *linter) want(pointer string, v *node, kind jsontext.Kind, name, what string) bool {
	if v.is(kind) {
		return true
	}
	l.fail(pointer, codeType, "%s is %s; want %s", name, kindName(v), what)
	return false
}

// names counts the members of an object by name, and finds those that are there
// twice.
func (l *linter) names(pointer string, n *node) map[string]int {
	times := make(map[string]int, len(n.members))
	for _, m := range n.members {
		if times[m.name]++; times[m.name] == 2 {
			l.fail(at(pointer, m.name), codeDuplicate, "the member %q is there more than once in one object; readers differ in which one counts", m.name)
		}
	}
	return times
}

// spelled looks at how the name of a known member is written.
func (l *linter) spelled(pointer string, m member, c field, has map[string]int) {
	if m.name == c.name || c.other == "" {
		return
	}
	if has[c.name] > 0 {
		l.fail(at(pointer, m.name), codeDuplicate, "%s and %s are one member, there twice; readers differ in which one counts", m.name, c.name)
		return
	}
	if c.known != ours { // the contract's document has its own names in the schema's spelling
		l.warn(at(pointer, m.name), codeSpelling, "%s is the name in the schema; in JSON it is %s, and many readers know no other", m.name, c.name)
	}
}

// unknown is about a member that no form has.
func (l *linter) unknown(pointer string, m member, f *form) {
	for _, c := range f.fields {
		for _, name := range c.names() {
			if strings.EqualFold(m.name, name) || folded(m.name) == folded(name) {
				l.fail(pointer, codeVariant, "some readers take %q for %q; write %s, or leave it out", m.name, name, c.name)
				return
			}
		}
	}
	if f.fields[0].known == ours {
		l.lax(pointer, codeUnknown, "%s has no member %q; readers ignore it", f.name, m.name)
	} else {
		l.lax(pointer, codeUnknown, "%s has no member %q in A2A; readers ignore it (section 5.7), and what an extension adds belongs into capabilities.extensions", f.name, clip(m.name))
	}
	l.anything(pointer, m.value)
}

// folded is a name as readers see it that care for neither case nor underscores.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// anything looks for errors in JSON of any content.
func (l *linter) anything(pointer string, n *node) {
	if n == nil {
		return
	}
	if n.kind == '0' && !keepsNumber(n.text) {
		l.warn(pointer, codeNumber, "the number %s is not one that a 64-bit float holds: readers change it, and a signature does not see the difference", n.text)
	}
	l.names(pointer, n)
	for _, m := range n.members {
		l.anything(at(pointer, m.name), m.value)
	}
	for i, e := range n.list {
		l.anything(atIndex(pointer, i), e)
	}
}

// withoutRepeats drops repeated problems, as of a member that two rules
// look at.
func withoutRepeats(ps []Problem) []Problem { return slices.Compact(ps) }
