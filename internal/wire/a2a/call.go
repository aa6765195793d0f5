package a2a

import (
	"strings"

	"github.com/powerbox-project/powerbox"
)

// Binding is a way in which calls and answers travel (A2A 1.0, section 5).
type Binding uint8

// The bindings. In HTTP+JSON and gRPC the form of version 0.3 is that of its
// protobuf messages, which differs from that of JSON-RPC.
const (
	JSONRPC Binding = iota
	HTTPJSON
	GRPC
	MCP // the Model Context Protocol over Streamable HTTP, which is none of A2A's own
)

// String returns the name that cards have for the binding.
func (b Binding) String() string { return [...]string{"JSONRPC", "HTTP+JSON", "GRPC", "MCP"}[b] }

// Call is one call of an agent, whatever binding and version it came by.
type Call struct {
	Binding    Binding
	Method     Method
	Wire       string         // how the binding names the method: by its name, the HTTP method and path, the gRPC path
	Version    string         // "1.0" or "0.3", as the caller says
	ID         []byte         // raw JSON, to be given back with the answer; nil when it could not be read
	Params     powerbox.Value // an object, {} when absent; anything when the method is Unknown
	Extensions []string       // extension URIs that the caller asks for
	Streaming  bool           // the answer is a stream of events

	Rewritten

	Tenant  string // in which the agent keeps the named task; "" when none
	Task    string // task that the call names, of that tenant; "" when none
	Context string // context that the call names, of that tenant; "" when none

	Content
	IssuingParams
}

// Rewritten is the request as a call was read from it.
type Rewritten struct {
	// Written is the request written again, so that every reader takes it for the same. It
	// has no body but that of gRPC, the message; see [Call.Body].
	Written HTTPRequest
	Dropped []string // members that were left out of it, or renamed; 16 at most

	sent powerbox.Value // the body that the call was read from, null where it has none or is of gRPC
	came int            // bytes of the body that came, about those of sent
}

// Content is what a call says beside the task that it names.
type Content struct {
	PageToken      string   // ListTasks alone: where to continue; "" for the beginning
	ReferenceTasks []string // further tasks that a message points at
	Message        Message  // zero where the method has none
	Push           *Push    // set where the call asks for push notifications
	Members        *Members // nil where the call says nothing under the extension
}

// IssuingParams are the parameters of the extension's methods.
type IssuingParams struct {
	Request   *RequestParams   // CapabilitiesRequest alone
	Attenuate *AttenuateParams // CapabilitiesAttenuate alone
	Revoke    *RevokeParams    // CapabilitiesRevoke alone
	Invoke    *InvokeParams    // SkillInvoke alone
	TaskSend  *TaskSendParams  // TaskSend alone
}

// Push is a request to have events posted to a URL. They leave the agent
// without passing the gateway, unless the gateway has replaced the URL.
type Push struct {
	PushConfig
	Inline bool // inside the configuration of a message
	Places int  // in which the call says it; readers differ in which one they take
}

// Decode reads one JSON-RPC request. Where it fails the Call has at least the
// ID, when that could be read, so that the answer can carry it. A method that
// is in no table is [Unknown] and no error: configuration may let it through.
// The parameters are read from what continues, [Call.Body].
func Decode(body []byte, header Header, limits powerbox.Limits) (Call, *Error) {
	var c Call
	if len(body) > limits.Bytes {
		return c, invalidRequest(ReasonTooLarge, "request has %d bytes; want at most %d", len(body), limits.Bytes)
	}
	c.came = len(body)
	v, err := powerbox.DecodeValue(body, limits)
	if err != nil {
		return c, &Error{CodeParse, ReasonSyntax, err.Error()}
	}
	if wrong := c.envelope(v); wrong != nil {
		return c, wrong
	}
	if wrong := CheckCase(v); wrong != nil {
		return c, wrong
	}
	version, ok := header.version()
	if !ok {
		return c, &Error{CodeVersionNotSupported, ReasonVersion, "this version is not supported; send A2A-Version 1.0 or 0.3"}
	}
	c.Version, c.Extensions = version, header.extensions()
	var v03 bool
	c.Method, v03 = ParseMethod(c.Wire)
	if wrong := c.rewrite(v); wrong != nil {
		return c, wrong
	}
	return c, c.parse(v03)
}

// envelope reads the members around the parameters (JSON-RPC 2.0, section 4). A request
// without id would run without an answer, and so without a decision that the caller
// sees; it is refused (SEP-28).
func (c *Call) envelope(v powerbox.Value) *Error {
	if v.Kind() == powerbox.KindList {
		return invalidRequest(ReasonBatch, "the request is a batch; send one call per request")
	}
	if v.Kind() != powerbox.KindObject {
		return invalidRequest(ReasonEnvelope, "the request is of type %s; want an object", v.Kind())
	}
	members, _ := v.Members()
	for _, m := range members {
		switch m.Name {
		case "jsonrpc", "id", "method", "params":
		default:
			return invalidRequest(ReasonEnvelope, "the request has a member %q; want jsonrpc, id, method and params", m.Name)
		}
	}
	if version, _ := v.Get("jsonrpc"); !version.Equal(powerbox.String("2.0")) {
		return invalidRequest(ReasonEnvelope, `jsonrpc is missing or something else than "2.0"`)
	}
	id, _ := v.Get("id")
	if id.Kind() != powerbox.KindString && id.Kind() != powerbox.KindNumber {
		return invalidRequest(ReasonEnvelope, "id is missing or of type %s; want a string or a number", id.Kind())
	}
	method, _ := v.Get("method")
	wire, ok := method.Text()
	if !ok || wire == "" {
		return invalidRequest(ReasonEnvelope, "method is missing or no string")
	}
	c.Wire, c.ID = wire, id.AppendSource(nil)
	c.Params, ok = v.Get("params")
	if !ok || c.Params.Kind() == powerbox.KindNull {
		c.Params = powerbox.Object()
	}
	return nil
}

// parse reads the parameters, which every binding brings into the form that
// JSON-RPC has. In v03 an id names the task also where 1.0 has that of a push
// configuration.
func (c *Call) parse(v03 bool) *Error {
	c.Streaming = c.Method == SendStreamingMessage || c.Method == SubscribeToTask
	if len(c.Extensions) > maxExtensions {
		return invalidRequest(ReasonTooLarge, "A2A-Extensions names more than %d extensions; want at most as many", maxExtensions)
	}
	if c.Method == Unknown {
		return c.unknownTenant()
	}
	r := open("params", c.Params)
	if r.err != nil {
		return r.err
	}
	r.join(paramNames.check("params", c.Params))
	message, _ := c.Params.Get("message")
	if c.Binding != JSONRPC {
		// The field of 0.3 is request; readers of protobuf accept that name too.
		if request, ok := c.Params.Get("request"); ok {
			if message.Kind() == powerbox.KindObject {
				r.fail(ReasonVariant, "params has message and request, which are one field to some readers; send message")
			}
			message = request
		}
	}
	r.join(checkKept(message))
	if c.Method.IsExtension() {
		r.join(c.parseExtension())
	} else {
		members, err := membersOf(c.Params)
		r.join(err)
		c.Members = members
	}
	if c.Method.IsMessage() {
		m, err := c.parseMessage(message)
		r.join(err)
		c.Message = m
	}
	if r.err == nil {
		r.err = c.parseTargets(v03, message)
	}
	return r.err
}

// unknownTenant reads the tenant of a method that only configuration may know: the tasks
// in its answer are of that tenant (ATK-18).
func (c *Call) unknownTenant() *Error {
	if c.Params.Kind() != powerbox.KindObject {
		return nil
	}
	tenant, r := target{what: "tenant"}, open("params", c.Params)
	r.join(tenantNames.check("params", c.Params))
	tenant.add(r, "tenant")
	c.Tenant = tenant.value
	return tenant.err
}

// maxID bounds the ids of tasks, contexts and tenants, which continue record (ATK-4).
const maxID = 1024

// target collects the names that a call has in several places.
type target struct {
	what  string
	where string
	value string
	err   *Error
}

// add takes one more naming. Empty is absent, as in protobuf.
func (t *target) add(r *objectReader, name string) {
	t.addText(r.at(name), r.text(name))
	if t.err == nil {
		t.err = r.err
	}
}

func (t *target) addText(where, value string) {
	switch {
	case len(value) > maxID:
		t.err = invalidParams(ReasonTask, "%s has %d bytes; want at most %d", where, len(value), maxID)
	case value == "" || value == t.value:
	case t.value == "":
		t.where, t.value = where, value
	case t.err == nil:
		t.err = invalidParams(ReasonTask, "%s and %s name different %ss; name one", t.where, where, t.what)
	}
}

// parseTargets finds tenant, task and context wherever the versions put them.
// Agents differ in where they look, so all places have to agree (ATK-18). A tenant
// is that of the call: a configuration for push notifications can repeat it, and
// can say none of its own, which an agent would not read for the message beside it.
func (c *Call) parseTargets(v03 bool, sent powerbox.Value) *Error {
	tenant, task, context := target{what: "tenant"}, target{what: "task"}, target{what: "context"}
	params := open("params", c.Params)
	tenant.add(params, "tenant")
	ofCall := tenant.value
	if !c.Method.IsExtension() {
		task.add(params, "taskId")
		context.add(params, "contextId")
		task.addName("params.name", params.text("name"), c.Method.isAboutPush())
		task.addName("params.parent", params.text("parent"), false)
	}
	if c.idIsTask(v03) {
		task.add(params, "id")
	}
	if c.Method == ListTasks {
		c.PageToken = params.text("pageToken")
	}
	params.join(c.parsePush(params, &tenant, &task))
	if tenant.err == nil && tenant.value != ofCall {
		tenant.err = invalidParams(ReasonTask, "%s names a tenant and the call names none; name it in params.tenant, or in the path", tenant.where)
	}
	if c.Method.IsMessage() {
		message := open("params.message", sent)
		task.add(message, "taskId")
		context.add(message, "contextId")
		referenced := message.elements("referenceTaskIds")
		if len(referenced) > maxReferences {
			return invalidParams(ReasonParams, "params.message.referenceTaskIds lists %d tasks; want at most %d", len(referenced), maxReferences)
		}
		for _, e := range referenced {
			id, ok := e.Text()
			if !ok {
				message.fail(ReasonParams, "params.message.referenceTaskIds holds an element of type %s; want strings", e.Kind())
			}
			c.ReferenceTasks = append(c.ReferenceTasks, id)
		}
		params.join(message.err)
	}
	for _, t := range []target{tenant, task, context} {
		params.join(t.err)
	}
	if c.Method.NamesTask() && task.value == "" {
		params.fail(ReasonParams, "params names no task; %s wants one", c.Wire)
	}
	c.Tenant, c.Task, c.Context = tenant.value, task.value, context.value
	return params.err
}

// idIsTask reports whether params.id is a task. For push configurations it is
// that of the configuration in 1.0 and that of the task in 0.3.
func (c *Call) idIsTask(v03 bool) bool {
	switch c.Method {
	case GetTask, CancelTask, SubscribeToTask:
		return true
	case GetPushConfig, ListPushConfigs, DeletePushConfig:
		return v03
	default:
		return false
	}
}

// Bounds of the lists in one call. Owners are looked up for every task, and agents are
// asked for every extension.
const (
	maxReferences = 64
	maxExtensions = 64
)

// The collections in resource names of drafts of 1.0 and of the protobuf form of 0.3:
// tasks/{task} and tasks/{task}/pushNotificationConfigs/{config}.
const (
	tasksCollection   = "tasks"
	configsCollection = "pushNotificationConfigs"
)

// addName takes one more naming of the task, which a resource name has. Some readers take
// what follows the last slash, and others what follows the first: a name in which these
// differ is refused (ATK-124). Only a name of a configuration has a part behind the task,
// and its readers count the parts.
func (t *target) addName(where, name string, ofConfig bool) {
	parts := strings.Split(name, "/")
	switch configured := ofConfig && len(parts) <= 4; {
	case len(parts) == 1:
		t.addText(where, name)
	case parts[0] == tasksCollection && parts[1] != "" && (len(parts) == 2 || configured && parts[2] == configsCollection):
		t.addText(where, parts[1])
	case t.err == nil:
		t.err = invalidParams(ReasonVariant, "%s is %q, in which readers see different tasks; want tasks/{task}, or for a configuration tasks/{task}/pushNotificationConfigs/{config}", where, short(name))
	}
}

// parsePush finds a push configuration, which is the parameters themselves in
// 1.0, a member of them in 0.3, or inside the configuration of a message.
func (c *Call) parsePush(params *objectReader, tenant, task *target) *Error {
	switch c.Method {
	case CreatePushConfig:
		c.Push = &Push{}
		if c.Push.URL = params.text("url"); c.Push.URL != "" {
			c.Push.Places++
		}
		c.Push.header("params", params)
		if v, _ := params.get("config"); v.Kind() == powerbox.KindObject && c.Binding != JSONRPC {
			return c.addConfig(open("params.config", v), tenant, task)
		}
		if v := params.object("pushNotificationConfig"); v.Kind() == powerbox.KindObject {
			return c.addPush("params.pushNotificationConfig", v, tenant, task)
		}
		if c.Push.URL == "" {
			return invalidParams(ReasonParams, "params.url is missing or empty; want the URL that events are to be posted to")
		}
	case SendMessage, SendStreamingMessage:
		v := params.object("configuration")
		if v.Kind() != powerbox.KindObject {
			return nil
		}
		configuration := open("params.configuration", v)
		configuration.join(configurationNames.check("params.configuration", v))
		for _, name := range []string{"taskPushNotificationConfig", "pushNotificationConfig", "pushNotification"} {
			if v := configuration.object(name); v.Kind() == powerbox.KindObject {
				configuration.join(c.addPush(configuration.at(name), v, tenant, task))
				c.Push.Inline = true
			}
		}
		return configuration.err
	default:
	}
	return nil
}

// addConfig reads a push configuration as the protobuf form of 0.3 has it: under
// the name of a resource.
func (c *Call) addConfig(config *objectReader, tenant, task *target) *Error {
	config.join(configNames.check(config.where, config.value))
	task.addName(config.at("name"), config.text("name"), true)
	v := config.object("pushNotificationConfig")
	if v.Kind() != powerbox.KindObject {
		config.fail(ReasonParams, "%s is missing; want the configuration", config.at("pushNotificationConfig"))
		return config.err
	}
	config.join(c.addPush(config.at("pushNotificationConfig"), v, tenant, task))
	return config.err
}

// addPush reads one push configuration; two of different URLs are refused.
func (c *Call) addPush(where string, v powerbox.Value, tenant, task *target) *Error {
	r := open(where, v)
	r.join(pushNames.check(where, v))
	task.add(r, "taskId")
	tenant.add(r, "tenant")
	if c.Push == nil {
		c.Push = &Push{}
	}
	url := r.required("url")
	if c.Push.URL != "" && c.Push.URL != url {
		r.fail(ReasonParams, "%s names another URL than the call does elsewhere; name one", where)
	}
	c.Push.URL = url
	c.Push.Places++
	c.Push.header(where, r)
	return r.err
}

// header reads the token and credentials that the agent will send with an event. A line
// break in there would begin another header, of any name (ATK-17).
func (p *Push) header(where string, r *objectReader) {
	check := func(at, value string) {
		if len(value) > maxPushText || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			r.fail(ReasonPush, "%s is longer than %d bytes or holds a control character", at, maxPushText)
		}
	}
	check(r.at("url"), p.URL)
	if token := r.text("token"); token != "" {
		p.Token = token
	}
	check(r.at("token"), p.Token)
	v := r.object("authentication")
	if v.Kind() != powerbox.KindObject {
		return
	}
	a := open(r.at("authentication"), v)
	p.Credentials, p.Schemes = a.text("credentials"), nil
	check(a.at("credentials"), p.Credentials)
	if scheme := a.text("scheme"); scheme != "" {
		check(a.at("scheme"), scheme)
		p.Schemes = append(p.Schemes, scheme)
	}
	for _, e := range a.elements("schemes") {
		scheme, _ := e.Text()
		check(a.at("schemes"), scheme)
		p.Schemes = append(p.Schemes, scheme)
	}
	r.join(a.err)
	r.join(authenticationNames.check(where+".authentication", v))
}

// maxPushText bounds each text of a push configuration.
const maxPushText = 4096
