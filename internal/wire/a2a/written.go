package a2a

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The members of requests, of both versions and all bindings (A2A 1.0, section 4;
// A2A 0.3, section 6). TestEveryFieldOfARequestIsKnown holds them to the definitions
// of the protobuf messages.
var (
	knownFile   = NewKnown(texts("name", "mimeType", "mediaType", "bytes", "uri", "fileWithBytes", "fileWithUri")...)
	partMembers = []KnownMember{
		{Name: "kind"},
		{Name: "type"},
		{Name: "text"},
		{Name: "file", Is: IsObject, Of: knownFile},
		{Name: "raw"},
		{Name: "url"},
		{Name: "filename"},
		{Name: "mediaType"},
		{Name: "metadata", Is: IsMap},
	}
	knownPart = NewKnown(append(slices.Clone(partMembers), KnownMember{Name: "data", Is: IsAny})...)
	// In the protobuf form of 0.3 the data of a part are wrapped in a message.
	knownPartProto = NewKnown(append(slices.Clone(partMembers), KnownMember{Name: "data", Is: IsObject, Of: NewKnown(KnownMember{Name: "data", Is: IsMap})})...)
	messageMembers = []KnownMember{
		{Name: "kind"},
		{Name: "messageId"},
		{Name: "contextId"},
		{Name: "taskId"},
		{Name: "role", Is: IsScalar},
		{Name: "referenceTaskIds", Is: IsTexts},
		{Name: "extensions", Is: IsTexts},
		{Name: "parts", Is: IsList, Of: knownPart},
		{Name: "metadata", Is: IsMap},
	}
	knownMessage = NewKnown(messageMembers...)
	// The parts are called content in the protobuf form of 0.3.
	knownMessageProto   = NewKnown(append(slices.Clone(messageMembers), KnownMember{Name: "content", Is: IsList, Of: knownPartProto})...)
	knownAuthentication = NewKnown(KnownMember{Name: "scheme"}, KnownMember{Name: "schemes", Is: IsTexts}, KnownMember{Name: "credentials"})
	pushMembers         = append(texts("id", "taskId", "tenant", "url", "token"), KnownMember{Name: "authentication", Is: IsObject, Of: knownAuthentication})
	knownPush           = NewKnown(pushMembers...)
	knownPushOfTask     = NewKnown(KnownMember{Name: "name"}, KnownMember{Name: "pushNotificationConfig", Is: IsObject, Of: knownPush})
	knownConfiguration  = NewKnown(
		KnownMember{Name: "acceptedOutputModes", Is: IsTexts}, KnownMember{Name: "historyLength", Is: IsScalar},
		KnownMember{Name: "returnImmediately", Is: IsScalar}, KnownMember{Name: "blocking", Is: IsScalar},
		KnownMember{Name: "taskPushNotificationConfig", Is: IsObject, Of: knownPush},
		KnownMember{Name: "pushNotificationConfig", Is: IsObject, Of: knownPush},
		KnownMember{Name: "pushNotification", Is: IsObject, Of: knownPush},
	)
	metadata  = KnownMember{Name: "metadata", Is: IsMap}
	tenant    = KnownMember{Name: "tenant"}
	knownSend = []KnownMember{
		tenant, {Name: "message", Is: IsObject, Of: knownMessage}, {Name: "configuration", Is: IsObject, Of: knownConfiguration}, metadata,
	}
	knownParams = map[Method]*Known{
		SendMessage:          NewKnown(knownSend...),
		SendStreamingMessage: NewKnown(knownSend...),
		GetTask:              NewKnown(tenant, KnownMember{Name: "id"}, KnownMember{Name: "name"}, KnownMember{Name: "historyLength", Is: IsScalar}, metadata),
		ListTasks: NewKnown(append([]KnownMember{
			tenant,
			{Name: "contextId"},
			{Name: "status", Is: IsScalar},
			{Name: "pageSize", Is: IsScalar},
			{Name: "pageToken"},
			{Name: "historyLength", Is: IsScalar},
			{Name: "includeArtifacts", Is: IsScalar},
		}, append(texts("statusTimestampAfter", "lastUpdatedAfter", "lastUpdatedTime"), metadata)...)...),
		CancelTask:       NewKnown(tenant, KnownMember{Name: "id"}, KnownMember{Name: "name"}, metadata),
		SubscribeToTask:  NewKnown(tenant, KnownMember{Name: "id"}, KnownMember{Name: "name"}, metadata),
		CreatePushConfig: NewKnown(append(append(texts("parent", "configId"), pushMembers...), KnownMember{Name: "pushNotificationConfig", Is: IsObject, Of: knownPush}, KnownMember{Name: "config", Is: IsObject, Of: knownPushOfTask}, metadata)...),
		GetPushConfig:    NewKnown(append(texts("tenant", "id", "taskId", "name", "pushNotificationConfigId"), metadata)...),
		DeletePushConfig: NewKnown(append(texts("tenant", "id", "taskId", "name", "pushNotificationConfigId"), metadata)...),
		ListPushConfigs:  NewKnown(append(texts("tenant", "id", "taskId", "name", "parent", "pageToken"), KnownMember{Name: "pageSize", Is: IsScalar}, metadata)...),
		GetExtendedCard:  NewKnown(tenant, metadata),
	}
	// The field of the message is called request in the protobuf form of 0.3.
	knownSendProto = NewKnown(
		tenant, KnownMember{Name: "message", Is: IsObject, Of: knownMessageProto}, KnownMember{Name: "request", Is: IsObject, Of: knownMessageProto},
		KnownMember{Name: "configuration", Is: IsObject, Of: knownConfiguration}, metadata,
	)
)

// params returns the allowlist of a method's parameters. It is nil for a method that is
// passed whole: one that only configuration knows, and those of the extension, whose
// decoder refuses unknown members.
func (m Method) params(b Binding) *Known {
	if b != JSONRPC && (m == SendMessage || m == SendStreamingMessage) {
		return knownSendProto
	}
	return knownParams[m]
}

// envelopes are the allowlists of requests of JSON-RPC, by method.
var envelopes = func() map[Method]*Known {
	all := map[Method]*Known{}
	for method := range methodNames {
		params := KnownMember{Name: "params", Is: IsAny}
		if known := Method(method).params(JSONRPC); known != nil {
			params = KnownMember{Name: "params", Is: IsObject, Of: known}
		}
		all[Method(method)] = NewKnown(KnownMember{Name: "jsonrpc"}, KnownMember{Name: "id", Is: IsScalar}, KnownMember{Name: "method"}, params)
		all[Method(method)].Strict = true
	}
	return all
}()

// rewrite makes the request of JSON-RPC that the agent gets, and has the call read from
// that: members that no rule knows are left out or refused.
func (c *Call) rewrite(request powerbox.Value) *Error {
	w, wrong := envelopes[c.Method].Write("", request)
	if wrong != nil {
		return wrong
	}
	c.sent, c.Dropped = w.Value, w.Dropped
	var ok bool
	if c.Params, ok = w.Value.Get("params"); !ok {
		c.Params = powerbox.Object()
	}
	return nil
}

// rewriteHTTP is rewrite for HTTP+JSON: path, query and body. The path was split
// before.
func (c *Call) rewriteHTTP(r HTTPRequest, segments []string, body powerbox.Value) (wrong *Error) {
	parts := make([]string, len(segments))
	for i, s := range segments {
		parts[i] = escaped(s)
	}
	c.Written = HTTPRequest{Method: r.Method, Path: "/" + strings.Join(parts, "/")}
	if c.Written.Query, wrong = writtenQuery(r.Query); wrong != nil || len(r.Body) == 0 {
		return wrong
	}
	c.sent = body
	if known := c.Method.params(HTTPJSON); known != nil {
		w, wrong := known.Write("params", body)
		if wrong != nil {
			return wrong
		}
		c.sent, c.Dropped = w.Value, w.Dropped
	}
	if c.Method != Unknown {
		c.Params = c.sent
	}
	return nil
}

// escaped is a part of a path. The colon before a verb stays, since servers look for it.
func escaped(segment string) string {
	return strings.ReplaceAll(url.PathEscape(segment), "%3A", ":")
}

// writtenQuery is a query with each name once, in the order of the names. Which names a
// call may have is checked when it is read.
func writtenQuery(raw string) (string, *Error) {
	if len(raw) > maxQuery || strings.Count(raw, "&") >= maxPairs {
		return "", invalidRequest(ReasonTooLarge, "the query has more than %d bytes or %d parameters", maxQuery, maxPairs)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", invalidRequest(ReasonQuery, "the query cannot be read")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return "", invalidRequest(ReasonQuery, "the query has %q %d times; send it once", short(name), len(values[name]))
		}
	}
	return values.Encode(), nil
}
