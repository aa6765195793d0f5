package doors_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// calls is how many calls the test generates: go test ./internal/web/doors -calls 10000.
// Each goes through every door, by workers at a time.
var calls = flag.Int("calls", 600, "generated calls of the differential test")

const workers = 8

// generated is a call, and the question of a program that means the same.
type generated struct {
	call     call
	agent    string
	skill    string // "" for a call that no program words
	argument string
	by       caller
}

// caller is who makes a call.
type caller int

const (
	stranger  caller = iota
	signs            // the assistant, with a proof
	withToken        // the assistant, as the OAuth client that it is too
)

// question is the one of AuthZEN.
func (g generated) question() string {
	return fmt.Sprintf(`{"subject":{"type":"agent","id":"assistant"},"action":{"name":%q,"properties":{"arguments":%s}},"resource":{"type":"agent","id":%q}}`, g.skill, g.argument, g.agent)
}

// generate makes a call: to either agent and in either binding, with a skill, free text,
// another method or something malformed, by the assistant or by a stranger.
func generate(r *rand.Rand, n int) generated {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	g := generated{by: []caller{stranger, signs, signs, withToken, withToken}[r.IntN(5)], agent: "notes"}
	ask := func(name, argument string) { g.skill, g.argument = name, argument }
	argument := pick(`{"title":"a"}`, `{}`, `{"n":1e2,"list":[1,{"a":null}]}`, `{"path":"ä\u00e9"}`, `{"n":9007199254740993,"m":-0.10}`, `{"text":"\ud83d\ude00\n"}`, `{"a":{"b":{"c":[[],{}]}}}`)
	message := func(parts string) string {
		return fmt.Sprintf(`{"message":{"messageId":"m%d","role":"ROLE_USER","parts":[%s]}}`, n, parts)
	}
	rpc := func(method, params string) {
		g.call = post(g.agent, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	}
	switch r.IntN(16) {
	case 0, 1, 2:
		name := pick("read_note", "delete_note", "unknown_note")
		rpc("SendMessage", message(fmt.Sprintf(`{"data":{"skill":%q,"arguments":%s}}`, name, argument)))
		ask(name, argument)
	case 3, 4, 5:
		name := pick("read_file", "delete_file", "unknown_file")
		g.agent = "tools"
		rpc("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, argument))
		ask(name, argument)
	case 6:
		name := pick("read_note", "delete_note", "unknown_note")
		g.call = post("notes", message(fmt.Sprintf(`{"data":{"skill":%q,"arguments":%s}}`, name, argument)))
		g.call.path += "/message:send"
		ask(name, argument)
	case 7:
		rpc("SendMessage", message(fmt.Sprintf(`{"text":%q}`, pick("read my notes", "delete everything"))))
	case 8:
		rpc(pick("GetTask", "CancelTask", "SubscribeToTask"), fmt.Sprintf(`{"id":"task-%d"}`, r.IntN(3)))
	case 9:
		g.call = call{method: http.MethodGet, path: fmt.Sprintf("/agents/notes/tasks/task-%d", r.IntN(3)), header: http.Header{"A2a-Version": {"1.0"}}}
	case 10:
		g.agent = "tools"
		rpc(pick("ping", "tools/list", "resources/list", "prompts/get", "vendor/own"), "{}")
	case 11, 12, 13:
		name := pick("read_note", "delete_note", "unknown_note")
		method := pick("SendMessage", "SendMessage", "SendStreamingMessage")
		g.call = overGRPC(method, "SendMessageRequest", message(fmt.Sprintf(`{"data":{"skill":%q,"arguments":%s}}`, name, argument)))
		if ask(name, argument); method != "SendMessage" || strings.Contains(argument, "9007199254740993") {
			g.skill = "" // no program asks for a stream, and protobuf rounds this number
		}
	case 14:
		switch method := pick("GetTask", "CancelTask", "SubscribeToTask", "SendMessage", "Frames", "Kind"); method {
		case "SendMessage":
			g.call = overGRPC(method, method+"Request", message(fmt.Sprintf(`{"text":%q}`, pick("read my notes", "delete everything"))))
		case "Frames", "Kind":
			g.call = malformedGRPC(r, message(`{"text":"a"}`))
		default:
			g.call = overGRPC(method, method+"Request", fmt.Sprintf(`{"id":"task-%d"}`, r.IntN(3)))
		}
	default:
		g.agent = pick("notes", "tools")
		g.call = post(g.agent, pick(`{"jsonrpc":"2.0"`, `[]`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"Method":"ping","method":"ping"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`))
	}
	return g
}

// verdict is what one door says.
type verdict struct {
	allowed bool
	reason  string
	record  string // the whole decision, as far as doors can agree on it
}

// verdict reads an answer, and the record that it names.
func (w *town) verdict(t testing.TB, allowed bool, body string, h http.Header, id string) verdict {
	v := verdict{allowed: allowed}
	if !allowed {
		if v.reason = reason(body); h.Get("Grpc-Status") != "" {
			v.reason = grpcReason(t, h)
		}
	}
	if id != "" {
		r := w.onRecord(t, id)
		v.record = fmt.Sprint(r.Decision, r.Details.Requester, r.Details.Reasons, r.Details.Gate)
	}
	return v
}

// onGateway, and the functions below, send a call through a door.
func (w *town) onGateway(t testing.TB, c call) verdict {
	r := httptest.NewRequestWithContext(t.Context(), c.method, w.url+c.path, strings.NewReader(c.body))
	r.Header = c.header
	a := &recorder{httptest.NewRecorder()}
	handler := w.instance.Handler
	if strings.HasPrefix(r.Header.Get("Content-Type"), typeGRPC) {
		var err error
		if handler, err = w.instance.Gateway().GRPC("notes"); err != nil {
			t.Fatal(err)
		}
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	}
	handler.ServeHTTP(a, r)
	h := a.Header()
	return w.verdict(t, slices.Contains([]string{"forwarded", "unknown"}, h.Get("Powerbox-Outcome")), a.Body.String(), h, h.Get("Powerbox-Decision"))
}

// recorder takes deadlines as a connection does.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error { return nil }

func (w *town) onCheck(t testing.TB, client auth.AuthorizationClient, c call) verdict {
	a, err := client.Check(t.Context(), c.checkRequest())
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for _, v := range a.GetDeniedResponse().GetHeaders() {
		h.Add(v.GetHeader().GetKey(), v.GetHeader().GetValue())
	}
	return w.verdict(t, a.GetStatus().GetCode() == int32(codes.OK), a.GetDeniedResponse().GetBody(), h, a.GetDynamicMetadata().GetFields()["decision"].GetStringValue())
}

func (w *town) onHTTP(t testing.TB, path string, c call) verdict {
	method, body, header := c.method, c.body, c.header
	if path == "/ext_authz" {
		path += c.path
	} else {
		method, body, header = http.MethodGet, "", told(c)
	}
	status, h, answer := w.ask(t, method, path, body, header)
	return w.verdict(t, status == http.StatusOK, answer, h, h.Get("Powerbox-Decision"))
}

func (w *town) onProcess(t testing.TB, c call) verdict {
	p := w.process(t, c, &proc.ProtocolConfiguration{RequestBodyMode: buffered.RequestBodyMode, ResponseBodyMode: buffered.ResponseBodyMode}, 0, nil, "")
	if p.refusal == nil {
		return w.verdict(t, true, "", nil, p.decision)
	}
	h := http.Header{}
	for _, v := range p.refusal.GetHeaders().GetSetHeaders() {
		h.Add(v.GetHeader().GetKey(), string(v.GetHeader().GetRawValue()))
	}
	if code := h.Get("Grpc-Status"); code != "" && code != fmt.Sprint(p.refusal.GetGrpcStatus().GetStatus()) {
		t.Errorf("the refusal has the statuses %s and %d", code, p.refusal.GetGrpcStatus().GetStatus())
	}
	return w.verdict(t, false, string(p.refusal.GetBody()), h, h.Get("Powerbox-Decision"))
}

// onGuard asks as a program does, by the library for programs.
func (w *town) onGuard(t testing.TB, g generated) verdict {
	t.Helper()
	gate := &guard.Gate{URL: w.url, Token: guardToken, HTTP: http.DefaultClient}
	d, err := gate.Check(t.Context(), guard.Attempt{From: "assistant", To: g.agent, Skill: g.skill, Arguments: json.RawMessage(g.argument)})
	if no := (*guard.Refused)(nil); errors.As(err, &no) {
		d = no.Decision
	} else if err != nil {
		t.Error(err)
	}
	first := ""
	if len(d.Reasons) > 0 {
		first = d.Reasons[0].Code
	}
	return w.asked(t, d.Allowed, first, d.ID)
}

// onAuthZEN asks by the words of AuthZEN.
func (w *town) onAuthZEN(t testing.TB, g generated) verdict {
	t.Helper()
	a := w.guardAsks(t, http.MethodPost, "/access/v1/evaluation", guardToken, g.question())
	first := ""
	if len(a.Context.Reasons) > 0 {
		first = a.Context.Reasons[0].Code
	}
	return w.asked(t, a.Decision, first, a.Context.ID)
}

// asked is the verdict of an answer that has a reason in place of a body.
func (w *town) asked(t testing.TB, allowed bool, reason, id string) verdict {
	t.Helper()
	v := w.verdict(t, allowed, "", nil, id)
	v.reason = reason
	return v
}

// TestEveryDoorDecidesAlike: generated calls get the same verdict, reason and record through
// the gateway, ext_authz over gRPC and HTTP, forward-auth, ext_proc and, where a program can
// word them, AuthZEN and guards. Some of the calls come with an access token of OAuth for
// everything: the scope of the agent, which the client is, decides them as its signed ones.
func TestEveryDoorDecidesAlike(t *testing.T) {
	w := newTownWith(t, "scoped", withOAuth)
	tokens := map[string]string{"notes": w.tokenOf(t, "notes"), "tools": w.tokenOf(t, "tools")}
	if first := w.onGateway(t, w.signs(t, post("notes", skill("read_note", 0)))); !first.allowed { // it begins task-1
		t.Fatalf("%+v", first)
	}
	w.notes.begun, w.notes.answer = w.notes.answer, `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":"done"}]}}}`
	seed := rand.Uint64()
	var count tally
	var done sync.WaitGroup
	for worker := range workers {
		done.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for n := range *calls / workers {
				g := generate(r, n)
				count.add(g, w.alike(t, g, tokens))
				if t.Failed() {
					t.Logf("seed %d, worker %d, call %d by %d: %s %s", seed, worker, n, g.by, g.call.path, g.call.body)
					return
				}
			}
		})
	}
	done.Wait()
	if few := int64(*calls / 20); count.allowed.Load() < few || count.denied.Load() < few || count.words.Load() < few || count.tokens.Load() < few {
		t.Errorf("seed %d: the test shows little", seed)
	}
	t.Logf("%d calls: %d allowed, %d denied, %d put as questions, %d with a token", *calls, count.allowed.Load(), count.denied.Load(), count.words.Load(), count.tokens.Load())
}

// tally counts generated calls.
type tally struct{ allowed, denied, words, tokens atomic.Int64 }

func (c *tally) add(g generated, allowed bool) {
	if allowed {
		c.allowed.Add(1)
	} else {
		c.denied.Add(1)
	}
	if g.skill != "" && g.by != stranger {
		c.words.Add(1)
	}
	if g.by == withToken {
		c.tokens.Add(1)
	}
}

// alike sends a call through every door, and reports whether it was allowed.
func (w *town) alike(t *testing.T, g generated, tokens map[string]string) bool {
	as := func(by caller) call {
		c := g.call
		c.header = c.header.Clone()
		switch by {
		case signs:
			return w.signs(t, c)
		case withToken:
			c.header.Set("Authorization", "Bearer "+tokens[g.agent])
		case stranger:
		}
		return c
	}
	want := w.onGateway(t, as(g.by))
	all := map[string]verdict{
		"ext_authz over gRPC": w.onCheck(t, auth.NewAuthorizationClient(w.conn), as(g.by)), "ext_authz over HTTP": w.onHTTP(t, "/ext_authz", as(g.by)),
		"forward_auth": w.onHTTP(t, "/forward_auth/body", as(g.by)), "ext_proc": w.onProcess(t, as(g.by)),
	}
	if g.skill != "" && g.by != stranger {
		all["AuthZEN"], all["a guard"] = w.onAuthZEN(t, g), w.onGuard(t, g)
		all["the gateway, as the same agent by its other way"] = w.onGateway(t, as(signs+withToken-g.by))
	}
	for name, got := range all {
		if got != want {
			t.Errorf("%s: %+v\ngateway: %+v", name, got, want)
		}
	}
	return want.allowed
}

// TestMembersDoNotDependOnTheirOrder: the differential test compares records as text.
func TestMembersDoNotDependOnTheirOrder(t *testing.T) {
	w := newTown(t, "scoped")
	id := func() string {
		a := w.check(t, w.signs(t, post("notes", skill("read_note", 1))).checkRequest())
		return a.GetDynamicMetadata().GetFields()["decision"].GetStringValue()
	}
	one, two := w.onRecord(t, id()), w.onRecord(t, id())
	if !slices.Equal(one.Details.Gate.Required, two.Details.Gate.Required) || one.Details.Gate.Required == nil {
		t.Errorf("%+v and %+v", one, two)
	}
}
