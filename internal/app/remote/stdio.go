package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/proxy/stdio"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
	"github.com/powerbox-project/powerbox/token"
)

// Child makes the server that runs the command.
func (o MCPOptions) Child(p Process, log *slog.Logger) (*stdio.Server, error) {
	env := []string{}
	if o.secret != "" {
		env = append(env, o.secret)
	}
	for _, name := range append(append([]string{}, Given...), o.Env...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	share := o.Share
	if share == 0 {
		share = max(1, o.Sessions/4)
	}
	if o.Stdio {
		share = 0 // there is one client
	}
	said := p.Stderr
	if _, secret, ok := strings.Cut(o.secret, "="); ok {
		said = credential.Writer(said, secret)
	}
	return stdio.New(stdio.Config{Command: o.Command, Env: env, Errors: said, Sessions: o.Sessions, Share: share, Now: p.Now, Log: log})
}

// stdioFront is one client that speaks by lines. Its messages go to the gateway's own
// address as any client's do, under its capability.
type stdioFront struct {
	url  string // where the gateway listens, with the agent's path
	aud  string // the agent's public URL
	http *http.Client
	held func() (holder.Capability, error)
	key  *token.PrivateKey
	ops  map[string]string // operations by tool, and by method behind "method "
	now  func() time.Time
	log  *slog.Logger

	writing sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	session string
	waiting map[*underWay]bool
}

// endTime bounds the last request of a session, which ends it.
const endTime = time.Minute

// errCancelled is the end of a request that its host wants no answer to any more.
var errCancelled = errors.New("the host has cancelled the request")

// underWay is a request that stands for itself and is not answered yet. A host may use
// its id again as soon as it has the answer, so that two can have one.
type underWay struct {
	id     string
	cancel context.CancelCauseFunc
}

// cancellable returns the context that a request which stands for itself runs under. Its
// host cancels it by a notification, and over HTTP that is the end of the connection.
func (f *stdioFront) cancellable(ctx context.Context, m mcp.Message) (context.Context, func()) {
	if !m.Stateless() || m.Kind != mcp.Request {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	one := &underWay{string(m.ID), cancel}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting == nil {
		f.waiting = map[*underWay]bool{}
	}
	f.waiting[one] = true
	return ctx, func() {
		cancel(nil)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waiting, one)
	}
}

// cancel ends the requests with the id that a notification names, and reports whether
// there were any.
func (f *stdioFront) cancel(line []byte) bool {
	v, err := powerbox.DecodeValue(line, powerbox.Limits{Bytes: stdio.MaxLine, Depth: 64})
	if err != nil {
		return false // it was decoded before
	}
	params, _ := v.Get("params")
	named, _ := params.Get("requestId")
	id, some := string(named.AppendJSON(nil)), false
	f.mu.Lock()
	defer f.mu.Unlock()
	for one := range f.waiting {
		if one.id == id {
			one.cancel(errCancelled)
			some = true
		}
	}
	return some
}

// newStdioFront is the client of a gateway that listens.
func newStdioFront(g *remoteGateway, p Process, at net.Addr) (*stdioFront, error) {
	key, err := holder.LoadKey(g.options.MCP.Key)
	if err != nil {
		return nil, err
	}
	f := g.face.Load()
	public := f.gateway.URL(g.enrolled.Agent)
	return &stdioFront{
		url: "http://" + at.String() + "/agents/" + g.enrolled.Agent, aud: public, http: stayingClient(), key: key, ops: mappedOps(f.config, g.enrolled.Agent), now: p.Now, log: g.log, out: p.Stdout,
		// The capability is read again for every message, so a new one in the file is used at
		// once.
		held: func() (holder.Capability, error) { return g.options.MCP.Read(g.options.MCP.Capability) },
	}, nil
}

// stayingClient goes nowhere else with a capability than where it was told to.
func stayingClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func mappedOps(c *config.Config, agent string) map[string]string {
	ops := map[string]string{}
	for _, s := range c.Skills[agent] {
		ops[s.Skill] = agent + "/" + s.Grant + "/" + s.Operation
	}
	for _, a := range c.Agents {
		for method, op := range a.MCP.Methods {
			ops["method "+method] = agent + "/" + op
		}
	}
	return ops
}

// run reads messages until there are no more, or ctx ends, and returns when all of
// them were answered.
func (f *stdioFront) run(ctx context.Context, in io.Reader) error {
	var waiting, following sync.WaitGroup
	defer following.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer waiting.Wait() // who says nothing more still reads
	lines := bufio.NewReaderSize(in, 64<<10)
	limit := make(chan struct{}, 64) // messages under way
	for ctx.Err() == nil {
		line, err := stdio.ReadLine(lines)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			m, wrong := mcp.Decode(line, powerbox.Limits{Bytes: stdio.MaxLine, Depth: 64})
			if m.Method == "initialize" || m.Kind != mcp.Request {
				f.message(ctx, m, wrong, line) // in the order that they came
			} else {
				select {
				case limit <- struct{}{}:
					ctx, done := f.cancellable(ctx, m) // its cancellation may come right behind
					waiting.Go(func() {
						defer func() { <-limit }()
						defer done()
						f.message(ctx, m, wrong, line)
					})
				default: // a waiting request may need a message that comes behind this one
					f.refuse(m.ID, internalError, "too many requests are under way; try again when one was answered")
				}
			}
			if m.Method == "notifications/initialized" {
				following.Go(func() { f.follow(ctx) })
			}
		}
		if err != nil {
			waiting.Wait()
			f.end()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
	return nil
}

// message passes one message on, and writes the answer.
func (f *stdioFront) message(ctx context.Context, m mcp.Message, wrong *a2a.Error, line []byte) {
	if wrong != nil {
		f.refuse(m.ID, wrong.Code, wrong.Message)
		return
	}
	if m.Method == "notifications/cancelled" && f.cancel(line) {
		return
	}
	if err := f.pass(ctx, m, line); err != nil && !errors.Is(context.Cause(ctx), errCancelled) {
		f.failed(m, err)
	}
}

// pass has the gateway answer a message, and writes the answer.
func (f *stdioFront) pass(ctx context.Context, m mcp.Message, line []byte) error {
	r, err := f.request(ctx, http.MethodPost, m, line)
	if err != nil {
		return err
	}
	answer, err := f.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if id := answer.Header.Get(mcp.HeaderSession); id != "" && m.Method == "initialize" {
		f.mu.Lock()
		f.session = id
		f.mu.Unlock()
	}
	return f.answered(m, answer)
}

// answered writes the messages of an answer.
func (f *stdioFront) answered(m mcp.Message, answer *http.Response) error {
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return f.events(answer.Body)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, stdio.MaxLine+1))
	body = bytes.TrimSpace(body)
	switch {
	case err != nil || len(body) > stdio.MaxLine:
		return errors.New("the answer cannot be read")
	case len(body) > 0 && body[0] == '{' && m.Kind == mcp.Request:
		f.write(body)
	case m.Kind == mcp.Request:
		return fmt.Errorf("HTTP status %s", answer.Status)
	case answer.StatusCode >= http.StatusBadRequest:
		f.log.Warn("a message of the host was refused", slog.String("status", answer.Status))
	}
	return nil
}

// request is a message as a client of Streamable HTTP sends it, with the capability
// and a proof of it.
func (f *stdioFront) request(ctx context.Context, method string, m mcp.Message, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, f.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	f.mu.Lock()
	if f.session != "" && !m.Stateless() {
		r.Header.Set(mcp.HeaderSession, f.session)
	}
	f.mu.Unlock()
	for name, value := range m.Headers() {
		r.Header.Set(name, value)
	}
	held, err := f.held()
	if err != nil {
		return nil, err
	}
	if held.Chain == nil {
		r.Header.Set(holder.HeaderCapability, held.ID)
		return r, nil
	}
	operation, arguments := a2a.OperationMessage, powerbox.Object()
	if op, ok := f.ops[m.Tool]; ok && m.IsTool() {
		operation, arguments = op, m.Arguments
	} else if op, ok := f.ops["method "+m.Method]; ok && m.IsRuled() {
		operation, arguments = op, m.Arguments
	} else if op, ok := f.ops["method "+mcp.Subscribe]; ok && len(m.Resources) > 0 {
		// That of the first one; the others are in the bytes, which the proof is about, too.
		operation, arguments = op, powerbox.Object(powerbox.Member{Name: "uri", Value: powerbox.String(m.Resources[0])})
	}
	proof, err := token.SignProof(held.Chain, f.key, token.Proof{
		ID: rand.Text(), IssuedAt: f.now(), Operation: operation, Arguments: arguments, Audience: f.aud,
		Request: &token.Request{Method: method, URL: f.aud, Digest: token.DigestOf(body)},
	})
	r.Header.Set(holder.HeaderCapability, token.JoinChain(held.Chain))
	r.Header.Set(holder.HeaderProof, proof)
	return r, err
}

// follow writes the messages that the server sends unasked.
func (f *stdioFront) follow(ctx context.Context) {
	r, err := f.request(ctx, http.MethodGet, mcp.Message{}, nil)
	if err != nil {
		return // calls say why
	}
	answer, err := f.http.Do(r)
	if err != nil {
		return
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if answer.StatusCode == http.StatusOK {
		_ = f.events(answer.Body) // it ends with the session
	}
}

// end ends the session.
func (f *stdioFront) end() {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if r, err := f.request(ctx, http.MethodDelete, mcp.Message{}, nil); err == nil && r.Header.Get(mcp.HeaderSession) != "" {
		if answer, err := f.http.Do(r); err == nil {
			_ = answer.Body.Close() // it has nothing to read
		}
	}
}

// events writes the messages of a stream, each event whole: the lines of its data are
// one message together, of which a line alone may look like another.
func (f *stdioFront) events(from io.ReadCloser) error {
	messages := mcp.NewEvents(from, stdio.MaxLine+1<<10, func(data []byte) ([]byte, bool, error) {
		f.write(bytes.TrimSpace(data))
		return nil, false, nil
	})
	_, err := io.Copy(io.Discard, messages)
	return err
}

// failed answers a request that could not be passed on.
func (f *stdioFront) failed(m mcp.Message, err error) {
	f.log.Warn("a message of the host was not passed on", slog.Any("error", err))
	if m.Kind != mcp.Request {
		return
	}
	f.refuse(m.ID, internalError, "the gateway could not pass it on: "+err.Error())
}

// internalError is the code of JSON-RPC for errors on the way.
const internalError = -32603

// refuse answers with an error. A message whose id cannot be read has none.
func (f *stdioFront) refuse(id []byte, code int, message string) {
	if len(id) == 0 {
		id = []byte("null")
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "error": map[string]any{"code": code, "message": message}})
	if err == nil { // a decoded value can be written
		f.write(answer)
	}
}

// write writes one message on a line.
func (f *stdioFront) write(message []byte) {
	if len(message) == 0 {
		return
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	if _, err := f.out.Write(stdio.OneLine(message)); err != nil {
		f.log.Warn("the host takes nothing any more", slog.Any("error", err))
	}
}

// readyTime is how long a host's first message waits for the gateway to be ready.
const readyTime = 15 * time.Second

// canServe reports whether calls can be decided and recorded.
func (g *remoteGateway) canServe(ctx context.Context) bool {
	answer := g.ready(ctx)
	return answer.Status == ""
}

// awaitReady returns when calls can be decided, or it takes too long, and they are denied
// with the reason.
func (g *remoteGateway) awaitReady(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := g.now().Add(readyTime); !g.canServe(ctx) && g.now().Before(until); {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// speak takes the one client that speaks by our standard input. The context that it
// returns ends with that client, because the gateway serves no other.
func (g *remoteGateway) speak(ctx context.Context, p Process, at net.Addr) (context.Context, error) {
	f, err := newStdioFront(g, p, at)
	if err != nil {
		return ctx, err
	}
	ctx, done := context.WithCancel(ctx)
	go func() {
		defer done()
		g.awaitReady(ctx) // a host begins at once, without asking for readiness
		if err := f.run(ctx, p.Stdin); err != nil {
			g.log.WarnContext(ctx, "the host's messages cannot be read any more", slog.Any("error", err))
		}
	}()
	return ctx, nil
}
