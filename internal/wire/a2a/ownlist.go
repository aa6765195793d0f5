package a2a

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/powerbox-project/powerbox"
)

// TaskFilter is the selection of a call of ListTasks, as far as tasks of the gateway's
// own are concerned (A2A 1.0, section 3.1.4).
type TaskFilter struct {
	Context   string
	State     OwnState // "" for any
	Size      int      // of a page, 0 where the caller says nothing
	After     string   // RFC 3339 time of the last change, exclusive; "" for any
	Artifacts bool
}

// FilterOf reads the selection of a call of ListTasks. The agent refuses one that cannot
// be read, and then it selects no task of the gateway's own.
func FilterOf(c Call) (TaskFilter, bool) {
	f := TaskFilter{Context: c.Context}
	text := func(name string) string {
		v, _ := c.Params.Get(name)
		if s, ok := v.Text(); ok {
			return s
		}
		return v.String() // a number, or true
	}
	has := func(name string) bool {
		v, ok := c.Params.Get(name)
		return ok && v.Kind() != powerbox.KindNull && text(name) != ""
	}
	if has("status") && text("status") != "TASK_STATE_UNSPECIFIED" {
		f.State = stateOf(text("status"))
	}
	if has("pageSize") {
		n, err := strconv.Atoi(text("pageSize"))
		if err != nil || n < 0 {
			return f, false
		}
		f.Size = n
	}
	for _, name := range []string{"statusTimestampAfter", "lastUpdatedAfter"} {
		if has(name) {
			f.After = text(name)
		}
	}
	if has("includeArtifacts") {
		f.Artifacts = text("includeArtifacts") == "true"
	}
	return f, true
}

// Listed is the answer to ListTasks that has tasks of the gateway's own alone. In
// 0.3 it says nothing about their number.
func Listed(f Form, tasks [][]byte, next string) []byte {
	var o rawObject
	o.set("tasks", writeArray(tasks))
	o.set("nextPageToken", quote(next))
	if f != Form1 {
		return o.bytes()
	}
	o.set("pageSize", strconv.AppendInt(nil, int64(len(tasks)), 10))
	o.set("totalSize", strconv.AppendInt(nil, int64(len(tasks)), 10))
	return o.bytes()
}

// WithTasks puts tasks in front of those of an answer to ListTasks, and counts
// them. Every other byte stays.
func WithTasks(response []byte, tasks [][]byte) ([]byte, error) {
	o, base, err := inside(response)
	if err != nil {
		return nil, err
	}
	all := tasks
	i := o.index("tasks")
	if i >= 0 && isSet(o[i].value) {
		theirs, err := readArray(o[i].value)
		if err != nil {
			return nil, fmt.Errorf("answer to ListTasks: tasks: %w", err)
		}
		all = append(append([][]byte{}, tasks...), theirs...)
	}
	var edits []edit
	if n := o.index("totalSize"); n >= 0 {
		if count, err := strconv.Atoi(string(o[n].value)); err == nil {
			edits = append(edits, edit{o[n].start, o[n].end, strconv.AppendInt(nil, int64(count+len(tasks)), 10)})
		}
	}
	if i >= 0 {
		return splice(response, base, append(edits, edit{o[i].start, o[i].end, writeArray(all)})), nil
	}
	// An empty list that was left out: it becomes the first member.
	at := bytes.IndexByte(response[base:], '{')
	with := append([]byte(`{"tasks":`), writeArray(all)...)
	if len(o) > 0 {
		with = append(with, ',')
	}
	return splice(response, base, append(edits, edit{at, at + 1, with})), nil
}
