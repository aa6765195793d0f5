package verify

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// conform runs powerbox conformance with arguments.
func conform(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out, talk bytes.Buffer
	root := func(p *cli.Program) *cobra.Command {
		cmd := &cobra.Command{Use: "powerbox"}
		cmd.AddCommand(newConformance(p))
		return cmd
	}
	code := cli.Execute(t.Context(), root, &cli.Program{Stdout: &out, Stderr: &talk, Now: time.Now}, append([]string{"conformance"}, args...))
	return out.String() + talk.String(), code
}

const ourVectors = "../../../testdata/vectors"

// TestConformanceRun answers the vectors of the tree, and finds the one whose
// answer was changed, in every file.
func TestConformanceRun(t *testing.T) {
	run := func(dir string) (string, int) { return conform(t, "run", dir) }
	if out, code := run(ourVectors); code != cli.ExitFine || strings.Contains(out, "want") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, code := run(t.TempDir()); code != cli.ExitError || !strings.Contains(out, "has no vectors") {
		t.Errorf("an empty folder: exit %d\n%s", code, out)
	}
	for file, change := range map[string][2]string{
		"algebra/admits.json":     {`"admits":true`, `"admits":false`},
		"algebra/covers.json":     {`"covers":true`, `"covers":false`},
		"algebra/meet.json":       {`"meet":{"constraint_type":"wildcard"}`, `"meet":{"constraint_type":"exact","value":1}`},
		"algebra/scope.json":      {`"matches":true`, `"matches":false`},
		"algebra/decide.json":     {`"code":"not_yet_valid"`, `"code":"expired"`},
		"token/ATK-2-star.json":   {`"decision": "deny"`, `"decision": "allow"`},
		"evidence/canonical.json": {`"expect": "refused"`, `"expect": "ok"`},
		"evidence/records.json":   {`"record_hash": "e8`, `"record_hash": "e9`},
		"evidence/tree.json":      {`"roots": [`, `"roots": ["00",`},
		"evidence/proofs.json":    {`"expect": "refused"`, `"expect": "ok"`},
		"evidence/bundles.json":   {`"hash_mismatch@4"`, `"hash_mismatch@5"`},
		"evidence/retention.json": {`"hash_mismatch@2"`, `"hash_mismatch@3"`},
		"evidence/bodies.json":    {`"erased": 1`, `"erased": 2`},
		"evidence/periods.json":   {`"missing_period@2:1"`, `"missing_period@2:2"`},
		"evidence/audits.json":    {`"record_id": "ev-2"`, `"record_id": "ev-3"`},
	} {
		data, err := os.ReadFile(filepath.Join(ourVectors, file))
		if err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(t.TempDir(), file)
		spoilt := strings.Replace(string(data), change[0], change[1], 1)
		if spoilt == string(data) {
			t.Fatalf("%s has no %s", file, change[0])
		}
		if err := os.MkdirAll(filepath.Dir(changed), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(changed, []byte(spoilt), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := run(filepath.Dir(filepath.Dir(changed))); code != cli.ExitInvalid {
			t.Errorf("%s with another answer: exit %d\n%s", file, code, out)
		}
	}
}

// subjectScript is a program under test that does one thing with each line.
func subjectScript(t *testing.T, each string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "subject")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nn=0\nwhile read -r line; do n=$((n+1)); "+each+"; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// oneVector is a folder with a single question.
func oneVector(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "algebra"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "algebra", "admits.json"), []byte(`[{"constraint":{"constraint_type":"wildcard"},"value":1,"admits":true}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestConformanceAgainstAnotherProgram scores programs that answer right, wrong, not at
// all, and that do not speak the protocol.
func TestConformanceAgainstAnotherProgram(t *testing.T) {
	dir := oneVector(t)
	for _, c := range []struct {
		each, said string
		code       int
	}{
		{`echo "{\"id\":$n,\"answer\":{\"admits\":true}}"`, "1        1      0       0          0", cli.ExitFine},
		{`echo "{\"id\":$n,\"answer\":{\"admits\":true,\"more\":1}}"`, "1        1      0       0          0", cli.ExitFine},
		{`echo "{\"id\":$n,\"answer\":{\"admits\":false}}"`, "admits is false; want true", cli.ExitInvalid},
		{`echo "{\"id\":$n,\"answer\":{}}"`, "admits is ; want true", cli.ExitInvalid},
		{`echo "{\"id\":$n,\"unsupported\":true}"`, "1        0      0       0          1", cli.ExitFine},
		{`echo "{\"id\":$n,\"error\":\"no idea\"}"`, `no answer: it says "no idea"`, cli.ExitInvalid},
		{`echo "{\"id\":7,\"answer\":{\"admits\":true}}"`, "answered 7; want 1", cli.ExitError},
		{`echo hello`, "a line that is no answer", cli.ExitError},
		{`exit 3`, "it ended its output", cli.ExitError},
		{`exec sleep 60`, "took longer than", cli.ExitError},
	} {
		patience := "30s"
		if strings.HasPrefix(c.each, "exec") {
			patience = "100ms"
		}
		if out, code := conform(t, "run", dir, "--timeout", patience, "--against", subjectScript(t, c.each)); code != c.code || !strings.Contains(out, c.said) {
			t.Errorf("%s: exit %d; want %d and %q\n%s", c.each, code, c.code, c.said, out)
		}
	}
	if out, code := conform(t, "run", dir, "--against", "/nowhere"); code != cli.ExitError || !strings.Contains(out, "--against") {
		t.Errorf("a program that is not there: exit %d\n%s", code, out)
	}
}

// TestConformanceScoresTheOtherVerifier has verify.mjs answer through the protocol.
func TestConformanceScoresTheOtherVerifier(t *testing.T) {
	out, _ := conform(t, "run", ourVectors, "--against", "node ../../../tests/conformance/answer.mjs")
	for _, s := range suites {
		if !strings.HasPrefix(s.kind, "evidence/") || s.kind == "evidence/retention" { // which needs ML-DSA-87 of the platform
			continue
		}
		if !regexp.MustCompile(`(?m)^` + s.kind + `\.json[a-z, ]* +(\d+) +[1-9]\d* +0 +0 +0$`).MatchString(out) {
			t.Errorf("%s differs\n%s", s.kind, out)
		}
	}
}

// TestConformanceAnswer answers questions of every kind, as run does without --against.
func TestConformanceAnswer(t *testing.T) {
	var asked, said bytes.Buffer
	var want []string
	for _, s := range suites {
		names, _ := filepath.Glob(filepath.Join(ourVectors, filepath.FromSlash(s.kind)+".json"))
		if len(names) == 0 {
			continue
		}
		data, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.vectors(data)
		if err != nil {
			t.Fatal(err)
		}
		line, _ := json.Marshal(questionLine{len(want), s.kind, all[0].question})
		asked.Write(append(line, '\n'))
		want = append(want, s.kind)
	}
	asked.WriteString(`{"id":99,"kind":"juggling","question":{}}` + "\n" + `{"id":100,"kind":"algebra/admits","question":[]}` + "\n")
	if err := answerLines(&asked, &said); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != len(want)+2 {
		t.Fatalf("%d answers to %d questions", len(lines), len(want)+2)
	}
	for i, kind := range want {
		if !strings.Contains(lines[i], `"answer":{`) {
			t.Errorf("%s: %s", kind, lines[i])
		}
	}
	if !strings.Contains(lines[len(want)], `"unsupported":true`) || !strings.Contains(lines[len(want)+1], `"error":`) {
		t.Errorf("an unknown kind and a question of another form: %s", lines[len(want):])
	}
	if err := answerLines(strings.NewReader("hello\n"), &said); err == nil {
		t.Error("a line that is no question is answered")
	}
}
