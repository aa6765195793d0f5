package console

import (
	"context"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// odd are the warnings about a question, those that decide most first.
func (k *Console) odd(l *lang.Language, q provider.Question, asks []asked) (out []string) {
	add := func(text string) {
		if text != "" {
			out = append(out, text)
		}
	}
	add(lookalike(l, q, k.config.Name))
	var have known
	for _, g := range q.Held {
		have = append(have, valuesIn(g.ShownConstraints())...)
	}
	for _, g := range q.Grants {
		add(have.resembles(l, valuesIn(g.ShownConstraints())))
	}
	for _, a := range asks {
		if a.Wider != "" {
			add(l.T("Wider than what it has: %s.", a.Wider))
		}
	}
	if q.Approval.Method == agentauth.CIBA && q.Host.Status != agentauth.Active {
		add(l.T("It asked for you by name: its operator knows what you are called, and no more. If you have not just started it yourself, deny it."))
	}
	if n := len(q.Denied); n > 0 {
		add(l.T("This agent was refused something %s before.", times(l, n)))
	}
	add(imitates(l, q.Agent.Name, q.Host.Name, q.Approval.Reason, q.Approval.Message))
	return out
}

func times(l *lang.Language, n int) string { return l.N(n, "%s time", "%s times") }

// valuesIn are the texts of a value, without the names of its members.
func valuesIn(v powerbox.Value) (out []string) {
	if s, ok := v.Text(); ok {
		return []string{s}
	}
	elements, _ := v.Elements()
	for _, e := range elements {
		out = append(out, valuesIn(e)...)
	}
	members, _ := v.Members()
	for _, m := range members {
		out = append(out, valuesIn(m.Value)...)
	}
	return out
}

// deskOdd are the warnings about a question of the desk. A value that looks like one of an
// earlier approval of the person, and is another, is another recipient.
func (k *Console) deskOdd(ctx context.Context, l *lang.Language, who approval.Person, q approval.Question) ([]string, error) {
	var out []string
	if mark := deskMark(l, q); mark != "" {
		out = append(out, mark)
	}
	if len(argumentsOf(q)) > 0 {
		given, err := k.config.Approvals.Approvals(ctx, who)
		if err != nil {
			return nil, err
		}
		var have known
		for _, a := range given {
			have = append(have, argumentsOf(a.Question)...)
		}
		if like := have.resembles(l, argumentsOf(q)); like != "" {
			out = append(out, like)
		}
	}
	if like := imitates(l, q.Purpose); like != "" {
		out = append(out, like)
	}
	return out, nil
}

// argumentsOf are the short texts among the arguments of a question's call.
func argumentsOf(q approval.Question) (out []string) {
	const short = 200
	for _, m := range q.Matters {
		for _, a := range m.Arguments {
			v, err := powerbox.ParseValue([]byte(a.Value))
			if s, ok := v.Text(); err == nil && ok && len(s) <= short && !strings.ContainsRune(s, '\n') {
				out = append(out, s)
			}
		}
	}
	return out
}
