package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Events passes a stream of server-sent events on (WHATWG HTML, section 9.2), one
// whole event at a time, as judge says.
type Events struct {
	lines *bufio.Reader
	from  io.Closer
	limit int
	judge func(data []byte) (instead []byte, pass bool, err error)

	rename func(id []byte) string // nil to leave ids as they came

	begun bool   // a line was read
	kind  string // of the event, "" where it has none
	event []byte // as it came
	data  []byte
	out   []byte // bytes that are still to be read
	err   error
}

// NewEvents returns the stream with its events judged. judge is called with the data of
// every event that has any. It returns the data that replaces it, nil for the event as
// it came, and whether the event passes at all. An event that is longer than limit, or
// has line ends that readers take differently, ends the stream with an error, and so
// does an error of judge.
func NewEvents(from io.ReadCloser, limit int, judge func(data []byte) (instead []byte, pass bool, err error)) *Events {
	return &Events{lines: bufio.NewReaderSize(from, 32<<10), from: from, limit: limit, judge: judge}
}

// Rename gives events other ids.
func (e *Events) Rename(rename func(id []byte) string) { e.rename = rename }

// Read implements io.Reader.
func (e *Events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.next()
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (e *Events) Close() error { return e.from.Close() }

// ErrEvents is the root of errors of a stream whose events are not passed on.
var ErrEvents = errors.New("the stream is not passed on")

var (
	errEventSize = fmt.Errorf("%w: an event is too large", ErrEvents)
	errEventID   = fmt.Errorf("%w: an event has an id of more than 1 KiB, which clients could not send back", ErrEvents)
	errLineEnd   = fmt.Errorf("%w: a carriage return ends no line, which readers take differently", ErrEvents)
	errMark      = fmt.Errorf("%w: a line begins with a mark of byte order, which readers take differently", ErrEvents)
)

// next reads one event, or one part of a line that is none.
func (e *Events) next() error {
	e.event, e.data, e.kind = e.event[:0], e.data[:0], ""
	has := false
	for {
		begin := len(e.event)
		ended, err := e.line()
		line := bytes.TrimSuffix(bytes.TrimSuffix(e.event[begin:], []byte("\n")), []byte("\r"))
		if err == nil && bytes.IndexByte(line, '\r') >= 0 {
			err = errLineEnd
		}
		if line, err = e.unmarked(line, err); err != nil && (!errors.Is(err, io.EOF) || len(e.event) == 0) {
			return err
		}
		if value, ok := fieldOf(line, "id"); ok && len(value) > maxEventID {
			return errEventID
		}
		if value, ok := fieldOf(line, "retry"); ok && !soon(value) {
			e.event = e.event[:begin]
			continue
		}
		e.renamed(begin, line)
		if value, ok := fieldOf(line, "event"); ok {
			e.kind = string(value)
		}
		if value, ok := dataOf(line); ok {
			if has {
				e.data = append(e.data, '\n')
			}
			has = true
			e.data = append(e.data, value...)
		}
		if len(line) == 0 || !ended {
			if wrong := e.put(has); wrong != nil {
				return wrong
			}
			return err
		}
	}
}

// renamed puts another id in a line of the event that has one. An empty id means that there
// is none any more.
func (e *Events) renamed(begin int, line []byte) {
	id, ok := fieldOf(line, "id")
	if !ok || e.rename == nil || len(id) == 0 {
		return
	}
	end := e.event[begin+bytes.Index(e.event[begin:], line)+len(line):]
	e.event = slices.Concat(e.event[:begin], []byte("id: "+e.rename(id)), end)
}

// unmarked is a line without a mark of byte order, which the first of a stream may begin
// with. Most readers take a later line with a mark for none of their fields, so they
// would read another text of the event than the judged one.
func (e *Events) unmarked(line []byte, err error) ([]byte, error) {
	rest, marked := bytes.CutPrefix(line, mark)
	if marked && e.begun {
		return nil, errMark
	}
	e.begun = true
	return rest, err
}

var mark = []byte("\uFEFF")

// IsMessage reports whether the event that is judged is one that clients of MCP read: they
// pass over any other type.
func (e *Events) IsMessage() bool { return e.kind == "" || e.kind == "message" }

// maxEventID is the length of the longest id of an event, in bytes. Clients send the last one
// back in a header.
const maxEventID = 1 << 10

// maxRetry is the longest time that a server may have its clients wait before they resume a
// stream.
const maxRetry = time.Minute

// soon reports whether a server has its clients wait for no longer than maxRetry. Some kits
// wait for as long as the server says, and longer than for any answer. Others take a number
// that is too large for one that is small (ATK-157).
func soon(retry []byte) bool {
	ms, err := strconv.ParseUint(string(retry), 10, 32)
	return err == nil && time.Duration(ms)*time.Millisecond <= maxRetry
}

// dataOf returns the text that a line adds to the data of its event.
func dataOf(line []byte) (value []byte, ok bool) { return fieldOf(line, "data") }

func fieldOf(line []byte, name string) (value []byte, ok bool) {
	value, ok = bytes.CutPrefix(line, []byte(name))
	if !ok || len(value) > 0 && value[0] != ':' {
		return nil, false
	}
	return bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" ")), true
}

// line adds one line to the event, and reports whether it was ended.
func (e *Events) line() (ended bool, err error) {
	for {
		part, err := e.lines.ReadSlice('\n')
		if len(e.event)+len(part) > e.limit {
			return false, errEventSize
		}
		e.event = append(e.event, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err == nil, err
		}
	}
}

// put has the event judged.
func (e *Events) put(has bool) error {
	if !has {
		e.out = e.event
		return nil
	}
	instead, pass, err := e.judge(e.data)
	switch {
	case err != nil || !pass:
		return err
	case instead == nil:
		e.out = e.event
	default:
		e.out = replaced(e.event, instead)
	}
	return nil
}

// replaced is an event with other data, which is JSON: a line end in it is between its
// tokens, as where the data came in several lines.
func replaced(event, data []byte) []byte {
	var out []byte
	put := false
	for line := range bytes.Lines(event) {
		if _, ok := dataOf(bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), mark)); ok {
			if !put {
				out = append(append(append(out, "data: "...), bytes.ReplaceAll(data, []byte("\n"), []byte(" "))...), '\n')
			}
			put = true
			continue
		}
		out = append(out, line...)
	}
	return out
}
