package mcp

import (
	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// The members of clients' messages, of every revision that is read (MCP 2026-07-28 and
// before, schema). Anything that is not listed is left out, as the schema has receivers
// ignore it; members that are decided on are refused before, by name.
var (
	// The contents of _meta for a server: how a request is followed, and the members that
	// revision 2026-07-28 has there instead of initialize.
	knownMeta = a2a.NewKnown(
		a2a.KnownMember{Name: "progressToken", Is: a2a.IsScalar},
		a2a.KnownMember{Name: MetaVersion},
		a2a.KnownMember{Name: "io.modelcontextprotocol/clientInfo", Is: a2a.IsAny},
		a2a.KnownMember{Name: MetaCapabilities, Is: a2a.IsAny},
		a2a.KnownMember{Name: "io.modelcontextprotocol/logLevel"},
		a2a.KnownMember{Name: "traceparent"}, a2a.KnownMember{Name: "tracestate"},
	)
	meta = a2a.KnownMember{Name: "_meta", Is: a2a.IsObject, Of: knownMeta}

	paramsOf = map[string][]a2a.KnownMember{
		"initialize":                       {{Name: "protocolVersion"}, anyOf("capabilities"), anyOf("clientInfo")},
		"ping":                             nil,
		"logging/setLevel":                 {{Name: "level"}},
		"notifications/initialized":        nil,
		"notifications/cancelled":          {{Name: "requestId", Is: a2a.IsScalar}, {Name: "reason"}},
		"notifications/progress":           {{Name: "progressToken", Is: a2a.IsScalar}, {Name: "progress", Is: a2a.IsScalar}, {Name: "total", Is: a2a.IsScalar}, {Name: "message"}},
		"notifications/roots/list_changed": nil,
		"server/discover":                  nil,
		"subscriptions/listen":             {anyOf("notifications")},
		"tools/list":                       {{Name: "cursor"}},
		"tools/call":                       {{Name: "name"}, anyOf("arguments"), anyOf(paramResponses), {Name: paramState}},
		"resources/list":                   {{Name: "cursor"}},
		"resources/templates/list":         {{Name: "cursor"}},
		"resources/read":                   {{Name: "uri"}, anyOf(paramResponses), {Name: paramState}},
		Subscribe:                          {{Name: "uri"}},
		"resources/unsubscribe":            {{Name: "uri"}},
		"prompts/list":                     {{Name: "cursor"}},
		"prompts/get":                      {{Name: "name"}, textsOf("arguments"), anyOf(paramResponses), {Name: paramState}},
		"completion/complete":              {textsOf("ref"), textsOf("argument"), {Name: "context", Is: a2a.IsObject, Of: a2a.NewKnown(textsOf("arguments"))}},
	}

	envelopes = func() map[string]*a2a.Known {
		all := map[string]*a2a.Known{"": envelope(a2a.KnownMember{Name: "params", Is: a2a.IsAny})}
		for method, members := range paramsOf {
			all[method] = envelope(a2a.KnownMember{Name: "params", Is: a2a.IsObject, Of: a2a.NewKnown(append([]a2a.KnownMember{meta}, members...)...)})
		}
		return all
	}()
)

func anyOf(name string) a2a.KnownMember { return a2a.KnownMember{Name: name, Is: a2a.IsAny} }

func textsOf(name string) a2a.KnownMember {
	return a2a.KnownMember{Name: name, Is: a2a.IsTextMap}
}

func envelope(params a2a.KnownMember) *a2a.Known {
	k := a2a.NewKnown(a2a.KnownMember{Name: "jsonrpc"}, a2a.KnownMember{Name: "id", Is: a2a.IsScalar}, a2a.KnownMember{Name: "method"},
		params, a2a.KnownMember{Name: "result", Is: a2a.IsAny}, a2a.KnownMember{Name: "error", Is: a2a.IsAny})
	k.Strict = true
	return k
}

// rewrite makes the message that the server gets, and returns the message that was read
// from that.
func (m Message) rewrite(v powerbox.Value) (Message, *a2a.Error) {
	known, ok := envelopes[m.Method]
	if !ok {
		known = envelopes[""]
	}
	w, wrong := known.Write("", v)
	if wrong != nil {
		return m, wrong
	}
	written := Message{sent: w.Value, Dropped: w.Dropped, Approval: m.Approval}
	return written, written.read(w.Value)
}

// Body is the message as it was read, written again, so that every reader takes it for
// the same. It is nil for a message that was not read from a body, such as the request
// for events.
func (m Message) Body() []byte {
	if m.sent.Kind() == powerbox.KindNull {
		return nil
	}
	return m.sent.AppendSource(nil)
}
