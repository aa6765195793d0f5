package a2a

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// Message has the parts of a message that concern authority.
type Message struct {
	HasText   bool             // a part with text, a file or a link
	Loose     bool             // anything that is not the call of a skill: text, data without a skill, words beside the parts
	Content   string           // the first place that has such content, "" where there is none
	Unread    bool             // structured data that is no call that is recognised here, and may be one to the agent
	DataParts []powerbox.Value // the value of every data part, in order
}

var (
	paramNames = newNames("tenant", "message", "configuration", "metadata", "id", "taskId", "contextId", "name", "parent",
		"pushNotificationConfig", "pushNotificationConfigId", "taskPushNotificationConfig", "url", "token", "authentication", "request", "config", "configId", "pageToken")
	tenantNames        = newNames("tenant") // of a method that is in no table
	messageNames       = newNames("messageId", "contextId", "taskId", "role", "parts", "metadata", "extensions", "referenceTaskIds", "kind", "content")
	partNames          = newNames("kind", "type", "text", "file", "data", "raw", "url", "metadata", "filename", "mediaType")
	configurationNames = newNames("acceptedOutputModes", "taskPushNotificationConfig", "pushNotificationConfig", "pushNotification", "historyLength", "returnImmediately", "blocking")
	pushNames          = newNames("id", "taskId", "url", "token", "authentication", "tenant")
	// The names of the parameters of an event.
	authenticationNames = newNames("scheme", "schemes", "credentials")
	configNames         = newNames("name", "pushNotificationConfig")
	callNames           = newNames("skill", "arguments")
)

// parseMessage reads the parts of both versions and of the seed. The type of a part is
// told by the member text, raw, url or data in 1.0, by kind in 0.3, and by type in the
// seed. A part that says several things is all of them. Where protobuf is spoken 0.3
// wraps data once more, and has had its parts under content, too.
func (c *Call) parseMessage(v powerbox.Value) (Message, *Error) {
	r := open("params.message", v)
	r.join(messageNames.check("params.message", v))
	var m Message
	parts := r.elements("parts")
	if n := len(r.elements("extensions")); n > maxExtensions {
		r.fail(ReasonParams, "params.message.extensions lists %d extensions; want at most %d", n, maxExtensions)
	}
	wraps := c.Binding != JSONRPC && c.Version == Version03
	var content []powerbox.Value
	if c.Binding != JSONRPC {
		if content = r.elements("content"); len(parts) > 0 && len(content) > 0 {
			r.fail(ReasonVariant, "params.message has parts and content, which are one field to some readers; send parts")
		}
	} else if _, ok := r.get("content"); ok {
		m.loose(r.at("content"))
	}
	if r.err != nil {
		return m, r.err
	}
	for i, part := range parts {
		inner, wrapped := unwrapped(part)
		if wraps && !wrapped && halfWrapped(part) {
			return m, invalidParams(ReasonVariant, "params.message.parts[%d].data has a member data beside others, and readers of 0.3 differ in which they take; send the object itself", i)
		}
		if wraps && wrapped {
			part = inner
			if c.Binding == HTTPJSON { // to a reader of 0.3's own JSON it is data that calls nothing
				m.loose(fmt.Sprintf("params.message.parts[%d].data", i))
			}
		}
		if _, old := part.Get("file"); old && c.Version == Version1 {
			m.Unread = true // readers of 1.0 do not see the file of a part of 0.3
		}
		if wrong := m.add(fmt.Sprintf("params.message.parts[%d]", i), part); wrong != nil {
			return m, wrong
		}
	}
	if len(parts)+len(content) == 0 {
		m.loose(r.at("parts"))
	}
	for i, part := range content {
		part, _ = unwrapped(part)
		if wrong := m.add(fmt.Sprintf("params.message.parts[%d]", i), part); wrong != nil {
			return m, wrong
		}
	}
	params := open("params", c.Params)
	m.besideParts(params, r)
	r.join(params.err)
	return m, r.err
}

// unwrapped takes the data of a part out of the message DataPart of 0.3, where
// that has nothing besides.
func unwrapped(part powerbox.Value) (inner powerbox.Value, wrapped bool) {
	data, _ := part.Get("data")
	value, ok := data.Get("data")
	members, _ := part.Members()
	if wrapper, _ := data.Members(); !ok || len(wrapper) != 1 {
		return part, false
	}
	out := make([]powerbox.Member, 0, len(members))
	for _, m := range members {
		if m.Name == "data" {
			m.Value = value
		}
		out = append(out, m)
	}
	return powerbox.Object(out...), true
}

// loose notes content that is no call of a skill, and where it is.
func (m *Message) loose(where string) {
	if m.Loose = true; m.Content == "" {
		m.Content = where
	}
}

// halfWrapped reports whether the data of a part have an object under data, with others
// beside it.
func halfWrapped(part powerbox.Value) bool {
	data, _ := part.Get("data")
	inner, _ := data.Get("data")
	return inner.Kind() == powerbox.KindObject
}

func (m *Message) add(where string, part powerbox.Value) *Error {
	r := open(where, part)
	r.join(partNames.check(where, part))
	known := false
	for _, name := range []string{"text", "file", "raw", "url"} {
		if _, ok := r.get(name); ok {
			m.HasText, known = true, true
			m.loose(r.at(name))
		}
	}
	if data, ok := r.get("data"); ok {
		known = true
		m.DataParts = append(m.DataParts, data)
		if !isPlainCall(data) {
			m.Unread = m.Unread || !calls(data)
			m.loose(r.at("data"))
		}
		r.join(checkCall(where+".data", data))
		r.join(checkCompat(where, part, data))
	}
	for _, kind := range []string{r.text("kind"), r.text("type")} {
		if _, ok := r.get("data"); kind == "data" && !ok {
			r.fail(ReasonVariant, "%s says that it is data and has none; some readers take it for data, and others for what it has", where)
		}
		if kind == "text" || kind == "file" {
			m.HasText = true
		}
		if kind != "" && kind != "data" {
			m.loose(r.at("kind"))
		}
	}
	if !known { // its contents are not written again, and may have been any call
		m.Unread = true
		m.loose(where)
	}
	m.besidePart(r)
	return r.err
}

// besidePart notes the members of a part beside its content, which agents hand on to
// models and tools as they do the content.
func (m *Message) besidePart(r *objectReader) {
	if r.text("filename") != "" {
		m.loose(r.at("filename"))
	}
	if kind := r.text("mediaType"); kind != "" && kind != "application/json" {
		m.loose(r.at("mediaType"))
	}
	if members, _ := r.object("metadata").Members(); len(members) > 0 {
		m.loose(r.at("metadata"))
	}
}

// besideParts notes the members of a call beside the parts of its message: one rule for
// metadata, extensions, output modes and ids that are no ids.
func (m *Message) besideParts(params, message *objectReader) {
	for _, r := range []*objectReader{params, message} {
		members, _ := r.object("metadata").Members()
		if slices.ContainsFunc(members, func(member powerbox.Member) bool { return !isOurs(member.Name) }) {
			m.loose(r.at("metadata"))
		}
	}
	for _, e := range message.elements("extensions") {
		if uri, _ := e.Text(); uri != ExtensionURI && uri != AuthorizationURI {
			m.loose(message.at("extensions"))
		}
	}
	if id := message.text("messageId"); !isID(id) {
		m.loose(message.at("messageId"))
	}
	configuration := open("params.configuration", params.object("configuration"))
	if configuration.value.Kind() != powerbox.KindObject {
		return
	}
	for _, e := range configuration.elements("acceptedOutputModes") {
		if mode, _ := e.Text(); !isMediaType(mode) {
			m.loose(configuration.at("acceptedOutputModes"))
		}
	}
}

// isOurs reports whether a member of metadata is one that the gateway reads.
func isOurs(name string) bool {
	return name == ExtensionURI || name == MemberScopeToken || name == MemberLinks
}

// maxPlainID is the length of the longest id that is no text, in bytes.
const maxPlainID = 128

// isID reports whether an id of a message is one, and no words.
func isID(id string) bool {
	return len(id) <= maxPlainID && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_.:/+=@#~", r)
	})
}

// withoutMarks leaves out the marks that a media type has and an id has not.
var withoutMarks = strings.NewReplacer("*", "", ";", "", " ", "")

// isMediaType reports whether an output mode is a media type or a short name, and no words.
func isMediaType(mode string) bool {
	return len(mode) <= maxPlainID && isID(withoutMarks.Replace(mode)) && strings.Count(mode, " ") <= 1
}

// compatFlag marks a part of 0.3 whose data stand for a value of 1.0 that is no object.
var compatFlag = foldName("data_part_compat")

// checkCompat refuses data that compatibility layers of 1.0 unwrap and other readers keep.
// Only a wrapper that no reader takes for a call passes: one member, value, that is no object.
func checkCompat(where string, part, data powerbox.Value) *Error {
	metadata, _ := part.Get("metadata")
	members, _ := metadata.Members()
	if !slices.ContainsFunc(members, func(m powerbox.Member) bool { return foldName(m.Name) == compatFlag }) {
		return nil
	}
	inside, _ := data.Members()
	if len(inside) == 1 && inside[0].Name == "value" && inside[0].Value.Kind() != powerbox.KindObject {
		return nil
	}
	return invalidParams(ReasonVariant, "%s.metadata says data_part_compat, and some readers take other data for the part's than others; send the object itself, without that member", where)
}

// Named is a skill that a call names, and where it does.
type Named struct {
	Skill     string
	Arguments powerbox.Value // an object; {} when the call has none
	Where     string         // such as params.message.parts[0].data
	open      bool           // no arguments were given and the place has no say about them
}

// calls reports whether a data part calls a skill.
func calls(data powerbox.Value) bool {
	skill, _ := data.Get("skill")
	_, ok := skill.Text()
	return ok
}

// isPlainCall reports whether a data part is a call and nothing besides.
func isPlainCall(data powerbox.Value) bool {
	members, _ := data.Members()
	return calls(data) && !slices.ContainsFunc(members, func(m powerbox.Member) bool {
		return m.Name != "skill" && m.Name != "arguments"
	})
}

// checkCall refuses a data part that is a call to some readers and none, or
// another one, to us.
func checkCall(where string, data powerbox.Value) *Error {
	members, _ := data.Members()
	if !slices.ContainsFunc(members, func(m powerbox.Member) bool { return callNames.folded[foldName(m.Name)] == "skill" }) {
		return nil
	}
	if err := callNames.check(where, data); err != nil || !calls(data) {
		return err
	}
	r := open(where, data)
	r.required("skill")
	r.object("arguments")
	return r.err
}

// skills returns every naming of a skill in the call, in the order metadata or
// parameters, then data parts.
func (c Call) skills() []Named {
	var found []Named
	if c.Members != nil && c.Members.Skill != "" {
		n := Named{Skill: c.Members.Skill, Arguments: powerbox.Object(), Where: "params.metadata", open: c.Members.Arguments == nil}
		if c.Method == SkillInvoke {
			n.Where = "params"
		}
		if c.Members.Arguments != nil {
			n.Arguments = *c.Members.Arguments
		}
		found = append(found, n)
	}
	for i, data := range c.Message.DataParts {
		if !calls(data) {
			continue
		}
		skill, _ := data.Get("skill")
		n := Named{Arguments: powerbox.Object(), Where: fmt.Sprintf("data part %d of params.message", i+1)}
		n.Skill, _ = skill.Text()
		if arguments, ok := data.Get("arguments"); ok && arguments.Kind() == powerbox.KindObject {
			n.Arguments = arguments
		}
		found = append(found, n)
	}
	return found
}

// Naming returns the one skill that the call names; urlSkill is that of the
// URL it came to, or "". All namings have to agree in skill and arguments,
// since the agent behind might go by any of them; a message calls at most one
// skill once. Where nothing is named found is false and the call is free text.
func (c Call) Naming(urlSkill string) (named Named, found bool, err *Error) {
	all := c.skills()
	if urlSkill != "" {
		all = append(all, Named{Skill: urlSkill, Arguments: powerbox.Object(), Where: "the URL", open: true})
	}
	if len(all) == 0 {
		return Named{}, false, nil
	}
	if c.Message.Unread && all[0].Where != "the URL" {
		return Named{}, false, ambiguous("%s names skill %q, and the message has other data that are no call; put the skill and its arguments into one data part, and leave the rest out", all[0].Where, all[0].Skill)
	}
	if parts := len(slices.DeleteFunc(slices.Clone(c.Message.DataParts), func(v powerbox.Value) bool { return !calls(v) })); parts > 1 {
		return Named{}, false, ambiguous("%d data parts of one message call a skill; send one call per message", parts)
	}
	named = all[0]
	for _, n := range all[1:] {
		if n.Skill != named.Skill {
			return Named{}, false, ambiguous("%s names skill %q and %s names %q; name one", named.Where, named.Skill, n.Where, n.Skill)
		}
		if !n.open && !named.open && !n.Arguments.Equal(named.Arguments) {
			return Named{}, false, ambiguous("%s and %s give skill %q different arguments; give them once", named.Where, n.Where, n.Skill)
		}
		if named.open && !n.open {
			named.Arguments, named.open = n.Arguments, false
		}
	}
	return named, true, nil
}

func ambiguous(format string, args ...any) *Error {
	return invalidParams(ReasonSkill, format, args...)
}
