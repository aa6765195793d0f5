package doors_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/doors"
)

// deciding is a gateway that keeps the path of what it was asked.
type deciding struct{ path string }

func (d *deciding) Advise(r *http.Request, _ gateway.Carries) gateway.Advice {
	d.path = r.URL.RequestURI()
	return gateway.Advice{Status: http.StatusForbidden, Header: http.Header{}}
}

func (d *deciding) AdviseGRPC(agent string, r *http.Request, _ gateway.Carries) gateway.Advice {
	d.path = agent + " over gRPC " + r.URL.RequestURI()
	return gateway.Advice{Status: http.StatusOK, Header: http.Header{}}
}

// TestATK96_AnotherSpellingIsNoOtherAgent: Caddy and nginx find the route of a path after they
// decoded it, Caddy in any case, and nginx ignores a dot behind the host. A door that reads the
// path of one agent as that of another would decide by the rules of the wrong one.
func TestATK96_AnotherSpellingIsNoOtherAgent(t *testing.T) {
	g := &deciding{}
	d := &doors.Door{Name: "edge", Gateway: g, BodyLimit: 1000, BodyTime: time.Minute, Log: slog.New(slog.DiscardHandler), Routes: []doors.Route{
		{Path: "/agents", Agent: "outer"}, {Path: "/agents/notes", Agent: "notes"}, {Host: "tools.example.com", Path: "/", Agent: "tools"},
	}}
	h, err := d.Handler()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ host, path, want string }{
		{"edge.example.com", "/agents/notes/a", "/agents/notes/a"},
		{"edge.example.com", "/agents/mail", "/agents/outer/mail"},
		{"edge.example.com", "/agents/m%61il", "/agents/outer/m%61il"},
		{"tools.example.com:8080", "/agents/notes", "/agents/tools/agents/notes"},
		{"edge.example.com", "/agents/notesx", "/agents/outer/notesx"},
		{"edge.example.com", "/agents/n%6ftes", ""},
		{"edge.example.com", "/agents/NOTES/a", ""},
		{"edge.example.com", "/%61gents/notes", ""},
		{"tools.example.com.", "/agents/notes", ""},
		{"tools.example.com.:8080", "/agents/notes", ""},
		{"tools.example.com,edge.example.com", "/agents/notes", ""},
		{"user@tools.example.com", "/agents/notes", ""},
		{"edge.example.com", "/agents/notes#/../mail", ""},
		{"edge.example.com", "/agents/notes?a#b", ""},
	} {
		g.path = ""
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/forward_auth", nil)
		r.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {c.host}, "X-Forwarded-Uri": {c.path}}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		if g.path != c.want || answer.Code != http.StatusForbidden {
			t.Errorf("%s%s is decided as %q, with %d %s; want %q", c.host, c.path, g.path, answer.Code, answer.Body, c.want)
		}
	}
}

// TestATK96_NginxTellsTheHostByWhichItRoutes: with a whole URL as its target, a request can
// have another name in Host, which nginx ignores.
func TestATK96_NginxTellsTheHostByWhichItRoutes(t *testing.T) {
	w := newTown(t, "observe")
	at := strings.TrimPrefix(w.nginx(t), "http://")
	said := func(target, host string) (int, []string) {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		got, _ := w.tools.took()
		return r.StatusCode, got
	}
	if code, got := said("/anything", "notes.example.com"); code != http.StatusOK || len(got) != 1 {
		t.Errorf("the route of a host: %d %q", code, got)
	}
	if code, got := said("http://other.example.com/anything", "notes.example.com"); code != http.StatusForbidden || len(got) != 0 {
		t.Errorf("nginx routes to other.example.com, and the door decided for notes.example.com: %d %q", code, got)
	}
}

// nginx starts the nginx.conf of deploy/gateways in front of the MCP server.
func (w *town) nginx(t *testing.T) string {
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		if nginx, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Fatal("the test needs nginx (Debian: apt-get install nginx-light)")
		}
	}
	return w.proxy(t, "nginx.conf", "127.0.0.1:8081", w.toolsAt, func(name, dir string) *exec.Cmd {
		return exec.Command(nginx, "-c", name, "-p", dir, "-e", "stderr")
	})
}

// asks sends the parts of one exchange of ext_proc, and returns the last answer.
func (w *town) asks(t *testing.T, parts ...*proc.ProcessingRequest) (*proc.ProcessingResponse, error) {
	t.Helper()
	stream, err := proc.NewExternalProcessorClient(w.conn).Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var last *proc.ProcessingResponse
	for _, p := range parts {
		p.ProtocolConfig = buffered
		if err := stream.Send(p); err != nil {
			t.Fatal(err)
		}
		if last, err = stream.Recv(); err != nil {
			return nil, err
		}
	}
	return last, stream.CloseSend()
}

func requestBegins(c call, ends bool) *proc.ProcessingRequest {
	return &proc.ProcessingRequest{Request: &proc.ProcessingRequest_RequestHeaders{RequestHeaders: &proc.HttpHeaders{
		Headers: headersOf(c.header, ":method", c.method, ":path", c.path, ":authority", "edge.example.com"), EndOfStream: ends,
	}}}
}

func answerBegins(code string) *proc.ProcessingRequest {
	return &proc.ProcessingRequest{Request: &proc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &proc.HttpHeaders{Headers: headersOf(nil, ":status", code), EndOfStream: true}}}
}

var trailersCome = &proc.ProcessingRequest{Request: &proc.ProcessingRequest_RequestTrailers{RequestTrailers: &proc.HttpTrailers{Trailers: headersOf(http.Header{"X-Late": {"1"}})}}}

// TestATK97_ExtProcPassesNothingUndecided: in HTTP/2 a request can end with trailers and have no
// body. Envoy then sends no message with a body, and forwards the request as it is.
func TestATK97_ExtProcPassesNothingUndecided(t *testing.T) {
	w := newTown(t, "require")
	cancel := call{method: http.MethodPost, path: "/agents/notes/tasks/task-1:cancel", header: http.Header{"A2a-Version": {"1.0"}}}
	t.Run("the path leads nowhere until the decision", func(t *testing.T) {
		a, err := w.asks(t, requestBegins(cancel, false))
		if err != nil {
			t.Fatal(err)
		}
		path := ""
		for _, h := range a.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
			if h.GetHeader().GetKey() == ":path" {
				path = string(h.GetHeader().GetRawValue())
			}
		}
		if !strings.HasPrefix(path, cancel.path+"/") {
			t.Errorf("a request whose body does not come continues to %q", path)
		}
	})
	t.Run("and is put back with it", func(t *testing.T) {
		w := newTown(t, "observe")
		c := post("notes", skill("read_note", 1))
		if p := w.process(t, c, buffered, 0, nil, ""); p.refusal != nil || p.path != c.path {
			t.Errorf("the decided request continues to %q: %s", p.path, p.refusal.GetBody())
		}
	})
	denied := func(code string, parts ...*proc.ProcessingRequest) {
		t.Helper()
		a, err := w.asks(t, parts...)
		if err != nil {
			t.Fatal(err)
		}
		if no := a.GetImmediateResponse(); no.GetDetails() != code {
			t.Errorf("%v; want a denial %s", a, code)
		}
	}
	denied("body_not_sent", requestBegins(cancel, false), trailersCome)
	denied("body_not_sent", requestBegins(cancel, false), answerBegins("200"))
	denied("body_not_sent", answerBegins("200"))
	if a, err := w.asks(t, answerBegins("429")); err != nil || a.GetResponseHeaders() == nil {
		t.Errorf("a refusal by the proxy itself: %v %v", a, err)
	}
	// Trailers are not decided on, so none continues.
	observed := newTown(t, "observe")
	get := call{method: http.MethodGet, path: "/agents/notes/tasks/1", header: http.Header{"A2a-Version": {"1.0"}}}
	if a, err := observed.asks(t, requestBegins(get, true), trailersCome); err != nil || strings.Join(a.GetRequestTrailers().GetHeaderMutation().GetRemoveHeaders(), ",") != "x-late" {
		t.Errorf("trailers of a decided request: %v %v", a, err)
	}
	ignored := requestBegins(get, true)
	ignored.ObservabilityMode = true
	if a, err := w.asks(t, ignored); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a proxy that forwards whatever the door says: %v %v", a, err)
	}
}

// TestATK99_ACallThatADoorDeniedIsNotMadeLater: a proxy makes its calls itself. One that waits
// for a person, of a caller that cannot be told from others, is not kept to be made from here.
func TestATK99_ACallThatADoorDeniedIsNotMadeLater(t *testing.T) {
	w := newTown(t, "prefer")
	c := post("notes", skill("archive_note", 1))
	p := w.process(t, c, buffered, 0, nil, "")
	code, _, over := w.ask(t, http.MethodPost, "/ext_authz"+c.path, c.body, c.header.Clone())
	for name, body := range map[string]string{"ext_authz": w.check(t, c.checkRequest()).GetDeniedResponse().GetBody(), "ext_authz over HTTP": over, "ext_proc": string(p.refusal.GetBody())} {
		if reason(body) != "approval_required" || strings.Contains(body, "task_pb_") || !strings.Contains(body, w.url+"/agents/notes") {
			t.Errorf("%s: %s\nwant a denial that names the agent's URL, and no task", name, body)
		}
	}
	if code != http.StatusForbidden {
		t.Errorf("over HTTP: %d", code)
	}
}

// TestATK105_ABodyShownAsTextIsDenied: without pack_as_bytes, Envoy shows an exclamation mark
// for each byte that is no UTF-8, and forwards the byte. It does the same in headers.
func TestATK105_ABodyShownAsTextIsDenied(t *testing.T) {
	w := newTown(t, "scoped")
	c := w.signs(t, post("notes", strings.Replace(skill("read_note", 1), `"title":"a"`, `"title":"a!b"`, 1)))
	a := w.check(t, c.checkRequest(func(h *auth.AttributeContext_HttpRequest) { h.Body, h.RawBody = string(h.GetRawBody()), nil }))
	if got := a.GetDeniedResponse().GetBody(); reason(got) != "body_cut_short" || !strings.Contains(got, "pack_as_bytes: true") {
		t.Errorf("%v", a)
	}
	a = w.check(t, w.signs(t, c).checkRequest(func(h *auth.AttributeContext_HttpRequest) {
		h.Headers["accept"], h.Headers["accept-language"] = "application/json,text/event-stream", "e!n"
	}))
	sets := map[string]string{}
	for _, h := range a.GetOkResponse().GetHeaders() {
		sets[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	if sets["accept"] != "application/json,text/event-stream" || sets["accept-language"] != "e!n" {
		t.Errorf("the proxy keeps its own: %v", a)
	}
}

// TestATK106_AnAllowedCallDoesNotBecomeAnotherProtocol: a proxy that asks over HTTP may keep the
// header Upgrade, and nothing in a websocket is decided. Over gRPC the door removes it.
func TestATK106_AnAllowedCallDoesNotBecomeAnotherProtocol(t *testing.T) {
	w := newTown(t, "observe")
	c := call{method: http.MethodGet, path: "/agents/notes/tasks/task-1", header: http.Header{"A2a-Version": {"1.0"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}}
	for _, path := range []string{"/ext_authz" + c.path, "/forward_auth"} {
		h := c.header
		if path == "/forward_auth" {
			h = told(c)
		}
		if status, _, body := w.ask(t, http.MethodGet, path, "", h); status != http.StatusForbidden || reason(body) != "upgrade" {
			t.Errorf("%s: %d %s", path, status, body)
		}
		h = h.Clone()
		h.Set("Upgrade", "h2c") // as some clients send with every request
		if status, _, body := w.ask(t, http.MethodGet, path, "", h); status != http.StatusOK {
			t.Errorf("%s, for HTTP/2: %d %s", path, status, body)
		}
	}
	if a := w.check(t, c.checkRequest()); !slices.Contains(a.GetOkResponse().GetHeadersToRemove(), "upgrade") {
		t.Errorf("over gRPC: %v", a)
	}
	if status, _, body := w.ask(t, http.MethodGet, "/ext_authz/agents/notes/tasks/task-1?a%23b", "", nil); status != http.StatusOK {
		t.Errorf("an encoded separator in a query: %d %s", status, body)
	}
}
