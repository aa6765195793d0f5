package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// Vocabulary is what policies can speak about. Policies are checked against it
// when they are loaded, questions when they are asked.
type Vocabulary struct {
	// Operations are the qualified names of everything that is offered:
	// "agent/grant/operation". Required where there are policies.
	Operations []string
	// Collections are the collections of all agents with the types of their
	// attributes, as [catalogue.Collections] finds them. Optional.
	Collections []catalogue.Collection
	// Attributes are the attributes that a principal may have. Optional; what
	// is not declared is invisible to policies.
	Attributes map[string]catalogue.Type
}

// operation is a qualified operation taken apart.
type operation struct{ agent, grant, name string }

// parseOperation takes a qualified operation apart. Agent and grant have no
// '/', so that there is one way to do it.
func parseOperation(qualified string) (operation, error) {
	agent, rest, _ := strings.Cut(qualified, "/")
	grant, name, _ := strings.Cut(rest, "/")
	if err := errors.Join(catalogue.CheckName(agent), catalogue.CheckName(grant)); err != nil || name == "" {
		return operation{}, fmt.Errorf("operation %q; want \"agent/grant/operation\", agent and grant of letters, digits, '.', '_', '-' and ':'", qualified)
	}
	if _, err := powerbox.ParseOperation(qualified); err != nil {
		return operation{}, err
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' || r == '\\' }) {
		return operation{}, fmt.Errorf("operation %q has quotes, backslashes or unprintable characters; want a plain name", qualified)
	}
	return operation{agent, grant, name}, nil
}

// vocabulary is a Vocabulary that was checked, for looking things up.
type vocabulary struct {
	operations  []string
	offered     map[string]operation
	grants      map[string]bool // by "agent/grant"
	agents      map[string]bool
	collections map[string]catalogue.Collection // by "agent/collection"
	attributes  map[string]catalogue.Attribute  // of principals, none required
}

// isAction reports whether an operation or a grant is called that.
func (v *vocabulary) isAction(id string) bool {
	_, ok := v.offered[id]
	return ok || v.grants[id]
}

func newVocabulary(v Vocabulary) (*vocabulary, error) {
	out := &vocabulary{
		offered:     map[string]operation{},
		grants:      map[string]bool{},
		agents:      map[string]bool{},
		collections: map[string]catalogue.Collection{},
		attributes:  map[string]catalogue.Attribute{},
	}
	for _, qualified := range v.Operations {
		op, err := parseOperation(qualified)
		if err != nil {
			return nil, fmt.Errorf("policy vocabulary: %w", err)
		}
		out.offered[qualified] = op
		out.grants[op.agent+"/"+op.grant] = true
		out.agents[op.agent] = true
	}
	out.operations = slices.Sorted(maps.Keys(out.offered))
	for _, c := range v.Collections {
		if err := errors.Join(catalogue.CheckName(c.Agent), catalogue.CheckName(c.Name)); err != nil {
			return nil, fmt.Errorf("policy vocabulary: collection %q of agent %q %w", c.Name, c.Agent, err)
		}
		out.collections[c.Agent+"/"+c.Name] = c
		out.agents[c.Agent] = true
	}
	for name, t := range v.Attributes {
		if cedarType(t) == "" || strings.ContainsAny(name, "\"\\\n") {
			return nil, fmt.Errorf("policy vocabulary: attribute %q of principals has %s; want a plain name with a type", name, t)
		}
		out.attributes[name] = catalogue.Attribute{Type: t}
	}
	return out, nil
}

// within returns the collections that a policy is about, by the entity that its
// scope names for the resource, "" for none. A policy about one collection can
// rely on that collection's attributes; one about several on what they share.
func (v *vocabulary) within(entityType, id string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(v.collections)) {
		agent, _, _ := strings.Cut(name, "/")
		switch entityType {
		case typeCollection:
			if name != id {
				continue
			}
		case typeAgent:
			if agent != id {
				continue
			}
		case typeResource:
			if !strings.HasPrefix(id, name+"/") {
				continue
			}
		}
		names = append(names, name)
	}
	return names
}

// shared returns the attributes that a policy about these collections can
// rely on, and the names of those that it cannot use at all because they have
// different types. An attribute that one collection lacks is optional.
func (v *vocabulary) shared(collections []string) (attributes map[string]catalogue.Attribute, torn map[string]bool) {
	attributes, torn = map[string]catalogue.Attribute{}, map[string]bool{}
	seen := map[string]int{}
	for _, c := range collections {
		for name, a := range v.collections[c].Attributes {
			was, known := attributes[name]
			if known && was.Type != a.Type {
				torn[name] = true
			}
			a.Required = a.Required && (was.Required || !known)
			attributes[name] = a
			seen[name]++
		}
	}
	for name, a := range attributes {
		a.Required = a.Required && seen[name] == len(collections)
		attributes[name] = a
	}
	for name := range torn {
		delete(attributes, name)
	}
	return attributes, torn
}

// schema writes the Cedar schema for policies about resources with these
// attributes.
func (v *vocabulary) schema(attributes map[string]catalogue.Attribute) string {
	var b strings.Builder
	b.WriteString("entity Group;\nentity Role;\n")
	fmt.Fprintf(&b, "entity User in [Group, Role] {id: String, attributes: %s};\n", record(v.attributes))
	b.WriteString("entity Agent;\nentity Collection in [Agent];\n")
	fmt.Fprintf(&b, "entity Resource in [Collection] {attributes: %s};\n", record(attributes))
	for _, grant := range slices.Sorted(maps.Keys(v.grants)) {
		fmt.Fprintf(&b, "action \"%s\";\n", grant)
	}
	for _, qualified := range v.operations {
		op := v.offered[qualified]
		fmt.Fprintf(&b, "action \"%s\" in [\"%s/%s\"] appliesTo {principal: [User], resource: [Resource, Agent]};\n",
			qualified, op.agent, op.grant)
	}
	return b.String()
}

func record(attributes map[string]catalogue.Attribute) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a, mark := attributes[name], "?"
		if a.Required {
			mark = ""
		}
		fields = append(fields, fmt.Sprintf("\"%s\"%s: %s", name, mark, cedarType(a.Type)))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func cedarType(t catalogue.Type) string {
	switch t {
	case catalogue.TypeText:
		return "String"
	case catalogue.TypeInteger:
		return "Long"
	case catalogue.TypeBoolean:
		return "Bool"
	case catalogue.TypeTexts:
		return "Set<String>"
	}
	return ""
}
