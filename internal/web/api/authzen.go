package api

import (
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// entity is a subject, an action or a resource of a request of AuthZEN (OpenID
// Authorization API 1.0, section 5).
type entity struct {
	Type, ID   string // of an action, ID is its name
	Properties powerbox.Value
}

// evaluation is one question (section 6.1).
type evaluation struct {
	Subject, Action, Resource entity
	Context                   powerbox.Value
}

// maxEvaluations bounds one batch.
const maxEvaluations = 100

// The ways to go through a batch (section 7.1.2.1).
const (
	executeAll    = "execute_all"
	untilADenial  = "deny_on_first_deny"
	untilAnAllow  = "permit_on_first_permit"
	memberOptions = "options"
)

// entityOf reads one entity. A missing type or id is as in the default, and the rest is
// its own (section 7.1.1). Members that are not known are ignored, as the specification
// has it.
func entityOf(of, defaults powerbox.Value, member string) (entity, error) {
	e := entity{Properties: powerbox.Object()}
	own, mine := of.Get(member)
	base, given := defaults.Get(member)
	if !mine && !given {
		return e, fmt.Errorf("%s is missing", member)
	}
	if !mine {
		own = base
	}
	for _, v := range []powerbox.Value{own, base} {
		if (mine || given) && v.Kind() != powerbox.KindObject && v.Kind() != powerbox.KindNull {
			return e, fmt.Errorf("%s is JSON %s; want an object", member, v.Kind())
		}
	}
	text := func(name string) (string, error) {
		v, ok := own.Get(name)
		if !ok {
			v, ok = base.Get(name)
		}
		s, isText := v.Text()
		if !ok || !isText || s == "" {
			return "", fmt.Errorf("%s.%s is missing, or no text", member, name)
		}
		return s, nil
	}
	id := "id"
	if member == "action" {
		id = "name"
	}
	var err error
	if e.ID, err = text(id); err == nil && member != "action" {
		e.Type, err = text("type")
	}
	if p, ok := own.Get("properties"); ok && err == nil {
		if e.Properties = p; p.Kind() != powerbox.KindObject {
			err = fmt.Errorf("%s.properties is JSON %s; want an object", member, p.Kind())
		}
	}
	return e, err
}

// evaluationOf reads one question, with the defaults of its batch.
func evaluationOf(of, defaults powerbox.Value) (evaluation, error) {
	var e evaluation
	if of.Kind() != powerbox.KindObject {
		return e, fmt.Errorf("want an object, not JSON %s", of.Kind())
	}
	var err error
	for _, m := range []struct {
		name string
		into *entity
	}{{"subject", &e.Subject}, {"action", &e.Action}, {"resource", &e.Resource}} {
		if *m.into, err = entityOf(of, defaults, m.name); err != nil {
			return e, err
		}
	}
	context, ok := of.Get("context")
	if !ok {
		context, ok = defaults.Get("context")
	}
	if e.Context = context; ok && context.Kind() != powerbox.KindObject {
		return e, fmt.Errorf("context is JSON %s; want an object", context.Kind())
	}
	return e, nil
}

// batch returns the questions of a request; alone reports whether it is a single
// question.
func batch(v powerbox.Value) (questions []powerbox.Value, semantic string, alone bool, err error) {
	list, ok := v.Get("evaluations")
	questions, isList := list.Elements()
	switch {
	case ok && !isList:
		return nil, "", false, fmt.Errorf("evaluations is JSON %s; want an array", list.Kind())
	case len(questions) == 0:
		return []powerbox.Value{v}, executeAll, true, nil
	case len(questions) > maxEvaluations:
		return nil, "", false, fmt.Errorf("%d evaluations; want at most %d", len(questions), maxEvaluations)
	}
	semantic = executeAll
	if options, ok := v.Get(memberOptions); ok {
		if named, ok := options.Get("evaluations_semantic"); ok {
			semantic, _ = named.Text()
		}
	}
	switch semantic {
	case executeAll, untilADenial, untilAnAllow:
		return questions, semantic, false, nil
	}
	return nil, "", false, fmt.Errorf("options.evaluations_semantic: want %s", strings.Join([]string{executeAll, untilADenial, untilAnAllow}, ", "))
}

// textOf is a member of an object that is a text, "" where it is none.
func textOf(v powerbox.Value, name string) string {
	m, _ := v.Get(name)
	s, _ := m.Text()
	return s
}

// textsOf is a member of an object that is a list of texts; an error where it is
// something else.
func textsOf(v powerbox.Value, name string) ([]string, error) {
	m, ok := v.Get(name)
	if !ok {
		return nil, nil
	}
	elements, isList := m.Elements()
	if !isList {
		return nil, fmt.Errorf("%s is JSON %s; want a list of texts", name, m.Kind())
	}
	var out []string
	for _, e := range elements {
		s, ok := e.Text()
		if !ok {
			return nil, fmt.Errorf("%s has an element that is no text", name)
		}
		out = append(out, s)
	}
	return out, nil
}
