// Package mcp reads what goes between clients and servers of the Model Context
// Protocol over Streamable HTTP (revisions 2025-03-26 to 2025-11-25), as bytes: what
// a client sends, strictly, so that it can be decided on, and the events that a
// server answers with. It has no client and no server.
package mcp

import (
	"encoding/base64"
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

// Those of revision 2026-07-28 that say again what the body says, in lower case.
const (
	headerMethod = "mcp-method"
	headerName   = "mcp-name"
	headerParams = "mcp-param-" // and the name of an argument
)

// metaVersion is where a message of revision 2026-07-28 or later says its revision.
const metaVersion = "io.modelcontextprotocol/protocolVersion"

// revisions are those that are read. 2024-11-05 had another transport, and its clients
// say no revision by this one.
var revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

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
	Revision  string         // that it says itself, "" where it says none
	Subject   string         // name of a tool or prompt, or URI of a resource; "" for none
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
	if wrong = m.about(params); wrong != nil {
		return m, wrong
	}
	if wrong = m.params(params); wrong == nil {
		wrong = a2a.CheckCase(v)
	}
	return m, wrong
}

// about reads what a message says of itself beside what is decided on.
func (m *Message) about(params powerbox.Value) *a2a.Error {
	meta, _ := params.Get("_meta")
	if revision, said := meta.Get(metaVersion); said {
		text, ok := revision.Text()
		if !ok || text == "" {
			return invalid(a2a.ReasonVersion, "%s is no revision of MCP", metaVersion)
		}
		m.Revision = text
	}
	subject := powerbox.Value{}
	switch m.Method {
	case "tools/call", "prompts/get":
		subject, _ = params.Get("name")
	case "resources/read":
		subject, _ = params.Get("uri")
	}
	m.Subject, _ = subject.Text()
	return nil
}

// CheckHeaders holds the headers of a request to its message, "" and nothing for one
// without. A revision that is not read is refused: from 2026-07-28 on a request has no
// session, its answer may be a request of the server, and lists may be kept for others.
// So is a header that says something else than the message: whoever stands before the
// server may go by the one, and the server by the other. Name is that of a header as it
// is compared, in lower case and with dashes.
func (m Message) CheckHeaders(headers map[string][]string, name func(string) string) *a2a.Error {
	said := headers[HeaderVersion]
	if len(said) > 1 {
		return invalid(a2a.ReasonVersion, "the header %s is there more than once", HeaderVersion)
	}
	for _, revision := range append([]string{m.Revision}, said...) {
		if revision != "" && !slices.Contains(revisions, revision) {
			return invalid(a2a.ReasonVersion, "revision %.32q of MCP is not read here; begin with initialize, in revision %s or before", revision, revisions[0])
		}
	}
	if len(said) == 1 && m.Revision != "" && m.Revision != said[0] {
		return invalid(a2a.ReasonVersion, "the header %s says another revision than the message", HeaderVersion)
	}
	for header, values := range headers {
		if len(header) < len(headerName) || header[0] != 'M' && header[0] != 'm' {
			continue
		}
		want, about := "", true
		switch is := name(header); {
		case is == headerMethod:
			want = m.Method
		case is == headerName:
			want = m.Subject
		case strings.HasPrefix(is, headerParams): // which argument it is about, only a schema says
		default:
			about = false
		}
		if about && (want == "" || len(values) != 1 || plain(values[0]) != want) {
			return invalid(a2a.ReasonEnvelope, "the header %.64q says something else than the message, or nothing that revision %s has; leave it out", header, revisions[0])
		}
	}
	return nil
}

// plain is a value of a header of revision 2026-07-28, which may be in Base64.
func plain(value string) string {
	inside, ok := strings.CutPrefix(value, "=?base64?")
	if inside, ends := strings.CutSuffix(inside, "?="); ok && ends {
		text, err := base64.StdEncoding.Strict().DecodeString(inside)
		if err != nil {
			return ""
		}
		return string(text)
	}
	return value
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
