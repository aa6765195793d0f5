package a2a

import (
	"bytes"
	"errors"
)

// PushConfig is where the events of a task are posted to, and the secrets that the agent
// shows there: the token of the draft specifications, and credentials under the first of
// the schemes (A2A 1.0, section 4.3.3).
type PushConfig struct {
	URL         string   `json:"u"`
	Token       string   `json:"t,omitempty"` // "" for none
	Schemes     []string `json:"s,omitempty"` // of authentication; nil for none
	Credentials string   `json:"c,omitempty"`
}

// PushOpener returns the configuration that one with a URL stands for. ours is false
// where the URL stands for nothing but itself. opened is false where its configuration
// is not known any more.
type PushOpener func(url string) (c PushConfig, ours, opened bool)

// pushPlaces are where calls have a configuration, from the parameters on: those
// that [Call] is parsed from.
var pushPlaces = map[Method][][]string{
	CreatePushConfig:     {nil, {"pushNotificationConfig"}, {"config", "pushNotificationConfig"}},
	SendMessage:          inlinePlaces,
	SendStreamingMessage: inlinePlaces,
}

var inlinePlaces = [][]string{
	{"configuration", "taskPushNotificationConfig"}, {"configuration", "pushNotificationConfig"}, {"configuration", "pushNotification"},
}

// ErrNoPush is a call without the configuration that was read from it.
var ErrNoPush = errors.New("the call has no push configuration in a place that is known")

// WithPush replaces the push configuration of a call of JSON-RPC or HTTP+JSON. Its id,
// its task and its other members stay; so does every byte outside.
func WithPush(body []byte, c *Call, to PushConfig) ([]byte, error) {
	var root []string
	if c.Binding == JSONRPC {
		root = []string{"params"}
	}
	found := false
	for _, place := range pushPlaces[c.Method] {
		path := append(append([]string{}, root...), place...)
		// The schemes are a list in 0.3 alone, which has the configuration as a member
		// of that name.
		last := path[max(len(path)-1, 0):]
		old := len(last) > 0 && (last[0] == "pushNotificationConfig" || last[0] == "pushNotification")
		out, did, err := editAt(body, path, func(o *rawObject) bool { return o.setPush(to, old) })
		if err != nil {
			return nil, err
		}
		if did {
			body, found = out, true
		}
	}
	if !found {
		return nil, ErrNoPush
	}
	return body, nil
}

// setPush writes a configuration over the one that an object is, and reports
// whether it is one.
func (o *rawObject) setPush(c PushConfig, old bool) bool {
	if o.text("url") == "" {
		return false
	}
	o.set("url", quote(c.URL))
	o.set("token", quote(c.Token))
	var a rawObject
	if old {
		a.set("schemes", quoteAll(c.Schemes))
	} else {
		a.set("scheme", quote(c.Schemes[0]))
	}
	a.set("credentials", quote(c.Credentials))
	o.set("authentication", a.bytes())
	return true
}

// editAt changes the object at a path. Where there is none nothing is changed.
func editAt(raw []byte, path []string, change func(*rawObject) bool) (out []byte, did bool, err error) {
	o, err := readObject(raw)
	if errors.Is(err, errWantObject) {
		return raw, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if len(path) == 0 {
		if !change(&o) {
			return raw, false, nil
		}
		return o.bytes(), true, nil
	}
	i := o.index(path[0])
	if i < 0 {
		return raw, false, nil
	}
	inner, did, err := editAt(o[i].value, path[1:], change)
	if err != nil || !did {
		return raw, false, err
	}
	return splice(raw, 0, []edit{{o[i].start, o[i].end, inner}}), true, nil
}

// maxPushDepth is how deep an answer has configurations: in a list in a result,
// under a name.
const maxPushDepth = 6

// RestorePush changes an answer about push configurations, or the result inside one of
// JSON-RPC, so that it shows the values that the caller set. Of a configuration that
// cannot be opened the secrets are cut out. Every byte outside stays.
func RestorePush(response []byte, open PushOpener) ([]byte, error) {
	out, _, err := restorePush(response, open, 0)
	return out, err
}

func restorePush(raw []byte, open PushOpener, depth int) (out []byte, did bool, err error) {
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	if depth > maxPushDepth || len(trimmed) == 0 {
		return raw, false, nil
	}
	switch trimmed[0] {
	case '{':
		return restoreObject(raw, open, depth)
	case '[':
		elements, err := readArray(raw)
		if err != nil {
			return nil, false, err
		}
		for i, e := range elements {
			inner, changed, err := restorePush(e, open, depth+1)
			if err != nil {
				return nil, false, err
			}
			elements[i], did = inner, did || changed
		}
		if !did {
			return raw, false, nil
		}
		return writeArray(elements), true, nil
	default:
		return raw, false, nil
	}
}

func restoreObject(raw []byte, open PushOpener, depth int) (out []byte, did bool, err error) {
	o, err := readObject(raw)
	if err != nil {
		return nil, false, err
	}
	if url := o.text("url"); url != "" {
		if c, ours, opened := open(url); ours {
			o.restore(c, opened)
			return o.bytes(), true, nil
		}
	}
	var edits []edit
	for _, m := range o {
		inner, changed, err := restorePush(m.value, open, depth+1)
		if err != nil {
			return nil, false, err
		}
		if changed {
			edits = append(edits, edit{m.start, m.end, inner})
		}
	}
	if edits == nil {
		return raw, false, nil
	}
	return splice(raw, 0, edits), true, nil
}

// restore writes the caller's own configuration over ours, as far as the agent
// shows it.
func (o *rawObject) restore(c PushConfig, opened bool) {
	if !opened {
		o.drop("token")
		o.drop("authentication")
		return
	}
	o.set("url", quote(c.URL))
	if o.index("token") >= 0 {
		o.setOrDrop("token", c.Token)
	}
	i := o.index("authentication")
	if i < 0 {
		return
	}
	a, err := readObject((*o)[i].value)
	if err != nil || len(c.Schemes) == 0 && c.Credentials == "" {
		o.drop("authentication")
		return
	}
	if a.index("schemes") >= 0 {
		a.set("schemes", quoteAll(c.Schemes))
	}
	if a.index("scheme") >= 0 {
		scheme := ""
		if len(c.Schemes) > 0 {
			scheme = c.Schemes[0]
		}
		a.setOrDrop("scheme", scheme)
	}
	if a.index("credentials") >= 0 {
		a.setOrDrop("credentials", c.Credentials)
	}
	o.set("authentication", a.bytes())
}

func (o *rawObject) setOrDrop(name, text string) {
	if text == "" {
		o.drop(name)
		return
	}
	o.set(name, quote(text))
}
