package powerboxmcp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// maxBody bounds the body of a request.
const maxBody = 4 << 20

// plain are the methods that need the right to talk to the server and no more.
// Notifications are, too.
var plain = []string{"initialize", "ping", "tools/list", "logging/setLevel", "server/discover"}

// message is what of a request is decided on.
type message struct {
	id        powerbox.Value
	hasID     bool
	method    string
	tool      string // of tools/call
	arguments powerbox.Value
}

// readMessage reads one message strictly, whatever the SDK would make of it.
func readMessage(body []byte) (message, error) {
	m := message{arguments: powerbox.Object()}
	v, err := powerbox.DecodeValue(body, powerbox.Limits{Bytes: maxBody, Depth: 64})
	if err != nil {
		return m, err
	}
	members, ok := v.Members()
	if !ok {
		return m, errors.New("want one message, an object; batches are not taken")
	}
	for _, member := range members {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params"}, member.Name) {
			return m, fmt.Errorf("member %.64q: want a request or a notification; responses to the server are not taken", member.Name)
		}
	}
	m.id, m.hasID = v.Get("id")
	if k := m.id.Kind(); m.hasID && k != powerbox.KindString && k != powerbox.KindNumber {
		return m, fmt.Errorf("id is JSON %s; want a string or a number", k)
	}
	method, _ := v.Get("method")
	if m.method, ok = method.Text(); !ok || m.method == "" {
		return m, errors.New("method is missing, or no text")
	}
	if strings.HasPrefix(m.method, "notifications/") == m.hasID {
		return m, fmt.Errorf("%.64q: notifications have no id, and requests have one", m.method)
	}
	params, _ := v.Get("params")
	if m.method == "tools/call" {
		err = m.call(params)
	} else if m.hasID && !slices.Contains(plain, m.method) {
		err = fmt.Errorf("method %.64q is not taken here", m.method)
	}
	return m, err
}

// call reads the parameters of tools/call. One that is not known could change what
// is called.
func (m *message) call(params powerbox.Value) error {
	members, ok := params.Members()
	if !ok {
		return errors.New("params: want an object")
	}
	for _, member := range members {
		if !slices.Contains([]string{"name", "arguments", "_meta"}, member.Name) {
			return fmt.Errorf("params has a member %.64q; want name, arguments, _meta", member.Name)
		}
	}
	name, _ := params.Get("name")
	if m.tool, ok = name.Text(); !ok || m.tool == "" {
		return errors.New("params.name is missing, or no text")
	}
	if strings.HasPrefix(m.tool, "a2a.") || strings.HasPrefix(m.tool, "powerbox.") {
		return fmt.Errorf("params.name %.64q is reserved; it is no tool", m.tool)
	}
	if given, ok := params.Get("arguments"); ok {
		m.arguments = given
	}
	if k := m.arguments.Kind(); k != powerbox.KindObject {
		return fmt.Errorf("params.arguments is JSON %s; want an object", k)
	}
	return nil
}
