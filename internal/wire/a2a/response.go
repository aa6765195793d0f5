package a2a

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/powerbox-project/powerbox"
)

// Response is an answer, or one event of a stream, that was read once for all questions about it.
type Response struct {
	whole   rawObject
	result  []byte        // nil without one, as in HTTP+JSON
	said    rawObject     // the result where it is an object, and the whole where there is none or null
	members []eventMember // of said, those by which it is one event or another
	wrong   error         // it is no object of JSON that all read alike
}

// eventMember is a member of an answer that is an object.
type eventMember struct {
	name string
	rawObject
}

// ReadResponse reads a response of JSON-RPC, or the value inside one, of either version.
func ReadResponse(raw []byte) Response {
	whole, err := readObject(raw)
	if err != nil {
		return Response{wrong: fmt.Errorf("the answer: %w", err)}
	}
	r := Response{whole: whole, said: whole, result: whole.get("result")}
	if given(r.result) {
		r.said, _ = apart(r.result) // nil where it is no object
	}
	for _, name := range eventNames {
		if inner, err := apart(r.said.get(name)); err == nil {
			r.members = append(r.members, eventMember{name, inner})
		}
	}
	return r
}

// The members by which readers tell an answer, and of an event one alone.
var (
	answerNames = newNames("id", "result", "error", "method")
	eventNames  = []string{"task", "message", "msg", "statusUpdate", "artifactUpdate"}
	resultNames = newNames(append([]string{"kind", "id", "taskId", "contextId", "status", "final"}, eventNames...)...)
	innerNames  = newNames("id", "taskId", "contextId", "status")
)

// idNames are the members that name the task of an event.
var idNames = map[string]string{"task": "id", "message": "taskId", "statusUpdate": "taskId", "artifactUpdate": "taskId"}

// Error returns the code of a response that is an error, 0 where it has none that is an
// integer. Such a response has a member error itself and no result: a deeper member is a
// part of some text. A member that is null counts as absent, as kits count it.
func (r Response) Error() (code int64, wrong bool) {
	said := r.whole.get("error")
	if !given(said) || given(r.result) {
		return 0, false
	}
	if inner, err := apart(said); err == nil {
		code, _ = strconv.ParseInt(string(inner.get("code")), 10, 64)
	}
	return code, true
}

// OneReading returns why readers may take an answer of HTTP+JSON, or an event of a stream,
// for different ones, and nil where none does: names that occur twice or that only lenient
// readers take for one of the protocol's, two events in one, and the envelope of another
// binding (ATK-125).
func (r Response) OneReading() error {
	if err := r.one(); err != nil {
		return err
	}
	if r.result != nil {
		return errors.New("the answer has a member result, which only JSON-RPC has")
	}
	return r.oneEvent()
}

// OneResponse is OneReading for a response of JSON-RPC to the request of an id: it has a
// result, of that id, or an error, or says nothing.
func (r Response) OneResponse(id []byte) error {
	if err := r.one(); err != nil {
		return err
	}
	switch failed := given(r.whole.get("error")); {
	case failed && given(r.result):
		return errors.New("the response has a result and an error, of which readers take different ones")
	case failed:
		return nil
	case r.result == nil && slices.ContainsFunc(r.whole, func(m rawMember) bool { return !bareNames[m.name] }):
		return errors.New("the response has neither a result nor an error, and says something")
	case !sameID(r.whole.get("id"), id):
		return errors.New("the response is to a request of another id, which some readers take for an error")
	}
	if isObject(r.result) {
		return r.oneEvent()
	}
	return nil // no object, and so none of those that are told apart here
}

func (r Response) one() error {
	if r.wrong != nil {
		return r.wrong
	}
	return answerNames.checkRaw("the answer", r.whole)
}

// bareNames are the members of a response that says nothing, which is how the kit for Go
// answers to a configuration that is deleted.
var bareNames = map[string]bool{"jsonrpc": true, "id": true, "error": true}

// sameID reports whether an id is that of a request, however either is written.
func sameID(got, want []byte) bool {
	if string(got) == string(want) {
		return true
	}
	a, err := powerbox.ParseValue(got)
	b, wrong := powerbox.ParseValue(want)
	return err == nil && wrong == nil && a.Equal(b)
}

// oneEvent is OneReading for the object that an answer says.
func (r Response) oneEvent() error {
	if err := resultNames.checkRaw("the result", r.said); err != nil {
		return err
	}
	for _, m := range r.members {
		if err := innerNames.checkRaw(m.name, m.rawObject); err != nil {
			return err
		}
	}
	if len(r.members) > 1 {
		return errors.New("the answer has two of task, message, statusUpdate and artifactUpdate, of which readers take different ones")
	}
	return nil
}

// IsEvent reports whether an event of a stream, or the answer to a message, is one that
// A2A has and no error: clients fail on any other.
func (r Response) IsEvent() bool {
	if given(r.whole.get("error")) {
		return false
	}
	return refOfKind(r.said) != (TaskRef{}) || r.said.text("kind") == "message" || len(r.members) > 0
}

// EventError is Error for an event of a stream, which is an error also where it is none
// of A2A's events: HTTP+JSON of 0.3 has the error itself there, with its code.
func (r Response) EventError() (code int64, wrong bool) {
	if code, wrong = r.Error(); wrong || r.IsEvent() {
		return code, wrong
	}
	code, _ = strconv.ParseInt(string(r.whole.get("code")), 10, 64)
	return code, true
}

// Told returns the tasks of [Learn], and those among them that the answer says have
// ended (SEP-22).
func (r Response) Told() (refs []TaskRef, ended []string) {
	if r.result != nil && !isObject(r.result) {
		return nil, nil
	}
	add := func(ref TaskRef, o rawObject, states bool) {
		if ref == (TaskRef{}) {
			return
		}
		refs = append(refs, ref)
		if status, err := apart(o.get("status")); states && err == nil && ref.Task != "" && slices.Contains(terminal, status.text("state")) {
			ended = append(ended, ref.Task)
		}
	}
	// In 1.0 the name of the one member tells the type of the value.
	for _, m := range r.members {
		if id := idNames[m.name]; id != "" {
			add(TaskRef{m.text(id), m.text("contextId")}, m.rawObject, m.name == "task" || m.name == "statusUpdate")
		}
	}
	add(refOfKind(r.said), r.said, true)
	return refs, ended
}

// refOfKind reads the form of 0.3, where kind tells the type of the object, and the bare
// task that GetTask and CancelTask answer in both versions.
func refOfKind(o rawObject) TaskRef {
	switch kind := o.text("kind"); {
	case kind == "task", kind == "" && o.text("id") != "" && o.get("status") != nil:
		return TaskRef{o.text("id"), o.text("contextId")}
	case kind == "message", kind == "status-update", kind == "artifact-update":
		return TaskRef{o.text("taskId"), o.text("contextId")}
	}
	return TaskRef{}
}

// terminal are the states after which a task does nothing more, in the names
// of 1.0 and of 0.3.
var terminal = []string{
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_CANCELLED", "TASK_STATE_REJECTED",
	"completed", "failed", "canceled", "rejected",
}

// IsLast reports whether an event of a stream tells its reader that the call is over.
// Such events are an error, a message, a task that has ended, and in 0.3 an event marked
// final. A stream can end without such an event.
func (r Response) IsLast() bool {
	if _, wrong := r.Error(); wrong {
		return true
	}
	if r.result != nil && !isObject(r.result) {
		return false
	}
	_, ended := r.Told()
	return r.said.get("message") != nil || r.said.text("kind") == "message" || string(r.said.get("final")) == "true" || len(ended) > 0
}

// IsResponse reports whether a message of JSON-RPC is a response, and no request or
// notification.
func IsResponse(message []byte) bool {
	r := ReadResponse(message)
	return r.whole.get("method") == nil && (r.result != nil || r.whole.get("error") != nil)
}
