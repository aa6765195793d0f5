package powerboxa2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2aext"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox/holder"
	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// tap keeps what an agent sends.
type tap struct {
	mu   sync.Mutex
	sent []request
}

func (p *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	p.mu.Lock()
	p.sent = append(p.sent, request{r.Method, r.URL.String(), r.Header.Clone(), body})
	p.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// last is the last call that was sent.
func (p *tap) last(t *testing.T) request {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.sent) - 1; i >= 0; i-- {
		if p.sent[i].method == http.MethodPost {
			return p.sent[i]
		}
	}
	t.Fatal("no call was sent")
	return request{}
}

// passesOn has the summariser retrieve the document that it is asked about,
// under what came with its task. It has no session, and so nothing but what it
// is given.
func (w *town) passesOn(at string, binding a2a.TransportProtocol, options ...a2aclient.FactoryOption) *tap {
	sent := &tap{}
	own := newClient(w.t, "")
	own.Key, own.HTTP.Transport = w.summariser.key, sent
	out := &powerboxa2a.Outbound{Client: own}
	w.summariser.does = func(ctx context.Context, _ *powerboxa2a.Task, _ *a2asrv.ExecutorContext, _ string, args map[string]any) (string, error) {
		peer, err := out.Peer(ctx, at)
		if err != nil {
			return "", err
		}
		all := append([]a2aclient.FactoryOption{a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{binding}})}, options...)
		client, err := peer.NewClient(ctx, append(all, peer.GRPC(insecurely))...)
		if err != nil {
			return "", err
		}
		defer func() { _ = client.Destroy() }()
		result, err := client.SendMessage(ctx, skillCall("retrieve_document", args))
		if err != nil {
			return "refused: " + err.Error(), nil
		}
		return "summary of " + result.(*a2a.Message).Parts[0].Text(), nil
	}
	return sent
}

// mayWork asks for the summariser's work.
func (c *caller) mayWork() {
	c.w.t.Helper()
	got, err := c.out.Client.Request(c.ctx, c.peer("summariser").Agent, holder.RequestParams{Grants: []string{"work"}, Purpose: "Summarise"})
	if err == nil {
		err = c.wallet.Add(got...)
	}
	if err != nil {
		c.w.t.Fatal(err)
	}
}

// A hands a part of what it has of C to B, and B calls C with it, through the
// interceptors of both.
func TestTwoHops(t *testing.T) {
	w := newTown(t, options{})
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			sent := w.passesOn(w.agentURL("documents"), binding)
			c := w.caller()
			held := c.reports()
			c.mayWork()
			handle := held.Handles[0].Handle
			summariser := c.peer("summariser")
			handed, err := c.out.Client.Delegate(held, summariser.Agent.Holder, holder.Narrowing{Operations: []string{"retrieve"}, Handles: []string{handle}})
			if err != nil {
				t.Fatal(err)
			}
			client := c.over("summariser", binding)
			args := map[string]any{"resourceHandle": handle}
			result, err := client.SendMessage(powerboxa2a.HandOver(c.ctx, handed), skillCall("summarize", args))
			if got := said(t, result, err); !strings.Contains(got, "/vault/q1-financial.pdf") {
				t.Errorf("the summariser said %s", got)
			}
			if binding != a2a.TransportProtocolGRPC { // which goes by no HTTP client
				if chain := token.SplitChain(sent.last(t).header.Get(holder.HeaderCapability)); len(chain) != 2 {
					t.Errorf("B presented a chain of %d tokens", len(chain))
				}
			}
			t.Run("in a stream", func(t *testing.T) {
				for event, err := range client.SendStreamingMessage(powerboxa2a.HandOver(c.ctx, handed), skillCall("summarize", args)) {
					if err != nil {
						t.Fatal(err)
					}
					if m, ok := event.(*a2a.Message); !ok || !strings.Contains(m.Parts[0].Text(), "/vault/q1-financial.pdf") {
						t.Errorf("the summariser said %v", event)
					}
				}
			})
			t.Run("and without it has nothing", func(t *testing.T) {
				result, err := client.SendMessage(c.ctx, skillCall("summarize", args))
				if got := said(t, result, err); !strings.Contains(got, "refused:") || !strings.Contains(got, "capability is required") {
					t.Errorf("the summariser said %s", got)
				}
			})
		})
	}
}

// open is an agent without protection, which keeps what reaches it.
func open(t *testing.T) (url string, got func() request) {
	t.Helper()
	mux := http.NewServeMux()
	g := &agent{id: "open"}
	srv := httptest.NewServer(g.noting(mux))
	t.Cleanup(srv.Close)
	mux.Handle("/invoke", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(plain{})))
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(&a2a.AgentCard{
		Name: "open", Description: "open", Version: "1.0.0", DefaultInputModes: []string{"text"}, DefaultOutputModes: []string{"text"},
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(srv.URL+"/invoke", a2a.TransportProtocolJSONRPC)},
		Capabilities:        a2a.AgentCapabilities{Extensions: []a2a.AgentExtension{{URI: holder.ExtensionURI}}},
	}))
	return srv.URL, func() request { return g.last(t) }
}

type plain struct{}

func (plain) Execute(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("done")), nil)
	}
}

func (plain) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

const bearer = "Bearer of-alice-for-the-summariser"

// TestPropagators has the propagators of a2a-go copy all that they can from the
// call that came in to the one that goes out: what came in stays.
func TestPropagators(t *testing.T) {
	everything := a2aext.NewServerPropagator(&a2aext.ServerPropagatorConfig{
		MetadataPredicate: func(context.Context, string) bool { return true },
		HeaderPredicate: func(_ context.Context, name string) bool {
			return name == "authorization" || strings.HasPrefix(name, "powerbox-")
		},
	})
	pushing := a2aext.NewClientPropagator(&a2aext.ClientPropagatorConfig{
		MetadataPredicate: func(context.Context, *a2a.AgentCard, string) bool { return true },
		HeaderPredicate:   func(context.Context, *a2a.AgentCard, string, string) bool { return true },
	})
	for name, propagators := range map[string]struct {
		server a2asrv.CallInterceptor
		client a2aclient.CallInterceptor
	}{
		"with their defaults": {a2aext.NewServerPropagator(nil), a2aext.NewClientPropagator(nil)},
		"of everything":       {everything, pushing},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, options{interceptors: []a2asrv.CallInterceptor{propagators.server}})
			c := w.caller()
			held := c.reports()
			c.mayWork()
			handle := held.Handles[0].Handle
			handed, err := c.out.Client.Delegate(held, c.peer("summariser").Agent.Holder, holder.Narrowing{Handles: []string{handle}})
			if err != nil {
				t.Fatal(err)
			}
			ctx := powerboxa2a.HandOver(a2aclient.AttachServiceParams(c.ctx, a2aclient.ServiceParams{"authorization": {bearer}}), handed)
			ask := func() string {
				result, err := c.over("summariser", a2a.TransportProtocolJSONRPC).SendMessage(ctx, skillCall("summarize", map[string]any{"resourceHandle": handle}))
				return said(t, result, err)
			}
			url, got := open(t)
			t.Run("without Powerbox they do", func(t *testing.T) {
				w.summariser.does = func(ctx context.Context, _ *powerboxa2a.Task, _ *a2asrv.ExecutorContext, _ string, _ map[string]any) (string, error) {
					card, err := agentcard.NewResolver(http.DefaultClient).Resolve(ctx, url)
					if err != nil {
						return "", err
					}
					client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithCallInterceptors(propagators.client))
					if err != nil {
						return "", err
					}
					_, err = client.SendMessage(ctx, words("hello"))
					return "done", err
				}
				ask()
				if len(leaks(got(), handed)) == 0 {
					t.Errorf("nothing leaked, so that the test shows nothing: %s", got().body)
				}
			})
			t.Run("to an agent without protection", func(t *testing.T) {
				w.passesOn(url, a2a.TransportProtocolJSONRPC, a2aclient.WithCallInterceptors(propagators.client))
				if answer := ask(); answer != "summary of done" {
					t.Error(answer)
				}
				if found := leaks(got(), handed); len(found) > 0 {
					t.Errorf("%v went on: %v %s", found, got().header, got().body)
				}
			})
			t.Run("to a protected agent", func(t *testing.T) {
				sent := w.passesOn(w.agentURL("documents"), a2a.TransportProtocolJSONRPC, a2aclient.WithCallInterceptors(propagators.client))
				if answer := ask(); !strings.Contains(answer, "/vault/q1-financial.pdf") {
					t.Error(answer)
				}
				out := sent.last(t)
				if chain := token.SplitChain(out.header.Get(holder.HeaderCapability)); len(chain) != 2 {
					t.Errorf("a chain of %d tokens was presented", len(chain))
				}
				out.header.Del(holder.HeaderCapability) // the one that is meant for this peer
				if found := leaks(out, handed); len(found) > 0 {
					t.Errorf("%v went on: %v %s", found, out.header, out.body)
				}
			})
		})
	}
}

// leaks finds what came in with a call in one that went out.
func leaks(r request, handed holder.Capability) []string {
	var found []string
	if r.header.Get("Authorization") == bearer {
		found = append(found, "the bearer token")
	}
	for _, link := range handed.Chain {
		if strings.Contains(string(r.body), link) {
			found = append(found, "a token in the body")
		}
		for name := range r.header {
			if strings.Contains(r.header.Get(name), link) {
				found = append(found, "a token in "+name)
			}
		}
	}
	if strings.Contains(string(r.body), `"`+holder.ExtensionURI) {
		found = append(found, "metadata under the URI")
	}
	return found
}

// putting is an interceptor of someone else, which stands after ours.
type putting struct {
	a2aclient.PassthroughInterceptor
	put func(*a2aclient.Request)
}

func (p putting) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	p.put(req)
	return ctx, nil, nil
}

// The transport finds headers that are added after the interceptor.
func TestAddedAfterwards(t *testing.T) {
	w := newTown(t, options{})
	url, got := open(t)
	c := w.caller()
	held := c.reports()
	for _, try := range []struct {
		at      string
		binding a2a.TransportProtocol
	}{{url, bindings[0]}, {w.agentURL("documents"), bindings[0]}, {w.agentURL("documents"), bindings[1]}, {w.agentURL("documents"), bindings[2]}} {
		at := try.at + " by " + string(try.binding)
		peer, err := c.out.Peer(c.ctx, try.at)
		if err != nil {
			t.Fatal(err)
		}
		call := func(put func(*a2aclient.Request)) error {
			client, err := a2aclient.NewFromCard(c.ctx, peer.Card, append(peer.Options(), peer.GRPC(insecurely), a2aclient.WithCallInterceptors(putting{put: put}),
				a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{try.binding}}))...)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.SendMessage(c.ctx, skillCall("search_documents", nil))
			return err
		}
		for name, put := range map[string]func(*a2aclient.Request){
			"metadata": func(r *a2aclient.Request) {
				r.Payload.(a2a.MetadataCarrier).SetMeta(holder.ExtensionURI, map[string]any{"chain": held.Chain[0]})
			},
			"metadata under a path": func(r *a2aclient.Request) { r.Payload.(a2a.MetadataCarrier).SetMeta(holder.ExtensionURI+"/x", 1) },
			"metadata of a message": func(r *a2aclient.Request) {
				r.Payload.(*a2a.SendMessageRequest).Message.SetMeta(holder.ExtensionURI, 1)
			},
		} {
			if err := call(put); err == nil || !strings.Contains(err.Error(), "after all other options") {
				t.Errorf("%s to %s: %v", name, at, err)
			}
		}
		if err := call(func(r *a2aclient.Request) {
			r.ServiceParams.Append("Powerbox-Delegation", held.Chain[0])
			r.ServiceParams.Append("Powerbox_Capability", held.Chain[0])
		}); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	if found := leaks(got(), held); len(found) > 0 {
		t.Errorf("%v went on", found)
	}
}

// A capability is asked for by rule, once, and presented from then on.
func TestRule(t *testing.T) {
	w := newTown(t, options{})
	c := w.caller()
	asked := 0
	c.out.Rule = func(_ context.Context, call powerboxa2a.Call) (holder.RequestParams, bool) {
		asked++
		grants, operations, err := call.Peer.Needs(call.Skill)
		if err != nil {
			t.Error(err)
		}
		return holder.RequestParams{Grants: grants, Operations: operations, Purpose: "Search for Alice"}, true
	}
	for _, binding := range bindings {
		result, err := c.over("documents", binding).SendMessage(c.ctx, skillCall("search_documents", map[string]any{"query": "x"}))
		said(t, result, err)
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	t.Run("a refusal is told", func(t *testing.T) {
		c.out.Rule = func(context.Context, powerboxa2a.Call) (holder.RequestParams, bool) {
			return holder.RequestParams{Grants: []string{"no-such-grant"}, Purpose: "x"}, true
		}
		_, err := c.over("documents", bindings[0]).SendMessage(c.ctx, skillCall("delete_document", nil))
		if err == nil || !strings.Contains(err.Error(), "no-such-grant") {
			t.Error(err)
		}
	})
}

// What came in may not be turned into the authority of the agent's own session:
// a caller who has nothing at a peer must get nothing there.
func TestTasksAreLentNoSession(t *testing.T) {
	w := newTown(t, options{})
	for _, lent := range []bool{false, true} {
		own := newClient(t, aliceToken)
		asked := 0
		out := &powerboxa2a.Outbound{Client: own, ForTasks: lent, Rule: func(context.Context, powerboxa2a.Call) (holder.RequestParams, bool) {
			asked++
			return holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "x"}, true
		}}
		sent := &tap{}
		own.HTTP.Transport = sent
		w.summariser.does = func(ctx context.Context, _ *powerboxa2a.Task, _ *a2asrv.ExecutorContext, _ string, args map[string]any) (string, error) {
			peer, err := out.Peer(ctx, w.agentURL("documents"))
			if err != nil {
				return "", err
			}
			client, err := peer.NewClient(ctx)
			if err != nil {
				return "", err
			}
			_, err = client.SendMessage(ctx, skillCall("search_documents", args))
			return fmt.Sprint(err), nil
		}
		c := w.caller()
		c.mayWork()
		result, err := c.over("summariser", bindings[0]).SendMessage(c.ctx, skillCall("summarize", nil))
		answer := said(t, result, err)
		session := strings.Contains(sent.last(t).header.Get("Authorization"), aliceToken)
		if allowed := answer == "<nil>"; allowed != lent || asked > 0 != lent || session {
			t.Errorf("lent %v: %s, asked %d times, the session went out: %v", lent, answer, asked, session)
		}
	}
}

// A proof, of a capability or of the key alone, is made for the peer and for
// no other agent.
func TestSignsForThePeerAlone(t *testing.T) {
	w := newTown(t, options{})
	reached := false
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) { reached = true }))
	t.Cleanup(thief.Close)
	for _, held := range []bool{true, false} {
		c := w.caller()
		if held {
			c.reports()
		}
		peer := c.peer("documents")
		peer.Card.SupportedInterfaces = []*a2a.AgentInterface{
			a2a.NewAgentInterface(thief.URL, a2a.TransportProtocolJSONRPC), a2a.NewAgentInterface(thief.URL, a2a.TransportProtocolHTTPJSON),
			a2a.NewAgentInterface("localhost:1", a2a.TransportProtocolGRPC),
		}
		for _, binding := range bindings {
			client, err := peer.NewClient(c.ctx, peer.GRPC(insecurely), a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{binding}}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.SendMessage(c.ctx, skillCall("search_documents", nil)); err == nil || reached || binding == a2a.TransportProtocolGRPC && !strings.Contains(err.Error(), "nothing is signed") {
				t.Errorf("%s, capability %v: %v, reached %v", binding, held, err, reached)
			}
		}
	}
}

// The transport alone signs nothing: it does not know what for.
func TestTransportAlone(t *testing.T) {
	w := newTown(t, options{})
	c := w.caller()
	c.reports()
	peer := c.peer("documents")
	client, err := a2aclient.NewFromCard(c.ctx, peer.Card, peer.Options()[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.SendMessage(c.ctx, skillCall("search_documents", nil)); err == nil || !strings.Contains(err.Error(), "interceptor") {
		t.Error(err)
	}
}

// What came with a task by reference is claimed, once, and presented.
func TestSEP13_ByReference(t *testing.T) {
	w := newTown(t, options{})
	sent := w.passesOn(w.agentURL("documents"), a2a.TransportProtocolJSONRPC)
	c := w.caller()
	held := c.reports()
	c.mayWork()
	work := c.wallet.Of(w.agentURL("summariser"), now())[0]
	message := skillCall("summarize", map[string]any{"resourceHandle": held.Handles[0].Handle}).Message
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "a2a/task/send", "params": map[string]any{
		"message": message, "capabilities": []string{held.ID, work.ID},
	}})
	if err != nil {
		t.Fatal(err)
	}
	summariser := c.peer("summariser").Agent
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, summariser.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.out.Client.Identify(t.Context(), r.Header, summariser, http.MethodPost, summariser.URL); err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if raw, _ := io.ReadAll(response.Body); !strings.Contains(string(raw), "/vault/q1-financial.pdf") {
		t.Fatalf("the answer: %s", raw)
	}
	out := sent.last(t)
	if token.SplitChain(out.header.Get(holder.HeaderCapability)) == nil || strings.Contains(string(out.body), held.ID) {
		t.Errorf("%v %s", out.header, out.body)
	}
}
