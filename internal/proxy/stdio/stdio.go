package stdio

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// The bounds of what one process may take up.
const (
	MaxLine  = 8 << 20     // bytes of one message, both ways
	maxWait  = 256         // requests of one session that are not answered yet
	maxQueue = 256         // unasked messages of a server
	maxHeld  = 2 * MaxLine // bytes of those
)

const (
	writeTime = 10 * time.Second // in which a process has to take a message
	endTime   = 5 * time.Second  // that a process has to end on its own
	killTime  = time.Second      // in which a killed process is gone
	idleTime  = time.Hour        // after which an unused session ends
)

// Config names the command. Every field is required unless it says otherwise.
type Config struct {
	Command  []string  // program and arguments
	Env      []string  // NAME=value, all that the program gets
	Dir      string    // "" for that of this process
	Errors   io.Writer // what the program writes to its standard error
	Sessions int       // that may be open at once
	Share    int       // of those, that one client may have; 0 for all
	Now      func() time.Time
	Log      *slog.Logger
}

// Server runs a program for every session. Its methods can be called by many
// goroutines.
type Server struct {
	config Config

	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
	running  sync.WaitGroup

	sessionsAlone atomic.Bool // the program has said that it knows no other requests
}

// New returns a server that has started nothing yet.
func New(c Config) (*Server, error) {
	if err := missing.Fields("stdio", c, "Command", "Errors", "Now", "Log"); err != nil {
		return nil, err
	}
	if c.Command[0] == "" || c.Sessions < 1 {
		return nil, errors.New("stdio: a Command with a name and at least one of Sessions are required")
	}
	return &Server{config: c, sessions: map[string]*session{}}, nil
}

// Close ends every session, and returns when all processes are gone.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for _, one := range s.sessions {
		one.end()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// RoundTrip implements [http.RoundTripper] for the requests of a client of
// Streamable HTTP.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(io.LimitReader(r.Body, MaxLine+1))
		_ = r.Body.Close() // it was read
		if err != nil {
			return nil, err
		}
	}
	if len(body) > MaxLine {
		return said(r, http.StatusRequestEntityTooLarge, "", nil), nil
	}
	id := r.Header.Get(mcp.HeaderSession)
	one := s.session(id)
	switch {
	case r.Method == http.MethodPost:
		return s.post(r, one, id, body)
	case one == nil:
		return said(r, http.StatusNotFound, "", nil), nil
	case r.Method == http.MethodGet:
		return one.follow(r), nil
	case r.Method == http.MethodDelete:
		one.end()
		return said(r, http.StatusNoContent, "", nil), nil
	}
	return said(r, http.StatusMethodNotAllowed, "", nil), nil
}

func (s *Server) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.sessions[id]; one != nil && !one.stateless {
		return one
	}
	return nil
}

// post takes one message of a client.
func (s *Server) post(r *http.Request, one *session, id string, body []byte) (*http.Response, error) {
	m, wrong := mcp.Decode(body, powerbox.Limits{Bytes: MaxLine, Depth: 64})
	begins := one == nil
	switch {
	case wrong != nil:
		return said(r, http.StatusBadRequest, "", nil), nil
	case m.Stateless():
		return s.request(r, m, body)
	case one == nil && id != "":
		return said(r, http.StatusNotFound, "", nil), nil // the client begins a new one
	case one == nil && m.Method != "initialize": // a request, as Decode has it
		return said(r, http.StatusBadRequest, "", nil), nil
	case begins:
		var err error
		if one, err = s.begin(r.Context(), false, ""); err != nil {
			return s.notStarted(r, err), nil
		}
	}
	if m.Kind != mcp.Request {
		if err := one.write(body); err != nil {
			return nil, err
		}
		return said(r, http.StatusAccepted, "", nil), nil
	}
	return one.ask(r, string(m.ID), body, begins)
}

var (
	errFull  = errors.New("as many processes run as may")
	errShare = errors.New("as many processes run for this client as may")
)

// notStarted answers a client for whom no process was started. One that has its share can
// end a session and try again.
func (s *Server) notStarted(r *http.Request, err error) *http.Response {
	status := http.StatusServiceUnavailable
	if errors.Is(err, errShare) {
		status = http.StatusTooManyRequests
		s.config.Log.WarnContext(r.Context(), "an MCP server was not started", slog.Any("error", err))
	} else {
		s.config.Log.ErrorContext(r.Context(), "an MCP server was not started", slog.Any("error", err))
	}
	response := said(r, status, "", nil)
	response.Header.Set("Retry-After", "5")
	return response
}

// start runs the program, for a new session or for requests of a caller that stand for
// themselves.
func (s *Server) start(stateless bool, caller, client string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the gateway is being stopped")
	}
	if s.config.Share > 0 && s.of(client) >= s.config.Share {
		return nil, fmt.Errorf("%w: %d", errShare, s.config.Share)
	}
	if len(s.sessions) >= s.config.Sessions {
		return nil, fmt.Errorf("%w: %d", errFull, s.config.Sessions)
	}
	one := &session{id: rand.Text(), log: s.config.Log, now: s.config.Now, dialogue: dialogue{waits: map[string]*waiter{}, used: s.config.Now()}, gone: make(chan struct{}), stateless: stateless, caller: caller, client: client}
	if err := one.run(s.config); err != nil {
		return nil, err
	}
	s.sessions[one.id] = one
	s.running.Go(func() {
		one.read()
		s.mu.Lock()
		delete(s.sessions, one.id)
		s.mu.Unlock()
		close(one.gone) // a waiting caller can begin another
		one.reap()
	})
	s.running.Go(one.watch)
	s.running.Go(one.exits)
	return one, nil
}

// of counts the processes of a client. The caller holds mu.
func (s *Server) of(client string) (n int) {
	for _, one := range s.sessions {
		if one.client == client {
			n++
		}
	}
	return n
}

// said is an answer of HTTP.
func said(r *http.Request, status int, kind string, body []byte) *http.Response {
	h := http.Header{}
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// OneLine is a message without breaks, which JSON has between its tokens alone.
func OneLine(body []byte) []byte {
	line := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, body)
	return append(line, '\n')
}
