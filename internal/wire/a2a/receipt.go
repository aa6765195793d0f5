package a2a

import (
	"bytes"
	"fmt"
	"slices"
)

// MemberReceipt is where in the metadata of an answer the receipt of a call stands, and
// in _meta of one of MCP. MemberOutcomeReceipt is where the receipt of its outcome stands.
const (
	MemberReceipt        = ExtensionURI + "/receipt"
	MemberOutcomeReceipt = ExtensionURI + "/outcome-receipt"
)

// WithMetadata puts a member into the metadata of an answer, or of an event: of the
// task, message or update that it holds, and in MCP into _meta of the result. Every
// other byte stays. An answer without any of these is returned as it is, with false.
func WithMetadata(b Binding, answer []byte, name string, value []byte) ([]byte, bool, error) {
	at, holder := 0, "metadata"
	o, err := readObject(answer)
	if err != nil {
		return nil, false, fmt.Errorf("the answer: %w", err)
	}
	if b == JSONRPC || b == MCP {
		i := o.index("result")
		if i < 0 {
			return answer, false, nil
		}
		if at = o[i].start; o.get("result")[0] != '{' {
			return answer, false, nil
		}
		if o, err = apart(o[i].value); err != nil {
			return nil, false, err
		}
	}
	if b == MCP {
		holder = "_meta"
	} else {
		for _, kind := range []string{"task", "message", "statusUpdate", "artifactUpdate"} {
			if i := o.index(kind); i >= 0 && o[i].value[0] == '{' {
				at += o[i].start
				if o, err = apart(o[i].value); err != nil {
					return nil, false, err
				}
				break
			}
		}
		if o.text("id") == "" && o.text("messageId") == "" && o.text("taskId") == "" {
			return answer, false, nil // no task, message or update
		}
	}
	return insert(answer, at, holder, name, value)
}

// insert puts a member into an object within the object that begins at a place.
func insert(answer []byte, at int, holder, name string, value []byte) ([]byte, bool, error) {
	at += skipSpace(answer[at:], 0)
	o, err := apart(answer[at:])
	if err != nil {
		return nil, false, err
	}
	member := join(quote(name), []byte(":"), value)
	i := o.index(holder)
	switch {
	case i < 0:
		return within(answer, at, len(o) == 0, join(quote(holder), []byte(":{"), member, []byte("}"))), true, nil
	case o[i].value[0] != '{': // null
		return splice(answer, at, []edit{{o[i].start, o[i].end, join([]byte("{"), member, []byte("}"))}}), true, nil
	}
	inner, err := apart(o[i].value)
	if err != nil {
		return nil, false, err
	}
	if n := inner.index(name); n >= 0 { // the agent's own, which is none of ours
		return splice(answer, at+o[i].start, []edit{{inner[n].start, inner[n].end, value}}), true, nil
	}
	return within(answer, at+o[i].start, len(inner) == 0, member), true, nil
}

// within puts a member first into the object that begins at a place.
func within(answer []byte, at int, empty bool, member []byte) []byte {
	if !empty {
		member = append(member, ',')
	}
	return join(answer[:at+1], member, answer[at+1:])
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// waiting are the states in which a task waits for the caller, and its stream ends.
var waiting = []string{"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED", "input-required", "auth-required"}

// EndsStream reports whether no event follows an event of a stream: it holds a message,
// or a task that has ended or waits for the caller.
func EndsStream(event []byte) bool {
	o, err := readObject(event)
	if err != nil {
		return false
	}
	if result := o.get("result"); result != nil {
		if o, err = apart(result); err != nil {
			return false
		}
	}
	if o.get("message") != nil || o.text("kind") == "message" || string(o.get("final")) == "true" {
		return true
	}
	for _, of := range []string{"task", "statusUpdate"} {
		if inner, err := apart(o.get(of)); err == nil {
			o = inner
		}
	}
	status, err := apart(o.get("status"))
	return err == nil && (slices.Contains(terminal, status.text("state")) || slices.Contains(waiting, status.text("state")))
}
