// Package action lists the action types of evidence records, each with its class.
// Code that writes records takes a [Type], which only this list has; code that reads
// records asks for the [Class], and never looks at how a name begins.
package action

import (
	"slices"
	"strings"
)

// Class is what a record of an action type is about.
type Class string

// The classes. Unlisted is the class of action types that other programs write, or
// other versions of this one.
const (
	Call     Class = "call"       // a gate decided about a call
	Request  Class = "request"    // capabilities were asked for, narrowed, looked up or used up
	Revoke   Class = "revocation" // capabilities or tasks ended
	Freeze   Class = "freeze"     // an operator stopped or released something
	Question Class = "question"   // people were asked, and answered
	Account  Class = "account"    // agents and hosts of the Agent Auth Protocol
	People   Class = "people"     // persons and their passkeys
	Key      Class = "key"        // keys of agents and recorders
	Gateway  Class = "gateway"    // remote gateways
	Settings Class = "settings"   // the configuration and listings of the registry
	Evidence Class = "evidence"   // the log itself
	Unlisted Class = ""
)

// Type is an action type on the list. The zero Type is none, and no record can have it.
type Type struct{ name string }

// String returns the name, as in records.
func (t Type) String() string { return t.name }

// Class returns the class of the type.
func (t Type) Class() Class { return ClassOf(t.name) }

// Is reports whether a record's action_type is this type.
func (t Type) Is(name string) bool { return t.name != "" && t.name == name }

// classes is the list.
var classes = map[string]Class{}

func listed(class Class, name string) Type {
	if _, twice := classes[name]; twice {
		panic("action: " + name + " is listed twice")
	}
	classes[name] = class
	return Type{name}
}

// ClassOf returns the class of a record's action_type.
func ClassOf(name string) Class { return classes[name] }

// All returns every type on the list, in the order of their names.
func All() []Type {
	all := make([]Type, 0, len(classes))
	for name := range classes {
		all = append(all, Type{name})
	}
	slices.SortFunc(all, func(a, b Type) int { return strings.Compare(a.name, b.name) })
	return all
}
