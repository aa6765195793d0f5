package console

import (
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// wider marks the arguments for which a grant asks for more than any grant of the same
// capability that the agent has, and says so in words; "" for none.
func wider(l *lang.Language, fs []field, g provider.Grant, held []provider.Grant, c *provider.Capability) string {
	var had [][]field
	for _, h := range held {
		if h.Capability == g.Capability {
			had = append(had, fields(l, h, c))
		}
	}
	if len(had) == 0 {
		return ""
	}
	var parts []string
	for i := range fs {
		f := &fs[i]
		now, most := f.shape(), []string{}
		for _, of := range had {
			for _, h := range of {
				if h.Name != f.Name || h.shape().Covers(now) {
					continue
				}
				most = append(most, h.Words())
			}
		}
		if len(most) == len(had) {
			f.Wider = strings.Join(most, ", "+l.T("or")+" ")
			parts = append(parts, f.Title+" "+f.Words()+"; "+l.T("until now %s", f.Wider))
		}
	}
	return clippedRunes(strings.Join(parts, ". "), 4*maxQuoted)
}

// shape is what a field is held to, as the gate reads it. One that cannot be read admits
// everything, so that it is never less than what an agent has.
func (f *field) shape() powerbox.Shape {
	if f.held.Kind() == powerbox.KindNull {
		return powerbox.AnyArguments()
	}
	shape, err := agentauth.Options{Eq: true}.ParseConstraints(powerbox.Object(powerbox.Member{Name: f.Name, Value: f.held}))
	if err != nil {
		return powerbox.AnyArguments()
	}
	return shape
}

// pageWords are the words of the pages themselves for people. An agent that calls itself so
// imitates them.
var pageWords = []string{
	"known computer", "new computer", "approved before", "approved by", "verified", "only reads", "this server", "changes something", "signed by", "at most", "trusted", "no risk", "powerbox",
	"bekannter computer", "neuer computer", "schon genehmigt", "genehmigt von", "gepr\u00fcft", "liest nur", "dieser server", "\u00e4ndert etwas", "unterschrieben von", "h\u00f6chstens",
	"vertrauensw\u00fcrdig", "kein risiko",
}

// imitates warns of an agent's words that read like the server's, or whose length
// pushes down the limits and the recipient; "" for none.
func imitates(l *lang.Language, texts ...string) string {
	for _, t := range texts {
		folded := strings.ToLower(agentauth.Plain(t, 4*maxTheirsText*maxTheirs))
		for _, w := range pageWords {
			if strings.Contains(folded, w) {
				return l.T("The agent's own words sound like this page: %s. They prove nothing.", l.Quote(w))
			}
		}
	}
	for _, t := range texts {
		if wrapped(t) {
			return l.T("The agent uses many words. They prove nothing: decide by the sentence above.")
		}
	}
	return ""
}

// known are the texts that the person has met before, so that one that only looks like
// them is noticed.
type known []string

// resembles warns of a text that is drawn like another that the person knows, and is not
// that; "" for none.
func (k known) resembles(l *lang.Language, texts []string) string {
	for _, t := range texts {
		if slices.Contains(k, t) {
			continue
		}
		for _, old := range k {
			if drawn := outline(t); drawn != "" && drawn == outline(old) {
				return l.T("%s looks like %s, which you know, and is something else.", quoted(l, t, maxQuoted), quoted(l, old, maxQuoted))
			}
		}
	}
	return ""
}

// outline is a text as it is drawn: letters of any script as Latin ones, and the letters
// and digits that are taken for one another as one.
func outline(s string) string {
	return strings.NewReplacer("rn", "m", "vv", "w", "0", "o", "1", "l", "i", "l", "5", "s", "8", "b").Replace(letters(s))
}
