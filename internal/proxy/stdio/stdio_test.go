//go:build linux

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain is the program that the tests run, where its first argument says so: it
// answers requests, and does what their method says. It ends by [syscall.Exit], since the
// race detector has a process wait for a second in [os.Exit].
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "left":
		leftBehind(os.Args[2])
	case len(os.Args) < 2 || os.Args[1] != "server":
		os.Exit(m.Run())
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, MaxLine)
	for lines.Scan() {
		var id string
		text := lines.Text()
		if _, rest, ok := strings.Cut(text, `"id":`); ok {
			id = strings.TrimRight(strings.SplitN(rest, ",", 2)[0], "}")
		}
		switch {
		case strings.Contains(text, "server/discover") && os.Getenv("SESSIONS_ALONE") != "":
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"no"}}`)
		case strings.Contains(text, "test/die"):
			syscall.Exit(3)
		case strings.Contains(text, "test/loud"):
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":"` + strings.Repeat("x", MaxLine) + `"}`)
		case strings.Contains(text, "test/twice"):
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":1,"result":2}`)
		case strings.Contains(text, "test/talk"):
			fmt.Println("starting up ...")
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		case strings.Contains(text, "test/last"):
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
			syscall.Exit(0)
		case strings.Contains(text, "test/no"):
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32602,"message":"no"}}`)
		case strings.Contains(text, "test/leave/"):
			_, at, _ := strings.Cut(text, "test/leave/")
			at, _, _ = strings.Cut(at, `"`)
			at, apart := strings.CutPrefix(at, "apart/")
			left := exec.Command(os.Args[0], "left", at)
			if apart {
				left.Stdout, left.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
			}
			if err := left.Start(); err != nil {
				panic(err)
			}
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		case strings.Contains(text, "test/environment"):
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%q}`+"\n", id, strings.Join(os.Environ(), " "))
		case strings.Contains(text, "test/pid"):
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%d}`+"\n", id, os.Getpid())
		case strings.Contains(text, "test/mute"):
			_ = os.Stdout.Close()
			<-time.After(time.Hour)
		case strings.Contains(text, "test/deaf"):
			<-time.After(time.Hour)
		case id != "":
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		}
	}
	syscall.Exit(0)
}

// leftBehind is a process that a server has started. It is there as long as its
// connection is, or as the other end of that wants it to be.
func leftBehind(at string) {
	c, err := net.Dial("tcp", at)
	if err == nil {
		_, _ = io.Copy(c, c)
	}
	syscall.Exit(0)
}

// lines returns the log so far; sessions that end continue with it.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func serve(t *testing.T, env ...string) (*Server, *lines) {
	t.Helper()
	log := &lines{}
	s, err := New(Config{Command: []string{os.Args[0], "server"}, Env: env, Errors: io.Discard, Sessions: 2, Now: now, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, log
}

func say(t *testing.T, s *Server, session, body string) (status int, id, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	got, err := s.RoundTrip(r)
	if err != nil {
		return 0, "", err.Error()
	}
	data, err := io.ReadAll(got.Body)
	if err != nil {
		return got.StatusCode, "", err.Error()
	}
	return got.StatusCode, got.Header.Get("Mcp-Session-Id"), string(data)
}

func request(method string) string { return `{"jsonrpc":"2.0","id":7,"method":"` + method + `"}` }

func begin(t *testing.T, s *Server) string {
	t.Helper()
	status, id, answer := say(t, s, "", `{"jsonrpc":"2.0",`+"\n\r"+`"id":1,"method":"initialize","params":{}}`)
	if status != http.StatusOK || id == "" || answer != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Fatalf("initialize: %d %q %s", status, id, answer)
	}
	return id
}

// A session is a separate process; no other session has its id.
func TestGATE9_SessionsAreProcesses(t *testing.T) {
	s, _ := serve(t)
	one, other := begin(t, s), begin(t, s)
	_, _, first := say(t, s, one, request("test/pid"))
	_, _, second := say(t, s, other, request("test/pid"))
	if first == second || one == other || !strings.Contains(first, "result") {
		t.Errorf("two sessions are %s and %s", first, second)
	}
	if status, _, _ := say(t, s, "", request("initialize")); status != http.StatusServiceUnavailable {
		t.Errorf("a third session of two: %d", status)
	}
	for id, want := range map[string]int{"nobody's": http.StatusNotFound, "": http.StatusBadRequest} {
		if status, _, _ := say(t, s, id, request("ping")); status != want {
			t.Errorf("the session %q: %d; want %d", id, status, want)
		}
	}
}

// What a process writes is read within limits and in one way; talk is not passed on.
func TestGATE9_WhatProcessesWrite(t *testing.T) {
	s, log := serve(t)
	id := begin(t, s)
	status, _, answer := say(t, s, id, request("test/talk"))
	if status != http.StatusOK || !strings.Contains(answer, "notifications/progress") || !strings.Contains(answer, `data: {"jsonrpc":"2.0","id":7,"result":{}}`) || strings.Contains(answer, "starting") {
		t.Errorf("talk before an answer: %d %s", status, answer)
	}
	// A process that ends behind its answer has answered.
	if status, _, answer = say(t, s, id, request("test/last")); status != http.StatusOK || !strings.HasPrefix(answer, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\"") || !strings.HasSuffix(answer, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n") {
		t.Errorf("an answer before the end: %d %s", status, answer)
	}
	for method, why := range map[string]string{"test/twice": "cannot be read", "test/loud": "a line of more than"} {
		id := begin(t, s)
		if status, _, answer := say(t, s, id, request(method)); status != 0 || !strings.Contains(answer, "ended") {
			t.Errorf("%s: %d %.100s", method, status, answer)
		}
		if !strings.Contains(log.String(), why) {
			t.Errorf("%s: the log says %s", method, log)
		}
	}
}

// A process that ends takes its session with it, and a client begins anew; the
// processes of a server that is closed are gone, whatever they do.
func TestGATE9_ProcessesEnd(t *testing.T) {
	t.Parallel() // with the others that wait for a process which does not end unasked
	s, _ := serve(t)
	id := begin(t, s)
	if status, _, answer := say(t, s, id, request("test/die")); status != 0 || !strings.Contains(answer, "ended") {
		t.Errorf("a process that dies: %d %s", status, answer)
	}
	begin(t, s)
	id = begin(t, s)
	var pid int
	_, _, answer := say(t, s, id, request("test/pid"))
	if _, err := fmt.Sscanf(answer, `{"jsonrpc":"2.0","id":7,"result":%d}`, &pid); err != nil {
		t.Fatal(answer, err)
	}
	if status, _, _ := say(t, s, id, `{"jsonrpc":"2.0","method":"notifications/x","params":{"what":"test/deaf"}}`); status != http.StatusAccepted {
		t.Errorf("a notification: %d", status)
	}
	s.Close()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is there after Close", pid)
	}
	if status, _, _ := say(t, s, "", request("initialize")); status != http.StatusServiceUnavailable {
		t.Errorf("a session after Close: %d", status)
	}
}

// What a process started in its group ends with it; Powerbox does not wait for one
// that it started outside the group, even if that one holds the output open.
func TestGATE9_WhatProcessesLeaveBehind(t *testing.T) {
	t.Parallel() // with the others that wait for a process which does not end unasked
	for _, where := range []string{"", "apart/"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }() // nothing in it is for anybody
		s, _ := serve(t)
		id := begin(t, s)
		if status, _, answer := say(t, s, id, request("test/leave/"+where+listener.Addr().String())); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		left, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = left.Close() }) // which ends it
		ended := make(chan struct{})
		go func() { s.Close(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%q: Close waits for what a server started", where)
		}
		if where != "" {
			continue
		}
		if err := left.SetReadDeadline(now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := left.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q: what a server started is there after Close: %v", where, err)
		}
	}
}

// The end of the process itself is the end of its session, regardless of who holds its output: who
// waits is told, what it wrote last is passed on, and its place is free.
func TestGATE9_ProcessesEndBeforeWhatTheyStarted(t *testing.T) {
	t.Parallel() // with the others that wait for a process which does not end unasked
	for method, want := range map[string]string{"test/die": "ended", "test/last": `{"jsonrpc":"2.0","id":7,"result":{}}`} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }() // nothing in it is for anybody
		s, log := serve(t)
		id := begin(t, s)
		if status, _, answer := say(t, s, id, request("test/leave/apart/"+listener.Addr().String())); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		left, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = left.Close() }() // which ends it
		if _, _, answer := say(t, s, id, request(method)); !strings.Contains(answer, want) {
			t.Errorf("%s: %q; want %q", method, answer, want)
		}
		for at := now(); ; {
			if status, _, _ := say(t, s, id, request("ping")); status == http.StatusNotFound {
				break
			}
			if now().Sub(at) > 20*time.Second {
				t.Fatalf("%s: the session of a process that has ended is there\n%s", method, log)
			}
		}
		begin(t, s)
		begin(t, s)
	}
}

// A process that closes its output has nothing more to say, and is not waited for.
func TestGATE9_ProcessesThatFallSilent(t *testing.T) {
	s, _ := serve(t)
	id := begin(t, s)
	_, _, answer := say(t, s, id, request("test/pid"))
	var pid int
	if _, err := fmt.Sscanf(answer, `{"jsonrpc":"2.0","id":7,"result":%d}`, &pid); err != nil {
		t.Fatal(answer, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // where Close waits for it
	if status, _, answer := say(t, s, id, request("test/mute")); status != 0 || !strings.Contains(answer, "ended") {
		t.Errorf("%d %s", status, answer)
	}
	ended := make(chan struct{})
	go func() { s.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for a process that says nothing")
	}
}

// A session that does not begin is none, whose process would be there for an hour.
func TestGATE9_SessionsThatDoNotBegin(t *testing.T) {
	t.Parallel() // with the others that wait for a process which does not end unasked
	s, _ := serve(t)
	given := func(body string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := s.RoundTrip(r); err == nil {
			t.Errorf("a client that has left gets %d", answer.StatusCode)
		}
	}
	given(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"what":"test/deaf"}}`)
	given(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"what":"test/deaf"}}`)
	ends(t, s)
	for range 2 {
		status, _, answer := say(t, s, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"what":"test/no"}}`)
		if status != http.StatusOK || !strings.Contains(answer, `"code":-32602`) {
			t.Errorf("an initialize that fails: %d %s", status, answer)
		}
	}
	ends(t, s)
	if status, _, _ := say(t, s, "", `{"jsonrpc":"2.0","method":"initialize","params":{}}`); status != http.StatusBadRequest {
		t.Errorf("an initialize that wants no answer: %d", status)
	}
	ends(t, s)
	begin(t, s)
	begin(t, s)
}

// ends returns when no session is open.
func ends(t *testing.T, s *Server) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := now().Add(20 * time.Second); ; <-tick.C {
		s.mu.Lock()
		open := len(s.sessions)
		s.mu.Unlock()
		if open == 0 {
			return
		}
		if now().After(until) {
			t.Fatalf("%d sessions are open; want none", open)
		}
	}
}

// A process gets what it is given of the environment.
func TestGATE9_EnvironmentsAreNamed(t *testing.T) {
	t.Setenv("POWERBOX_SECRET", "hidden")
	for _, env := range [][]string{nil, {"WANTED=1"}} {
		s, _ := serve(t, env...)
		if _, _, answer := say(t, s, begin(t, s), request("test/environment")); !strings.Contains(answer, `"result":"`+strings.Join(env, " ")+`"`) {
			t.Errorf("the environment is %s", answer)
		}
	}
}

func now() time.Time { return time.Now() } //nolint:forbidigo // the deadlines of pipes are in real time
