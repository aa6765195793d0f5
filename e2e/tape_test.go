package e2e

import (
	"bytes"
	be "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v03 "github.com/a2aproject/a2a-go/a2apb"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/token"
)

// take is one call and its answer, byte for byte.
type take struct {
	name      string
	method    string // of HTTP; POST where empty
	path      string // below the agent's URL of the binding
	header    http.Header
	body      string
	operation string // that a proof names
	arguments map[string]any
	observe   bool // what only observe lets through

	status int // 200 where 0
	answer http.Header
	// pieces are written one by one, each when the client has the one before.
	// The answer of a call that is no stream is held at the gateway to its end.
	pieces  []string
	trailer http.Header
}

// passed is what a take looks like on both ends.
type passed struct {
	Line, Got, Answered             string
	Status                          int
	Header, AnswerHeader, AnswerEnd http.Header
}

// tape is an agent that answers what it is told, and keeps what it was asked.
type tape struct {
	t    *testing.T
	url  string
	next chan struct{} // one for every piece that the client has read
	gone chan struct{} // one for every call whose client left in the middle

	mu      sync.Mutex
	playing take
	saw     passed
}

func newTape(t *testing.T, on wire) *tape {
	t.Helper()
	p := &tape{t: t, next: make(chan struct{}), gone: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	srv := unencrypted(t, mux)
	p.url = srv.URL
	at, and := interfaceOn(on, srv.URL), interfaceOn(wire{}, srv.URL) // attach asks for capabilities by the second
	mux.HandleFunc(cardPath, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, tapedCard, at.URL, at.ProtocolBinding, at.ProtocolVersion, and.URL, and.ProtocolBinding, and.ProtocolVersion)
	})
	mux.HandleFunc("/", p.play)
	return p
}

const tapedCard = `{"name": "Tape", "description": "Says what it is told", "version": "1", "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
"supportedInterfaces": [{"url": %q, "protocolBinding": %q, "protocolVersion": %q}, {"url": %q, "protocolBinding": %q, "protocolVersion": %q}], "capabilities": {"streaming": true},
"skills": [{"id": "search_documents", "name": "s", "description": "s", "tags": ["t"]}, {"id": "delete_document", "name": "d", "description": "d", "tags": ["t"]}]}`

func (p *tape) play(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	p.saw = passed{Line: r.Method + " " + r.RequestURI, Got: string(body), Header: r.Header.Clone()}
	now := p.playing
	p.mu.Unlock()
	for name, values := range now.answer {
		w.Header()[name] = values
	}
	for name := range now.trailer {
		w.Header().Add("Trailer", name)
	}
	w.WriteHeader(now.status)
	flush := http.NewResponseController(w)
	for n, piece := range now.pieces {
		if n > 0 {
			select {
			case <-p.next:
			case <-r.Context().Done():
				p.gone <- struct{}{}
				return
			case <-time.After(patience):
				p.t.Errorf("%s: the client has not got piece %d", now.name, n)
				return
			}
		}
		_, _ = io.WriteString(w, piece)
		if len(now.pieces) > 1 {
			_ = flush.Flush()
		}
	}
	for name, values := range now.trailer {
		w.Header()[name] = values
	}
}

// begin has the agent answer a take from now on.
func (p *tape) begin(c take) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.playing = c
}

// request is the call of a take, with further headers.
func (p *tape) request(base string, c take, added http.Header) *http.Request {
	p.t.Helper()
	req, err := http.NewRequest(c.method, base+c.path, strings.NewReader(c.body))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, h := range []http.Header{c.header, added} {
		for name, values := range h {
			req.Header[name] = slices.Clone(values)
		}
	}
	return req
}

// record makes one call at a URL and returns what both ends saw of it.
func (p *tape) record(client *http.Client, base string, c take, added http.Header) passed {
	p.t.Helper()
	p.begin(c)
	res, err := client.Do(p.request(base, c, added))
	if err != nil {
		p.t.Fatalf("%s: %v", c.name, err)
	}
	defer res.Body.Close()
	var got bytes.Buffer
	for n, piece := range c.pieces {
		if _, err := io.CopyN(&got, res.Body, int64(len(piece))); err != nil {
			p.t.Errorf("%s: piece %d: %v after %q", c.name, n, err, got.String())
			break
		}
		if n < len(c.pieces)-1 {
			select {
			case p.next <- struct{}{}:
			case <-time.After(patience):
				p.t.Fatalf("%s: the agent does not go on after piece %d", c.name, n)
			}
		}
	}
	if _, err := io.Copy(&got, res.Body); err != nil {
		p.t.Errorf("%s: %v", c.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.saw
	seen.Answered, seen.Status, seen.AnswerHeader, seen.AnswerEnd = got.String(), res.StatusCode, res.Header, res.Trailer
	for _, h := range []http.Header{seen.Header, seen.AnswerHeader} {
		for name := range h {
			if slices.Contains(ofConnection, name) || strings.HasPrefix(name, "Powerbox-") || name == "Date" || name == "Trailer" {
				delete(h, name)
			}
		}
	}
	p.saw = passed{}
	return seen
}

// framed is a message of gRPC.
func framed(message string) string {
	return string(be.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
}

// taping is the part of a configuration with someone who can hold a capability.
const taping = `identity: {dev: [{name: alice, token: ` + aliceToken + `}]}
policies: [policies.cedar]
`

// TestWirePassesByteForByte makes calls that say more than today's protocol has,
// and lets the agent answer so: in observe nothing of it is lost or written anew
// between the two.
func TestWirePassesByteForByte(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) { playAll(t, on, "observe") })
}

// TestWireIsWrittenAgain makes the same calls where the gateway decides about them: the
// agent gets the message and the headers that the gateway writes, without what no rule
// knows, and the answer passes as it is (ATK-22). The client proves what it may itself, or
// powerbox attach does that for it.
func TestWireIsWrittenAgain(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		for _, how := range []string{"require", "attach"} {
			t.Run(how, func(t *testing.T) { playAll(t, on, how) })
		}
	})
}

// playAll makes the calls of a wire directly and through a gateway, and compares what
// both ends see.
func playAll(t *testing.T, on wire, how string) {
	t.Helper()
	p := newTape(t, on)
	w := &town{t: t, dir: t.TempDir(), documents: &stock{url: p.url}, grpc: map[string]string{}}
	w.write("policies.cedar", "permit(principal, action, resource);")
	w.guard(strings.Replace(how, "attach", "require", 1), taping)
	through, prove := w.taping(on, how)
	client, direct := http.DefaultClient, interfaceOn(on, p.url).URL
	if on.binding == overGRPC {
		client, direct = h2, p.url
	}
	for _, c := range takes(on) {
		if c = c.whole(); c.observe && how != "observe" {
			continue
		}
		if how != "observe" {
			c.pieces = unbroken(on, c.pieces) // no part of an event passes (ATK-164)
		}
		t.Run(c.name, func(t *testing.T) {
			want, got := p.record(client, direct, c, nil), p.record(client, through, c, prove(c))
			if how == "attach" {
				announced(t, got)
				for n, cookie := range want.AnswerHeader["Set-Cookie"] { // all agents are at one host (ATK-158)
					if on.binding == overGRPC {
						break // its clients keep none
					}
					want.AnswerHeader["Set-Cookie"][n] = strings.TrimSuffix(cookie, "; Path=/") + "; Path=/agents/documents"
				}
			}
			if want.Line == "" || want.Got != c.body || want.Answered != strings.Join(c.pieces, "") {
				t.Errorf("directly: %+v", want)
			}
			if want.AnswerHeader.Get("Content-Type") == "text/html" { // a page is kept apart from ours (ATK-47)
				want.AnswerHeader["Content-Security-Policy"], want.AnswerHeader["X-Content-Type-Options"] = []string{"sandbox; default-src 'none'"}, []string{"nosniff"}
			}
			// What the agent says under our names is nothing that we say.
			maps.DeleteFunc(want.AnswerEnd, func(name string, _ []string) bool { return strings.HasPrefix(name, "Powerbox-") })
			if how != "observe" {
				want.Header = carried(on, c)
				want.Answered = strings.ReplaceAll(want.Answered, "\nid\n", "\nid:\n") // some kits read a field without a colon otherwise (ATK-125)
				if kind, _, more := strings.Cut(want.AnswerHeader.Get("Content-Type"), ";"); more && on.binding != overGRPC && want.Status < http.StatusMultipleChoices {
					want.AnswerHeader.Set("Content-Type", kind) // kits get a type without parameters (ATK-136)
				}
				isWritten(t, on, c, got.Got)
				got.Got = want.Got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("directly (-) and through the gateway (+):\n%s", diff)
			}
		})
	}
}

// carried are the headers of a call that an agent gets where the gateway decides.
func carried(on wire, c take) http.Header {
	h := http.Header{"User-Agent": {"powerbox"}}
	for _, name := range []string{"Accept", "Content-Type", "Traceparent", "A2a-Version", "A2a-Extensions", "Te", "Grpc-Timeout"} {
		if values, ok := c.header[name]; ok {
			h[name] = values
		}
	}
	if on.binding != overGRPC && c.body != "" {
		kind, _, _ := strings.Cut(c.header.Get("Content-Type"), ";")
		h["Content-Type"] = []string{kind}
	}
	return h
}

// isWritten expects the body that the gateway writes of a take: what the client said, with
// its numbers as they were spelt, each member once, and none that no rule knows.
func isWritten(t *testing.T, on wire, c take, got string) {
	t.Helper()
	if c.body == "" {
		if got != "" {
			t.Errorf("arrived %q; want nothing", got)
		}
		return
	}
	if on.binding == overGRPC {
		isWrittenGRPC(t, on, c, got)
		return
	}
	if want, is := withoutFuture(spelt(t, c.body)), spelt(t, got); !cmp.Equal(want, is) {
		t.Errorf("said (-) and arrived (+):\n%s", cmp.Diff(want, is))
	}
	// One that is written by one writer has no member twice, nor spaces.
	compact := jsontext.Value(got)
	if err := compact.Compact(); err != nil || string(compact) != got {
		t.Errorf("arrived %s: %v", got, err)
	}
}

func isWrittenGRPC(t *testing.T, on wire, c take, got string) {
	t.Helper()
	var want, is proto.Message
	switch sends := !strings.HasSuffix(c.path, "/GetTask"); {
	case on.version == "0.3" && sends:
		want, is = &v03.SendMessageRequest{}, &v03.SendMessageRequest{}
	case on.version == "0.3":
		want, is = &v03.GetTaskRequest{}, &v03.GetTaskRequest{}
	case sends:
		want, is = &v1.SendMessageRequest{}, &v1.SendMessageRequest{}
	default:
		want, is = &v1.GetTaskRequest{}, &v1.GetTaskRequest{}
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(c.body[5:]), want); err != nil {
		t.Fatal(err)
	}
	if len(got) < 5 || got != framed(got[5:]) {
		t.Fatalf("arrived %q; want one message", got)
	}
	// Equal tells messages apart by their unknown fields, too.
	if err := proto.Unmarshal([]byte(got[5:]), is); err != nil || !proto.Equal(want, is) {
		t.Errorf("said %v, arrived %v: %v", want, is, err)
	}
	if known, err := proto.Marshal(want); err != nil || len(known) != len(got)-5 {
		t.Errorf("arrived %q; want each field once: %v", got, err)
	}
}

// spelt is a value with the numbers as they are spelt.
func spelt(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// withoutFuture is a value without the members that today's protocol does not know. In
// metadata every member is someone's.
func withoutFuture(v any) any {
	switch v := v.(type) {
	case []any:
		for n := range v {
			v[n] = withoutFuture(v[n])
		}
	case map[string]any:
		delete(v, "futureField")
		delete(v, "futurePart")
		for name := range v {
			if name != "metadata" {
				v[name] = withoutFuture(v[name])
			}
		}
	}
	return v
}

// announced takes out what the client would have said itself, had it known that a
// gateway is on the way, and what the gateway answers to it.
func announced(t *testing.T, got passed) {
	t.Helper()
	const name = "A2a-Extensions"
	for end, h := range map[string]http.Header{"call": got.Header, "answer": got.AnswerHeader} {
		without := slices.DeleteFunc(slices.Clone(h[name]), func(value string) bool { return value == extension })
		if len(without) != len(h[name])-1 {
			t.Errorf("%s of the %s: %q, want %s once", name, end, h[name], extension)
		}
		if h[name] = without; len(without) == 0 {
			delete(h, name)
		}
	}
}

// taping returns the URL to which takes go, and a function for the headers of each.
func (w *town) taping(on wire, how string) (through string, prove func(take) http.Header) {
	w.t.Helper()
	through, address := w.agentURL("documents"), w.grpc["documents"]
	prove = func(take) http.Header { return nil }
	switch how {
	case "require":
		alice := w.caller(aliceToken)
		held := alice.request("documents", map[string]any{"grants": []string{"documents:read"}, "purpose": "Search"})[0]
		own := through
		prove = func(c take) http.Header {
			about := token.Request{Method: c.method, URL: own + c.path, Digest: token.DigestOf([]byte(c.body))}
			if on.binding == overGRPC {
				about.Digest = token.DigestOf([]byte(c.body[5:]))
			}
			return w.proofHeader(alice, held, c.operation, c.arguments, about)
		}
	case "attach":
		address = "127.0.0.1:" + freePort(w.t)
		a := w.attach("tape", newKey(w.t), "agents:\n  - name: documents\n    card: "+through+"\n    grpc: "+address+"\n    request: [{grants: [documents:read], purpose: Search}]\n",
			"--session-file", w.sessionFile())
		through = a.agentURL("documents")
	}
	if on.binding == overGRPC {
		through = "http://" + address
	}
	return through, prove
}

// whole fills in what a take does not say.
func (c take) whole() take {
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if c.operation == "" {
		c.operation = opMessage
	}
	return c
}

// unbroken joins pieces of an answer so that each ends where an event does.
func unbroken(on wire, pieces []string) (out []string) {
	part := ""
	for n, piece := range pieces {
		part += piece
		ended := strings.HasSuffix(part, "\n\n") || strings.HasSuffix(part, "\r\n\r\n")
		if on.binding == overGRPC {
			left := part
			for len(left) >= 5 && len(left)-5 >= int(be.BigEndian.Uint32([]byte(left[1:5]))) {
				left = left[5+be.BigEndian.Uint32([]byte(left[1:5])):]
			}
			ended = left == ""
		}
		if ended || n == len(pieces)-1 {
			out, part = append(out, part), ""
		}
	}
	return out
}

// TestATrailersOnlyAnswerStaysOne repeats an answer of gRPC that is nothing but a
// status: one set of headers, and the end of the stream with it. Clients built on
// the C core lose a status that stands in headers behind which there is still an
// end to come.
func TestATrailersOnlyAnswerStaysOne(t *testing.T) {
	asGiven(t)
	on := wire{overGRPC, "1.0"}
	p := newTape(t, on)
	w := &town{t: t, dir: t.TempDir(), documents: &stock{url: p.url}, grpc: map[string]string{}}
	w.write("policies.cedar", "permit(principal, action, resource);")
	w.guard("observe", taping)
	attached, _ := w.taping(on, "attach")
	for _, c := range grpcTakes(on) {
		if c.answer.Get("Grpc-Status") == "" {
			continue
		}
		for name, at := range map[string]string{"": "http://" + w.grpc["documents"], " through attach": attached} {
			w.staysOne(t, p, c.name+name, at, c.whole())
		}
	}
}

func (w *town) staysOne(t *testing.T, p *tape, name, at string, c take) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		p.begin(c)
		// The body of an answer without one is of another type than a body in which
		// nothing came.
		answered := func(base string) (status, body string) {
			res, err := h2.Do(p.request(base, c, nil))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			return res.Header.Get("Grpc-Status"), fmt.Sprintf("%T", res.Body)
		}
		status, body := answered(p.url)
		for n := range 500 {
			if s, b := answered(at); s != status || b != body {
				t.Fatalf("call %d: the status %q, with a body %s; want %q, with %s", n, s, b, status, body)
			}
		}
	})
}
