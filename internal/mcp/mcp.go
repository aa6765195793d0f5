// Package mcp reads what goes between clients and servers of the Model Context
// Protocol over Streamable HTTP (revisions 2025-03-26 to 2025-11-25), as bytes: what
// a client sends, strictly, so that it can be decided on, and the events that a
// server answers with. It has no client and no server.
package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/a2a"
)

// The headers of Streamable HTTP.
const (
	HeaderSession = "Mcp-Session-Id"
	HeaderVersion = "Mcp-Protocol-Version"
)

// Kind is what a message is.
type Kind uint8

// The kinds of messages (JSON-RPC 2.0, sections 4 and 5).
const (
	Request Kind = iota
	Notification
	Response // of a client to a request of the server
)

// What a method needs.
type need uint8

const (
	session need = iota + 1 // the right to talk to the server at all
	tool                    // the operation of a tool
	ruled                   // an operation that configuration names for the method
)

// method is one that clients call.
type method struct {
	need   need
	params []string // names of all parameters that are decided on; nil where none are
	lists  *List
}

// List is an answer that names what can be asked for.
type List struct {
	Member string // of the result, an array
	Name   string // of its elements, by which they are asked for
	By     string // the method by which they are asked for
}

var methods = map[string]method{
	"initialize":                       {need: session},
	"ping":                             {need: session},
	"logging/setLevel":                 {need: session},
	"notifications/initialized":        {need: session},
	"notifications/cancelled":          {need: session},
	"notifications/progress":           {need: session},
	"notifications/roots/list_changed": {need: session},
	"tools/list":                       {need: session, lists: &List{"tools", "name", "tools/call"}},
	"tools/call":                       {need: tool, params: []string{"name", "arguments"}},
	"resources/list":                   {need: session, lists: &List{"resources", "uri", "resources/read"}},
	"resources/templates/list":         {need: session, lists: &List{"resourceTemplates", "uriTemplate", "resources/read"}},
	"resources/read":                   {need: ruled, params: []string{"uri"}},
	"resources/subscribe":              {need: ruled, params: []string{"uri"}},
	"resources/unsubscribe":            {need: ruled, params: []string{"uri"}},
	"prompts/list":                     {need: session, lists: &List{"prompts", "name", "prompts/get"}},
	"prompts/get":                      {need: ruled, params: []string{"name", "arguments"}},
	"completion/complete":              {need: ruled, params: []string{"ref", "argument", "context"}},
}

// Ruled reports whether a method is one that configuration can map to an
// operation.
func Ruled(name string) bool { return methods[name].need == ruled }

// RuledMethods are those, in order.
func RuledMethods() []string {
	var names []string
	for name, m := range methods {
		if m.need == ruled {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// AllLists are the lists of all methods.
func AllLists() []List {
	var all []List
	for _, m := range methods {
		if m.lists != nil {
			all = append(all, *m.lists)
		}
	}
	return all
}

// ServerRequests are the methods that a server can call at its client.
var ServerRequests = []string{"elicitation/create", "ping", "roots/list", "sampling/createMessage"}

// Known returns a method's name where it is in a table, and Unknown otherwise, so
// that strangers cannot make up names of what is counted.
func Known(name string) string {
	if _, ok := methods[name]; ok {
		return name
	}
	return "Unknown"
}

// Message is what a client sends.
type Message struct {
	Kind      Kind
	Method    string         // "" in a Response
	ID        []byte         // JSON; nil in a Notification
	Tool      string         // that is called, "" where none is
	Arguments powerbox.Value // of the tool, or of a method that is ruled: an object
}

// IsTool reports whether the message calls a tool.
func (m Message) IsTool() bool { return methods[m.Method].need == tool }

// IsRuled reports whether the message needs an operation that configuration names.
func (m Message) IsRuled() bool { return methods[m.Method].need == ruled }

// Lists returns what the answer to the message lists, nil where it lists nothing.
func (m Message) Lists() *List { return methods[m.Method].lists }

// Decode reads one message. Batches, which revision 2025-03-26 had, are refused
// (ATK-28), and so is what readers read differently: names twice, or in another
// case (ATK-27), and parameters of a tool call that this package does not know.
func Decode(body []byte, limits powerbox.Limits) (Message, *a2a.Error) {
	var m Message
	v, err := powerbox.DecodeValue(body, limits)
	switch {
	case len(body) > limits.Bytes:
		return m, &a2a.Error{Code: a2a.CodeInvalidRequest, Reason: a2a.ReasonTooLarge, Message: fmt.Sprintf("message has %d bytes; want at most %d", len(body), limits.Bytes)}
	case err != nil:
		return m, &a2a.Error{Code: a2a.CodeParse, Reason: a2a.ReasonSyntax, Message: err.Error()}
	case v.Kind() == powerbox.KindList:
		return m, invalid(a2a.ReasonBatch, "the body is a batch; send one message per request")
	}
	wrong := m.envelope(v)
	if wrong != nil {
		return m, wrong
	}
	if m.Kind == Response {
		return m, nil
	}
	params, _ := v.Get("params")
	if wrong = m.params(params); wrong == nil {
		wrong = a2a.CheckCase(v)
	}
	return m, wrong
}

func (m *Message) envelope(v powerbox.Value) *a2a.Error {
	if v.Kind() != powerbox.KindObject {
		return invalid(a2a.ReasonEnvelope, "the message is of type %s; want an object", v.Kind())
	}
	members, _ := v.Members()
	for _, member := range members {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params", "result", "error"}, member.Name) {
			return invalid(a2a.ReasonEnvelope, "the message has a member %.64q; want jsonrpc, id, and method with params, result or error", member.Name)
		}
	}
	if version, _ := v.Get("jsonrpc"); !version.Equal(powerbox.String("2.0")) {
		return invalid(a2a.ReasonEnvelope, `jsonrpc is missing or something else than "2.0"`)
	}
	id, hasID := v.Get("id")
	if hasID {
		if id.Kind() != powerbox.KindString && id.Kind() != powerbox.KindNumber {
			return invalid(a2a.ReasonEnvelope, "id is of type %s; want a string or a number", id.Kind())
		}
		m.ID = id.AppendJSON(nil)
	}
	name, named := v.Get("method")
	_, result := v.Get("result")
	_, failed := v.Get("error")
	_, params := v.Get("params")
	switch text, ok := name.Text(); {
	case named && (result || failed), result && failed, !named && !result && !failed, !named && params:
		return invalid(a2a.ReasonEnvelope, "the message is not one of a request with a method, a result and an error")
	case !named && !hasID:
		return invalid(a2a.ReasonEnvelope, "the response has no id")
	case !named:
		m.Kind = Response
	case !ok || text == "":
		return invalid(a2a.ReasonEnvelope, "method is no string, or empty")
	default:
		if m.Method = text; !hasID {
			m.Kind = Notification
		}
	}
	return m.kindOf()
}

// kindOf refuses a request that is sent as a notification, which would run without
// an answer, and so without a decision that anybody sees, and the reverse.
func (m *Message) kindOf() *a2a.Error {
	if m.Kind == Response {
		return nil
	}
	if notification := strings.HasPrefix(m.Method, "notifications/"); notification != (m.Kind == Notification) {
		return invalid(a2a.ReasonEnvelope, "%.64q is sent with an id where it is a notification, or without one where it is a request", m.Method)
	}
	return nil
}

// params reads the parameters that are decided on.
func (m *Message) params(v powerbox.Value) *a2a.Error {
	known := methods[m.Method].params
	if known == nil {
		return nil
	}
	if v.Kind() != powerbox.KindObject {
		return wrongParams("params are missing or no object")
	}
	members, _ := v.Members()
	var kept []powerbox.Member
	for _, member := range members {
		switch {
		case member.Name == "_meta":
		case !slices.Contains(known, member.Name):
			return wrongParams("params has a member %.64q, which is not decided on here; want %s", member.Name, strings.Join(known, ", "))
		default:
			kept = append(kept, member)
		}
	}
	if !m.IsTool() {
		m.Arguments = powerbox.Object(kept...)
		return nil
	}
	name, _ := v.Get("name")
	text, ok := name.Text()
	if !ok || text == "" {
		return wrongParams("params.name is missing or no string; want the name of a tool")
	}
	arguments, given := v.Get("arguments")
	if !given || arguments.Kind() == powerbox.KindNull {
		arguments = powerbox.Object()
	}
	if arguments.Kind() != powerbox.KindObject {
		return wrongParams("params.arguments is of type %s; want an object", arguments.Kind())
	}
	m.Tool, m.Arguments = text, arguments
	return nil
}

func invalid(reason, format string, args ...any) *a2a.Error {
	return &a2a.Error{Code: a2a.CodeInvalidRequest, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func wrongParams(format string, args ...any) *a2a.Error {
	return &a2a.Error{Code: a2a.CodeInvalidParams, Reason: a2a.ReasonParams, Message: fmt.Sprintf(format, args...)}
}
