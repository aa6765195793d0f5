package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Stateless is the revision from which on a request stands for itself: it says its
// revision in _meta, and there are no sessions and no requests of the server.
const Stateless = "2026-07-28"

// LatestWithSessions is the newest of those that begin with initialize.
const LatestWithSessions = "2025-11-25"

// revisions are those that are read. 2024-11-05 had another transport, and its clients
// say no revision by this one.
var revisions = []string{Stateless, LatestWithSessions, "2025-06-18", "2025-03-26", "2024-11-05"}

// era is when a method is one.
type era uint8

const (
	always     era = iota
	inSessions     // up to LatestWithSessions
	stateless      // from Stateless on
)

// Error codes that MCP defines (2026-07-28, basic, error codes).
const (
	CodeHeaders    = -32020 // HeaderMismatch
	CodeCapability = -32021 // MissingRequiredClientCapability
	CodeRevision   = -32022 // UnsupportedProtocolVersion
	// CodeElicit is that of an error which asks the client to go to a URL, of
	// 2025-11-25 alone.
	CodeElicit = -32042
)

// The headers of Streamable HTTP.
const (
	HeaderSession = "Mcp-Session-Id"
	HeaderVersion = "Mcp-Protocol-Version"
)

// Those of revision 2026-07-28 that repeat parts of the body, in lower case.
const (
	HeaderMethod = "mcp-method"
	HeaderName   = "mcp-name"
	headerParams = "mcp-param-" // and a name that the tool's schema gives an argument
)

// MetaVersion is where a message of revision 2026-07-28 or later says its revision.
const MetaVersion = "io.modelcontextprotocol/protocolVersion"

// The parameters with which a call comes again, after the server wanted to know
// something of its client.
const (
	paramResponses = "inputResponses"
	paramState     = "requestState"
)

// maxResources is how many resources one request can be about.
const maxResources = 64

// Stateless reports whether the message is of the revision of that name.
func (m Message) Stateless() bool { return m.Revision == Stateless }

// Unsupported is the answer to a request of a revision that is not read (2026-07-28,
// UnsupportedProtocolVersionError).
func Unsupported(id []byte, requested, message string) []byte {
	if len(id) == 0 {
		id = []byte("null")
	}
	var supported []powerbox.Value
	for _, revision := range revisions {
		supported = append(supported, powerbox.String(revision))
	}
	data := powerbox.Object(
		powerbox.Member{Name: "supported", Value: powerbox.List(supported...)},
		powerbox.Member{Name: "requested", Value: powerbox.String(requested)},
	)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s,"data":%s}}`, id, CodeRevision, powerbox.String(message), data)
}

// again reads a parameter with which a call comes again. The server judges its contents:
// the state is text that only the server can read.
func (m *Message) again(p powerbox.Member) *a2a.Error {
	if p.Name == paramState {
		if _, ok := p.Value.Text(); !ok {
			return wrongParams("params.requestState is of type %s; want the text that the server gave", p.Value.Kind())
		}
		m.State = true
		return nil
	}
	members, ok := p.Value.Members()
	if !ok {
		return wrongParams("params.inputResponses is of type %s; want an object", p.Value.Kind())
	}
	m.Answers = len(members) > 0
	return nil
}

// listens reads the events that a client subscribes to: changes of lists, which are for
// anyone who may talk to the server, and of resources.
func (m *Message) listens(params powerbox.Value) *a2a.Error {
	if wrong := only(params, "params", "_meta", "notifications"); wrong != nil {
		return wrong
	}
	wanted, _ := params.Get("notifications")
	if wrong := only(wanted, "params.notifications", "toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions"); wrong != nil {
		return wrong
	}
	list, given := wanted.Get("resourceSubscriptions")
	if !given {
		return nil
	}
	all, ok := list.Elements()
	if !ok || len(all) > maxResources {
		return wrongParams("params.notifications.resourceSubscriptions: want a list of at most %d URIs", maxResources)
	}
	for _, one := range all {
		uri, ok := one.Text()
		if !ok || uri == "" {
			return wrongParams("params.notifications.resourceSubscriptions has an element that is no URI")
		}
		if err := powerbox.CheckURI(uri); err != nil {
			return wrongParams("params.notifications.resourceSubscriptions: %s", err)
		}
		m.Resources = append(m.Resources, uri)
	}
	return nil
}

// only wants an object without other members.
func only(v powerbox.Value, where string, names ...string) *a2a.Error {
	members, ok := v.Members()
	if !ok {
		return wrongParams("%s: missing, or no object", where)
	}
	for _, member := range members {
		if !slices.Contains(names, member.Name) {
			return wrongParams("%s has a member %.64q, which is not decided on here; want %s", where, member.Name, strings.Join(names, ", "))
		}
	}
	return nil
}

// CheckHeaders holds the headers of a request to its message, "" and nothing for one
// without, and takes the revision from them where a message need not say it. A revision
// that is not read is refused, and so is a header that says something else than the
// message: anyone who stands before the server may go by the one, and the server by the
// other. From 2026-07-28 on the headers must be there. Name is that of a header as
// it is compared, in lower case and with dashes.
func (m *Message) CheckHeaders(headers map[string][]string, name func(string) string) *a2a.Error {
	if wrong := m.checkRevision(headers[HeaderVersion]); wrong != nil {
		return wrong
	}
	if m.Stateless() && m.Kind == Response {
		return invalid(a2a.ReasonEnvelope, "revision %s has no responses of clients; call again, with inputResponses", Stateless)
	}
	seen, args := map[string]bool{}, mirrors(nil)
	for header, values := range headers {
		if len(header) < len(HeaderName) || header[0] != 'M' && header[0] != 'm' {
			continue
		}
		is := name(header)
		if is != HeaderMethod && is != HeaderName && !strings.HasPrefix(is, headerParams) {
			continue
		}
		if len(seen) == maxHeaders {
			return m.mismatch("more than %d headers Mcp-Method, Mcp-Name and Mcp-Param-*; send at most as many", maxHeaders)
		}
		if len(values) != 1 || seen[is] || !m.says(is, values[0], &args) {
			return m.mismatch("the header %.64q says something else than the message, or nothing that its revision has", header)
		}
		seen[is] = true
	}
	if !m.Stateless() || m.Kind != Request || m.Method == "" || strings.HasPrefix(m.Method, "a2a/") {
		return nil
	}
	if !seen[HeaderMethod] || m.method().asks && !seen[HeaderName] {
		return m.mismatch("Mcp-Method is missing, or Mcp-Name is, which tools/call, prompts/get and resources/read have")
	}
	return nil
}

// checkRevision wants one revision, the same wherever it is said.
func (m *Message) checkRevision(said []string) *a2a.Error {
	header := ""
	switch {
	case len(said) > 1:
		return invalid(a2a.ReasonVersion, "the header %s is there more than once", HeaderVersion)
	case len(said) == 1:
		header = said[0]
	}
	for _, revision := range []string{m.Revision, header} {
		if revision != "" && !slices.Contains(revisions, revision) {
			m.Revision = revision
			return &a2a.Error{
				Code: CodeRevision, Reason: a2a.ReasonVersion,
				Message: fmt.Sprintf("revision %.32q of MCP is not read here; send %s, or begin with initialize, in revision %s or before", revision, Stateless, LatestWithSessions),
			}
		}
	}
	need := m.Kind == Request && m.Method != "" && !strings.HasPrefix(m.Method, "a2a/") // notifications have no _meta, and GET no message
	switch within := m.Revision; {
	case within == header, header == "" && within != Stateless:
		return nil
	case within == "" && (header != Stateless || !need):
		m.Revision = header
		return nil
	case header == Stateless:
		m.Revision = Stateless
	}
	return m.mismatch("%s says another revision than %s of the message, or only one of the two is there", HeaderVersion, MetaVersion)
}

// says reports whether the message has the value that a header repeats. The index of its
// arguments is made once, for the first header that needs it.
func (m *Message) says(header, value string, args *mirrors) bool {
	value, ok := plain(value)
	switch {
	case !ok:
		return false
	case header == HeaderMethod:
		return value == m.Method && value != ""
	case header == HeaderName:
		return value == m.Subject && value != ""
	default:
		if !m.Stateless() || !m.IsTool() {
			return false
		}
		if *args == nil {
			*args = mirrorsOf(m.Arguments)
		}
		return (*args).has(strings.TrimPrefix(header, headerParams), value)
	}
}

// Headers are the values that a client of the message's revision repeats in headers, by
// name.
func (m *Message) Headers() map[string]string {
	if !m.Stateless() {
		return nil
	}
	h := map[string]string{HeaderVersion: m.Revision, "Mcp-Method": m.Method}
	if m.Subject != "" {
		h["Mcp-Name"] = encoded(m.Subject)
	}
	return h
}

// encoded is a text as headers can say it.
func encoded(text string) string {
	odd := strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	if odd || strings.TrimSpace(text) != text || strings.HasPrefix(text, "=?base64?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
	}
	return text
}

type callerKey struct{}

// WithCaller names the caller of a request, for code that keeps callers separate.
func WithCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf returns the caller of a request, "" where none was set.
func CallerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

type clientKey struct{}

// WithClient names the client by which a request is counted, in sessions too: by a name
// that is not free to make, as holders and capabilities are.
func WithClient(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// ClientOf is the client by which a request is counted.
func ClientOf(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}

// mismatch is a header that does not go with its message.
func (m *Message) mismatch(format string, args ...any) *a2a.Error {
	wrong := invalid(a2a.ReasonEnvelope, format, args...)
	if m.Stateless() {
		wrong.Code = CodeHeaders
	}
	return wrong
}

// plain is a value of a header of revision 2026-07-28, which may be in Base64; false
// where it begins and ends so and is not.
func plain(value string) (string, bool) {
	inside, begins := strings.CutPrefix(value, "=?base64?")
	if inside, ends := strings.CutSuffix(inside, "?="); begins && ends {
		text, err := base64.StdEncoding.Strict().DecodeString(inside)
		return string(text), err == nil
	}
	return value, true
}
