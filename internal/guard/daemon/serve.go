package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/filelock"
	"github.com/powerbox-project/powerbox/internal/guard/clients"
)

// Socket is where the daemon of a folder listens. A path of a socket is short, so it is not
// below the state folder.
type Socket struct {
	Dir string // of mode 0700, this user's alone
	UID int    // of this user
}

// Path is the path of the socket.
func (s Socket) Path() string { return filepath.Join(s.Dir, "guard.sock") }

// own makes sure that the folder is this user's alone.
func (s Socket) own() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(s.Dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ownerOf(info) != s.UID {
		return fmt.Errorf("%s is not a folder of this user alone (mode 0700). Remove it, or set POWERBOX_GUARD_RUNTIME to another folder", s.Dir)
	}
	return nil
}

// Request is a line to the daemon.
type Request struct {
	Do     string          `json:"do"` // hook, questions, answer, describe, stop
	Client string          `json:"client,omitempty"`
	Input  []byte          `json:"input,omitempty"` // of a hook, as it came
	Answer *Answer         `json:"answer,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Response is the daemon's answer, a line as well.
type Response struct {
	Output    *clients.Output `json:"output,omitempty"`
	Questions []Question      `json:"questions,omitempty"`
	Text      string          `json:"text,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// maxRequest bounds a request. A hook's input holds whole files.
const maxRequest = 32 << 20

// Run opens a daemon and serves it. The lock is taken first: of two that start at once, one
// opens the log.
func Run(ctx context.Context, c Config, at Socket, idle time.Duration, ready func()) error {
	if err := at.own(); err != nil {
		return err
	}
	lock, err := filelock.Take(filepath.Join(c.State, "lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // it ends with the process anyway
	d, err := New(c)
	if err != nil {
		return err
	}
	return errors.Join(serve(ctx, d, at, idle, ready), d.Close())
}

// serve answers requests until ctx ends, a request stops it, or none came for the idle time.
func serve(ctx context.Context, d *Daemon, at Socket, idle time.Duration, ready func()) error {
	_ = os.Remove(at.Path()) // of a daemon that was killed: the lock says that none runs
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", at.Path())
	if err != nil {
		return err
	}
	if err := os.Chmod(at.Path(), 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	ready()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	quiet := time.AfterFunc(idle, stop)
	defer quiet.Stop()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	var busy sync.WaitGroup
	defer busy.Wait()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		quiet.Reset(idle)
		busy.Go(func() { handle(ctx, d, at, conn, stop) })
	}
}

func handle(ctx context.Context, d *Daemon, at Socket, conn net.Conn, stop func()) {
	defer func() { _ = conn.Close() }() // the answer was written, or the client is gone
	if uid, err := peer(conn); err != nil || uid != at.UID {
		return
	}
	var request Request
	if err := json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&request); err != nil {
		return
	}
	response := respond(ctx, d, request)
	if request.Do == "stop" {
		defer stop()
	}
	out := bufio.NewWriter(conn)
	if json.NewEncoder(out).Encode(response) == nil {
		_ = out.Flush()
	}
}

func respond(ctx context.Context, d *Daemon, r Request) Response {
	switch r.Do {
	case "hook":
		c, err := clients.Find(r.Client)
		if err != nil {
			return Response{Error: err.Error()}
		}
		out := d.Hook(ctx, c, r.Input)
		return Response{Output: &out}
	case "questions":
		return Response{Questions: d.Questions()}
	case "answer":
		if r.Answer == nil {
			return Response{Error: "the answer is missing"}
		}
		if err := d.Say(*r.Answer); err != nil {
			return Response{Error: err.Error()}
		}
		return Response{}
	case "stop":
		return Response{}
	}
	return Response{Error: fmt.Sprintf("the daemon does not know %q", r.Do)}
}

// Call sends one request to the daemon.
func Call(ctx context.Context, at Socket, r Request) (Response, error) {
	var response Response
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", at.Path())
	if err != nil {
		return response, err
	}
	defer func() { _ = conn.Close() }() // the answer was read
	if uid, err := peer(conn); err != nil || uid != at.UID {
		return response, errors.Join(fmt.Errorf("another user listens on %s", at.Path()), err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return response, err
		}
	}
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return response, err
	}
	if err := json.NewDecoder(conn).Decode(&response); err != nil {
		return response, fmt.Errorf("the daemon gave no answer: %w", err)
	}
	if response.Error != "" {
		return response, errors.New(response.Error)
	}
	return response, nil
}
