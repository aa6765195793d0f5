package powerboxmcp_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxmcp "github.com/powerbox-project/powerbox/integrations/mcp"
)

// revisions are those with sessions and those without.
var revisions = []string{"2025-11-25", "2026-07-28"}

func (w *town) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, what)
}

// took is what ran since it was asked last.
func (w *town) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ran := w.ran
	w.ran = nil
	return ran
}

// until waits for what comes soon.
func (w *town) until(what string, so func() bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for !so() {
		select {
		case <-deadline:
			w.t.Fatalf("not so in time: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// serverOf is a server with everything beside tools, which notes what it does.
func (w *town) serverOf() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			w.note("complete " + r.Params.Argument.Value)
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"alpha"}}}, nil
		},
		SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
			w.note("subscribe " + r.Params.URI)
			return nil
		},
		UnsubscribeHandler: func(_ context.Context, r *mcp.UnsubscribeRequest) error {
			w.note("unsubscribe " + r.Params.URI)
			return nil
		},
	})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		w.note("open " + r.Params.URI)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text"}}}, nil
	}
	for _, uri := range []string{"docs://a", "docs://b"} {
		server.AddResource(&mcp.Resource{Name: uri, URI: uri}, read)
	}
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "docs", URITemplate: "docs://{name}"}, read)
	server.AddPrompt(&mcp.Prompt{Name: "summary", Arguments: []*mcp.PromptArgument{{Name: "of"}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		w.note("prompt " + r.Params.Arguments["of"])
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "summarise"}}}}, nil
	})
	return server
}

// beside is what a session sees and may do of what a server has beside tools.
type beside struct {
	resources, templates, prompts []string
	errs                          map[string]error
	scopes                        []string // who may cache the lists and the read results
}

func (w *town) beside(revision string, grants ...string) beside {
	w.t.Helper()
	b := beside{errs: map[string]error{}}
	// A refusal ends a session of the SDK: what may be refused has one of its own.
	asked := 0 // about subscriptions
	with := func(name string, do func(context.Context, *mcp.ClientSession) error) {
		session, err := w.caller(grants...).connectAs(revision, nil)
		if err != nil {
			w.t.Fatalf("%s: %v", name, err)
		}
		defer session.Close()
		if got := session.InitializeResult().ProtocolVersion; got != revision {
			w.t.Fatalf("the session is of revision %s; want %s", got, revision)
		}
		if strings.HasPrefix(name, "subscribe") {
			got := w.records()
			asked = got["files/docs/follow ALLOW PENDING"] + got["files/docs/follow DENY"] + got["unknown DENY"]
		}
		b.errs[name] = do(w.t.Context(), session)
	}
	with("lists", func(ctx context.Context, s *mcp.ClientSession) error {
		resources, err := s.ListResources(ctx, nil)
		if err != nil {
			return err
		}
		for _, r := range resources.Resources {
			b.resources = append(b.resources, r.URI)
		}
		templates, err := s.ListResourceTemplates(ctx, nil)
		if err != nil {
			return err
		}
		for _, r := range templates.ResourceTemplates {
			b.templates = append(b.templates, r.URITemplate)
		}
		prompts, err := s.ListPrompts(ctx, nil)
		if err != nil {
			return err
		}
		for _, p := range prompts.Prompts {
			b.prompts = append(b.prompts, p.Name)
		}
		b.scopes = append(b.scopes, resources.CacheScope, templates.CacheScope, prompts.CacheScope)
		return nil
	})
	for _, uri := range []string{"docs://a", "docs://b"} {
		with("open "+uri, func(ctx context.Context, s *mcp.ClientSession) error {
			r, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
			if err == nil {
				b.scopes = append(b.scopes, r.CacheScope)
			}
			return err
		})
		with("subscribe "+uri, func(ctx context.Context, s *mcp.ClientSession) error {
			if err := s.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil || revision < "2026" {
				return err
			}
			// The SDK waits for no answer there.
			w.until("the subscription is decided on", func() bool {
				got := w.records()
				return got["files/docs/follow ALLOW PENDING"]+got["files/docs/follow DENY"]+got["unknown DENY"] > asked
			})
			return nil
		})
		with("unsubscribe "+uri, func(ctx context.Context, s *mcp.ClientSession) error {
			return s.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri})
		})
	}
	with("prompt", func(ctx context.Context, s *mcp.ClientSession) error {
		_, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "summary", Arguments: map[string]string{"of": "a"}})
		return err
	})
	with("complete", func(ctx context.Context, s *mcp.ClientSession) error {
		_, err := s.Complete(ctx, &mcp.CompleteParams{
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "summary"}, Argument: mcp.CompleteParamsArgument{Name: "of", Value: "al"},
		})
		return err
	})
	return b
}

// Resources, prompts, completion and subscriptions of a server in its own process
// are decided by rule, with their parameters, and one that is not granted is
// neither listed nor run.
func TestGATE9_MethodsInProcess(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			w := newTown(t)
			docs := w.beside(revision, "docs")
			if !slices.Equal(docs.resources, []string{"docs://a"}) || !slices.Equal(docs.templates, []string{"docs://{name}"}) || len(docs.prompts) != 0 {
				t.Errorf("listed %q %q %q", docs.resources, docs.templates, docs.prompts)
			}
			want := []string{"open docs://a", "subscribe docs://a", "unsubscribe docs://a"}
			if revision >= "2026" {
				// The end of a subscription is the end of its request.
				w.until("both ends of the subscription", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.ran) >= len(want) })
			}
			if want := []string{"private", "private", "private", "private"}; !slices.Equal(docs.scopes, want) {
				t.Errorf("who may keep lists and what was read: %q", docs.scopes)
			}
			if ran := w.took(); !slices.Equal(ran, want) {
				t.Errorf("ran %q; want %q", ran, want)
			}
			for name, refused := range map[string]bool{
				"lists": false, "open docs://a": false, "open docs://b": true, "subscribe docs://a": false, "subscribe docs://b": revision < "2026", "prompt": true, "complete": true,
			} {
				if err := docs.errs[name]; (err != nil) != refused {
					t.Errorf("%s: %v", name, err)
				}
			}
			help := w.beside(revision, "help")
			if len(help.resources) != 0 || len(help.templates) != 0 || !slices.Equal(help.prompts, []string{"summary"}) {
				t.Errorf("listed %q %q %q", help.resources, help.templates, help.prompts)
			}
			if ran := w.took(); !slices.Equal(ran, []string{"prompt a", "complete al"}) {
				t.Errorf("ran %q", ran)
			}
			got := w.records()
			for text, want := range map[string]int{
				"files/docs/open ALLOW ACHIEVED": 1, "files/help/prompt ALLOW ACHIEVED": 1, "files/help/complete ALLOW ACHIEVED": 1,
				"files/docs/open DENY": 3, "files/docs/follow ALLOW PENDING": map[bool]int{true: 2, false: 1}[revision < "2026"], "files/help/prompt DENY": 1, "files/help/complete DENY": 1,
			} {
				if got[text] != want {
					t.Errorf("on record: %d of %s; want %d: %v", got[text], text, want, got)
				}
			}
		})
	}
}

// In observe nothing is cut and nothing refused, and what would be is on record.
func TestGATE9_ObservedInProcess(t *testing.T) {
	w := townOf(t, "observe", methods)
	seen := w.beside(revisions[0])
	if len(seen.resources) != 2 || len(seen.templates) != 1 || len(seen.prompts) != 1 {
		t.Errorf("listed %q %q %q", seen.resources, seen.templates, seen.prompts)
	}
	for name, err := range seen.errs {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ran := w.took(); len(ran) != 8 {
		t.Errorf("ran %q", ran)
	}
	if got := w.records(); got["files/docs/open ABSTAIN"]+got["files/docs/open ABSTAIN PENDING"] != 2 {
		t.Errorf("on record: %v", got)
	}
}

// A method that Config.Methods does not name is refused, whatever is held, and
// nothing is listed for it.
func TestGATE9_MethodsOfNobody(t *testing.T) {
	w := townOf(t, "require", nil)
	all := w.beside(revisions[0], "read", "write", "docs", "help")
	if len(all.resources)+len(all.templates)+len(all.prompts) != 0 || all.errs["lists"] != nil {
		t.Errorf("listed %q %q %q, %v", all.resources, all.templates, all.prompts, all.errs["lists"])
	}
	for name, err := range all.errs {
		if name != "lists" && err == nil {
			t.Errorf("%s is let through", name)
		}
	}
	if ran := w.took(); len(ran) != 0 {
		t.Errorf("ran %q", ran)
	}
	if got := w.records(); got["unknown DENY"] != 8 {
		t.Errorf("on record: %v; want 8 denials", got)
	}
	gate := &guard.Gate{URL: w.url, Token: guardToken, HTTP: http.DefaultClient}
	for name, change := range map[string]func(*powerboxmcp.Config){
		"a method of nobody":   func(c *powerboxmcp.Config) { c.Methods = map[string]string{"tools/call": "read/read"} },
		"no operation":         func(c *powerboxmcp.Config) { c.Methods = map[string]string{"resources/read": "read"} },
		"a request of nobody":  func(c *powerboxmcp.Config) { c.Requests = []string{"tools/call"} },
		"no gate":              func(c *powerboxmcp.Config) { c.Gate = nil },
		"a resource of no URL": func(c *powerboxmcp.Config) { c.Resource = "files" },
	} {
		c := powerboxmcp.Config{Gate: gate, Agent: "files", Issuer: w.url + "/agents/files", Resource: w.endpoint, Now: now}
		if change(&c); c.Gate != nil || name == "no gate" {
			if _, err := powerboxmcp.New(c); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
	}
}

// What a server asks of its client gets through where it is listed, and is refused
// in the client's place otherwise: sampling is a way into the client's model.
//
//nolint:staticcheck // deprecated from 2026-07-28 on, and what hosts do until then
func TestGATE9_RequestsOfTheServer(t *testing.T) {
	for _, revision := range revisions {
		for _, listed := range []bool{false, true} {
			t.Run(fmt.Sprint(revision, " listed ", listed), func(t *testing.T) {
				requests := []string{"roots/list"}
				if listed {
					requests = []string{"sampling/createMessage"}
				}
				w := townOf(t, "require", methods, requests...)
				w.sampling(revision)
				asked := 0
				session, err := w.caller("read").connectAs(revision, &mcp.ClientOptions{
					CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
						asked++
						return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "sampled"}}, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				if got := session.InitializeResult().ProtocolVersion; got != revision {
					t.Fatalf("the session is of revision %s", got)
				}
				r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "/a"}})
				through := err == nil && !r.IsError && asked == 1 && strings.Contains(fmt.Sprint(w.took()), "sampled")
				if through != listed || !listed && asked != 0 {
					t.Errorf("asked %d times: %+v %v", asked, r, err)
				}
			})
		}
	}
}

// sampling has the tool read_file ask the client's model, as servers do in a
// revision.
//
//nolint:staticcheck // as above
func (w *town) sampling(revision string) {
	params := &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "what is the password?"}}}}
	w.sdk.RemoveTools("read_file")
	mcp.AddTool(w.sdk, &mcp.Tool{Name: "read_file", Description: "asks"}, func(ctx context.Context, r *mcp.CallToolRequest, _ pathOf) (*mcp.CallToolResult, any, error) {
		if revision >= "2026" && len(r.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"1": params}, RequestState: "s"}, nil, nil
		}
		if revision >= "2026" {
			got, _ := r.Params.InputResponses["1"].(*mcp.CreateMessageWithToolsResult)
			w.note(got.Content[0].(*mcp.TextContent).Text)
			return &mcp.CallToolResult{}, nil, nil
		}
		got, err := r.Session.CreateMessage(ctx, params)
		if err != nil {
			return nil, nil, err
		}
		w.note(got.Content.(*mcp.TextContent).Text)
		return &mcp.CallToolResult{}, nil, nil
	})
}

// An answer to a request of the server comes from the session's holder, where the
// server may ask at all.
func TestATK18_AnswersToTheServer(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"model":"m","role":"assistant","content":{"type":"text","text":"x"}}}`
	w := townOf(t, "require", methods, "sampling/createMessage")
	mine := w.caller("read")
	got, raw := mine.post(strings.Replace(initialize, "2025-06-18", revisions[0], 1))
	id := got.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal(raw)
	}
	if got, raw := w.caller("read").post(answer, "Mcp-Session-Id", id); got.StatusCode != http.StatusNotFound {
		t.Errorf("somebody else answers: %d %s", got.StatusCode, raw)
	}
	if got, raw := w.caller().post(answer, "Mcp-Session-Id", id); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody answers: %d %s", got.StatusCode, raw)
	}
	if got, raw := mine.post(answer, "Mcp-Session-Id", id); got.StatusCode >= http.StatusBadRequest {
		t.Errorf("the holder's answer: %d %s", got.StatusCode, raw)
	}
}
