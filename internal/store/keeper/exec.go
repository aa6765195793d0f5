package keeper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Version is that of the protocol with a program.
const Version = 1

// Bounds of the protocol.
const (
	maxLine     = 64 << 10
	maxSaid     = 200 // bytes of an error of the program
	maxPending  = 1024
	firstPause  = 100 * time.Millisecond // between two starts of a program that ends
	longPause   = 5 * time.Second
	closingTime = time.Second
)

// given are the variables of the environment that every program gets.
var given = []string{"PATH", "HOME", "TMPDIR", "LANG"}

// Exec is a program that keeps keys. It reads one request a line on its standard input,
// and writes one answer a line, in any order (docs/how-to/keys.md).
type Exec struct {
	command []string
	env     []string
	now     func() time.Time

	mu     sync.Mutex
	run    *run
	pause  time.Duration // before the next start
	ended  time.Time     // when the last run ended too early
	why    error
	closed bool
}

// NewExec returns the keeper of a command, which is started when it is first needed.
// names are variables of the environment that it gets.
func NewExec(command, names []string, now func() time.Time) (*Exec, error) {
	if len(command) == 0 || command[0] == "" {
		return nil, errors.New("the command of a signer is empty")
	}
	e := &Exec{command: command, now: now}
	for _, name := range slices.Concat(given, names) {
		if value, ok := os.LookupEnv(name); ok {
			e.env = append(e.env, name+"="+value)
		}
	}
	return e, nil
}

// String names the program; its arguments are not shown.
func (e *Exec) String() string { return "exec " + filepath.Base(e.command[0]) }

type request struct {
	ID        uint64 `json:"id"`
	Op        string `json:"op"`
	Version   int    `json:"version,omitempty"`
	Name      string `json:"name,omitempty"`
	Key       string `json:"key,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
	Message   string `json:"message,omitempty"` // base64url
}

type answer struct {
	ID         uint64          `json:"id"`
	Error      string          `json:"error"`
	Algorithms []string        `json:"algorithms"`
	Key        string          `json:"key"`
	Public     json.RawMessage `json:"public"`
	Signature  string          `json:"signature"` // base64url
}

// Create implements [Keeper].
func (e *Exec) Create(ctx context.Context, name string, algorithms []string) (Made, error) {
	hello, err := e.call(ctx, request{Op: "hello", Version: Version})
	if err != nil {
		return Made{}, err
	}
	algorithm, err := choose(hello.Algorithms, algorithms)
	if err != nil {
		return Made{}, err
	}
	a, err := e.call(ctx, request{Op: "create", Name: name, Algorithm: algorithm})
	if err != nil {
		return Made{}, err
	}
	public, err := readPublic(a.Public)
	return Made{Reference: a.Key, Public: public}, err
}

// choose returns the first algorithm of those that are wanted which is offered.
func choose(offered, wanted []string) (string, error) {
	for _, a := range wanted {
		if slices.Contains(offered, a) {
			return a, nil
		}
	}
	return "", fmt.Errorf("it has %s, and this key needs %s", strings.Join(offered, ", "), strings.Join(wanted, " or "))
}

// readPublic reads a public JWK.
func readPublic(data []byte) (k jose.JSONWebKey, err error) {
	if err := json.Unmarshal(data, &k); err != nil || !k.IsPublic() {
		return jose.JSONWebKey{}, errors.New("it answered without a public JWK")
	}
	return jose.JSONWebKey{Key: k.Key}, nil
}

// Public implements [Keeper].
func (e *Exec) Public(ctx context.Context, reference string) (jose.JSONWebKey, error) {
	a, err := e.call(ctx, request{Op: "public", Key: reference})
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	return readPublic(a.Public)
}

// Sign implements [Keeper].
func (e *Exec) Sign(ctx context.Context, reference, algorithm string, message []byte) ([]byte, error) {
	a, err := e.call(ctx, request{Op: "sign", Key: reference, Algorithm: algorithm, Message: base64.RawURLEncoding.EncodeToString(message)})
	if err != nil {
		return nil, err
	}
	signature, err := base64.RawURLEncoding.DecodeString(a.Signature)
	if err != nil {
		return nil, errors.New("its signature is not base64url")
	}
	return signature, nil
}

// call sends one request and waits for its answer. A program that is late is ended: calls
// fail then, until it was started again.
func (e *Exec) call(ctx context.Context, q request) (answer, error) {
	r, err := e.running()
	if err != nil {
		return answer{}, err
	}
	a, err := r.call(ctx, q)
	if err != nil {
		return answer{}, err
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("it says: %q", cut(a.Error))
	}
	return a, nil
}

func cut(text string) string { return text[:min(len(text), maxSaid)] }

// running returns the program, started when it does not run. After it ended too early
// there is a pause, in which every call fails at once.
func (e *Exec) running() (*run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("it is closed")
	}
	if e.run != nil {
		select {
		case <-e.run.done:
			e.note(e.run.reason())
		default:
			return e.run, nil
		}
	}
	if left := e.pause - e.now().Sub(e.ended); e.why != nil && left > 0 {
		return nil, fmt.Errorf("%w; it is started again in %v", e.why, left.Round(10*time.Millisecond))
	}
	r, err := start(e.command, e.env)
	if err != nil {
		e.note(err)
		return nil, err
	}
	r.worked = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pause = 0
	}
	e.run = r
	return r, nil
}

// note remembers that a run ended, and doubles the pause before the next one.
func (e *Exec) note(why error) {
	e.run, e.why, e.ended = nil, why, e.now()
	e.pause = min(max(2*e.pause, firstPause), longPause)
}

// Close implements [Keeper]. The program sees the end of its input.
func (e *Exec) Close() error {
	e.mu.Lock()
	r := e.run
	e.run, e.closed = nil, true
	e.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.close()
}

// run is one process of the program.
type run struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    chan []byte
	worked func() // after an answer
	done   chan struct{}
	over   sync.Once

	mu      sync.Mutex
	pending map[uint64]chan answer
	last    uint64
	why     error
}

func start(command, env []string) (*run, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the operator names it, and it lives as long as the server
	cmd.Env, cmd.Stderr, cmd.WaitDelay = env, os.Stderr, closingTime
	alone(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("it cannot be started: %w", err)
	}
	r := &run{cmd: cmd, stdin: stdin, out: make(chan []byte, maxPending), done: make(chan struct{}), pending: map[uint64]chan answer{}}
	go r.write()
	go r.read(stdout)
	return r, nil
}

func (r *run) write() {
	for {
		select {
		case line := <-r.out:
			if _, err := r.stdin.Write(line); err != nil {
				r.end(fmt.Errorf("it takes no requests: %w", err))
				return
			}
		case <-r.done:
			return
		}
	}
}

func (r *run) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	err := errors.New("the program ended")
	for lines.Scan() {
		if err = r.take(lines.Bytes()); err != nil {
			break
		}
		err = errors.New("the program ended")
	}
	if errScan := lines.Err(); errScan != nil {
		err = fmt.Errorf("its answer is no line of at most %d bytes: %w", maxLine, errScan)
	}
	r.end(err)
	_ = r.cmd.Wait() // a reason is known already
}

// take hands one answer to the call that waits for it.
func (r *run) take(line []byte) error {
	var a answer
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(&a); err != nil || d.More() {
		return errors.New("its answer is not one JSON object on one line")
	}
	r.mu.Lock()
	waits, ok := r.pending[a.ID]
	delete(r.pending, a.ID)
	r.mu.Unlock()
	if !ok {
		return fmt.Errorf("it answered request %d, which does not wait", a.ID)
	}
	r.worked()
	waits <- a
	return nil
}

func (r *run) call(ctx context.Context, q request) (answer, error) {
	waits := make(chan answer, 1)
	r.mu.Lock()
	if len(r.pending) >= maxPending {
		r.mu.Unlock()
		return answer{}, fmt.Errorf("%d requests wait for it already", maxPending)
	}
	r.last++
	q.ID = r.last
	r.pending[q.ID] = waits
	r.mu.Unlock()
	line, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	r.out <- append(line, '\n') // as many fit in as may wait
	select {
	case a := <-waits:
		return a, nil
	case <-r.done:
		return answer{}, r.reason()
	case <-ctx.Done():
		r.end(errors.New("the program did not answer in time"))
		return answer{}, r.reason()
	}
}

func (r *run) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// end ends the process, once.
func (r *run) end(why error) {
	r.over.Do(func() {
		r.mu.Lock()
		r.why = why
		r.mu.Unlock()
		close(r.done)
		kill(r.cmd)
	})
}

func (r *run) close() error {
	err := r.stdin.Close()
	if errors.Is(err, os.ErrClosed) { // it has ended
		err = nil
	}
	timer := time.NewTimer(closingTime)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		r.end(errors.New("it did not end with its input"))
	}
	return err
}
