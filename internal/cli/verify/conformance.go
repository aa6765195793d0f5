package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/cli"
)

func newConformance(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "conformance",
		Short:   "Run conformance vectors",
		Example: "  powerbox conformance run testdata/vectors",
	}
	cmd.AddCommand(newConformanceRun(p), newConformanceAnswer(p))
	return cmd
}

func newConformanceRun(p *cli.Program) *cobra.Command {
	var against string
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "run DIR",
		Short: "Score an implementation by the conformance vectors of a folder",
		Long: "Run asks every vector of the folder and compares the answers with the expected ones. Without --against this program answers. " +
			"With it, the named program reads a question a line and writes an answer a line. " +
			"The command exits with 4 if an answer differs or is missing. A kind that the program says it does not support is counted, and is no failure.",
		Example: "  powerbox conformance run testdata/vectors\n  powerbox conformance run testdata/vectors --against \"node answer.mjs\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if against == "" {
				return conformance(p, args[0], answerHere)
			}
			s, err := startSubject(cmd.Context(), strings.Fields(against), patience)
			if err != nil {
				return err
			}
			defer s.end()
			return conformance(p, args[0], s.answer)
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "`program` that answers, with its arguments; none is quoted")
	cmd.Flags().DurationVar(&patience, "timeout", 10*time.Second, "how long one answer of that program may take")
	return cmd
}

func newConformanceAnswer(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "answer",
		Short:   "Answer questions of conformance vectors, a line each",
		Long:    "Answer reads questions from standard input as conformance run --against writes them, and writes answers. It is this program's side of that protocol.",
		Example: "  powerbox conformance run testdata/vectors --against \"powerbox conformance answer\"",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return answerLines(cmd.InOrStdin(), p.Stdout) },
	}
}

// suite is the files of one kind of vector.
type suite struct {
	kind    string   // its name in the protocol, and of its files below the folder, without .json
	list    string   // member with the vectors, to whose question all other members belong; "" where the file is the list; whole where it is one vector
	answers []string // members that are the expected answer; an answer has at least the first
	answer  func(question json.RawMessage) (any, error)
}

// whole is a list of suites whose files are one vector each.
const whole = "*"

// suites are all that there are (docs/assurance/vectors.md).
var suites = []suite{
	{"algebra/admits", "", []string{"admits"}, answering(answerAdmits)},
	{"algebra/covers", "", []string{"covers"}, answering(answerCovers)},
	{"algebra/meet", "", []string{"meet"}, answering(answerMeet)},
	{"algebra/scope", "", []string{"parses", "matches"}, answering(answerScope)},
	{"algebra/decide", "", []string{"allowed", "reasons"}, answering(answerDecide)},
	{"token/*", whole, []string{"decision", "codes"}, answering(answerToken)},
	{"aat/*", "vectors", []string{"decision", "codes"}, answering(answerToken)},
	{"evidence/canonical", "", []string{"expect", "output", "sha256"}, answering(answerCanonical)},
	{"evidence/records", "", []string{"record_hash", "leaf", "leaf_hash"}, answering(answerRecords)},
	{"evidence/tree", whole, []string{"roots", "inclusion", "consistency"}, answering(answerTree)},
	{"evidence/proofs", "proofs", []string{"expect"}, answering(answerProofs)},
	{"evidence/bundles", "bundles", []string{"verdict", "problems"}, answering(answerBundle)},
	{"evidence/retention", "bundles", []string{"verdict", "problems"}, answering(answerBundle)},
	{"evidence/bodies", "bundles", []string{"verdict", "problems", "bodies"}, answering(answerBundle)},
	{"evidence/periods", "series", []string{"verdict", "problems", "from", "chains_before"}, answering(answerPeriods)},
	{"evidence/audits", "audits", []string{"verdict", "problems"}, answering(answerAudit)},
	{"capability-discovery", "cases", []string{"expect"}, answering(answerDiscovery)},
	{"capability-discovery", "traces", []string{"violations"}, answering(answerTrace)},
}

// answering reads a question into the type that a suite has for it.
func answering[Q any](answer func(Q) (any, error)) func(json.RawMessage) (any, error) {
	return func(raw json.RawMessage) (any, error) {
		var q Q
		if err := json.Unmarshal(raw, &q); err != nil {
			return nil, err
		}
		return answer(q)
	}
}

// vector is a question with the expected answer, whose values are as they are written.
type vector struct {
	name     string
	question json.RawMessage
	want     map[string]json.RawMessage
}

// vectors reads a file of a suite.
func (s suite) vectors(data []byte) ([]vector, error) {
	var shared map[string]json.RawMessage
	var list []map[string]json.RawMessage
	var err error
	switch s.list {
	case "":
		err = json.Unmarshal(data, &list)
	case whole:
		list = make([]map[string]json.RawMessage, 1)
		err = json.Unmarshal(data, &list[0])
	default:
		if err = json.Unmarshal(data, &shared); err == nil {
			err = json.Unmarshal(shared[s.list], &list)
		}
		for _, other := range suites { // a file can have lists of several suites
			if other.kind == s.kind {
				delete(shared, other.list)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	out := make([]vector, len(list))
	for i, members := range list {
		if out[i], err = s.vector(fmt.Sprintf("vector %d", i), shared, members); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// vector divides the members of a vector into question and answer.
func (s suite) vector(name string, shared, members map[string]json.RawMessage) (vector, error) {
	v := vector{name: name, want: map[string]json.RawMessage{}}
	for _, member := range []string{"id", "name"} {
		_ = json.Unmarshal(members[member], &v.name) // else it has its number
	}
	question := maps.Clone(shared)
	if question == nil {
		question = map[string]json.RawMessage{}
	}
	for member, value := range members {
		if slices.Contains(s.answers, member) {
			v.want[member] = value
		} else {
			question[member] = value
		}
	}
	if v.want[s.answers[0]] == nil {
		return v, fmt.Errorf("%s: it has no member %q: %w", v.name, s.answers[0], errUnreadable)
	}
	var err error
	v.question, err = json.Marshal(question)
	return v, err
}

// answerer answers a question of a suite: with members of an answer, or an error.
type answerer func(kind string, question json.RawMessage) (map[string]json.RawMessage, error)

// answerHere has this program answer.
func answerHere(kind string, question json.RawMessage) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(question, &members) // where it is none, its suite says so
	for _, s := range suites {
		// Cases and traces of one file differ in what they ask.
		if s.kind != kind || s.list == "traces" && members["events"] == nil || s.list == "cases" && members["events"] != nil {
			continue
		}
		a, err := s.answer(question)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		var out map[string]json.RawMessage
		return out, json.Unmarshal(text, &out)
	}
	return nil, fmt.Errorf("kind %q: %w", kind, errUnsupported)
}

// errUnsupported is the answer of a program that has no such function.
var errUnsupported = errors.New("it does not answer this kind")

// score counts answers.
type score struct{ vectors, agree, differ, missing, unsupported int }

func conformance(p *cli.Program, dir string, answer answerer) error {
	if err := hasVectors(dir); err != nil {
		return err
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "FILES\tVECTORS\tAGREE\tDIFFER\tNO ANSWER\tUNSUPPORTED\n")
	var all score
	for _, s := range suites {
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(s.kind)+".json"))
		if err != nil {
			return err
		}
		var sum score
		for _, name := range names {
			switch err := s.run(p, name, answer, &sum); {
			case errors.Is(err, errSubjectEnded):
				return err
			case err != nil:
				return cli.Invalid(fmt.Errorf("%s: %w", name, err))
			}
		}
		if sum.vectors == 0 {
			continue
		}
		files := s.kind + ".json"
		if s.list != whole && s.list != "" {
			files += ", " + s.list
		}
		cli.Printf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", files, sum.vectors, sum.agree, sum.differ, sum.missing, sum.unsupported)
		all.differ += sum.differ
		all.missing += sum.missing
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if all.differ+all.missing > 0 {
		return cli.Exit(cli.ExitInvalid, nil)
	}
	return nil
}

// run asks the vectors of a file. A difference is written to standard error.
func (s suite) run(p *cli.Program, name string, answer answerer, sum *score) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	vectors, err := s.vectors(data)
	if err != nil {
		return err
	}
	for _, v := range vectors {
		sum.vectors++
		got, err := answer(s.kind, v.question)
		switch differs := s.differs(v.want, got); {
		case errors.Is(err, errSubjectEnded):
			return err
		case errors.Is(err, errUnsupported):
			sum.unsupported++
		case err != nil:
			sum.missing++
			cli.Printf(p.Stderr, "%s: %s: no answer: %v\n", name, v.name, err)
		case differs != "":
			sum.differ++
			cli.Printf(p.Stderr, "%s: %s: %s\n", name, v.name, differs)
		default:
			sum.agree++
		}
	}
	return nil
}

// differs says in which member an answer is not the expected one, "" for none. Members
// beside the first may be left out of it, since they have words that are ours.
func (s suite) differs(want, got map[string]json.RawMessage) string {
	for i, member := range s.answers {
		w, g := want[member], got[member]
		if w == nil || g == nil && i > 0 {
			continue
		}
		if a, b := exact(g), exact(w); a != b {
			return fmt.Sprintf("%s is %s; want %s", member, a, b)
		}
	}
	return ""
}

// exact is a JSON text in one form, with the digits that it has.
func exact(raw json.RawMessage) string {
	v, err := powerbox.ParseValue(raw)
	if err != nil {
		return string(raw)
	}
	return v.String()
}

// hasVectors refuses a folder without any file of vectors, with the list of those that there are.
func hasVectors(dir string) error {
	var known []string
	for _, s := range suites {
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(s.kind)+".json"))
		if err != nil || len(names) > 0 {
			return err
		}
		known = append(known, s.kind+".json")
	}
	return fmt.Errorf("%s has no vectors; want a folder such as testdata/vectors with at least one of %s (docs/assurance/vectors.md)", dir, strings.Join(slices.Compact(known), ", "))
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

// Lines of the protocol between a run and the program that it scores.
type (
	questionLine struct {
		ID       int             `json:"id"`
		Kind     string          `json:"kind"`
		Question json.RawMessage `json:"question"`
	}
	answerLine struct {
		ID          int                        `json:"id"`
		Answer      map[string]json.RawMessage `json:"answer,omitempty"`
		Unsupported bool                       `json:"unsupported,omitempty"`
		Error       string                     `json:"error,omitempty"`
	}
)

// maxLine is the size of the largest line of the protocol.
const maxLine = 64 << 20

func linesOf(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	return lines
}

// answerLines is the side of the protocol that answers.
func answerLines(in io.Reader, out io.Writer) error {
	lines := linesOf(in)
	for lines.Scan() {
		var q questionLine
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return cli.Invalid(fmt.Errorf("a line is no question; want {\"id\":1,\"kind\":\"token/*\",\"question\":{...}}: %w", err))
		}
		a := answerLine{ID: q.ID}
		var err error
		switch a.Answer, err = answerHere(q.Kind, q.Question); {
		case errors.Is(err, errUnsupported):
			a.Unsupported = true
		case err != nil:
			a.Error = err.Error()
		}
		if err := json.NewEncoder(out).Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}
