package powerboxadk_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
)

// inParts is a tool that answers in parts.
func (w *town) inParts(c functiontool.Config) tool.Tool {
	t, err := functiontool.NewStreaming(c, func(ctx agent.Context, in pathOf) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			w.mu.Lock()
			w.ran = append(w.ran, ctx.AgentName()+" "+c.Name+" "+in.Path)
			w.mu.Unlock()
			if in.Path == "/none" {
				yield("", fmt.Errorf("no such document"))
				return
			}
			_ = yield("text of ", nil) && yield(in.Path, nil)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// Tools that answer in parts, for which the ADK has no callback, are checked like
// others.
func TestGATE7_ToolsThatAnswerInParts(t *testing.T) {
	w := newTown(t)
	m := says("coordinator", "delete_doc", object{"path": "/a"}, "read_doc", object{"path": "/a"}, "read_doc", object{"path": "/none"})
	root := w.agent(m, func(c *llmagent.Config) {
		c.Tools = []tool.Tool{w.inParts(functiontool.Config{Name: "read_doc"}), w.inParts(functiontool.Config{Name: "delete_doc"})}
	})
	w.run(w.gate(root), root)
	if want := []string{"coordinator read_doc /a", "coordinator read_doc /none"}; !slices.Equal(w.ran, want) {
		t.Errorf("ran %q; want %q", w.ran, want)
	}
	if heard := fmt.Sprint(m.heard); len(m.heard) != 3 || m.heard[0]["error"] != "outside_caller_scope" || m.heard[1]["result"] != "text of /a" || m.heard[2]["error"] != "no such document" {
		t.Errorf("heard %s", heard)
	}
	got := w.records("docs")
	if got["coordinator docs/docs/delete DENY"] != 1 || got["coordinator docs/docs/read ALLOW ACHIEVED"] != 1 || got["coordinator docs/docs/read ALLOW FAILED"] != 1 {
		t.Errorf("on record: %v", got)
	}

	// A call that is confirmed later would run unchanged.
	m = says("coordinator", "read_doc", object{"path": "/b"})
	root = w.agent(m, func(c *llmagent.Config) {
		c.Tools = []tool.Tool{w.inParts(functiontool.Config{Name: "read_doc", RequireConfirmation: true})}
	})
	w.ran = nil
	w.run(w.gate(root), root)
	if len(w.ran) != 0 || len(m.heard) != 1 || !strings.Contains(fmt.Sprint(m.heard[0]["error"]), "cannot be confirmed") {
		t.Errorf("ran %q; heard %v", w.ran, m.heard)
	}
}

// A live session begins only of an agent about all of whose tools is asked there.
func TestGATE7_LiveSessions(t *testing.T) {
	w := newTown(t)
	steps, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "coordinator", SubAgents: []agent.Agent{w.agent(says("writer"), nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*llmagent.Config)) agent.Agent { return w.agent(says("coordinator"), change) }
	for want, root := range map[string]agent.Agent{
		"nothing would be asked about its steps": steps,
		"its tool read_doc, which answers in parts": with(func(c *llmagent.Config) {
			c.Tools = []tool.Tool{w.inParts(functiontool.Config{Name: "read_doc"})}
		}),
		"its toolsets could have tools": with(func(c *llmagent.Config) { c.Toolsets = []tool.Toolset{noTools{}} }),
		"model does not support live":   with(nil), // which is ours no more
	} {
		p, err := w.gate(root).Plugin()
		if err != nil {
			t.Fatal(err)
		}
		r, err := runner.New(runner.Config{
			AppName: "test", Agent: root, SessionService: session.InMemoryService(), AutoCreateSession: true,
			PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{p}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.RunLive(t.Context(), "alice", "s1", agent.LiveRunConfig{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

type noTools struct{}

func (noTools) Name() string { return "none" }

func (noTools) Tools(agent.ReadonlyContext) ([]tool.Tool, error) { return nil, nil }
