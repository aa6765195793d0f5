package powerboxmcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"
)

// streamLife is how long a stream of events lives where Config.Streams does not say.
const streamLife = time.Minute

// ownEvent begins the ids of the events with which we end streams: the id of the last
// event of the server stands behind it.
const ownEvent = "powerbox-"

// headerLastEvent is by what a client says where it continues.
const headerLastEvent = "Last-Event-Id"

// events is the answer to a request for a stream of events, which ends after its time:
// the gate decides when it begins and is not asked again while it is open.
type events struct {
	http.ResponseWriter
	last []byte // id of the last event
	got  []byte // a line that has not ended yet, as far as it may be an id
}

// limited is the context of a stream of events, and how it is ended. Where the client
// comes back with the id of our last event, the server gets that of its own.
func (s *Server) limited(w http.ResponseWriter, r *http.Request, method string) (http.ResponseWriter, context.Context, func()) {
	if s.config.UnsafeStreams || r.Method != http.MethodGet && method != listen {
		return w, r.Context(), func() {}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.config.Streams)
	if method == listen { // it is not gone on with, but asked for again
		return w, ctx, cancel
	}
	e := &events{ResponseWriter: w}
	return e, ctx, func() {
		over := ctx.Err() != nil && r.Context().Err() == nil
		cancel()
		if over && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			e.end()
		}
	}
}

// end writes an event without a message, as servers do that have their clients come
// again (MCP 2025-11-25, Streamable HTTP): one that got none gives up after a few ends.
func (e *events) end() {
	_, _ = e.ResponseWriter.Write([]byte("id: " + ownEvent + rand.Text() + "-" + string(e.last) + "\ndata:\n\n")) // no one is left to tell
	_ = http.NewResponseController(e.ResponseWriter).Flush()
}

// serverEvent is what the server knows the last event of a client by, "" where it is
// none of the server's.
func serverEvent(id string) string {
	rest, ours := strings.CutPrefix(id, ownEvent)
	if !ours {
		return id
	}
	_, of, _ := strings.Cut(rest, "-")
	return of
}

// maxEventID is the length of the longest id of an event that is remembered, in bytes.
const maxEventID = 256

// Write implements [http.ResponseWriter].
func (e *events) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if len(e.got) < maxEventID {
			e.got = append(e.got, line...)
		}
		if line[len(line)-1] != '\n' {
			break
		}
		if id, ok := bytes.CutPrefix(bytes.TrimRight(e.got, "\r\n"), []byte("id:")); ok && len(id) < maxEventID {
			e.last = bytes.Clone(bytes.TrimPrefix(id, []byte(" ")))
		}
		e.got = e.got[:0]
	}
	return e.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] reach the wrapped writer.
func (e *events) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Flush implements [http.Flusher], which the SDK asks for.
func (e *events) Flush() {
	_ = http.NewResponseController(e.ResponseWriter).Flush() // what cannot be flushed comes later
}
