package a2a

import "slices"

// terminal are the states after which a task does nothing more, in the names
// of 1.0 and of 0.3.
var terminal = []string{
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED",
	"completed", "failed", "canceled", "rejected",
}

// Ended returns the tasks that an answer, or one event of a stream, says have
// ended (SEP-22). It is tolerant as [Learn] is.
func Ended(response []byte) []string {
	o, err := readObject(response)
	if err != nil {
		return nil
	}
	if result := o.get("result"); result != nil {
		if o, err = readObject(result); err != nil {
			return nil
		}
	}
	var ended []string
	add := func(o rawObject, id string) {
		status, err := readObject(o.get("status"))
		if err == nil && id != "" && slices.Contains(terminal, status.text("state")) {
			ended = append(ended, id)
		}
	}
	for member, id := range map[string]string{"task": "id", "statusUpdate": "taskId"} {
		if inner, err := readObject(o.get(member)); err == nil {
			add(inner, inner.text(id))
		}
	}
	add(o, refOfKind(o).Task)
	return ended
}
