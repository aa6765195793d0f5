package a2a

import "slices"

// terminal are the states after which a task does nothing more, in the names
// of 1.0 and of 0.3.
var terminal = []string{
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_CANCELLED", "TASK_STATE_REJECTED",
	"completed", "failed", "canceled", "rejected",
}

// endedIn returns the tasks that have ended by the members of an answer.
func endedIn(o rawObject) []string {
	var ended []string
	add := func(o rawObject, id string) {
		status, err := apart(o.get("status"))
		if err == nil && id != "" && slices.Contains(terminal, status.text("state")) {
			ended = append(ended, id)
		}
	}
	for _, of := range []struct{ member, id string }{{"task", "id"}, {"statusUpdate", "taskId"}} {
		if inner, err := apart(o.get(of.member)); err == nil {
			add(inner, inner.text(of.id))
		}
	}
	add(o, refOfKind(o).Task)
	return ended
}

// IsLast reports whether an event of a stream tells its reader that the call is over.
// Such events are an error, a message, a task that has ended, and in 0.3 an event marked
// final. A stream can end without such an event.
func IsLast(event []byte) bool {
	if _, wrong := ErrorCode(event); wrong {
		return true
	}
	o, err := readObject(event)
	if err != nil {
		return false
	}
	if result := o.get("result"); result != nil {
		if o, err = apart(result); err != nil {
			return false
		}
	}
	return o.get("message") != nil || o.text("kind") == "message" || string(o.get("final")) == "true" || len(endedIn(o)) > 0
}

// IsResponse reports whether a message of JSON-RPC is a response, and no request or
// notification.
func IsResponse(message []byte) bool {
	o, err := readObject(message)
	return err == nil && o.get("method") == nil && (o.get("result") != nil || o.get("error") != nil)
}
