package a2a

import (
	"errors"
	"slices"
)

// errNothing says that a stream had no event.
var errNothing = errors.New("the agent behind answered nothing")

// Folded returns the answer that a stream amounts to, in the JSON form of its
// events: the message, or the task with its last status and all its artifacts. An
// event that is an error is the answer.
func Folded(events [][]byte) ([]byte, error) {
	f := fold{}
	for _, raw := range events {
		o, err := readObject(raw)
		if err != nil {
			return nil, errors.New("an event is no JSON object")
		}
		if o.get("error") != nil {
			return raw, nil
		}
		if result := o.get("result"); result != nil {
			if o, err = readObject(result); err != nil {
				return nil, errors.New("an event has no result")
			}
		}
		if f.add(o) {
			return o.bytes(), nil
		}
	}
	if f.task == nil {
		return nil, errNothing
	}
	if len(f.artifacts) > 0 {
		all := make([][]byte, len(f.artifacts))
		for i, a := range f.artifacts {
			all[i] = a.bytes()
		}
		f.task.set("artifacts", writeArray(all))
	}
	var out rawObject
	out.set("task", f.task.bytes())
	return out.bytes(), nil
}

// fold is a task as far as a stream has told it.
type fold struct {
	task      rawObject
	artifacts []rawObject
}

// inner returns the object that an event is: under its name, or, in 0.3, the event
// itself, which says its kind.
func inner(o rawObject, name, kind string) rawObject {
	if i, err := readObject(o.get(name)); err == nil {
		return i
	}
	if o.text("kind") == kind {
		return o
	}
	return nil
}

// add adds an event, and reports whether it is a message, which is all there is.
func (f *fold) add(o rawObject) (message bool) {
	if m := inner(o, "message", "message"); m != nil && o.get("status") == nil || o.get("msg") != nil {
		return true
	}
	if t := inner(o, "task", "task"); t != nil {
		f.task, f.artifacts = t, nil
		if elements, err := readArray(t.get("artifacts")); err == nil {
			for _, e := range elements {
				if a, err := readObject(e); err == nil {
					f.artifacts = append(f.artifacts, a)
				}
			}
		}
		return false
	}
	if s := inner(o, "statusUpdate", "status-update"); s != nil {
		f.begin(s)
		f.task.set("status", s.get("status"))
	}
	if u := inner(o, "artifactUpdate", "artifact-update"); u != nil {
		f.begin(u)
		f.artifact(u)
	}
	return false
}

// begin makes a task of an update that comes before any.
func (f *fold) begin(update rawObject) {
	if f.task == nil {
		f.task.set("id", quote(update.text("taskId")))
		f.task.set("contextId", quote(update.text("contextId")))
	}
}

// artifact adds the parts of an update to an artifact: to the one of its id where it
// says so, and else in its place.
func (f *fold) artifact(update rawObject) {
	a, err := readObject(update.get("artifact"))
	if err != nil {
		return
	}
	i := slices.IndexFunc(f.artifacts, func(o rawObject) bool { return o.text("artifactId") == a.text("artifactId") })
	switch {
	case i < 0:
		f.artifacts = append(f.artifacts, a)
	case string(update.get("append")) == "true":
		before, _ := readArray(f.artifacts[i].get("parts"))
		more, _ := readArray(a.get("parts"))
		f.artifacts[i].set("parts", writeArray(slices.Concat(before, more)))
	default:
		f.artifacts[i] = a
	}
}
