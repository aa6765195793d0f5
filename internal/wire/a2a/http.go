package a2a

import (
	"net/url"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// HTTPRequest is a request of the binding HTTP+JSON (A2A 1.0, section 11).
type HTTPRequest struct {
	Method string // GET, POST or DELETE
	Path   string // as it was sent, percent-encoding and all, from the interface's URL on: /message:send
	Query  string // as it was sent, without the question mark
	Body   []byte
}

// route is one path of the binding; {task} and {config} stand for one segment.
type route struct {
	http   string
	path   []string
	suffix string // after the task, such as :cancel
	method Method
}

// routes are those of 1.0. 0.3 has them below /v1, and a name of its own for
// the extended card. Text and protobuf of 1.0 disagree about how a task is
// subscribed to, so that both are taken.
var routes = []route{
	{http: "POST", path: []string{"message:send"}, method: SendMessage},
	{http: "POST", path: []string{"message:stream"}, method: SendStreamingMessage},
	{http: "GET", path: []string{"tasks"}, method: ListTasks},
	{http: "GET", path: []string{"tasks", "{task}"}, suffix: ":subscribe", method: SubscribeToTask},
	{http: "POST", path: []string{"tasks", "{task}"}, suffix: ":subscribe", method: SubscribeToTask},
	{http: "POST", path: []string{"tasks", "{task}"}, suffix: ":cancel", method: CancelTask},
	{http: "GET", path: []string{"tasks", "{task}"}, method: GetTask},
	{http: "POST", path: []string{"tasks", "{task}", "pushNotificationConfigs"}, method: CreatePushConfig},
	{http: "GET", path: []string{"tasks", "{task}", "pushNotificationConfigs"}, method: ListPushConfigs},
	{http: "GET", path: []string{"tasks", "{task}", "pushNotificationConfigs", "{config}"}, method: GetPushConfig},
	{http: "DELETE", path: []string{"tasks", "{task}", "pushNotificationConfigs", "{config}"}, method: DeletePushConfig},
	{http: "GET", path: []string{"extendedAgentCard"}, method: GetExtendedCard},
	{http: "GET", path: []string{"card"}, method: GetExtendedCard},
}

// DecodeHTTP reads one request of HTTP+JSON, as [Decode] does of JSON-RPC: names in path
// and query become parameters beside the body's.
func DecodeHTTP(r HTTPRequest, header Header, limits powerbox.Limits) (Call, *Error) {
	c := Call{Binding: HTTPJSON, Wire: r.Method + " " + r.Path, Params: powerbox.Object(), Rewritten: Rewritten{came: len(r.Body)}}
	if len(r.Body) > limits.Bytes {
		return c, invalidRequest(ReasonTooLarge, "request has %d bytes; want at most %d", len(r.Body), limits.Bytes)
	}
	version, ok := header.version()
	if !ok {
		return c, &Error{CodeVersionNotSupported, ReasonVersion, "this version is not supported; send A2A-Version 1.0 or 0.3"}
	}
	c.Version, c.Extensions = version, header.extensions()
	segments, wrong := segmentsOf(r.Path)
	if wrong != nil {
		return c, wrong
	}
	named, wrong := c.route(r.Method, segments)
	if wrong != nil {
		return c, wrong
	}
	c.Streaming = c.Method == SendStreamingMessage || c.Method == SubscribeToTask
	body, wrong := c.body(r, limits)
	if wrong != nil {
		return c, wrong
	}
	if wrong := c.rewriteHTTP(r, segments, body); wrong != nil {
		return c, wrong
	}
	if c.Method == Unknown {
		return c, nil
	}
	if wrong := c.query(r.Query); wrong != nil {
		return c, wrong
	}
	if wrong := c.besidePath(named); wrong != nil {
		return c, wrong
	}
	for _, m := range named {
		if wrong := c.add("the path", m); wrong != nil {
			return c, wrong
		}
	}
	return c, c.parse(false)
}

// besidePath refuses a tenant that stands in the body or the query alone. This binding
// has it in the path, and many agents look nowhere else. They would take the call for
// one without a tenant, where the same id can belong to another party (ATK-18).
func (c *Call) besidePath(named []powerbox.Member) *Error {
	given, ok := c.Params.Get("tenant")
	inPath := slices.ContainsFunc(named, func(m powerbox.Member) bool { return m.Name == "tenant" })
	if !ok || inPath || given.Kind() == powerbox.KindNull || given.Equal(powerbox.String("")) {
		return nil
	}
	return invalidParams(ReasonTask, "the body or the query names a tenant and the path names none; it is the first part of the path, as in /TENANT/tasks")
}

// segmentsOf splits a path. A path that servers resolve differently, as with empty and
// dot segments or encoded separators, is refused (ATK-29).
func segmentsOf(path string) ([]string, *Error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || len(path) > 4*maxID {
		return nil, invalidRequest(ReasonPath, "the path does not begin with a slash or is longer than %d bytes", 4*maxID)
	}
	raw := strings.Split(rest, "/")
	segments := make([]string, len(raw))
	for i, s := range raw {
		decoded, err := url.PathUnescape(s)
		if err != nil || decoded == "" || decoded == "." || decoded == ".." || strings.ContainsAny(decoded, "/\\%;?#\x7f") || strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' }) {
			return nil, invalidRequest(ReasonPath, "part %d of the path is empty, a dot, or holds a character that servers read differently", i+1)
		}
		segments[i] = decoded
	}
	return segments, nil
}

// route finds the method of a path, below a tenant or not, and returns the parameters
// that the path names. A path that is a route both with its first part as the tenant and
// without, such as /tasks/tasks, is refused: agents differ in which one they take
// (ATK-18, ATK-29).
func (c *Call) route(method string, segments []string) ([]powerbox.Member, *Error) {
	if c.Version == Version03 && segments[0] == "v1" {
		segments = segments[1:]
	}
	to, named := c.find(method, segments)
	if len(segments) < 2 {
		c.Method = to
		return named, nil
	}
	below, inTenant := c.find(method, segments[1:])
	switch {
	case below == Unknown:
		c.Method = to
		return named, nil
	case to != Unknown:
		return nil, invalidRequest(ReasonPath, "the path is one of the task or card %q and one of the tenant %q; give the task or the tenant another name", segments[len(segments)-1], segments[0])
	}
	c.Method = below
	return append(inTenant, powerbox.Member{Name: "tenant", Value: powerbox.String(segments[0])}), nil
}

// find returns the method of a path without a tenant, Unknown where there is none, and
// the parameters that the path names.
func (c *Call) find(method string, segments []string) (Method, []powerbox.Member) {
	for _, to := range routes {
		if named, ok := to.match(method, segments); ok && (to.path[0] != "card" || c.Version == Version03) {
			return to.method, named
		}
	}
	return Unknown, nil
}

// match returns the parameters that a path of this route names.
func (to route) match(method string, segments []string) ([]powerbox.Member, bool) {
	if method != to.http || len(segments) != len(to.path) {
		return nil, false
	}
	var named []powerbox.Member
	for i, want := range to.path {
		given := segments[i]
		switch want {
		case "{task}":
			task, ok := strings.CutSuffix(given, to.suffix)
			if !ok || task == "" {
				return nil, false
			}
			named = append(named, powerbox.Member{Name: to.taskName(), Value: powerbox.String(task)})
		case "{config}":
			named = append(named, powerbox.Member{Name: "id", Value: powerbox.String(given)})
		default:
			if given != want {
				return nil, false
			}
		}
	}
	return named, true
}

// taskName is the parameter of JSON-RPC that names the task.
func (to route) taskName() string {
	if len(to.path) == 2 {
		return "id"
	}
	return "taskId"
}

// body decodes the body, which only a POST has, and checks that all readers read it
// alike; null where there is none.
func (c *Call) body(r HTTPRequest, limits powerbox.Limits) (powerbox.Value, *Error) {
	if len(r.Body) == 0 {
		if c.Method.IsMessage() || c.Method == CreatePushConfig {
			return powerbox.Value{}, &Error{CodeParse, ReasonSyntax, "the request has no body; want a JSON object"}
		}
		return powerbox.Value{}, nil
	}
	if r.Method != "POST" && c.Method != Unknown {
		return powerbox.Value{}, invalidRequest(ReasonEnvelope, "a %s request has a body, which servers treat differently; leave it out", r.Method)
	}
	v, err := powerbox.DecodeValue(r.Body, limits)
	if err != nil {
		return v, &Error{CodeParse, ReasonSyntax, err.Error()}
	}
	if v.Kind() != powerbox.KindObject && c.Method != Unknown {
		return v, invalidRequest(ReasonEnvelope, "the body is of type %s; want an object", v.Kind())
	}
	return v, CheckCase(v)
}

// query reads the parameters in the query. Where a body has the parameters the query may
// give the version and nothing else.
func (c *Call) query(raw string) *Error {
	values, err := url.ParseQuery(raw) // its size was bounded when it was written again
	if err != nil {
		return invalidRequest(ReasonQuery, "the query cannot be read")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	var members []powerbox.Member
	for _, name := range names {
		switch given := values[name]; {
		case len(given) > 1:
			return invalidRequest(ReasonQuery, "the query has %q %d times; send it once", name, len(given))
		case name == "A2A-Version":
		case strings.EqualFold(name, "A2A-Version"):
			return invalidRequest(ReasonVariant, "the query has %q, which some readers take for A2A-Version", name)
		case c.Method.IsMessage() || c.Method == CreatePushConfig:
			return invalidRequest(ReasonQuery, "the query has %q, and the body says what is meant; leave the query out", name)
		default:
			members = append(members, powerbox.Member{Name: name, Value: powerbox.String(given[0])})
		}
	}
	if wrong := queryNames.check("the query", powerbox.Object(members...)); wrong != nil {
		return wrong
	}
	for _, m := range members {
		if !queryNames.exact[m.Name] {
			// Frameworks give meaning to names such as _method and tenant[].
			return invalidRequest(ReasonQuery, "the query has %.64q, which this binding does not know; leave it out", m.Name)
		}
	}
	return c.add("the query", members...)
}

// Bounds of a query. No method of the binding has as many parameters.
const (
	maxQuery = 8 << 10
	maxPairs = 64
)

var queryNames = newNames("tenant", "id", "taskId", "contextId", "name", "parent", "status", "pageSize", "pageToken", "historyLength",
	"includeArtifacts", "statusTimestampAfter", "lastUpdatedAfter")

// add takes parameters that stand beside the body. Where the body, or the
// query, has one too both must say the same: an agent reads either.
func (c *Call) add(where string, beside ...powerbox.Member) *Error {
	for _, m := range beside {
		if given, ok := c.Params.Get(m.Name); ok && given.Kind() != powerbox.KindNull && !given.Equal(m.Value) && !given.Equal(powerbox.String("")) {
			return invalidParams(ReasonTask, "%s and the rest of the request give %q different values; give one", where, m.Name)
		}
	}
	if len(beside) > 0 {
		members, _ := c.Params.Members()
		c.Params = powerbox.Object(append(slices.Clone(members), beside...)...)
	}
	return nil
}
