// Package mcp reads the messages between clients and servers of the Model Context
// Protocol over Streamable HTTP (revisions 2025-03-26 to 2026-07-28), as bytes. It reads
// a client's messages strictly, so that they can be decided on, and the events that a
// server answers with. It has no client and no server.
package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages (JSON-RPC 2.0, sections 4 and 5).
const (
	Request Kind = iota
	Notification
	Response // of a client to a request of the server
)

// The needs of a method.
type need uint8

const (
	session need = iota + 1 // the right to talk to the server at all
	tool                    // the operation of a tool
	ruled                   // an operation that configuration names for the method
	listens                 // for every resource the operation of [Subscribe]
)

// Subscribe is the method whose operation a client needs to be told of changes of a
// resource, in every revision.
const Subscribe = "resources/subscribe"

// method is one that clients call.
type method struct {
	need   need
	params []string // names of all parameters that are decided on; nil where none are
	lists  *List
	era    era
	asks   bool // its result may ask something of the client, which calls it again
}

// List is an answer that names things that a client can ask for.
type List struct {
	Member string // of the result, an array
	Name   string // of its elements, by which they are asked for
	By     string // the method by which they are asked for
}

var methods = map[string]method{
	"initialize":                       {need: session, era: inSessions},
	"ping":                             {need: session, era: inSessions},
	"logging/setLevel":                 {need: session, era: inSessions},
	"notifications/initialized":        {need: session, era: inSessions},
	"notifications/cancelled":          {need: session},
	"notifications/progress":           {need: session, era: inSessions},
	"notifications/roots/list_changed": {need: session, era: inSessions},
	"server/discover":                  {need: session, era: stateless},
	"subscriptions/listen":             {need: listens, era: stateless},
	"tools/list":                       {need: session, lists: &List{"tools", "name", "tools/call"}},
	"tools/call":                       {need: tool, params: []string{"name", "arguments"}, asks: true},
	"resources/list":                   {need: session, lists: &List{"resources", "uri", "resources/read"}},
	"resources/templates/list":         {need: session, lists: &List{"resourceTemplates", "uriTemplate", "resources/read"}},
	"resources/read":                   {need: ruled, params: []string{"uri"}, asks: true},
	Subscribe:                          {need: ruled, params: []string{"uri"}, era: inSessions},
	"resources/unsubscribe":            {need: ruled, params: []string{"uri"}, era: inSessions},
	"prompts/list":                     {need: session, lists: &List{"prompts", "name", "prompts/get"}},
	"prompts/get":                      {need: ruled, params: []string{"name", "arguments"}, asks: true},
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

// Known returns a method's name where it is in a table, and Unknown otherwise, so that
// strangers cannot make up names in the counters.
func Known(name string) string {
	if _, ok := methods[name]; ok {
		return name
	}
	return "Unknown"
}

// Message is a message of a client.
type Message struct {
	Kind      Kind
	Method    string         // "" in a Response
	ID        []byte         // JSON; nil in a Notification
	Tool      string         // that is called, "" where none is
	Arguments powerbox.Value // of the tool, or of a method that is ruled: an object
	Revision  string         // that it says itself, or a header where it need not; "" where none does
	Subject   string         // name of a tool or prompt, or URI of a resource; "" for none
	Answers   bool           // it has answers to questions of the server
	State     bool           // it has a state that the server gave
	Approval  string         // the client's word on [askApproval], "" where it says nothing
	URLs      bool           // its client sends people to URLs (elicitation, mode url)
	Resources []string       // URIs of those whose changes it wants to be told of
	Dropped   []string       // members that were left out of it, or renamed; 16 at most

	sent powerbox.Value // see Body
}

// method is the entry of the message's method in its revision, the zero value where that
// has none of the name.
func (m Message) method() method {
	is := methods[m.Method]
	if is.era == stateless && !m.Stateless() || is.era == inSessions && m.Stateless() {
		return method{}
	}
	return is
}

// IsKnown reports whether the message's revision has its method.
func (m Message) IsKnown() bool { return m.method().need != 0 }

// IsRequest reports whether a response to the message can come.
func (m Message) IsRequest() bool { return m.Kind == Request && len(m.ID) > 0 }

// IsTool reports whether the message calls a tool.
func (m Message) IsTool() bool { return m.method().need == tool }

// IsRuled reports whether the message needs an operation that configuration names.
func (m Message) IsRuled() bool { return m.method().need == ruled }

// Listens reports whether the message asks to be told of changes.
func (m Message) Listens() bool { return m.method().need == listens }

// MayAsk reports whether the answer to the message may ask something of the client.
func (m Message) MayAsk() bool { return m.Stateless() && m.method().asks }

// Lists returns the list in the answer to the message, nil where it has none.
func (m Message) Lists() *List { return m.method().lists }

// maxTrace is the longest member of a trace that is read. W3C Trace Context has receivers
// take at least 512 characters of a tracestate (section 3.3.1.5).
const maxTrace = 512

// Trace returns the client's trace that the message names in _meta (SEP-414), "" for none.
// Its form is not checked here. Anyone can write it, so nothing is decided by it.
func (m Message) Trace() (parent, state string) {
	params, _ := m.sent.Get("params")
	meta, _ := params.Get("_meta")
	text := func(name string) string {
		v, _ := meta.Get(name)
		if s, _ := v.Text(); len(s) <= maxTrace {
			return s
		}
		return ""
	}
	return text("traceparent"), text("tracestate")
}

// Decode reads one message. Batches, which revision 2025-03-26 had, are refused
// (ATK-28). So are texts that readers read differently: names twice, or in another case
// (ATK-27), and parameters of a tool call that this package does not know.
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
	v, m.Approval = withoutApproval(v)
	if wrong := m.read(v); wrong != nil {
		return m, wrong
	}
	if wrong := a2a.CheckCase(v); wrong != nil && m.Kind != Response {
		return m, wrong
	}
	written, wrong := m.rewrite(v)
	if wrong != nil {
		return m, wrong
	}
	return written, nil
}

// read reads a message from its value.
func (m *Message) read(v powerbox.Value) *a2a.Error {
	if wrong := m.envelope(v); wrong != nil || m.Kind == Response {
		return wrong
	}
	params, _ := v.Get("params")
	if wrong := m.about(params); wrong != nil {
		return wrong
	}
	return m.params(params)
}

// about reads the members of a message that describe it and are not decided on.
func (m *Message) about(params powerbox.Value) *a2a.Error {
	meta, _ := params.Get("_meta")
	if revision, said := meta.Get(MetaVersion); said {
		text, ok := revision.Text()
		if !ok || text == "" {
			return invalid(a2a.ReasonVersion, "%s is no revision of MCP", MetaVersion)
		}
		m.Revision = text
	}
	m.URLs = sendsToURLs(meta, params)
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

// kindOf refuses a request that is sent as a notification, and the reverse. Such a
// request would run without an answer, and so without a decision that the client sees.
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
	if m.Listens() {
		return m.listens(v)
	}
	known := m.method().params
	if known == nil {
		return m.asksNothing(v)
	}
	if v.Kind() != powerbox.KindObject {
		return wrongParams("params are missing or no object")
	}
	members, _ := v.Members()
	var kept []powerbox.Member
	for _, member := range members {
		switch {
		case member.Name == "_meta":
		case m.MayAsk() && (member.Name == paramResponses || member.Name == paramState):
			if wrong := m.again(member); wrong != nil {
				return wrong
			}
		case !slices.Contains(known, member.Name):
			return wrongParams("params has a member %.64q, which is not decided on here; want %s", member.Name, strings.Join(known, ", "))
		default:
			if wrong := checkURI(member); wrong != nil {
				return wrong
			}
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

// checkURI refuses the URI of a resource that servers take for different ones: kits for
// TypeScript and Python rewrite it before they look it up (ATK-163).
func checkURI(param powerbox.Member) *a2a.Error {
	if param.Name != "uri" {
		return nil
	}
	uri, _ := param.Value.Text()
	if err := powerbox.CheckURI(uri); err != nil {
		return wrongParams("params.uri: %s", err)
	}
	return nil
}

// asksNothing refuses an answer to the server, and a state to give back to it, with a
// request whose result cannot have asked for it.
func (m *Message) asksNothing(params powerbox.Value) *a2a.Error {
	for _, name := range []string{paramResponses, paramState} {
		if _, given := params.Get(name); given && m.IsKnown() {
			return wrongParams("params has a member %s, which %s does not have", name, m.Method)
		}
	}
	return nil
}

func invalid(reason, format string, args ...any) *a2a.Error {
	return &a2a.Error{Code: a2a.CodeInvalidRequest, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func wrongParams(format string, args ...any) *a2a.Error {
	return &a2a.Error{Code: a2a.CodeInvalidParams, Reason: a2a.ReasonParams, Message: fmt.Sprintf(format, args...)}
}
