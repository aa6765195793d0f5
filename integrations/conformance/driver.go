package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// maxLine bounds one request.
const maxLine = 1 << 20

// Run is one run of a driver in Go. Its methods may be called by several goroutines.
type Run struct {
	Request Request

	mu    sync.Mutex
	reply Reply
}

// Ran notes that the function of a tool was entered.
func (r *Run) Ran(tool string, arguments any) error {
	raw, err := json.Marshal(arguments)
	if err != nil {
		return fmt.Errorf("arguments of %s: %w", tool, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply.Ran = append(r.reply.Ran, Ran{tool, raw})
	return nil
}

// Told notes a result that the model was given.
func (r *Run) Told(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply.Told = append(r.reply.Told, text)
}

// Decided notes a decision that the adapter told.
func (r *Run) Decided(d Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply.Decisions = append(r.reply.Decisions, d)
}

// Asked notes a question to a person.
func (r *Run) Asked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply.Asked++
}

// Serve reads requests until in ends, and answers each after run has returned. An error
// of run is told as the framework's.
func Serve(ctx context.Context, in io.Reader, out io.Writer, run func(context.Context, *Run) error) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		r := &Run{}
		if err := json.Unmarshal(lines.Bytes(), &r.Request); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if err := run(ctx, r); err != nil {
			r.Told(err.Error())
		}
		r.mu.Lock()
		r.reply.ID = r.Request.ID
		err := answers.Encode(r.reply)
		r.mu.Unlock()
		if err != nil {
			return fmt.Errorf("reply: %w", err)
		}
	}
	return lines.Err()
}

// Tools returns what an adapter in Go is made of, and the context of the run.
func (r *Run) Tools(ctx context.Context) (context.Context, *guard.Tools, context.CancelFunc) {
	cancel := context.CancelFunc(func() {})
	if r.Request.WaitMS > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Request.WaitMS)*time.Millisecond)
	}
	return ctx, &guard.Tools{
		Gate: &guard.Gate{
			URL: r.Request.URL, Token: r.Request.Token,
			HTTP: &http.Client{Timeout: time.Duration(r.Request.TimeoutMS) * time.Millisecond},
		},
		Target: "tools", Wait: r.Request.WaitMS > 0, Asked: func(guard.Pending) { r.Asked() },
		Decided: func(tool string, d guard.Decision) {
			one := Decision{Tool: tool, Allowed: d.Allowed, ID: d.ID}
			if !d.Allowed {
				one.Code = (&guard.Refused{Decision: d}).Code()
			}
			r.Decided(one)
		},
	}, cancel
}

// Functions are the names of the tools that answer once.
func Functions() []string {
	return []string{"read_file", "delete_file", "send", "pay", "set_limit", "set_rate", "count", "tag", "title", "fails", "unlisted"}
}

// Function is what a tool does.
func (r *Run) Function(tool string, arguments map[string]any) (string, error) {
	if err := r.Ran(tool, arguments); err != nil {
		return "", err
	}
	switch tool {
	case "read_file":
		return fmt.Sprintf("text of %v", arguments["path"]), nil
	case "fails":
		return "", errors.New("disk")
	}
	return "done", nil
}
