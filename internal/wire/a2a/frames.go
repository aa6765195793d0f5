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
	kind     string // of the event, "" where it has none
	resumes  bool   // an event had an id
	data     []byte // lines of data so far, joined by newlines
	hasData  bool
	overflow bool // of this event
	started  bool // past a byte order mark
	afterCR  bool // a newline that follows belongs to the last line end
	begun    int  // bytes of an event that has begun, or of a line
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
			if f.begun > 0 {
				f.begun++
			}
			continue
		}
		f.afterCR = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			f.begun += len(p)
			f.keep(p)
			break
		}
		f.begun += end + 1
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
		f.begun = 0
		f.dispatch()
		return
	}
	if line[0] == ':' && f.begun == len(line)+1 { // a comment between two events
		f.begun = 0
	}
	field, value, _ := bytes.Cut(line, []byte{':'})
	switch string(field) {
	case "data":
	case "id":
		f.resumes = true
		return
	case "event":
		f.kind = string(bytes.TrimPrefix(value[:min(len(value), maxKind)], []byte{' '}))
		return
	default:
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

// maxKind is how much of the type of an event is kept, in bytes.
const maxKind = 64

// Kind is the type of the event that is called back for, "" where it has none. Some
// readers keep one that came before an empty line, and so does this.
func (f *Frames) Kind() string { return f.kind }

// Resumes reports whether the stream can be taken up after its end, behind an event with an id.
func (f *Frames) Resumes() bool { return f.resumes }

// Begun is how many of the bytes that came belong to an event that has begun and not ended,
// or to a line.
func (f *Frames) Begun() int { return f.begun }

// dispatch reports the event and begins the next.
func (f *Frames) dispatch() {
	if f.overflow || f.hasData {
		defer func() { f.kind = "" }()
	}
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
	f.begun = 0
}
