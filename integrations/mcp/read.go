package powerboxmcp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// maxBody bounds the body of a request.
const maxBody = 4 << 20

// The methods that are named more than once.
const (
	callTool      = "tools/call"
	readResource  = "resources/read"
	subscribe     = "resources/subscribe"
	getPrompt     = "prompts/get"
	listTools     = "tools/list"
	listResources = "resources/list"
	listTemplates = "resources/templates/list"
	listPrompts   = "prompts/list"
	listen        = "subscriptions/listen"
)

// plain are the methods that need the right to talk to the server and no more.
// Notifications are, too.
var plain = []string{"initialize", "ping", "logging/setLevel", "server/discover", listTools, listResources, listTemplates, listPrompts}

// ruled are the methods that need an operation which [Config.Methods] names, with
// the parameters that are its arguments, and what of those has other members than
// these.
var ruled = map[string]map[string][]string{
	readResource:            {"uri": nil},
	subscribe:               {"uri": nil},
	"resources/unsubscribe": {"uri": nil},
	getPrompt:               {"name": nil, "arguments": nil},
	"completion/complete":   {"ref": {"type", "name", "uri"}, "argument": {"name", "value"}, "context": {"arguments"}},
}

// called are the parameters of a tool.
var called = map[string][]string{"name": nil, "arguments": nil}

// again are the parameters with which a call comes again, after the server wanted
// to know something of its client.
var again = []string{"inputResponses", "requestState"}

// message is what of a request is decided on.
type message struct {
	id        powerbox.Value
	hasID     bool
	method    string         // "" of an answer to a request of the server
	tool      string         // of tools/call
	rule      string         // the method whose operation is needed, "" where none is
	answers   bool           // it has an answer to what the server wanted to know
	arguments powerbox.Value // of the tool, or of the rule: an object
}

// readMessage reads one message strictly, whatever the SDK would make of it.
func readMessage(body []byte) (message, error) {
	m := message{arguments: powerbox.Object()}
	v, err := powerbox.DecodeValue(body, powerbox.Limits{Bytes: maxBody, Depth: 64})
	if err != nil {
		return m, err
	}
	if v.Kind() != powerbox.KindObject {
		return m, errors.New("want one message, an object; batches are not taken")
	}
	if err := v.CheckNames(); err != nil {
		return m, err // the server's own reader may choose differently (ATK-27)
	}
	m.id, m.hasID = v.Get("id")
	if k := m.id.Kind(); m.hasID && k != powerbox.KindString && k != powerbox.KindNumber {
		return m, fmt.Errorf("id is JSON %s; want a string or a number", k)
	}
	method, named := v.Get("method")
	if !named {
		m.answers = true
		return m, only(v, "the message", "jsonrpc", "id", "result", "error")
	}
	if err := only(v, "the message", "jsonrpc", "id", "method", "params"); err != nil {
		return m, err
	}
	if text, ok := method.Text(); ok {
		m.method = text
	}
	if m.method == "" {
		return m, errors.New("method is no text, or empty")
	}
	if strings.HasPrefix(m.method, "notifications/") == m.hasID {
		return m, fmt.Errorf("%.64q: notifications have no id, and requests have one", m.method)
	}
	params, _ := v.Get("params")
	return m, m.read(params)
}

// read reads the parameters that are decided on.
func (m *message) read(params powerbox.Value) error {
	members, isRuled := ruled[m.method]
	switch {
	case m.method == callTool:
		if err := m.take(params, called); err != nil {
			return err
		}
		return m.call()
	case isRuled:
		m.rule = m.method
		return m.take(params, members)
	case m.method == listen:
		return m.listen(params)
	case m.hasID && !slices.Contains(plain, m.method):
		return fmt.Errorf("method %.64q is not taken here", m.method)
	}
	return nil
}

// take makes the known parameters the arguments. An unknown one could change
// the meaning of the call.
func (m *message) take(params powerbox.Value, known map[string][]string) error {
	allowed := append(slices.Sorted(maps.Keys(known)), "_meta")
	if m.method == callTool || m.method == getPrompt || m.method == readResource {
		allowed = append(allowed, again...)
	}
	if err := only(params, "params", allowed...); err != nil {
		return err
	}
	var kept []powerbox.Member
	members, _ := params.Members()
	for _, member := range members {
		inner, isKnown := known[member.Name]
		if isKnown {
			if err := checkURI(member); err != nil {
				return err
			}
			kept = append(kept, member)
		}
		m.answers = m.answers || slices.Contains(again, member.Name)
		if inner != nil {
			if err := only(member.Value, "params."+member.Name, inner...); err != nil {
				return err
			}
		}
	}
	m.arguments = powerbox.Object(kept...)
	return nil
}

// checkURI refuses the URI of a resource that readers take for different ones (ATK-163): what
// reads it behind the server, such as [net/url], may undo escapes and resolve segments.
func checkURI(param powerbox.Member) error {
	if param.Name != "uri" {
		return nil
	}
	uri, _ := param.Value.Text()
	return powerbox.CheckURI(uri)
}

// call has the arguments be the tool's.
func (m *message) call() error {
	name, _ := m.arguments.Get("name")
	given, ok := m.arguments.Get("arguments")
	if m.arguments = powerbox.Object(); ok {
		m.arguments = given
	}
	if m.tool, ok = name.Text(); !ok || m.tool == "" {
		return errors.New("params.name is missing, or no text")
	}
	if strings.HasPrefix(m.tool, "a2a.") || strings.HasPrefix(m.tool, "powerbox.") {
		return fmt.Errorf("params.name %.64q is reserved; it is no tool", m.tool)
	}
	if k := m.arguments.Kind(); k != powerbox.KindObject {
		return fmt.Errorf("params.arguments is JSON %s; want an object", k)
	}
	return nil
}

// listen reads what a client wants to be told of: changes of lists, which are for
// anyone who may talk to the server, and of resources, of which one at a time can be
// decided on.
func (m *message) listen(params powerbox.Value) error {
	if err := only(params, "params", "notifications", "_meta"); err != nil {
		return err
	}
	wanted, _ := params.Get("notifications")
	err := only(wanted, "params.notifications", "toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions")
	if err != nil {
		return err
	}
	list, given := wanted.Get("resourceSubscriptions")
	uris, isList := list.Elements()
	switch {
	case given && !isList || len(uris) > 1:
		return errors.New("params.notifications.resourceSubscriptions: want a list of one resource; ask for each by itself")
	case len(uris) == 1:
		about := powerbox.Member{Name: "uri", Value: uris[0]}
		m.rule, m.arguments = subscribe, powerbox.Object(about)
		return checkURI(about)
	}
	return nil
}

// only wants an object without other members.
func only(v powerbox.Value, where string, names ...string) error {
	members, ok := v.Members()
	if !ok {
		return fmt.Errorf("%s: want an object", where)
	}
	for _, member := range members {
		if !slices.Contains(names, member.Name) {
			return fmt.Errorf("%s has a member %.64q; want %s", where, member.Name, strings.Join(names, ", "))
		}
	}
	return nil
}
