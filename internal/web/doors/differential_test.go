package doors_test

import (
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
)

// calls is how many calls the test generates: go test ./internal/web/doors -calls 10000.
// Each goes through every door, by workers at a time.
var calls = flag.Int("calls", 1000, "generated calls of the differential test")

const workers = 8

// generated is a call, and the question of a program that means the same.
type generated struct {
	call     call
	question string // of AuthZEN; "" for a call that no program words
	signed   bool
}

// generate makes a call: to either agent, with a skill, free text, another method or
// something malformed, by the assistant or by a stranger.
func generate(r *rand.Rand, n int) generated {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	g := generated{signed: r.IntN(5) > 0}
	ask := func(agent, name, arguments string) {
		if g.signed {
			g.question = fmt.Sprintf(`{"subject":{"type":"agent","id":"assistant"},"action":{"name":%q,"properties":{"arguments":%s}},"resource":{"type":"agent","id":%q}}`, name, arguments, agent)
		}
	}
	arguments := pick(`{"title":"a"}`, `{}`, `{"n":1e2,"list":[1,{"a":null}]}`, `{"path":"ä\u00e9"}`)
	switch r.IntN(10) {
	case 0, 1, 2:
		name := pick("read_note", "delete_note", "unknown_note")
		g.call = post("notes", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m%d","role":"ROLE_USER","parts":[{"data":{"skill":%q,"arguments":%s}}]}}}`, n, name, arguments))
		ask("notes", name, arguments)
	case 3, 4, 5:
		name := pick("read_file", "delete_file", "unknown_file")
		g.call = post("tools", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments))
		ask("tools", name, arguments)
	case 6:
		g.call = post("notes", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m%d","role":"ROLE_USER","parts":[{"text":%q}]}}}`, n, pick("read my notes", "delete everything")))
	case 7:
		method := pick("GetTask", "CancelTask", "SubscribeToTask")
		g.call = post("notes", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":"task-%d"}}`, method, r.IntN(3)))
	case 8:
		g.call = post("tools", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{}}`, pick("ping", "tools/list", "resources/list", "prompts/get", "vendor/own")))
	default:
		g.call = post(pick("notes", "tools"), pick(`{"jsonrpc":"2.0"`, `[]`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"Method":"ping","method":"ping"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`))
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
func (w *town) verdict(t testing.TB, allowed bool, body, id string) verdict {
	v := verdict{allowed: allowed}
	if !allowed {
		v.reason = reason(body)
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
	w.instance.Handler.ServeHTTP(a, r)
	h := a.Header()
	return w.verdict(t, slices.Contains([]string{"forwarded", "unknown"}, h.Get("Powerbox-Outcome")), a.Body.String(), h.Get("Powerbox-Decision"))
}

// recorder takes deadlines as a connection does.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error { return nil }

func (w *town) onCheck(t testing.TB, client auth.AuthorizationClient, c call) verdict {
	a, err := client.Check(t.Context(), c.checkRequest())
	if err != nil {
		t.Fatal(err)
	}
	return w.verdict(t, a.GetStatus().GetCode() == int32(codes.OK), a.GetDeniedResponse().GetBody(), a.GetDynamicMetadata().GetFields()["decision"].GetStringValue())
}

func (w *town) onHTTP(t testing.TB, path string, c call) verdict {
	method, body, header := c.method, c.body, c.header
	if path == "/ext_authz" {
		path += c.path
	} else {
		method, body, header = http.MethodGet, "", told(c)
	}
	status, h, answer := w.ask(t, method, path, body, header)
	return w.verdict(t, status == http.StatusOK, answer, h.Get("Powerbox-Decision"))
}

func (w *town) onProcess(t testing.TB, c call) verdict {
	p := w.process(t, c, &proc.ProtocolConfiguration{RequestBodyMode: buffered.RequestBodyMode, ResponseBodyMode: buffered.ResponseBodyMode}, 0, nil, "")
	if p.refusal == nil {
		return w.verdict(t, true, "", p.decision)
	}
	id := ""
	for _, h := range p.refusal.GetHeaders().GetSetHeaders() {
		if h.GetHeader().GetKey() == "powerbox-decision" {
			id = string(h.GetHeader().GetRawValue())
		}
	}
	return w.verdict(t, false, string(p.refusal.GetBody()), id)
}

// TestEveryDoorDecidesAlike: generated calls get the same verdict, reason and record through
// the gateway, ext_authz over gRPC and HTTP, forward-auth, ext_proc and, where a program can
// word them, AuthZEN.
func TestEveryDoorDecidesAlike(t *testing.T) {
	w := newTown(t, "scoped")
	if first := w.onGateway(t, w.signs(t, post("notes", skill("read_note", 0)))); !first.allowed { // it begins task-1
		t.Fatalf("%+v", first)
	}
	seed := rand.Uint64()
	var allowed, words atomic.Int64
	var done sync.WaitGroup
	for worker := range workers {
		done.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for n := range *calls / workers {
				g := generate(r, n)
				ok, said := w.alike(t, g)
				if ok {
					allowed.Add(1)
				}
				if said {
					words.Add(1)
				}
				if t.Failed() {
					t.Logf("seed %d, worker %d, call %d: %s", seed, worker, n, g.call.body)
					return
				}
			}
		})
	}
	done.Wait()
	if allowed.Load() < int64(*calls/10) || words.Load() < int64(*calls/10) {
		t.Errorf("seed %d: of %d calls %d were allowed and %d were put as questions; the test shows little", seed, *calls, allowed.Load(), words.Load())
	}
	t.Logf("%d calls, %d allowed, %d put as questions", *calls, allowed.Load(), words.Load())
}

// alike sends a call through every door.
func (w *town) alike(t *testing.T, g generated) (allowed, said bool) {
	sign := func() call {
		c := g.call
		c.header = c.header.Clone()
		if g.signed {
			return w.signs(t, c)
		}
		return c
	}
	want := w.onGateway(t, sign())
	for name, got := range map[string]verdict{
		"ext_authz over gRPC": w.onCheck(t, auth.NewAuthorizationClient(w.conn), sign()), "ext_authz over HTTP": w.onHTTP(t, "/ext_authz", sign()),
		"forward_auth": w.onHTTP(t, "/forward_auth/body", sign()), "ext_proc": w.onProcess(t, sign()),
	} {
		if got != want {
			t.Errorf("%s: %+v\ngateway: %+v", name, got, want)
		}
	}
	if g.question == "" {
		return want.allowed, false
	}
	a := w.guardAsks(t, http.MethodPost, "/access/v1/evaluation", guardToken, g.question)
	record, first := w.onRecord(t, a.Context.ID), ""
	if len(a.Context.Reasons) > 0 {
		first = a.Context.Reasons[0].Code
	}
	got := verdict{a.Decision, first, fmt.Sprint(record.Decision, record.Details.Requester, record.Details.Reasons, record.Details.Gate)}
	if got != want {
		t.Errorf("AuthZEN, %s: %+v\ngateway: %+v", g.question, got, want)
	}
	return want.allowed, true
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
