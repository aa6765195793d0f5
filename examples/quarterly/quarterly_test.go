package quarterly_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/examples/quarterly"
)

const wish = "Have the Q1 financial report summarised"

const wantSummary = "Revenue in the first quarter of 2025 was 4.2 million EUR, up 11 percent on the year before. " +
	"Operating margin rose to 18 percent because hosting became cheaper."

// ask sends the user's words to the orchestrator.
func ask(t *testing.T, url string, out quarterly.Outgoing, text string) (quarterly.Answer, error) {
	t.Helper()
	client, err := out.Client(t.Context(), quarterly.Peer{URL: url}, quarterly.Incoming{})
	if err != nil {
		t.Fatal(err)
	}
	return quarterly.Say(t.Context(), client, text)
}

// The hijack, on real ports, with the defaults: act 0 of the demo.
func TestUnprotectedTownMailsTheSalaries(t *testing.T) {
	town, err := quarterly.Run(t.Context(), quarterly.Config{})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := ask(t, town.URL(quarterly.Orchestrator), quarterly.Direct{HTTP: http.DefaultClient}, wish)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Text != wantSummary {
		t.Errorf("summary: %q, want %q", answer.Text, wantSummary)
	}
	sent := town.Outbox()
	if len(sent) != 1 || sent[0].To != "exfil@attacker.example" || !strings.Contains(sent[0].Body, quarterly.SalaryLine) {
		t.Errorf("outbox: %+v, want one letter to exfil@attacker.example with the salary line", sent)
	}
	if err := town.Close(); err != nil {
		t.Error(err)
	}
	if got := wiring(town.Calls()); cmp.Diff(wantCalls, got) != "" {
		t.Error(cmp.Diff(wantCalls, got))
	}
}

var wantCalls = []string{
	"orchestrator documents.search_documents",
	"summariser documents.retrieve_document",
	"summariser documents.retrieve_document injected",
	"summariser mail.send_mail injected",
	"orchestrator summariser.summarize",
}

func wiring(calls []quarterly.Call) []string {
	var lines []string
	for _, c := range calls {
		line := c.From + " " + c.To + "." + c.Skill
		if c.Injected {
			line += " injected"
		}
		if c.Err != nil {
			line += ": " + c.Err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}

// Only URLs change: every agent stands behind a proxy. The network has no names but the proxies' for the agents' HTTP client, so what
// arrives there is everything that agents send; and a2a-go's client, which alone carries the tag, sent all of it. The bubble fails
// when a goroutine of the town is left behind.
func TestAgentsCallOnlyThroughOutgoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, behind := pipes{}, pipes{}
		out := &tagging{Direct: quarterly.Direct{HTTP: &http.Client{Transport: &http.Transport{DialContext: network.dial}}}}
		upstream := &http.Transport{DialContext: behind.dial}
		cfg := quarterly.Config{Agents: map[string]quarterly.Agent{}, Outgoing: out}
		var proxies []*http.Server
		for _, name := range []string{quarterly.Documents, quarterly.Mail, quarterly.Summariser, quarterly.Orchestrator} {
			a := quarterly.Agent{Listener: behind.listen(name), URL: "http://proxy-" + name, Peers: map[string]string{}}
			for _, peer := range peersOf(name) {
				a.Peers[peer] = "http://proxy-" + peer
			}
			cfg.Agents[name] = a
			proxy := &http.Server{Handler: out.checked(&httputil.ReverseProxy{
				Transport: upstream,
				Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: name}) },
			})}
			front := network.listen("proxy-" + name)
			go func() { _ = proxy.Serve(front) }()
			proxies = append(proxies, proxy)
		}
		town, err := quarterly.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := ask(t, "http://proxy-orchestrator", out, wish)
		if err != nil || answer.Text != wantSummary {
			t.Errorf("answer %q, %v; want %q", answer.Text, err, wantSummary)
		}
		if diff := cmp.Diff(wantCalls, wiring(town.Calls())); diff != "" {
			t.Error(diff)
		}
		if got, want := out.posts.Load(), int32(len(wantCalls)+1); got != want || out.foreign.Load() != 0 {
			t.Errorf("%d requests of a2a-go's client and %d others, want %d and 0", got, out.foreign.Load(), want)
		}
		if diff := cmp.Diff([]string{"orchestrator " + wish, "summariser "}, out.incoming()); diff != "" {
			t.Error(diff)
		}
		if err := town.Close(); err != nil {
			t.Error(err)
		}
		for _, p := range proxies {
			_ = p.Close()
		}
		out.HTTP.CloseIdleConnections()
		upstream.CloseIdleConnections()
	})
}

func peersOf(agent string) []string {
	switch agent {
	case quarterly.Orchestrator:
		return []string{quarterly.Documents, quarterly.Summariser}
	case quarterly.Summariser:
		return []string{quarterly.Documents, quarterly.Mail}
	}
	return nil
}

// tagging is an Outgoing that marks what a2a-go's client sends and checks that proxies see nothing else.
type tagging struct {
	quarterly.Direct
	a2aclient.PassthroughInterceptor
	posts, foreign atomic.Int32
	mu             sync.Mutex
	requests       []string
}

func (o *tagging) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	req.ServiceParams.Append("test-tag", "a2a-go")
	return ctx, nil, nil
}

func (o *tagging) Client(ctx context.Context, to quarterly.Peer, in quarterly.Incoming) (*a2aclient.Client, error) {
	o.mu.Lock()
	o.requests = append(o.requests, in.Agent+" "+in.Text)
	if in.Agent != "" && in.Headers["test-tag"][0] != "a2a-go" {
		o.foreign.Add(1)
	}
	o.mu.Unlock()
	card, err := agentcard.NewResolver(o.HTTP).Resolve(ctx, to.URL)
	if err != nil {
		return nil, err
	}
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(o.HTTP), a2aclient.WithCallInterceptors(o))
}

// incoming is the requests on whose behalf agents called, each once.
func (o *tagging) incoming() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.requests)
	return slices.DeleteFunc(slices.Compact(o.requests), func(r string) bool { return r == " " })
}

func (o *tagging) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.Header.Get("Test-Tag") == "a2a-go":
			o.posts.Add(1)
		case r.Method != http.MethodGet || r.URL.Path != "/.well-known/agent-card.json":
			o.foreign.Add(1)
		}
		next.ServeHTTP(w, r)
	})
}

// pipes is a network of named in-memory listeners: in a bubble, its connections count as waiting, which real ones do not.
type pipes map[string]chan net.Conn

type pipeListener struct {
	name  string
	conns chan net.Conn
	done  chan struct{}
	once  *sync.Once
}

func (p pipes) listen(name string) net.Listener {
	p[name] = make(chan net.Conn)
	return pipeListener{name, p[name], make(chan struct{}), new(sync.Once)}
}

func (l pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: l.name, Net: "pipe"} }

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	name, _, _ := strings.Cut(addr, ":")
	here, there := net.Pipe()
	select {
	case p[name] <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
