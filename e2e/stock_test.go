package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/google/go-cmp/cmp"
)

// patience is how long a client may take before something hangs.
const patience = time.Minute

// stepwise is an agent that works in steps. What it does is said by the first
// word of a message: "work" makes a task of several events, "open" a task that
// waits for more, "fail" breaks, and everything else is answered in a word.
type stepwise struct {
	// step is received from between the events of a task; closed, nothing waits.
	step <-chan struct{}
}

func (s stepwise) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		said := said(x.Message)
		switch word, _, _ := strings.Cut(said, " "); word {
		case "work":
			s.work(ctx, x, yield)
		case "open":
			_ = yield(a2a.NewSubmittedTask(x, x.Message), nil) &&
				yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateInputRequired, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("more?"))), nil)
		case "fail":
			yield(nil, errors.New("broken"))
		default:
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("heard: "+said)), nil)
		}
	}
}

func (s stepwise) work(ctx context.Context, x *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
	first := a2a.NewArtifactEvent(x, a2a.NewTextPart("one"))
	more := a2a.NewArtifactUpdateEvent(x, first.Artifact.ID, a2a.NewTextPart("two"))
	for n, e := range []a2a.Event{
		a2a.NewSubmittedTask(x, x.Message),
		a2a.NewStatusUpdateEvent(x, a2a.TaskStateWorking, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("working"))),
		first, more,
		a2a.NewStatusUpdateEvent(x, a2a.TaskStateCompleted, nil),
	} {
		if n > 0 {
			select {
			case <-s.step:
			case <-ctx.Done():
				return
			}
		}
		if !yield(e, nil) {
			return
		}
	}
}

func (stepwise) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}

func said(m *a2a.Message) string {
	var words []string
	for _, p := range m.Parts {
		if data := p.Data(); data != nil {
			b, _ := json.Marshal(data)
			words = append(words, string(b))
			continue
		}
		words = append(words, p.Text())
	}
	return strings.Join(words, " ")
}

// settled is a handler that lets an execution end before it cancels its task or
// has its end followed. The SDK's own joins what comes in the moment after the
// answer went out to the execution, and then answers in another way: that a task
// cannot be cancelled that can, with a stream of a task that has ended.
type settled struct{ a2asrv.RequestHandler }

// ended reports whether the task will have no more events.
func (s settled) ended(ctx context.Context, id a2a.TaskID) bool {
	task, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
	return err != nil || task.Status.State.Terminal() || ctx.Err() != nil
}

func (s settled) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	for {
		task, err := s.RequestHandler.CancelTask(ctx, req)
		if !errors.Is(err, a2a.ErrTaskNotCancelable) || s.ended(ctx, req.ID) {
			return task, err
		}
		runtime.Gosched()
	}
}

func (s settled) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		for again := true; again; runtime.Gosched() {
			over := s.ended(ctx, req.ID)
			for e, err := range s.RequestHandler.SubscribeToTask(ctx, req) {
				again = over && err == nil && ctx.Err() == nil
				if !again && !yield(e, err) {
					return
				}
			}
		}
	}
}

// newStepwise serves a stepwise agent that lists tasks for everybody.
func newStepwise(t *testing.T, step <-chan struct{}) *stock {
	t.Helper()
	s := &stock{}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	card := &a2a.AgentCard{
		Name: "Documents", Description: "Keeps documents", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(srv.URL+"/invoke", a2a.TransportProtocolJSONRPC)},
		DefaultInputModes:   []string{"text"}, DefaultOutputModes: []string{"text"},
		Capabilities: a2a.AgentCapabilities{Streaming: true, Extensions: []a2a.AgentExtension{{URI: "https://example.org/ext/theirs/v1", Description: "Theirs"}}},
	}
	for _, name := range []string{"search_documents", "delete_document"} {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: name, Name: name, Description: name, Tags: []string{"test"}})
	}
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "anybody", nil }})
	rpc := a2asrv.NewJSONRPCHandler(settled{a2asrv.NewHandler(stepwise{step}, a2asrv.WithTaskStore(store))})
	mux.Handle("/invoke", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, received{body, r.Header.Clone()})
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		rpc.ServeHTTP(w, r)
	}))
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	return s
}

// unhindered is a step channel at which nothing waits.
func unhindered() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// behind starts powerbox in front of one stock agent.
func behind(t *testing.T, agent *stock, mode, extra string) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir(), documents: agent}
	w.serve(mode, extra)
	return w
}

func (w *town) serve(mode, extra string) {
	w.t.Helper()
	port := freePort(w.t)
	w.url = "http://127.0.0.1:" + port
	w.write("powerbox.yaml", fmt.Sprintf(stockConfiguration, port, port, w.documents.url, mode, w.deletes, extra))
	w.migrate()
	w.boot()
}

const stockConfiguration = `listen: 127.0.0.1:%s
issuer: {url: "http://127.0.0.1:%s"}
agents:
  - {id: documents, upstream: "%s", mode: %s, required: [documents:read/search]}
offers:
  documents:
    - {id: documents:read, description: Read documents, operations: [search]}
    - {id: documents:write, description: Change documents, operations: [delete]}
skills:
  documents:
    - {skill: search_documents, grant: documents:read, operation: search, effect: read}
    - {skill: delete_document, grant: documents:write, operation: delete%s}
%s
`

const cardPath = "/.well-known/agent-card.json"

// nodeOfClients is the path of node. Without it or the packages of jsclient the test fails: make test
// installs both.
func nodeOfClients(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join("jsclient", "node_modules", "@a2a-js", "sdk")); err != nil {
		t.Fatal("the JavaScript SDK is not installed: run make test-deps, or npm ci in e2e/jsclient")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: run make test-deps, or install Node.js 20 or newer")
	}
	return node
}

// nodeClient is a process of the client in jsclient for one agent, not yet started.
func nodeClient(t *testing.T, cardURL, bearer string) *exec.Cmd {
	t.Helper()
	node := nodeOfClients(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, node, filepath.Join("jsclient", "client.mjs"), cardURL)
	cmd.Env = append(os.Environ(), "A2A_TOKEN="+bearer)
	return cmd
}

func stderrOf(err error) []byte {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.Stderr
	}
	return nil
}

// commandLine is the a2a command of a2a-go, at the version of stock.mod.
func commandLine(t *testing.T) string {
	t.Helper()
	program, err := built("a2a", ".", "-modfile=stock.mod", "github.com/a2aproject/a2a-go/v2/cmd/a2a")
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// golang runs the a2a command once for every command, and returns what each
// printed. "$task" is the task that was answered last.
func golang(t *testing.T, a2aCommand, url string, commands ...[]string) []string {
	t.Helper()
	var printed []string
	task := ""
	for _, c := range commands {
		args := slices.Clone(c)
		for n := range args {
			args[n] = strings.NewReplacer("$url", url, "$task", task).Replace(args[n])
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, a2aCommand, append([]string{"-o", "json"}, args...)...)
		var out, talk bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &talk
		err := cmd.Run()
		cancel()
		text := out.String()
		if err != nil {
			text += talk.String()
		}
		if id := taskID.FindStringSubmatch(text); id != nil {
			task = id[1]
		}
		printed = append(printed, text)
	}
	return printed
}

// taskID finds the id of a task in what the a2a command printed.
var taskID = regexp.MustCompile(`"(?:id|taskId)": "([0-9a-f-]{36})"`)

// exchanged is what one client and one agent saw of each other.
type exchanged struct {
	Printed []string            // by the client
	Bodies  []string            // as the agent received them
	Headers []map[string]string // as the agent received them, except those of each connection
}

// seen collects an exchange with what differs in every run made equal: the base
// URL, random ids (by the order in which they first occur) and times.
func seen(agent *stock, printed []string, base string) exchanged {
	ids := map[string]string{}
	same := func(s string) string {
		s = strings.ReplaceAll(s, base, "BASE")
		s = clock.ReplaceAllString(s, "TIME")
		return randomID.ReplaceAllStringFunc(s, func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprintf("ID-%d", len(ids)+1)
			}
			return ids[id]
		})
	}
	var x exchanged
	for _, r := range agent.got() {
		x.Bodies = append(x.Bodies, same(string(r.body)))
		h := map[string]string{}
		for name, values := range r.header {
			if !slices.Contains(ofConnection, name) {
				h[name] = same(strings.Join(values, " | "))
			}
		}
		x.Headers = append(x.Headers, h)
	}
	for _, p := range printed {
		x.Printed = append(x.Printed, same(p))
	}
	return x
}

var (
	randomID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	clock    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	// ofConnection are the headers that belong to a connection or are ours.
	ofConnection = []string{"Accept-Encoding", "Connection", "Content-Length", "Grpc-Accept-Encoding", "Keep-Alive", "Transfer-Encoding", "Powerbox-Context"}
)

// TestSEP18_StockClientsInObserve has unmodified clients talk to an agent
// directly and through the gateway in mode observe: neither side sees a
// difference.
func TestSEP18_StockClientsInObserve(t *testing.T) {
	asGiven(t)
	a2aCommand := commandLine(t)
	for name, talk := range map[string]func(base string) []string{
		"JavaScript SDK": func(base string) []string {
			return javascript(t, base+cardPath, "a-token-of-theirs",
				[]string{"send", "hello"}, []string{"send", "work"}, []string{"get", "$task"},
				[]string{"stream", "work"}, []string{"send", "open"}, []string{"cancel", "$task"}, []string{"cancel", "no-such-task"},
				[]string{"skill", "search_documents", `{"text": "\u00fc <&> \u2028", "half": 0.5}`},
				[]string{"list"}, []string{"get", "no-such-task"}, []string{"send", "fail"}, []string{"stream", "fail"}, []string{"stream", "hello"})
		},
		"a2a command": func(base string) []string {
			return golang(t, a2aCommand, base,
				[]string{"send", "$url", "hello"}, []string{"send", "$url", "work"}, []string{"get", "task", "$url", "$task"},
				[]string{"send", "--stream", "$url", "work"}, []string{"send", "$url", "open"}, []string{"cancel", "$url", "$task"}, []string{"cancel", "$url", "no-such-task"},
				[]string{"send", "$url", "--parts", `[{"data": {"skill": "search_documents", "arguments": {"text": "\u00fc <&> \u2028", "half": 0.5}}}]`},
				[]string{"list", "tasks", "$url"}, []string{"get", "task", "$url", "no-such-task"}, []string{"send", "$url", "fail"},
				[]string{"send", "$url", "hello", "--auth", "Bearer a-token-of-theirs", "--svc-param", "A2A-Extensions=https://example.org/ext/theirs/v1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			alone, guarded := newStepwise(t, unhindered()), newStepwise(t, unhindered())
			w := behind(t, guarded, "observe", "")
			direct := seen(alone, talk(alone.url), alone.url)
			through := seen(guarded, talk(w.agentURL("documents")), w.agentURL("documents"))
			if diff := cmp.Diff(direct, through); diff != "" {
				t.Errorf("directly (-) and through the gateway (+):\n%s", diff)
			}
			for _, r := range guarded.got() {
				if r.header.Get("Powerbox-Context") == "" {
					t.Errorf("a request went past the gateway: %s", r.body)
				}
			}
			if len(direct.Bodies) < 12 {
				t.Errorf("the agent received %d requests, want 12 or more: %q", len(direct.Bodies), direct.Printed)
			}
		})
	}
}

// TestSEP1_StockClientsReadTheCard has unmodified clients read the card: except for
// the URL, the extension that is added and the signature, it is the agent's.
func TestSEP1_StockClientsReadTheCard(t *testing.T) {
	asGiven(t)
	a2aCommand := commandLine(t)
	agent := newStepwise(t, unhindered())
	w := behind(t, agent, "observe", "")
	for name, read := range map[string]func(base string) string{
		"JavaScript SDK": func(base string) string { return javascript(t, base+cardPath, "", []string{"card"})[0] },
		"a2a command":    func(base string) string { return golang(t, a2aCommand, base, []string{"discover", "$url"})[0] },
	} {
		t.Run(name, func(t *testing.T) {
			direct, guarded := cardOf(t, read(agent.url)), cardOf(t, read(w.agentURL("documents")))
			if diff := cmp.Diff(w.agentURL("documents"), guarded.SupportedInterfaces[0].URL); diff != "" {
				t.Error(diff)
			}
			all := guarded.Capabilities.Extensions
			if len(all) != 3 || all[0].URI != direct.Capabilities.Extensions[0].URI {
				t.Fatalf("extensions %+v; want theirs and our two", all)
			}
			if len(guarded.Signatures) != 1 {
				t.Errorf("%d signatures; want the gateway's", len(guarded.Signatures))
			}
			guarded.Signatures = direct.Signatures
			guarded.SupportedInterfaces[0].URL, guarded.Capabilities.Extensions = direct.SupportedInterfaces[0].URL, all[:1]
			if diff := cmp.Diff(direct, guarded); diff != "" {
				t.Errorf("the agent's card (-) and ours (+):\n%s", diff)
			}
		})
	}
}

func cardOf(t *testing.T, text string) a2a.AgentCard {
	t.Helper()
	var card a2a.AgentCard
	if err := json.Unmarshal([]byte(text), &card); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return card
}

// TestStockStreamPassesAsProduced lets an agent continue only when the client has
// printed the event before: a gateway that holds events back never ends.
func TestStockStreamPassesAsProduced(t *testing.T) {
	asGiven(t)
	for _, mode := range []string{"observe", "prefer"} {
		t.Run(mode, func(t *testing.T) {
			step := make(chan struct{})
			w := behind(t, newStepwise(t, step), mode, "")
			cmd := nodeClient(t, w.agentURL("documents")+cardPath, "")
			cmd.Args = append(cmd.Args, "stream", "work")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var events []string
			for lines := bufio.NewScanner(out); lines.Scan(); {
				for name := range memberNames(t, lines.Text()) {
					events = append(events, name)
				}
				if len(events) == len(worked) {
					continue
				}
				select {
				case step <- struct{}{}:
				case <-time.After(patience):
					t.Fatalf("the agent does not go on after %q", events)
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(worked, events); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// worked are the events of a task that a stepwise agent worked on.
var worked = []string{"task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"}

func memberNames(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	var o map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return o
}
