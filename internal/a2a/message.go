package a2a

import (
	"fmt"
	"slices"

	"github.com/powerbox-project/powerbox"
)

// Message is what a message holds, as far as authority is concerned.
type Message struct {
	HasText   bool             // a part with text, a file or a link
	Loose     bool             // anything that is not the call of a skill: text, data without a skill, a part of unknown form
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
	// The names of what comes with an event.
	authenticationNames = newNames("scheme", "schemes", "credentials")
	configNames         = newNames("name", "pushNotificationConfig")
	callNames           = newNames("skill", "arguments")
)

// parseMessage reads the parts of both versions and of the seed: the member
// text, raw, url or data says what a part is in 1.0, kind in 0.3, type in the
// seed. A part that says several things is all of them.
// Where protobuf is spoken 0.3 wraps data once more, and has had its parts under
// content, too.
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
		content = r.elements("content")
	} else if _, ok := r.get("content"); ok {
		m.Loose = true
	}
	if len(parts)+len(content) > maxParts {
		r.fail(ReasonParams, "params.message has %d parts; want at most %d", len(parts)+len(content), maxParts)
	}
	if r.err != nil {
		return m, r.err
	}
	for i, part := range parts {
		if inner, wrapped := unwrapped(part); wraps && wrapped {
			part = inner
			m.Loose = m.Loose || c.Binding == HTTPJSON // to a reader of 0.3's own JSON it is data that calls nothing
		}
		if wrong := m.add(fmt.Sprintf("params.message.parts[%d]", i), part); wrong != nil {
			return m, wrong
		}
	}
	if len(parts)+len(content) == 0 {
		m.Loose = true
	}
	for i, part := range content {
		part, _ = unwrapped(part)
		if wrong := m.add(fmt.Sprintf("params.message.content[%d]", i), part); wrong != nil {
			return m, wrong
		}
	}
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

func (m *Message) add(where string, part powerbox.Value) *Error {
	r := open(where, part)
	r.join(partNames.check(where, part))
	known := false
	for _, name := range []string{"text", "file", "raw", "url"} {
		if _, ok := r.get(name); ok {
			m.HasText, m.Loose, known = true, true, true
		}
	}
	if data, ok := r.get("data"); ok {
		known = true
		m.DataParts = append(m.DataParts, data)
		if !isPlainCall(data) {
			m.Loose = true
		}
		r.join(checkCall(where+".data", data))
	}
	for _, kind := range []string{r.text("kind"), r.text("type")} {
		if kind == "text" || kind == "file" {
			m.HasText = true
		}
		if kind != "" && kind != "data" {
			m.Loose = true
		}
	}
	if !known {
		m.Loose = true
	}
	return r.err
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

// Skills returns every naming of a skill in the call, in the order metadata or
// parameters, then data parts.
func (c Call) Skills() []Named {
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
	all := c.Skills()
	if urlSkill != "" {
		all = append(all, Named{Skill: urlSkill, Arguments: powerbox.Object(), Where: "the URL", open: true})
	}
	if len(all) == 0 {
		return Named{}, false, nil
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
