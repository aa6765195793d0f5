package powerboxadk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxadk "github.com/powerbox-project/powerbox/integrations/adk"
	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/internal/programtest"
)

// binary is the gate, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(programtest.Main("../..", func(program string) int {
		binary = program
		return m.Run()
	}))
}

const guardToken = "guard-token-of-the-test-0123456789abcdef"

const configuration = `listen: %[1]s
issuer: {url: "http://%[1]s"}
identity:
  guards: [{name: hierarchy, token_file: guard.token, agents: [coordinator, reader, writer, summariser, clerk, archivist]}]
defaults: {mode: scoped}
agents:
  - {id: coordinator, protocol: local}
  - {id: reader, protocol: local, required: [answer/read]}
  - {id: writer, protocol: local, required: [answer/write]}
  - {id: summariser, protocol: local, required: [answer/sum]}
  - {id: clerk, protocol: local, required: [answer/file]}
  - {id: archivist, protocol: local, required: [answer/archive]}
  - {id: docs, protocol: local}
  - {id: notes, protocol: local}
offers:
  reader: [{id: answer, operations: [read]}]
  writer: [{id: answer, operations: [write]}]
  summariser: [{id: answer, operations: [sum]}]
  clerk: [{id: answer, operations: [file]}]
  archivist: [{id: answer, operations: [archive]}]
  docs: [{id: docs, operations: [read, delete]}]
  notes: [{id: notes, operations: [keep, secret, look, hide]}]
skills:
  reader: [{skill: answer, grant: answer, operation: read}]
  writer: [{skill: answer, grant: answer, operation: write}]
  summariser: [{skill: answer, grant: answer, operation: sum}]
  clerk: [{skill: answer, grant: answer, operation: file}]
  archivist: [{skill: answer, grant: answer, operation: archive}]
  docs:
    - {skill: read_doc, grant: docs, operation: read, effect: read}
    - {skill: delete_doc, grant: docs, operation: delete}
  notes:
    - {skill: keep, grant: notes, operation: keep}
    - {skill: secret, grant: notes, operation: secret}
    - {skill: look, grant: notes, operation: look, effect: read}
    - {skill: hide, grant: notes, operation: hide, effect: read}
scopes:
  coordinator: {reader: [answer/read], clerk: [answer/file], archivist: [answer/archive], docs: [docs/read], notes: [notes/keep, notes/look]}
  reader: {docs: [docs/read], notes: [notes/look]}
  clerk: {reader: [answer/read], docs: [docs/read]}
  archivist: {clerk: [answer/file], notes: [notes/keep, notes/look]}
`

// town is a gate, and what ran of a hierarchy.
type town struct {
	t        *testing.T
	dir, url string
	files    map[string]string // beside the configuration
	ctx      context.Context   // of runs; the test's where nil

	mu  sync.Mutex
	ran []string
}

func newTown(t *testing.T) *town {
	t.Helper()
	address := freeport.Address(t)
	w := &town{t: t, dir: t.TempDir(), url: "http://" + address}
	for name, text := range map[string]string{"guard.token": guardToken, "powerbox.yaml": fmt.Sprintf(configuration, address)} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.boot()
	return w
}

// boot starts the gate and waits until it is ready.
func (w *town) boot() {
	w.t.Helper()
	programtest.Serve(w.t, binary, w.dir, w.url)
}

// scripted is a model that says what it was told to, one answer a turn, and notes
// which tools it was shown.
type scripted struct {
	name string

	mu     sync.Mutex
	script []*genai.Content
	shown  [][]string
	told   []string         // instructions
	heard  []map[string]any // results of its calls
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := []string{}
	for _, t := range req.Config.Tools {
		for _, f := range t.FunctionDeclarations {
			shown = append(shown, f.Name)
		}
	}
	slices.Sort(shown)
	s.shown = append(s.shown, shown)
	if in := req.Config.SystemInstruction; in != nil {
		for _, p := range in.Parts {
			s.told = append(s.told, p.Text)
		}
	}
	if n := len(req.Contents); n > 0 {
		for _, p := range req.Contents[n-1].Parts {
			if p.FunctionResponse != nil {
				s.heard = append(s.heard, p.FunctionResponse.Response)
			}
		}
	}
	next := genai.NewContentFromText(s.name+" is done", genai.RoleModel)
	if len(s.script) > 0 {
		next, s.script = s.script[0], s.script[1:]
	}
	return func(yield func(*model.LLMResponse, error) bool) { yield(&model.LLMResponse{Content: next}, nil) }
}

// says is a model that calls tools, one a turn: name and arguments.
func says(name string, calls ...any) *scripted {
	s := &scripted{name: name}
	for n := 0; n+1 < len(calls); n += 2 {
		s.script = append(s.script, &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{
			{FunctionCall: &genai.FunctionCall{ID: fmt.Sprint(name, n), Name: calls[n].(string), Args: calls[n+1].(map[string]any)}},
		}})
	}
	return s
}

// atOnce are calls that a model has in one turn: identifier, name and arguments.
func (s *scripted) atOnce(calls ...any) *scripted {
	turn := &genai.Content{Role: genai.RoleModel}
	for n := 0; n+2 < len(calls); n += 3 {
		turn.Parts = append(turn.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: calls[n].(string), Name: calls[n+1].(string), Args: calls[n+2].(map[string]any)}})
	}
	s.script = append(s.script, turn)
	return s
}

type pathOf struct {
	Path string `json:"path"`
}

// tools are those of the documents, which note that they ran.
func (w *town) tools() []tool.Tool {
	var out []tool.Tool
	for _, name := range []string{"read_doc", "delete_doc", "unmapped"} {
		t, err := functiontool.New(functiontool.Config{Name: name, Description: name}, func(ctx agent.Context, in pathOf) (map[string]any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ran = append(w.ran, ctx.AgentName()+" "+name+" "+in.Path)
			if in.Path == "/none" {
				return nil, fmt.Errorf("no such document")
			}
			for _, key := range []string{"kept", "secret"} {
				if in.Path == "/state" {
					ctx.Actions().StateDelta[key] = "x"
				}
			}
			return map[string]any{"text": "text of " + in.Path}, nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, t)
	}
	return out
}

func (w *town) agent(m *scripted, change func(*llmagent.Config)) agent.Agent {
	w.t.Helper()
	c := llmagent.Config{Name: m.name, Description: m.name, Model: m, Tools: w.tools()}
	if change != nil {
		change(&c)
	}
	a, err := llmagent.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *town) gate(known ...agent.Agent) *powerboxadk.Gate {
	w.t.Helper()
	docs := func(skill string) powerboxadk.Skill { return powerboxadk.Skill{Agent: "docs", Skill: skill} }
	g, err := powerboxadk.New(powerboxadk.Config{
		Gate:  &guard.Gate{URL: w.url, Token: guardToken, HTTP: &http.Client{Timeout: 20 * time.Second}},
		Tools: map[string]powerboxadk.Skill{"read_doc": docs("read_doc"), "delete_doc": docs("delete_doc")},
		State: map[string]powerboxadk.Skill{"kept": {Agent: "notes", Skill: "keep"}, "*": {Agent: "notes", Skill: "secret"}},
		Reads: map[string]powerboxadk.Skill{"kept": {Agent: "notes", Skill: "look"}, "draft": {Agent: "notes", Skill: "keep"}, "*": {Agent: "notes", Skill: "hide"}},
		Log:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	g.Know(known...)
	return g
}

// run runs a hierarchy on one message of the user, and returns its texts and the
// session's state.
func (w *town) run(g *powerboxadk.Gate, root agent.Agent) (texts []string, state map[string]any) {
	w.t.Helper()
	p, err := g.Plugin()
	if err != nil {
		w.t.Fatal(err)
	}
	sessions := session.InMemoryService()
	r, err := runner.New(runner.Config{AppName: "test", Agent: root, SessionService: sessions, AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{p}}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := w.ctx
	if ctx == nil {
		ctx = w.t.Context()
	}
	for e, err := range r.Run(ctx, "alice", "s1", genai.NewContentFromText("go", genai.RoleUser), agent.RunConfig{}) {
		if err != nil && w.ctx == nil {
			w.t.Fatal(err)
		}
		if e != nil && e.Content != nil {
			for _, part := range e.Content.Parts {
				if part.Text != "" {
					texts = append(texts, part.Text)
				}
			}
		}
	}
	got, err := sessions.Get(w.t.Context(), &session.GetRequest{AppName: "test", UserID: "alice", SessionID: "s1"})
	if err != nil {
		w.t.Fatal(err)
	}
	state = map[string]any{}
	for key, value := range got.Session.State().All() {
		state[key] = value
	}
	return texts, state
}

// records returns the records of a target, by origin, operation, decision and
// outcome.
func (w *town) records(target string) map[string]int {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/v1/records?agent="+target, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	var all []struct {
		Decision string `json:"decision"`
		Status   string `json:"outcome_status"`
		Intent   struct {
			Operation string `json:"operation"`
		} `json:"intent"`
		Powerbox struct {
			Requester string `json:"requester"`
		} `json:"powerbox"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]int{}
	for _, r := range all {
		out[strings.TrimSpace(r.Powerbox.Requester+" "+r.Intent.Operation+" "+r.Decision+" "+r.Status)]++
	}
	return out
}
