package workflows

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v3"
)

func TestWorkflowsAreValid(t *testing.T) {
	names, err := filepath.Glob("../../../.github/workflows/*.yml")
	if err != nil || len(names) < 2 {
		t.Fatalf("%v, %v", names, err)
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := linter.LintFiles(names, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// Bash reads every script of the action, which gets texts of others as variables alone.
func TestScriptsOfTheActionAreBash(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/action/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Runs struct {
			Using string
			Steps []struct{ Name, Shell, Run string }
		}
	}
	if err := yaml.Unmarshal(data, &action); err != nil || action.Runs.Using != "composite" || len(action.Runs.Steps) == 0 {
		t.Fatalf("%+v, %v", action, err)
	}
	for _, step := range action.Runs.Steps {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", step.Run).CombinedOutput(); err != nil || step.Shell != "bash" {
			t.Errorf("%s: shell %q, %v: %s", step.Name, step.Shell, err, out)
		}
		if strings.Contains(step.Run, "${{") {
			t.Errorf("%s: an expression is written into the script", step.Name)
		}
	}
}
