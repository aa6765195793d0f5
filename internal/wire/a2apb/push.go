package a2apb

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// WithPush is [a2a.WithPush] for a call in protobuf. Fields that are not in the
// definition stay.
func WithPush(path string, message []byte, to a2a.PushConfig) ([]byte, error) {
	r, err := find(path)
	if err != nil || r.input == nil {
		return nil, fmt.Errorf("%s: the method is unknown", path)
	}
	m, err := read(r.input, message)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	found := false
	eachPush(m, func(c protoreflect.Message) {
		setPush(c, to, true)
		found = true
	})
	if !found {
		return nil, a2a.ErrNoPush
	}
	return proto.Marshal(m.Interface())
}

// RestorePush is [a2a.RestorePush] for an answer in protobuf.
func RestorePush(path string, message []byte, open a2a.PushOpener) ([]byte, error) {
	r, err := find(path)
	if err != nil || r.output == nil {
		return nil, fmt.Errorf("answer to %s: the method is unknown", path)
	}
	m, err := read(r.output, message)
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", path, err)
	}
	changed := false
	eachPush(m, func(c protoreflect.Message) {
		own, ours, opened := open(textOf(c, "url"))
		if !ours {
			return
		}
		changed = true
		if !opened {
			own = a2a.PushConfig{URL: textOf(c, "url")}
		}
		setPush(c, own, false)
	})
	if !changed {
		return message, nil
	}
	return proto.Marshal(m.Interface())
}

// eachPush calls f with every push configuration that has a URL, in whichever
// form of the versions: the messages with url, token and authentication.
func eachPush(m protoreflect.Message, f func(protoreflect.Message)) {
	fields := m.Descriptor().Fields()
	if fields.ByName("url") != nil && fields.ByName("token") != nil && fields.ByName("authentication") != nil {
		if textOf(m, "url") != "" {
			f(m)
		}
		return
	}
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Message() == nil || d.IsMap():
		case d.IsList():
			for i := range v.List().Len() {
				eachPush(v.List().Get(i).Message(), f)
			}
		default:
			eachPush(v.Message(), f)
		}
		return true
	})
}

func textOf(m protoreflect.Message, name protoreflect.Name) string {
	d := m.Descriptor().Fields().ByName(name)
	if d == nil || d.Kind() != protoreflect.StringKind || d.IsList() {
		return ""
	}
	return m.Get(d).String()
}

// setPush writes a configuration; without all it leaves out the fields that the message
// does not have.
func setPush(m protoreflect.Message, c a2a.PushConfig, all bool) {
	set := func(m protoreflect.Message, name protoreflect.Name, text string) {
		d := m.Descriptor().Fields().ByName(name)
		switch {
		case d == nil || !all && !m.Has(d):
		case text == "":
			m.Clear(d)
		default:
			m.Set(d, protoreflect.ValueOfString(text))
		}
	}
	set(m, "url", c.URL)
	set(m, "token", c.Token)
	d := m.Descriptor().Fields().ByName("authentication")
	if len(c.Schemes) == 0 && c.Credentials == "" {
		m.Clear(d)
		return
	}
	if !all && !m.Has(d) {
		return
	}
	a := m.Mutable(d).Message()
	if schemes := a.Descriptor().Fields().ByName("schemes"); schemes != nil {
		list := a.NewField(schemes).List()
		for _, s := range c.Schemes {
			list.Append(protoreflect.ValueOfString(s))
		}
		a.Set(schemes, protoreflect.ValueOfList(list))
	} else if len(c.Schemes) > 0 {
		set(a, "scheme", c.Schemes[0])
	}
	set(a, "credentials", c.Credentials)
}
