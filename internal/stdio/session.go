package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/mcp"
)

// session is one process with who waits for it.
type session struct {
	id  string
	now func() time.Time
	log *slog.Logger
	cmd *exec.Cmd
	in  *os.File
	out *os.File

	gone chan struct{} // closed when nothing more comes from it
	once sync.Once

	writing sync.Mutex // one message at a time

	mu     sync.Mutex // guards the fields below
	waits  map[string]chan []byte
	queue  [][]byte
	stream chan struct{}   // of who follows by GET; nil for nobody. It is told of the queue
	asking []chan struct{} // of requests, which are told where nobody follows
	used   time.Time
}

// run starts the process, in a group of its own.
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

// end has the process end: its input is closed, and after a while it is killed.
func (one *session) end() {
	one.once.Do(func() {
		_ = one.in.Close() // which tells it
		go func() {
			select {
			case <-one.gone:
			case <-time.After(endTime):
				kill(one.cmd)
			}
		}()
	})
}

// reap waits for the process, and ends what it left behind.
func (one *session) reap() {
	one.end()
	kill(one.cmd)
	if err := one.cmd.Wait(); err != nil {
		one.log.Info("an MCP server ended", slog.Any("error", err))
	}
	_ = one.out.Close()
}

// watch ends a session that nobody uses any more.
func (one *session) watch() {
	tick := time.NewTicker(idleTime / 8)
	defer tick.Stop()
	for {
		select {
		case <-one.gone:
			return
		case now := <-tick.C:
			one.mu.Lock()
			idle := len(one.waits) == 0 && one.stream == nil && now.Sub(one.used) > idleTime
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
	defer close(one.gone)
	lines := bufio.NewReaderSize(one.out, 64<<10)
	for {
		line, err := ReadLine(lines)
		if err == nil {
			err = one.take(bytes.TrimSpace(line))
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
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

// take brings one message to who waits for it. What is no object is talk, which
// servers should not write there; an object that could be read in two ways is an
// error.
func (one *session) take(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	if line[0] != '{' {
		one.log.Warn("an MCP server writes what is no message to its standard output")
		return nil
	}
	v, err := powerbox.DecodeValue(line, powerbox.Limits{Bytes: MaxLine, Depth: 64})
	if err != nil {
		return fmt.Errorf("it wrote a message that cannot be read: %w", err)
	}
	id, hasID := v.Get("id")
	_, named := v.Get("method")
	one.mu.Lock()
	defer one.mu.Unlock()
	if hasID && !named {
		key := string(id.AppendJSON(nil))
		if answer := one.waits[key]; answer != nil {
			delete(one.waits, key)
			answer <- line
		}
		return nil // nobody waits for it any more
	}
	if len(one.queue) >= maxQueue {
		one.queue = one.queue[1:]
		one.log.Warn("messages of an MCP server are dropped: nobody follows them")
	}
	one.queue = append(one.queue, line)
	told := one.stream
	if told == nil && len(one.asking) > 0 {
		told = one.asking[0]
	}
	select {
	case told <- struct{}{}: // nil takes nothing
	default:
	}
	return nil
}

// ask gives the process a request, and answers with its response: as JSON, or, where
// the process says something before that and nobody else listens, as events.
func (one *session) ask(r *http.Request, id string, body []byte) (*http.Response, error) {
	answer := make(chan []byte, 1)
	one.mu.Lock()
	switch {
	case len(one.waits) >= maxWait:
		one.mu.Unlock()
		return said(r, http.StatusTooManyRequests, "", nil), nil
	case one.waits[id] != nil:
		one.mu.Unlock()
		return said(r, http.StatusBadRequest, "", nil), nil // the id is in use
	}
	one.waits[id] = answer
	one.mu.Unlock()
	forget := func() {
		one.mu.Lock()
		delete(one.waits, id)
		one.mu.Unlock()
	}
	if err := one.write(body); err != nil {
		forget()
		return nil, err
	}
	told, release := one.listen()
	select {
	case data := <-answer:
		release()
		return one.whole(r, data), nil
	case <-told:
	case <-r.Context().Done():
		release()
		forget()
		return nil, r.Context().Err()
	case <-one.gone:
		release()
		data, err := one.waitFor(r.Context(), answer)
		forget()
		return one.whole(r, data), err
	}
	from, to := io.Pipe()
	go func() {
		defer release()
		defer forget()
		_ = to.CloseWithError(one.events(r, to, told, answer))
	}()
	return one.streamed(r, from), nil
}

// listen has a request be told of what the process says by itself while nobody
// follows.
func (one *session) listen() (told chan struct{}, release func()) {
	one.mu.Lock()
	defer one.mu.Unlock()
	told = make(chan struct{}, 1)
	one.asking = append(one.asking, told)
	if len(one.queue) > 0 && one.stream == nil {
		told <- struct{}{}
	}
	return told, func() {
		one.mu.Lock()
		defer one.mu.Unlock()
		one.asking = slices.DeleteFunc(one.asking, func(c chan struct{}) bool { return c == told })
		one.used = one.now()
	}
}

// follow is the stream of what the process says by itself. There is one at a time.
func (one *session) follow(r *http.Request) *http.Response {
	one.mu.Lock()
	if one.stream != nil {
		one.mu.Unlock()
		return said(r, http.StatusConflict, "", nil)
	}
	told := make(chan struct{}, 1)
	one.stream = told
	if len(one.queue) > 0 {
		told <- struct{}{}
	}
	one.mu.Unlock()
	release := func() {
		one.mu.Lock()
		defer one.mu.Unlock()
		one.stream, one.used = nil, one.now()
	}
	from, to := io.Pipe()
	go func() {
		defer release()
		_ = to.CloseWithError(one.events(r, to, told, nil))
	}()
	return one.streamed(r, from)
}

// events writes what the process says as events, until the answer that is waited for
// has come, or, without one, until the client or the process has gone.
func (one *session) events(r *http.Request, to io.Writer, told <-chan struct{}, answer <-chan []byte) error {
	for {
		var last bool
		var lines [][]byte
		select {
		case <-told:
			one.mu.Lock()
			lines, one.queue = one.queue, nil
			one.mu.Unlock()
		case data := <-answer:
			one.mu.Lock()
			lines, one.queue = append(one.queue, data), nil
			one.mu.Unlock()
			last = true
		case <-r.Context().Done():
			return r.Context().Err()
		case <-one.gone:
			return errors.New("the MCP server ended")
		}
		for _, line := range lines {
			if _, err := fmt.Fprintf(to, "event: message\ndata: %s\n\n", line); err != nil {
				return err
			}
		}
		if last {
			return io.EOF
		}
	}
}

func (one *session) whole(r *http.Request, data []byte) *http.Response {
	if data == nil {
		return nil
	}
	answer := said(r, http.StatusOK, "application/json", data)
	answer.Header.Set(mcp.HeaderSession, one.id)
	return answer
}

func (one *session) streamed(r *http.Request, body io.ReadCloser) *http.Response {
	answer := said(r, http.StatusOK, "text/event-stream", nil)
	answer.Body, answer.ContentLength = body, -1
	answer.Header.Set(mcp.HeaderSession, one.id)
	return answer
}
