package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// plainAgent is an agent at a bare socket, which takes what does not begin like JSON
// for a next request, whatever length was told. It says the id of the message that it
// answers, and behind tells what it says more.
type plainAgent struct {
	host   string
	behind func(n int, answer string) string // the bytes written for the n-th request of a connection

	connections, requests atomic.Int32
	mu                    sync.Mutex
	ended                 []bool // whether each call said that its connection ends
	most                  int    // requests on one connection
}

const poison = "an answer that nobody asked for"

func newPlainAgent(t *testing.T) *plainAgent {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &plainAgent{host: listener.Addr().String(), behind: func(_ int, answer string) string { return answer }}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.connections.Add(1)
			go p.serve(conn)
		}
	}()
	return p
}

func (p *plainAgent) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	held := ""
	for n := 1; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if strings.HasSuffix(r.URL.Path, "/agent-card.json") {
			p.write(conn, cardAt(p.host))
			continue
		}
		body := []byte(nil)
		if next, _ := in.Peek(min(1, int(max(r.ContentLength, 0)))); string(next) == "{" {
			body, _ = io.ReadAll(r.Body)
		}
		p.requests.Add(1)
		p.mu.Lock()
		p.ended, p.most = append(p.ended, r.Close), max(p.most, n)
		p.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/hidden") {
			held = whole(poison)
			continue
		}
		_, id, _ := strings.Cut(string(body), `"messageId":"`)
		id, _, _ = strings.Cut(id, `"`)
		answer := `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"` + id + `"}]}}}`
		if r.URL.Path != "/" {
			answer = `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"` + id + `"}]}}`
		}
		if _, err := io.WriteString(conn, held+p.behind(n, whole(answer))); err != nil {
			return
		}
		held = ""
	}
}

func (p *plainAgent) write(conn net.Conn, body string) { _, _ = io.WriteString(conn, whole(body)) }

func whole(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// everybody has several callers ask at once, and holds that each gets the answer to what
// it asked.
func (w *town) everybody(t *testing.T, callers, calls int) {
	t.Helper()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				body := data("search_documents", map[string]any{})
				_, id, _ := bytes.Cut(body, []byte(`"messageId":"`))
				id, _, _ = bytes.Cut(id, []byte(`"`))
				if a := w.post(w.agentURL("documents"), body, nil); !bytes.Contains(a.Raw, id) {
					t.Errorf("ATK-31 %s got %d %s", id, a.Status, a.Raw)
				}
			}
		})
	}
	all.Wait()
}

var inPlain = []wire{{}, {"JSON-RPC", "0.3"}, {overREST, "1.0"}, {overREST, "0.3"}}

// TestATK31_AnswersBehindAnswers has the agent write a second answer behind each one, in
// the same piece, while many call: it reaches no caller, and ends the connection.
func TestATK31_AnswersBehindAnswers(t *testing.T) {
	for _, on := range inPlain {
		t.Run(on.String(), func(t *testing.T) {
			p := newPlainAgent(t)
			p.behind = func(_ int, answer string) string { return answer + whole(poison) }
			w := start(t, options{on: on, mode: "prefer", upstream: "http://" + p.host})
			w.everybody(t, 16, 25)
			if p.most > 1 || p.requests.Load() != 16*25 {
				t.Errorf("ATK-31 a connection with too much on it was used %d times; %d calls reached the agent", p.most, p.requests.Load())
			}
			if said := w.log.String(); strings.Contains(said, poison) || !strings.Contains(said, "wrote what nobody had asked for") {
				t.Errorf("ATK-31 the log says %s", said)
			}
			p.behind = func(_ int, answer string) string { return answer }
			w.everybody(t, 1, 10)
			if p.most < 5 {
				t.Errorf("ATK-31 connections with nothing behind their answers were used %d times", p.most)
			}
		})
	}
}

// TestATK31_AloneWhereTheEndIsUnclear sends requests that an agent could take for two:
// anyone who comes next has another connection, and its own answer.
func TestATK31_AloneWhereTheEndIsUnclear(t *testing.T) {
	hidden := "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	json := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}}`
	rest := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	long := func(s string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(s), s) }
	chunked := func(s string) string {
		return fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(s), s)
	}
	for _, on := range []wire{{}, {overREST, "1.0"}} {
		below, body, wants := "", json, map[string]string{}
		if on.binding == overREST {
			below, body = "/message:send", rest
			wants["a body where none is"] = "GET /agents/documents/tasks HTTP/1.1\r\n" + long(hidden)
			wants["a body where none is to delete"] = "DELETE /agents/documents/tasks/t/pushNotificationConfigs/p HTTP/1.1\r\n" + long(hidden)
		}
		post := "POST /agents/documents" + below + " HTTP/1.1\r\nContent-Type: application/json\r\n"
		wants["a body that is no JSON"] = post + long(hidden)
		wants["a body that begins with a line"] = post + long("\r\n"+hidden)
		wants["chunks"] = post + chunked(body)
		wants["chunks of no JSON"] = post + chunked(hidden)
		wants["an expectation"] = post + "Expect: 100-continue\r\n" + long(body)
		wants["another length"] = post + "Content_Length: 5\r\n" + long(body)
		wants["another coding"] = post + "transfer_encoding: chunked\r\n" + long(body)
		wants["HTTP/1.0"] = strings.Replace(post, "HTTP/1.1", "HTTP/1.0", 1) + long(body)
		for name, request := range wants {
			t.Run(on.String()+" "+name, func(t *testing.T) {
				p := newPlainAgent(t)
				w := start(t, options{on: on, mode: "observe", upstream: "http://" + p.host})
				w.everybody(t, 1, 2) // a connection is kept, and taken
				host := strings.TrimPrefix(w.url, "http://")
				line, more, _ := strings.Cut(request, "\r\n")
				out, _ := smuggle(t, host, line+"\r\nHost: "+host+"\r\nA2A-Version: 1.0\r\n"+more)
				p.mu.Lock()
				if len(p.ended) < 3 || !p.ended[2] {
					t.Errorf("ATK-31 of the calls the agent learned that their connections end: %v\n%s", p.ended, out)
				}
				p.mu.Unlock()
				w.everybody(t, 1, 4)
			})
		}
	}
}

// TestATK31_ConnectionsOfTheirOwn has an agent that takes every call for two, and tells
// the second answer when there is another call. With upstream_connections: fresh no
// other caller is there to get it.
func TestATK31_ConnectionsOfTheirOwn(t *testing.T) {
	for _, on := range inPlain {
		t.Run(on.String(), func(t *testing.T) {
			p := newPlainAgent(t)
			p.behind = func(n int, answer string) string {
				if n > 1 {
					return whole(poison) + answer
				}
				return answer
			}
			w := start(t, options{on: on, mode: "prefer", upstream: "http://" + p.host, agent: "    upstream_connections: fresh\n"})
			w.everybody(t, 4, 10)
			if p.most != 1 {
				t.Errorf("ATK-31 a connection was used %d times", p.most)
			}
		})
	}
}

// TestATK31_AnswersThatNameTheirRequests reaches an agent over TLS that speaks HTTP/2 and
// HTTP/1.1: HTTP/2 it is, on one connection, or one for every call.
func TestATK31_AnswersThatNameTheirRequests(t *testing.T) {
	for _, of := range []string{"shared", "fresh"} {
		t.Run(of, func(t *testing.T) {
			ca := newAuthority(t)
			_, _, own := ca.issue(x509.ExtKeyUsageServerAuth)
			var mu sync.Mutex
			seen := map[string]int{}
			host := ""
			agent := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, strings.ReplaceAll(cardAt(host), `"http://`, `"https://`))
					return
				}
				mu.Lock()
				seen[r.Proto+" "+r.RemoteAddr]++
				mu.Unlock()
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hello"}]}}}`)
			}))
			agent.EnableHTTP2, agent.TLS = true, &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
			agent.StartTLS()
			defer agent.Close()
			host = strings.TrimPrefix(agent.URL, "https://")
			w := start(t, options{mode: "prefer", upstream: agent.URL, agent: "    tls: {ca: ca.pem}\n    upstream_connections: " + of + "\n", files: map[string]string{"ca.pem": string(pemOf("CERTIFICATE", ca.cert.Raw))}})
			for range 5 {
				allowed(t, w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil))
			}
			want := map[string]int{"shared": 1, "fresh": 5}[of]
			for name := range seen {
				if !strings.HasPrefix(name, "HTTP/2.0 ") {
					t.Errorf("ATK-31 the agent got a call by %s", name)
				}
			}
			if len(seen) != want {
				t.Errorf("ATK-31 the agent got the calls by %v; want %d connections", seen, want)
			}
		})
	}
}
