package powerboxa2a

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
)

// The operations that stand for what A2A itself does with a task. No skill maps
// to them.
const (
	opMessage = "a2a.message"
	opRead    = "a2a.task.read"
	opCancel  = "a2a.task.cancel"
	opPush    = "a2a.push"
	opCard    = "a2a.card"
)

// reading is what a call is about, as far as authority is concerned.
type reading struct {
	operation string // reserved operation; of a message it is opMessage
	tenant    string // of the agent, in which task and context are
	task      string
	context   string
	skill     string // that a message names, "" for words
	arguments powerbox.Value
	free      bool // there is content beside the call of a skill, or no such call
	push      bool // a message that sets push notifications as well
	message   bool
}

// errReading says why a call cannot be read; the caller should fix it.
type errReading struct{ code, text string }

func (e *errReading) Error() string { return e.text }

// readCall reads the payload of a call. One that is not known here is an error:
// what it would do cannot be told.
func readCall(payload any) (reading, error) {
	switch p := payload.(type) {
	case *a2a.SendMessageRequest:
		return readMessage(p)
	case *a2a.GetTaskRequest:
		return reading{operation: opRead, tenant: p.Tenant, task: string(p.ID)}, nil
	case *a2a.SubscribeToTaskRequest:
		return reading{operation: opRead, tenant: p.Tenant, task: string(p.ID)}, nil
	case *a2a.ListTasksRequest:
		return reading{operation: opRead, tenant: p.Tenant, context: p.ContextID}, nil
	case *a2a.CancelTaskRequest:
		return reading{operation: opCancel, tenant: p.Tenant, task: string(p.ID)}, nil
	case *a2a.PushConfig:
		return reading{operation: opPush, tenant: p.Tenant, task: string(p.TaskID)}, nil
	case *a2a.GetTaskPushConfigRequest:
		return reading{operation: opPush, tenant: p.Tenant, task: string(p.TaskID)}, nil
	case *a2a.ListTaskPushConfigRequest:
		return reading{operation: opPush, tenant: p.Tenant, task: string(p.TaskID)}, nil
	case *a2a.DeleteTaskPushConfigRequest:
		return reading{operation: opPush, tenant: p.Tenant, task: string(p.TaskID)}, nil
	case *a2a.GetExtendedAgentCardRequest:
		return reading{operation: opCard, tenant: p.Tenant}, nil
	default:
		return reading{}, &errReading{"method_unknown", fmt.Sprintf("a call with a %T is not known here", payload)}
	}
}

// readMessage finds the one skill that a message names. All namings have to
// agree, since an executor might go by any of them.
func readMessage(p *a2a.SendMessageRequest) (reading, error) {
	r := reading{operation: opMessage, message: true, arguments: powerbox.Object()}
	if p.Message == nil {
		return r, &errReading{"params", "the message is missing"}
	}
	r.tenant, r.task, r.context = p.Tenant, string(p.Message.TaskID), p.Message.ContextID
	r.push = p.Config != nil && p.Config.PushConfig != nil
	open := true // no arguments were given yet
	if member, ok := p.Metadata[holder.ExtensionURI].(map[string]any); ok {
		r.skill, _ = member["skill"].(string)
		if given, ok := member["arguments"]; ok && r.skill != "" {
			args, err := argumentsOf(given)
			if err != nil {
				return r, err
			}
			r.arguments, open = args, false
		}
	}
	calls := 0
	for _, part := range p.Message.Parts {
		data, _ := dataOf(part)
		skill, ok := data["skill"].(string)
		if !ok {
			r.free = true
			continue
		}
		if calls++; calls > 1 {
			return r, &errReading{"skill_ambiguous", "several data parts of one message call a skill; send one call per message"}
		}
		args, err := argumentsOf(data["arguments"])
		switch {
		case err != nil:
			return r, err
		case r.skill != "" && r.skill != skill:
			return r, &errReading{"skill_ambiguous", fmt.Sprintf("the metadata name skill %q and a data part names %q; name one", r.skill, skill)}
		case !open && !args.Equal(r.arguments):
			return r, &errReading{"skill_ambiguous", fmt.Sprintf("metadata and data part give skill %q different arguments; give them once", skill)}
		}
		r.skill, r.arguments = skill, args
		r.free = r.free || !isPlainCall(data)
	}
	r.free = r.free || r.skill == "" || len(p.Message.Parts) == 0
	return r, nil
}

func dataOf(part *a2a.Part) (map[string]any, bool) {
	if part == nil {
		return nil, false
	}
	data, ok := part.Data().(map[string]any)
	return data, ok
}

// isPlainCall reports whether a data part is a call and nothing besides.
func isPlainCall(data map[string]any) bool {
	for name := range maps.Keys(data) {
		if name != "skill" && name != "arguments" {
			return false
		}
	}
	return true
}

func argumentsOf(v any) (powerbox.Value, error) {
	if v == nil {
		return powerbox.Object(), nil
	}
	args, err := valueOf(v)
	if err == nil && args.Kind() != powerbox.KindObject {
		err = errors.New("want an object")
	}
	if err != nil {
		return args, &errReading{"params", fmt.Sprintf("arguments: %v", err)}
	}
	return args, nil
}

// valueOf is what the executor sees, in the exact form that is decided on: a
// number that JSON had and a float64 has not is decided as that float64.
func valueOf(v any) (powerbox.Value, error) {
	if m, ok := v.(map[string]any); ok && m == nil {
		return powerbox.Object(), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return powerbox.Value{}, err
	}
	value, err := powerbox.DecodeValue(raw, powerbox.Limits{Bytes: maxBody, Depth: 64})
	if err == nil {
		err = value.CheckNames() // who reads it next may choose differently (ATK-27)
	}
	return value, err
}

// taskArguments are the arguments of the reserved operations, by which a
// capability can be bound to a task.
func (r reading) taskArguments() powerbox.Value {
	var ms []powerbox.Member
	for _, m := range []struct{ name, value string }{{"tenant", r.tenant}, {"task", r.task}, {"context", r.context}} {
		if m.value != "" {
			ms = append(ms, powerbox.Member{Name: m.name, Value: powerbox.String(m.value)})
		}
	}
	return powerbox.Object(ms...)
}
