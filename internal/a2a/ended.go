package a2a

import "slices"

// terminal are the states after which a task does nothing more, in the names
// of 1.0 and of 0.3.
var terminal = []string{
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_CANCELLED", "TASK_STATE_REJECTED",
	"completed", "failed", "canceled", "rejected",
}

// endedIn returns the tasks that an answer, taken apart, says have ended.
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
