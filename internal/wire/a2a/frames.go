package a2a

import "bytes"

// Frames splits a stream of server-sent events (WHATWG HTML, section 9.2)
// while its bytes pass by: Write takes them as they come, in any pieces, and
// calls back once for every event that carries data. It keeps at most one
// event of bounded size and never holds a byte of the stream back.
type Frames struct {
	limit int
	event func(payload []byte, whole bool)

	line     []byte // begun and not ended
	data     []byte // lines of data so far, joined by newlines
	hasData  bool
	overflow bool // of this event
	started  bool // past a byte order mark
	afterCR  bool // a newline that follows belongs to the last line end
}

// NewFrames returns a splitter that calls event with the payload of each
// event, which is valid during the call. An event whose payload or line is
// as long as limit bytes or longer is reported with whole false and no payload.
func NewFrames(limit int, event func(payload []byte, whole bool)) *Frames {
	return &Frames{limit: limit, event: event}
}

// Write implements io.Writer. It never fails.
func (f *Frames) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if f.afterCR && p[0] == '\n' {
			p = p[1:]
			f.afterCR = false
			continue
		}
		f.afterCR = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			f.keep(p)
			break
		}
		f.keep(p[:end])
		f.afterCR = p[end] == '\r'
		p = p[end+1:]
		f.endLine()
	}
	return n, nil
}

// keep adds to the line that has begun.
func (f *Frames) keep(p []byte) {
	if len(f.line)+len(p) > f.limit+len("data: ") {
		f.overflow = true
		p = p[:max(0, min(len(p), len("data:")-len(f.line)))] // enough to know the field
	}
	f.line = append(f.line, p...)
}

// endLine takes a whole line: an empty one ends the event.
func (f *Frames) endLine() {
	line := f.line
	f.line = f.line[:0]
	if !f.started {
		f.started = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if len(line) == 0 {
		f.dispatch()
		return
	}
	field, value, _ := bytes.Cut(line, []byte{':'})
	if string(field) != "data" {
		return
	}
	value = bytes.TrimPrefix(value, []byte{' '})
	if len(f.data)+1+len(value) > f.limit {
		f.overflow = true
		return
	}
	if f.hasData {
		f.data = append(f.data, '\n')
	}
	f.hasData = true
	f.data = append(f.data, value...)
}

// dispatch reports the event and begins the next.
func (f *Frames) dispatch() {
	switch {
	case f.overflow:
		f.event(nil, false)
	case f.hasData:
		f.event(f.data, true)
	}
	f.data, f.hasData, f.overflow = f.data[:0], false, false
}

// Close reports the event that a stream ended in. The standard drops it; SDKs
// read it all the same.
func (f *Frames) Close() {
	if len(f.line) > 0 {
		f.endLine()
	}
	f.dispatch()
}
