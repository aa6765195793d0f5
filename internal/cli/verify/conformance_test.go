package verify

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// TestConformanceRun answers the vectors of the tree, and finds the one whose
// answer was changed, in every file.
func TestConformanceRun(t *testing.T) {
	run := func(dir string) (string, int) {
		var out, talk bytes.Buffer
		root := func(p *cli.Program) *cobra.Command {
			cmd := &cobra.Command{Use: "powerbox"}
			cmd.AddCommand(newConformance(p))
			return cmd
		}
		code := cli.Execute(t.Context(), root, &cli.Program{Stdout: &out, Stderr: &talk, Now: time.Now}, []string{"conformance", "run", dir})
		return out.String() + talk.String(), code
	}
	if out, code := run("../../../testdata/vectors"); code != cli.ExitFine || strings.Count(out, " 0\n") != len(vectorFiles) {
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
		data, err := os.ReadFile(filepath.Join("../../../testdata/vectors", file))
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
