package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// span is a part of a sentence: the server's own words, or those of others, which stand
// between quotation marks and can end neither those nor the line.
type span struct {
	Text   string
	Theirs bool
}

// sentence says in one line what an agent wants.
type sentence []span

// String is the sentence as text.
func (s sentence) String() string {
	var b strings.Builder
	for _, one := range s {
		b.WriteString(one.Text)
	}
	return b.String()
}

func (s *sentence) say(text string) { *s = append(*s, span{Text: text}) }

// quote adds foreign words, which are cut.
func (s *sentence) quote(l *lang.Language, text string) {
	*s = append(*s, span{quoted(l, text, maxQuoted), true})
}

// How much of foreign words, and of limits, a sentence has. The rest stands below it.
const (
	maxQuoted = 48
	maxLimits = 3
	maxOpen   = 2 // arguments that are open, of what changes something
	maxSaid   = 2 // capabilities
)

// quoted puts foreign words between quotation marks, at most so many characters of them.
func quoted(l *lang.Language, text string, longest int) string {
	return l.Quote(words(agentauth.Plain(text, longest)))
}

// told is an operator's description as it stands in a sentence.
func told(description string) string { return strings.TrimRight(visible(description), ". ") }

// upTo says how long something lasts at most, as people do.
func upTo(l *lang.Language, d time.Duration) string {
	whole := func(unit time.Duration) int { return max(1, int((d+unit-1)/unit)) }
	switch {
	case d >= 48*time.Hour:
		return days(l, whole(24*time.Hour))
	case d >= 2*time.Hour:
		return hours(l, whole(time.Hour))
	case d >= 0:
		return minutes(l, whole(time.Minute))
	}
	return minutes(l, 0)
}

// says words the question of an agent.
func (k *Console) says(l *lang.Language, q provider.Question, asks []asked) (s sentence) {
	computer := l.T("Known computer")
	if q.Host.Status != agentauth.Active {
		computer = l.T("New computer")
	}
	s.say(computer)
	if q.Host.Name != "" {
		s.say(" ")
		s.quote(l, q.Host.Name)
	}
	s.say(": ")
	s.quote(l, q.Agent.Name)
	switch {
	case q.Approval.Kind == provider.ForClaim:
		s.say(", " + l.T("which acted on its own, would become yours, with this computer"))
		return s
	case len(asks) == 0:
		s.say(" " + l.T("wants to be let in, without any capability"))
		return s
	case q.Approval.Kind == provider.ForReactivation:
		s.say(" " + l.T("wants to act again:") + " ")
	default:
		s.say(" " + l.T("wants:") + " ")
	}
	s = append(s, wants(l, asks)...)
	if d := k.lasts(q); d > 0 {
		s.say(", " + l.T("for up to %s", upTo(l, d)))
	}
	return s
}

// lasts is how long the requested grants last at most.
func (k *Console) lasts(q provider.Question) time.Duration {
	now := k.config.Now()
	end := q.Agent.Created.Add(q.Agent.Clocks.Absolute)
	var last time.Duration
	for _, g := range q.Grants {
		until := end
		if !g.Expires.IsZero() && g.Expires.Before(end) {
			until = g.Expires
		}
		d := until.Sub(now)
		if c := k.config.Offers.Capability(g.Capability); c != nil && c.Lifetime > 0 {
			d = min(d, c.Lifetime)
		}
		last = max(last, d)
	}
	return last
}

// wants are the capabilities in words.
func wants(l *lang.Language, asks []asked) (s sentence) {
	for i, a := range asks[:min(len(asks), maxSaid)] {
		if i > 0 {
			s.say("; ")
		}
		s.say(told(cmp.Or(a.Says, a.Name)))
		for _, part := range a.limits(l) {
			s.say(", " + part)
		}
		if a.Uses == 1 {
			s.say(", " + l.T("once"))
		} else if a.Uses > 1 {
			s.say(", " + times(l, a.Uses))
		}
	}
	if n := len(asks) - maxSaid; n > 0 {
		s.say("; " + l.T("and %s more", lang.Number(n)))
	}
	return s
}

// rank orders capabilities by what they can do.
func (a asked) rank() int {
	switch {
	case a.High:
		return 2
	case a.Risky:
		return 1
	}
	return 0
}

// limits are the limits of a capability, in words, and the open fields of one that changes
// something. The server enforces each of them.
func (a asked) limits(l *lang.Language) (out []string) {
	limited, open := 0, 0
	var free []string
	for _, f := range a.Fields {
		switch {
		case f.said:
		case len(f.Limits) > 0:
			if limited++; limited <= maxLimits {
				out = append(out, clippedRunes(f.Title+" "+f.Words(), 2*maxQuoted))
			}
		case a.Risky:
			if open++; open <= maxOpen {
				free = append(free, l.T("any %s", f.Title))
			}
		}
	}
	if n := limited - maxLimits; n > 0 {
		out = append(out, l.N(n, "%s more limit", "%s more limits"))
	}
	out = append(out, free...)
	if n := open - maxOpen; n > 0 {
		out = append(out, l.T("%s more with any value", lang.Number(n)))
	}
	if len(out) == 0 && a.Risky {
		return []string{l.T("with any values")}
	}
	return out
}

// clippedRunes cuts a text, and shows that it was cut.
func clippedRunes(s string, longest int) string {
	if r := []rune(s); len(r) > longest {
		return string(r[:longest-1]) + "\u2026"
	}
	return s
}

// deskSays words a question of the desk. The caller is the verified one: the operator's
// name, or none.
func deskSays(l *lang.Language, q approval.Question, now time.Time) (s sentence) {
	if q.Requester != "" {
		s.say(visible(q.Requester))
	} else {
		s.say(l.T("An agent without a name"))
	}
	call := q.Kind == approval.ForCall
	wants := l.T("wants at %s:", q.Agent)
	if call {
		wants = l.T("wants at %s, now and once:", q.Agent)
	}
	s.say(" " + wants + " ")
	for n, i := range changesFirst(q.Matters)[:min(len(q.Matters), maxSaid)] {
		if n > 0 {
			s.say("; ")
		}
		s = append(s, matterSays(l, q.Matters[i])...)
	}
	if n := len(q.Matters) - maxSaid; n > 0 {
		s.say("; " + l.T("and %s more", lang.Number(n)))
	}
	if !call && q.Until.After(now) {
		s.say(", " + l.T("for up to %s", upTo(l, q.Until.Sub(now))))
	}
	return s
}

// matterSays words one matter: the arguments of a call, recipient and amount first, are
// the agent's, and quoted.
func matterSays(l *lang.Language, m issuer.Matter) (s sentence) {
	var names []string
	for _, op := range m.Operations {
		names = append(names, visible(op.Name))
	}
	s.say(told(cmp.Or(m.Says, m.Grant)) + " (" + strings.Join(names, ", ") + ")")
	for i, r := range m.Resources[:min(len(m.Resources), maxSaid)] {
		s.say([]string{" " + l.T("on") + " ", ", "}[min(i, 1)])
		s.quote(l, cmp.Or(r.Name, r.ID))
	}
	if n := len(m.Resources) - maxSaid; n > 0 {
		s.say(" " + l.T("and %s more", lang.Number(n)))
	}
	arguments := ordered(m.Arguments)
	for _, a := range arguments[:min(len(arguments), maxLimits)] {
		s.say(", " + clippedRunes(words(named(a.Name)), maxQuoted) + " ")
		s = append(s, span{readable(l, a.Value, maxQuoted), true})
	}
	if n := len(arguments) - maxLimits; n > 0 {
		s.say(", " + l.T("%s more", lang.Number(n)))
	}
	return s
}

// Summary words a question for those who are told of it elsewhere: the sentence of its page,
// in English, without arguments and resources.
func Summary(q approval.Question, now time.Time) string {
	q.Matters = slices.Clone(q.Matters)
	for n := range q.Matters {
		q.Matters[n].Arguments, q.Matters[n].Resources = nil, nil
	}
	return deskSays(lang.English, q, now).String()
}
