package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// session is one process with who waits for it.
type session struct {
	id  string
	now func() time.Time
	log *slog.Logger
	process

	stateless bool   // it is no session, but serves requests that stand for themselves
	caller    string // whose those are, "" for none with a name
	client    string // for whom it counts
	free      bool   // it serves none now; guarded by the server's mu
	ending    atomic.Bool

	gone chan struct{} // closed when nothing more comes from it
	once sync.Once

	writing sync.Mutex // one message at a time

	dialogue
}

// process is the process of a session.
type process struct {
	cmd *exec.Cmd
	in  *os.File
	out *os.File

	killing sync.Mutex // guards reaped
	reaped  bool       // the process's id may be another process's from now on
}

// dialogue is what client and process say to each other.
type dialogue struct {
	mu      sync.Mutex         // guards the fields below
	waits   map[string]*waiter // of requests that are not answered yet, by id
	asking  []*waiter          // of requests, in their order
	follows *waiter            // who follows by GET; nil for none
	queue   [][]byte           // unasked messages of the process that are not taken yet
	said    int                // messages that were ever queued
	used    time.Time
}

// run starts the process, in its own group.
func (one *session) run(c Config) error {
	childIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, childIn.Close(), in.Close())
	}
	one.cmd = exec.Command(c.Command[0], c.Command[1:]...) //nolint:gosec,noctx // the operator's own command; it ends with its session
	one.cmd.Env, one.cmd.Dir = c.Env, c.Dir
	if c.Env == nil {
		one.cmd.Env = []string{} // none, and not all of ours
	}
	one.cmd.Stdin, one.cmd.Stdout, one.cmd.Stderr = childIn, childOut, c.Errors
	one.cmd.WaitDelay = endTime
	alone(one.cmd)
	one.in, one.out = in, out
	err = one.cmd.Start()
	_ = errors.Join(childIn.Close(), childOut.Close()) // they are the process's
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	return nil
}

// end has the process end: its input is closed, and after a while it is killed. What
// it started and what left its group may hold its output open, and is not waited for.
func (one *session) end() {
	one.once.Do(func() {
		one.ending.Store(true)
		_ = one.in.Close() // which tells it
		go func() {
			if one.goesWithin(endTime) {
				return
			}
			one.kill()
			one.cut()
		}()
	})
}

// cut leaves to themselves those who hold the output of a process that has ended.
func (one *session) cut() {
	if one.goesWithin(killTime) {
		return
	}
	one.log.Warn("an MCP server ended, and something that it started outside of its group still holds its output")
	_ = one.out.Close() // which ends read
}

func (one *session) goesWithin(d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-one.gone:
		return true
	case <-late.C:
		return false
	}
}

// kill ends the process and its group, unless it was waited for.
func (one *session) kill() {
	one.killing.Lock()
	defer one.killing.Unlock()
	if !one.reaped {
		kill(one.cmd)
	}
}

// exits ends the session when the process itself has ended. What it wrote is read; what it
// started and what left its group may hold its output open, and is not waited for.
func (one *session) exits() {
	if !exited(one.cmd) {
		return
	}
	_ = one.in.Close() // it is not read
	one.kill()
	one.cut()
}

// reap waits for the process, and ends what it left behind.
func (one *session) reap() {
	one.end()
	one.kill()
	one.killing.Lock()
	one.reaped = true
	one.killing.Unlock()
	if err := one.cmd.Wait(); err != nil {
		one.log.Info("an MCP server ended", slog.Any("error", err))
	}
	_ = one.out.Close()
}

// watch ends an unused session.
func (one *session) watch() {
	tick := time.NewTicker(idleTime / 8)
	defer tick.Stop()
	for {
		select {
		case <-one.gone:
			return
		case now := <-tick.C:
			one.mu.Lock()
			idle := len(one.asking) == 0 && one.follows == nil && now.Sub(one.used) > idleTime
			one.mu.Unlock()
			if idle {
				one.end()
			}
		}
	}
}

// write gives the process one message.
func (one *session) write(body []byte) error {
	one.mu.Lock()
	one.used = one.now()
	one.mu.Unlock()
	one.writing.Lock()
	defer one.writing.Unlock()
	_ = one.in.SetWriteDeadline(one.now().Add(writeTime)) // where pipes have none, a write waits
	if _, err := one.in.Write(OneLine(body)); err != nil {
		one.end() // half of a message may have been taken
		return fmt.Errorf("the MCP server takes nothing: %w", err)
	}
	return nil
}

// read takes what the process writes, until it ends or writes what cannot be read.
func (one *session) read() {
	lines := bufio.NewReaderSize(one.out, 64<<10)
	for {
		line, err := ReadLine(lines)
		if err == nil {
			err = one.take(bytes.TrimSpace(line))
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				one.log.Error("an MCP server was ended", slog.Any("error", err))
			}
			return
		}
	}
}

// ReadLine reads a line within the limit.
func ReadLine(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxLine:
			return nil, fmt.Errorf("it wrote a line of more than %d bytes", MaxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return line, err
	}
}
