package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const frameworksPage = "../docs/how-to/frameworks.md"

// frameworkRows are the rows of the page, by the adapter that the test of the cases runs.
var frameworkRows = map[string]struct{ framework, call, file, version string }{
	"vercel":        {"Vercel AI SDK", "guardTools", "../integrations/typescript/package.json", `"ai": "(.*?)"`},
	"openai-node":   {"OpenAI Agents SDK for TypeScript", "guardAgent", "../integrations/typescript/package.json", `"@openai/agents": "(.*?)"`},
	"mcp-node":      {"MCP TypeScript SDK", "guardServer", "../integrations/typescript/package.json", `"@modelcontextprotocol/sdk": "(.*?)"`},
	"eino":          {"Eino", "powerboxeino.Middleware", "../integrations/eino/go.mod", `cloudwego/eino v(\S+)`},
	"genkit":        {"Genkit for Go", "powerboxgenkit.DefineTool", "../integrations/genkit/go.mod", `firebase/genkit/go v(\S+)`},
	"adk":           {"ADK for Go", "powerboxadk.Gate.Plugin", "../integrations/adk/go.mod", `google.golang.org/adk/v2 v(\S+)`},
	"adk-python":    {"ADK for Python", "Tools.adk", "../integrations/conformance/python/stub_adk.py", `google-adk (\d+\.\d+)`},
	"langgraph":     {"LangGraph", "Tools.langgraph", "../integrations/conformance/python/stub_langgraph.py", `langgraph (\d+\.\d+)`},
	"crewai":        {"CrewAI", "Tools.crewai", "../integrations/conformance/python/stub_crewai.py", `crewai (\d+\.\d+)`},
	"openai-python": {"OpenAI Agents SDK for Python", "Tools.openai_agents", "../integrations/conformance/python/stub_openai_agents.py", `openai-agents (\d+\.\d+)`},
	"claude-python": {"Claude Agent SDK", "Tools.claude", "../integrations/conformance/python/stub_claude.py", `claude-agent-sdk (\d+\.\d+)`},
}

// The table names every adapter that the cases run on, with the version that runs.
func TestFrameworksPageNamesWhatRuns(t *testing.T) {
	asGiven(t)
	page, err := os.ReadFile(frameworksPage)
	if err != nil {
		t.Fatal(err)
	}
	if len(frameworkRows) != len(adapters) {
		t.Errorf("%d rows for %d adapters", len(frameworkRows), len(adapters))
	}
	for _, a := range adapters {
		row := frameworkRows[a.name]
		text, err := os.ReadFile(row.file)
		if err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		m := regexp.MustCompile(row.version).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s has no %s", row.file, row.version)
		}
		runs := "for real"
		if strings.Contains(row.file, "stub_") {
			runs = "a stub"
		}
		if want := fmt.Sprintf("| %s | %s | `%s` | %s | 40 of 40 |", row.framework, m[1], row.call, runs); !strings.Contains(string(page), want) {
			t.Errorf("the page lacks the row %s", want)
		}
	}
}

func examplesIn(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile(frameworksPage)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(page, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// The examples of the page work as they are written.
func TestFrameworksPageExamples(t *testing.T) {
	asGiven(t)
	t.Run("Python", func(t *testing.T) {
		module, err := filepath.Abs("../integrations/python")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), python, "-B", "testdata/frameworks_examples.py", frameworksPage)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+module)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "5\n" {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("Go", func(t *testing.T) {
		var tested strings.Builder
		for _, file := range []string{"../integrations/eino/example_test.go", "../integrations/genkit/example_test.go"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tested.Write(text)
		}
		examples := examplesIn(t, "go")
		if len(examples) != 2 {
			t.Errorf("%d examples; want 2", len(examples))
		}
		for _, one := range examples {
			if within := "\t" + strings.ReplaceAll(strings.TrimSpace(one), "\n", "\n\t"); !strings.Contains(tested.String(), within) {
				t.Errorf("no example_test.go has\n%s", one)
			}
		}
	})
	t.Run("TypeScript", func(t *testing.T) {
		const folder = "../integrations/typescript"
		modules, err := filepath.Abs(filepath.Join(folder, "node_modules"))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		ours, err := filepath.Glob(filepath.Join(folder, "*.*mts"))
		if err != nil || len(ours) != 4 {
			t.Fatalf("%q %v; want four files of types", ours, err)
		}
		for _, file := range ours {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		var files []string
		for n, one := range examplesIn(t, "ts") {
			file := filepath.Join(dir, fmt.Sprintf("example%d.mts", n))
			if err := os.WriteFile(file, []byte(one), 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		if len(files) != 3 {
			t.Errorf("%d examples; want 3", len(files))
		}
		options, err := json.Marshal(map[string]any{"files": files, "compilerOptions": map[string]any{
			"module": "nodenext", "target": "es2023", "strict": true, "noEmit": true, "skipLibCheck": true, "types": []string{},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tsconfig.json"), options, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "typescript", "bin", "tsc"), "-p", dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// Tools that an adapter in TypeScript cannot guard are an error when the program starts.
func TestFrameworksRefuseWhatTheyCannotGuard(t *testing.T) {
	asGiven(t)
	cmd := inNode("unguarded")(t)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
