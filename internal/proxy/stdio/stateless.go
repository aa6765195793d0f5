package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// A request that stands for itself (revision 2026-07-28) is answered by a process that
// serves one caller, and of that caller one request at a time: ids and what a process
// says unasked then belong to that request. It is kept for the caller's next request,
// unless the caller left before the answer.

// request answers such a request.
func (s *Server) request(r *http.Request, m mcp.Message, body []byte) (*http.Response, error) {
	if m.Kind != mcp.Request || s.sessionsAlone.Load() {
		return said(r, http.StatusBadRequest, "application/json", sessionsOnly(m.ID)), nil
	}
	one, err := s.borrow(r.Context(), mcp.CallerOf(r.Context()))
	if err != nil {
		return s.notStarted(r, err), nil
	}
	w, status := one.join(string(m.ID))
	if w == nil {
		s.giveBack(one, false)
		return said(r, status, "", nil), nil
	}
	over := func(passed bool) {
		one.leave(w, nil)
		if m.Method == "server/discover" && w.wrong {
			passed = false
			if code, _ := a2a.ErrorCode(w.answer); code == a2a.CodeMethodNotFound {
				s.sessionsAlone.Store(true) // what it says about itself, no caller makes it say
			}
		}
		s.giveBack(one, passed)
	}
	if err := one.write(body); err != nil {
		over(false)
		return nil, err
	}
	lines, answer, err := one.await(r.Context(), w)
	switch {
	case err != nil:
		over(false)
		return nil, err
	case len(lines) == 0:
		over(true)
		return said(r, statusOf(answer), "application/json", answer), nil
	}
	from, to := io.Pipe()
	go func() {
		_, err := one.events(r.Context(), to, w, lines, answer)
		over(errors.Is(err, io.EOF))
		_ = to.CloseWithError(err)
	}()
	return one.streamed(r, from), nil
}

// statusOf is that of HTTP for a response of the process.
func statusOf(answer []byte) int {
	switch code, _ := a2a.ErrorCode(answer); code {
	case a2a.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeRevision, mcp.CodeHeaders, mcp.CodeCapability:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// sessionsOnly is the answer where the process has no requests that stand for
// themselves. Clients that speak other revisions, too, begin with initialize then.
func sessionsOnly(id []byte) []byte {
	if len(id) == 0 {
		id = []byte("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"this MCP server is a command that serves sessions; begin with initialize, in revision %s or before"}}`, id, mcp.LatestWithSessions)
}

// borrow returns a process of a caller that serves nothing else now. One without a name
// has a process for the request alone.
func (s *Server) borrow(ctx context.Context, caller string) (*session, error) {
	if one := s.idleOf(caller); one != nil {
		one.mu.Lock()
		one.queue = nil // unasked messages in between
		one.mu.Unlock()
		return one, nil
	}
	return s.begin(ctx, true, caller)
}

// begin starts the program. If there is no room for another process, or the client has its
// share of them, an idle one must end: of the client, if it has its share.
func (s *Server) begin(ctx context.Context, stateless bool, caller string) (*session, error) {
	client := mcp.ClientOf(ctx)
	for {
		one, err := s.start(stateless, caller, client)
		full, share := errors.Is(err, errFull), errors.Is(err, errShare)
		if !full && !share {
			return one, err
		}
		goes := s.makeRoom(func(one *session) bool { return full || one.client == client })
		if goes == nil {
			return nil, err
		}
		select {
		case <-goes.gone:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// idleOf takes a process of a caller that serves nothing, nil for none.
func (s *Server) idleOf(caller string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		if one.free && one.caller == caller && caller != "" && !one.ending.Load() {
			one.free = false
			return one
		}
	}
	return nil
}

// makeRoom returns one of some processes that will be gone: one that ends anyway, or else
// the one that is idle for longest; nil where all are in use.
func (s *Server) makeRoom(among func(*session) bool) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var idle *session
	var since time.Time
	for _, one := range s.sessions {
		if !among(one) {
			continue
		}
		if one.ending.Load() {
			return one
		}
		one.mu.Lock()
		used := one.used
		one.mu.Unlock()
		if one.free && (idle == nil || used.Before(since)) {
			idle, since = one, used
		}
	}
	if idle != nil {
		idle.end()
	}
	return idle
}

// giveBack keeps a process for the next request of its caller, or ends it.
func (s *Server) giveBack(one *session, good bool) {
	if !good || one.caller == "" {
		one.end()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.free = true
}
