package a2a

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// TaskRef names a task and its context, as an answer or an event does.
type TaskRef struct {
	Task    string // "" where only the context is named
	Context string // "" where only the task is named
}

// Learn returns the tasks and contexts that an answer, or one event of a stream, is
// about (ATK-18). It takes a JSON-RPC response or the value inside one, of either
// version. It is tolerant: it learns nothing from a member that it does not understand,
// and an unlearned task has no owner. It learns nothing from a task's history or from
// the tasks of a list, since an agent can quote there anything that it likes.
func Learn(response []byte) []TaskRef {
	refs, _ := ReadResponse(response).Told()
	return refs
}

// ErrorCode is [Response.Error] of bytes of which nothing else is asked.
func ErrorCode(response []byte) (code int64, wrong bool) {
	if !mayName(response, "error") {
		return 0, false // most of them
	}
	return ReadResponse(response).Error()
}

// mayName reports whether JSON may have a member of one of these names, which are ASCII
// without marks. In a name such letters can be written as escapes.
func mayName(raw []byte, names ...string) bool {
	return bytes.Contains(raw, []byte(`\u00`)) || slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(raw, []byte(name+`"`)) })
}

// given reports whether a member is there and not null.
func given(value []byte) bool { return len(value) > 0 && string(value) != "null" }

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// FilterTasks cuts the tasks that keep refuses from the answer to ListTasks; a task
// without id is never kept. Every other byte stays, except for totalSize, which becomes
// the number of tasks that are left: a caller must not learn how many there are of
// others (SEP-5). A list that is null becomes an empty one, and an answer without a list
// stays as it is. An error means that the answer is not understood and must not be
// passed on.
func FilterTasks(response []byte, keep func(TaskRef) bool) ([]byte, error) {
	o, err := readObject(response)
	if err != nil {
		return nil, fmt.Errorf("answer to ListTasks: %w", err)
	}
	if err := listNames.checkRaw("answer to ListTasks", o); err != nil {
		return nil, err
	}
	base := 0
	if i := o.index("result"); i >= 0 {
		base = o[i].start
		if o, err = readObject(o[i].value); err != nil {
			return nil, fmt.Errorf("answer to ListTasks: result: %w", err)
		}
		if err := listNames.checkRaw("answer to ListTasks: result", o); err != nil {
			return nil, err
		}
	}
	var edits []edit
	left := 0
	switch i := o.index("tasks"); {
	case i < 0:
	case isSet(o[i].value):
		e, n, err := filter(o[i], keep)
		if err != nil {
			return nil, err
		}
		edits, left = append(edits, e), n
	default: // null, which is how some agents write a list of none
		edits = append(edits, edit{o[i].start, o[i].end, []byte("[]")})
	}
	if i := o.index("totalSize"); i >= 0 {
		edits = append(edits, edit{o[i].start, o[i].end, strconv.AppendInt(nil, int64(left), 10)})
	}
	return splice(response, base, edits), nil
}

// readResult reads the result of a response, of which one member matters. It returns where the
// result begins, and -1 for a response without one, which is an error.
func readResult(response []byte, name string) (inner rawObject, start int, err error) {
	o, err := readObject(response)
	if err == nil {
		err = newNames("result").checkRaw("the answer", o)
	}
	if err != nil {
		return nil, -1, err
	}
	i := o.index("result")
	if i < 0 {
		return nil, -1, nil
	}
	inner, err = readObject(o[i].value)
	if err == nil {
		err = newNames(name).checkRaw("the result", inner)
	}
	if err != nil {
		return nil, -1, fmt.Errorf("the result: %w", err)
	}
	return inner, o[i].start, nil
}

// SetInResult gives a member of the result of a response another value, or adds it where
// the result has none. Every other byte stays, and so does a response that is an error.
// An error means that the answer is not understood and must not be passed on.
func SetInResult(response []byte, name string, value []byte) ([]byte, error) {
	inner, start, err := readResult(response, name)
	if err != nil {
		return nil, err
	}
	if start < 0 {
		return response, nil
	}
	if i := inner.index(name); i >= 0 {
		return splice(response, start, []edit{{inner[i].start, inner[i].end, value}}), nil
	}
	first := append(append(append([]byte{'{'}, quote(name)...), ':'), value...)
	if len(inner) > 0 {
		first = append(first, ',')
	}
	return splice(response, start, []edit{{0, 1, first}}), nil
}

// FilterNamed cuts the elements of a list in the result of a response that keep
// refuses, by a member that names them; one without such a name is never kept.
// Every other byte stays. A response that is an error stays as it is. An error
// means that the response is not understood and must not be passed on.
func FilterNamed(response []byte, list, name string, keep func(string) bool) ([]byte, error) {
	inner, start, err := readResult(response, list)
	if err != nil {
		return nil, err
	}
	if start < 0 {
		return response, nil
	}
	i := inner.index(list)
	if i < 0 || !isSet(inner[i].value) {
		return response, nil
	}
	elements, err := readObjects("result."+list, inner[i].value, newNames(name))
	if err != nil {
		return nil, err
	}
	raw, err := readArray(inner[i].value)
	if err != nil {
		return nil, err
	}
	var kept [][]byte
	for n, e := range elements {
		if text := e.text(name); text != "" && keep(text) {
			kept = append(kept, raw[n])
		}
	}
	if len(kept) == len(raw) {
		return response, nil
	}
	return splice(response, start, []edit{{inner[i].start, inner[i].end, writeArray(kept)}}), nil
}

var (
	listNames = newNames("result", "tasks", "totalSize")
	taskNames = newNames("id", "contextId")
)

// filter returns the edit that leaves the kept tasks, and their number.
func filter(tasks rawMember, keep func(TaskRef) bool) (edit, int, error) {
	elements, err := readArray(tasks.value)
	if err != nil {
		return edit{}, 0, fmt.Errorf("answer to ListTasks: tasks: %w", err)
	}
	var kept [][]byte
	for i, e := range elements {
		task, err := readObject(e)
		if err == nil {
			err = taskNames.checkRaw("a task", task)
		}
		if err != nil {
			return edit{}, 0, fmt.Errorf("answer to ListTasks: tasks[%d]: %w", i, err)
		}
		if ref := (TaskRef{task.text("id"), task.text("contextId")}); ref.Task != "" && keep(ref) {
			kept = append(kept, e)
		}
	}
	if len(kept) == len(elements) {
		return edit{tasks.start, tasks.end, tasks.value}, len(kept), nil
	}
	return edit{tasks.start, tasks.end, writeArray(kept)}, len(kept), nil
}

// edit replaces the bytes from start to end.
type edit struct {
	start, end int
	with       []byte
}

// splice returns the bytes with the edits applied, whose offsets count from
// base and do not overlap.
func splice(raw []byte, base int, edits []edit) []byte {
	var b bytes.Buffer
	at := 0
	for at < len(raw) {
		next := edit{start: len(raw), end: len(raw)}
		for _, e := range edits {
			if e.start+base >= at && e.start+base < next.start {
				next = edit{e.start + base, e.end + base, e.with}
			}
		}
		b.Write(raw[at:next.start])
		b.Write(next.with)
		at = next.end
	}
	return b.Bytes()
}
