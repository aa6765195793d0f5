package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newConformance(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "conformance",
		Short:   "Run conformance vectors",
		Example: "  powerbox conformance run testdata/vectors",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConformanceRun(p))
	return cmd
}

func newConformanceRun(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "run DIR",
		Short:   "Run the conformance vectors of a folder",
		Long:    "Run answers every vector of the folder. It exits with 4 if an answer differs from the expected one.",
		Example: "  powerbox conformance run testdata/vectors",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return conformance(p, args[0]) },
	}
}

// answered is a vector with its answer. They are equal, or it failed.
type answered struct {
	name, got, want string
}

// vectorFiles say which files there are, and what answers each (docs/assurance/vectors.md).
var vectorFiles = []struct {
	pattern string
	answer  func(data []byte) ([]answered, error)
}{
	{"algebra/admits.json", answerAdmits},
	{"algebra/covers.json", answerCovers},
	{"algebra/meet.json", answerMeet},
	{"algebra/scope.json", answerScope},
	{"algebra/decide.json", answerDecide},
	{"token/*.json", answerToken},
	{"evidence/canonical.json", answerCanonical},
	{"evidence/records.json", answerRecords},
	{"evidence/tree.json", answerTree},
	{"evidence/proofs.json", answerProofs},
	{"evidence/bundles.json", answerBundles},
	{"evidence/retention.json", answerBundles},
	{"evidence/bodies.json", answerBundles},
	{"evidence/periods.json", answerPeriods},
	{"evidence/audits.json", answerAudits},
	{"capability-discovery.json", answerDiscovery},
}

func conformance(p *cli.Program, dir string) error {
	if err := hasVectors(dir); err != nil {
		return err
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILES\tVECTORS\tFAILED")
	failed := 0
	for _, file := range vectorFiles {
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(file.pattern)))
		if err != nil {
			return err
		}
		n, wrong := 0, 0
		for _, name := range names {
			answers, err := answerFile(name, file.answer)
			if err != nil {
				return cli.Invalid(fmt.Errorf("%s: %w", name, err))
			}
			n += len(answers)
			wrong += compare(p, name, answers)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\n", file.pattern, n, wrong)
		failed += wrong
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return cli.Exit(cli.ExitInvalid, nil)
	}
	return nil
}

// hasVectors refuses a folder without any file of vectors, with the list of those that there are.
func hasVectors(dir string) error {
	var known []string
	for _, file := range vectorFiles {
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(file.pattern)))
		if err != nil || len(names) > 0 {
			return err
		}
		known = append(known, file.pattern)
	}
	return fmt.Errorf("%s has no vectors; want a folder such as testdata/vectors with at least one of %s (docs/assurance/vectors.md)", dir, strings.Join(known, ", "))
}

func answerFile(name string, answer func([]byte) ([]answered, error)) ([]answered, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return answer(data)
}

// compare says which vectors have another answer than their file says.
func compare(p *cli.Program, file string, answers []answered) int {
	wrong := 0
	for _, a := range answers {
		if a.got != a.want {
			wrong++
			fmt.Fprintf(p.Stderr, "%s: %s: %s, want %s\n", file, a.name, a.got, a.want)
		}
	}
	return wrong
}

// each answers the vectors of a file that is an array.
func each[V any](data []byte, answer func(V) (answered, error)) ([]answered, error) {
	var vectors []V
	if err := json.Unmarshal(data, &vectors); err != nil {
		return nil, err
	}
	var out []answered
	for i, v := range vectors {
		a, err := answer(v)
		if err != nil {
			return nil, fmt.Errorf("vector %d: %w", i, err)
		}
		if a.name == "" {
			a.name = fmt.Sprintf("vector %d", i)
		}
		out = append(out, a)
	}
	return out, nil
}

// expected names what an error says to a vector that wants ok or refused.
func expected(err error) string {
	if err != nil {
		return "refused"
	}
	return "ok"
}

// errUnreadable is for a vector whose question itself cannot be read.
var errUnreadable = errors.New("its question cannot be read")
