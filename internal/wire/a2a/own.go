package a2a

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// OwnState is the state of a task of the gateway's own, in the names of 1.0.
type OwnState string

// The states.
const (
	OwnAuthRequired OwnState = "TASK_STATE_AUTH_REQUIRED"
	OwnWorking      OwnState = "TASK_STATE_WORKING"
	OwnCompleted    OwnState = "TASK_STATE_COMPLETED"
	OwnFailed       OwnState = "TASK_STATE_FAILED"
	OwnCanceled     OwnState = "TASK_STATE_CANCELED"
	ownRejected     OwnState = "TASK_STATE_REJECTED"
)

// OwnTask is a task that the gateway keeps for a call that a person has to
// approve first (A2A 1.0, section 7.6; design, section 4).
type OwnTask struct {
	ID, Context string
	State       OwnState
	Text        string // the reason that it waits, or how it ended
	At          time.Time
	ApprovalURL string    // "" once it is not open any more
	Expires     time.Time // of the question, zero as before
	Decision    string    // id of the record of the call's being made, "" before that
	Denied      string    // code of a no of people, "" for none
	Answer      Answer    // of the agent behind, the zero one before that
}

// Part is one part of an answer: a text, or data as JSON.
type Part struct {
	Text string
	Data []byte // nil for a text
}

// Answer is the answer of the agent.
type Answer struct {
	Raw   []byte // the result, as it was written
	Task  string // its task, "" for a message
	State OwnState
	Text  string // of its status, "" for none
	Parts []Part // of its artifacts, or of its message
}

// Form is how a binding of a version writes a task.
type Form uint8

// The forms. That of 0.3 in HTTP+JSON and gRPC is the one of its protobuf
// messages.
const (
	Form1 Form = iota
	Form03
	FormProto03
)

// FormOf returns the form that the one who makes a call reads.
func FormOf(b Binding, version string) Form {
	switch {
	case version != Version03:
		return Form1
	case b == JSONRPC:
		return Form03
	}
	return FormProto03
}

// JSON returns the task.
func (t OwnTask) JSON(f Form) []byte {
	var o, status, metadata rawObject
	o.set("id", quote(t.ID))
	o.set("contextId", quote(t.Context))
	if f == Form03 {
		o.set("kind", quote("task"))
	}
	status.set("state", quote(stateIn(t.State, f)))
	status.set("timestamp", quote(t.At.UTC().Format(time.RFC3339)))
	if t.Text != "" {
		status.set("message", t.message(f))
	}
	o.set("status", status.bytes())
	if len(t.Answer.Parts) > 0 {
		var artifact rawObject
		artifact.set("artifactId", quote("answer"))
		artifact.set("name", quote("answer"))
		artifact.set("parts", partsIn(t.Answer.Parts, f))
		o.set("artifacts", writeArray([][]byte{artifact.bytes()}))
	}
	if ours := t.ours(); len(ours) > 0 {
		metadata.set(ExtensionURI, ours.bytes())
		o.set("metadata", metadata.bytes())
	}
	return o.bytes()
}

// ours is the member of the task under the extension.
func (t OwnTask) ours() rawObject {
	var o rawObject
	set := func(name, value string) {
		if value != "" {
			o.set(name, quote(value))
		}
	}
	set("approvalUrl", t.ApprovalURL)
	if !t.Expires.IsZero() {
		set("expires", t.Expires.UTC().Format(time.RFC3339))
	}
	set("decision", t.Decision)
	set("denied", t.Denied)
	set("task", t.Answer.Task)
	if t.Answer.Raw != nil {
		o.set("answer", t.Answer.Raw)
	}
	return o
}

func (t OwnTask) message(f Form) []byte {
	var m rawObject
	m.set("messageId", quote(t.ID+"-"+strings.ToLower(strings.TrimPrefix(string(t.State), "TASK_STATE_"))))
	role := "ROLE_AGENT"
	if f == Form03 {
		role = "agent"
		m.set("kind", quote("message"))
	}
	m.set("role", quote(role))
	m.set("taskId", quote(t.ID))
	m.set("contextId", quote(t.Context))
	m.set("parts", partsIn([]Part{{Text: t.Text}}, f))
	return m.bytes()
}

// stateIn is the name of a state in a form.
func stateIn(s OwnState, f Form) string {
	if f != Form03 {
		if f == FormProto03 && s == OwnCanceled {
			return "TASK_STATE_CANCELLED"
		}
		return string(s)
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_")), "_", "-")
}

// stateOf is stateIn backwards, for any form. A name that is no state of our own tasks
// becomes a value that equals none of them.
func stateOf(name string) OwnState {
	s := OwnState("TASK_STATE_" + strings.ReplaceAll(strings.ToUpper(strings.TrimPrefix(name, "TASK_STATE_")), "-", "_"))
	if s == "TASK_STATE_CANCELLED" {
		s = OwnCanceled
	}
	return s
}

func partsIn(parts []Part, f Form) []byte {
	out := make([][]byte, len(parts))
	for i, p := range parts {
		var o rawObject
		switch {
		case p.Data == nil:
			if f == Form03 {
				o.set("kind", quote("text"))
			}
			o.set("text", quote(p.Text))
		case f == FormProto03:
			var data rawObject
			data.set("data", asObject(p.Data))
			o.set("data", data.bytes())
		case f == Form03:
			o.set("kind", quote("data"))
			o.set("data", asObject(p.Data))
		default:
			o.set("data", p.Data)
		}
		out[i] = o.bytes()
	}
	return writeArray(out)
}

// asObject is data as 0.3 has it, which knows objects alone.
func asObject(data []byte) []byte {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return data
	}
	var o rawObject
	o.set("value", data)
	return o.bytes()
}

// ReadAnswer reads the answer to a message in any binding's JSON form. Of an error it
// returns the text, and false.
func ReadAnswer(response []byte) (Answer, bool) {
	o, err := readObject(response)
	if err != nil {
		return Answer{Text: "the agent's answer is no JSON"}, false
	}
	if e, err := readObject(o.get("error")); err == nil {
		return Answer{Raw: e.bytes(), Text: e.text("message")}, false
	}
	a := Answer{Raw: bytes.TrimSpace(response), State: OwnCompleted}
	if result := o.get("result"); result != nil {
		a.Raw = result
		if o, err = readObject(result); err != nil {
			return Answer{Text: "the agent's answer has no result"}, false
		}
	}
	for _, name := range []string{"task", "message", "msg"} {
		if inner, err := readObject(o.get(name)); err == nil {
			o = inner
			break
		}
	}
	status, err := readObject(o.get("status"))
	if err != nil {
		a.Parts = partsOf(o)
		return a, true
	}
	a.Task = o.text("id")
	said := stateOf(status.text("state"))
	if slices.Contains([]OwnState{OwnCompleted, OwnFailed, OwnCanceled, ownRejected}, said) {
		a.State = said
	} else {
		a.Text = "the call was made; the task that it began continues under its own id"
	}
	if m, err := readObject(status.get("message")); err == nil && a.Text == "" {
		for _, p := range partsOf(m) {
			a.Text += p.Text
		}
	}
	artifacts, err := readArray(o.get("artifacts"))
	if err != nil {
		return a, true
	}
	for _, raw := range artifacts {
		if artifact, err := readObject(raw); err == nil {
			a.Parts = append(a.Parts, partsOf(artifact)...)
		}
	}
	return a, true
}

// partsOf are the texts and the data of an object that has parts. Other kinds of
// parts are in the raw answer alone.
func partsOf(o rawObject) []Part {
	raw := o.get("parts")
	if raw == nil {
		raw = o.get("content")
	}
	elements, err := readArray(raw)
	if err != nil {
		return nil
	}
	var out []Part
	for _, e := range elements {
		part, err := readObject(e)
		switch {
		case err != nil:
		case part.get("text") != nil:
			out = append(out, Part{Text: part.text("text")})
		case part.get("data") != nil:
			data := part.get("data")
			if inner, err := readObject(data); err == nil && len(inner) == 1 && inner.get("data") != nil && part.text("kind") == "" {
				data = inner.get("data") // of protobuf
			}
			out = append(out, Part{Data: data})
		}
	}
	return out
}

// AsSent returns the task as the answer to the message that it is for.
func (t OwnTask) AsSent(f Form) []byte {
	if f == Form03 {
		return t.JSON(f)
	}
	var o rawObject
	o.set("task", t.JSON(f))
	return o.bytes()
}
