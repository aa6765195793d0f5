package serve

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	shedTime  = 50 * time.Millisecond // for the answer to a connection that is shed
	shedAgain = 100 * time.Millisecond
	shedLog   = time.Minute // between two lines of the log
)

// shedAnswer is the answer to a client without a file descriptor left for it.
const shedAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 44\r\nConnection: close\r\n\r\nthe server is overloaded; try again shortly\n"

// Shedding keeps a file descriptor in reserve. When there is no other, it takes the next
// connection with the reserve, answers that the server is overloaded, and closes it: clients
// do not wait for nothing, and the log has one line a minute. Under TLS there is no answer
// without a handshake, and the connection is closed at once.
func Shedding(l net.Listener, secured bool, log *slog.Logger) net.Listener {
	s := &shedder{Listener: l, secured: secured, log: log}
	s.reserve, _ = os.Open(os.DevNull) // without it, further connections wait
	return s
}

type shedder struct {
	net.Listener
	secured bool
	log     *slog.Logger

	mu      sync.Mutex // guards the rest
	reserve *os.File
	shed    int
	logged  time.Time
}

// Accept implements net.Listener.
func (s *shedder) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err == nil || !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			return c, err
		}
		s.full(err)
	}
}

// full takes one connection with the reserve. If that cannot be had, it waits for others to
// give descriptors back.
func (s *shedder) full(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shed := false
	if s.reserve != nil {
		_ = s.reserve.Close()
		if c, err := s.Listener.Accept(); err == nil {
			s.turnAway(c)
			shed = true
			s.shed++
		}
	}
	if now := time.Now(); now.Sub(s.logged) >= shedLog {
		s.log.Error("there are no more file descriptors: new connections are turned away with 503; raise the limit (LimitNOFILE, ulimit -n) above limits.connections",
			slog.Any("error", why), slog.Int("turned_away", s.shed))
		s.logged, s.shed = now, 0
	}
	var err error
	if s.reserve, err = os.Open(os.DevNull); err != nil || !shed {
		<-time.After(shedAgain)
	}
}

// turnAway answers and closes. It first reads the bytes that the client has sent so far,
// since the answer would be lost otherwise.
func (s *shedder) turnAway(c net.Conn) {
	defer func() { _ = c.Close() }()
	if s.secured || c.SetDeadline(time.Now().Add(shedTime)) != nil {
		return
	}
	if _, err := io.WriteString(c, shedAnswer); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = c.Read(make([]byte, 16<<10))
	}
}

// Close implements net.Listener.
func (s *shedder) Close() error {
	err := s.Listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserve != nil {
		_ = s.reserve.Close()
		s.reserve = nil
	}
	return err
}
