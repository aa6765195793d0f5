package investigate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// explanation is the answer of the one engine behind explain, whatever it is
// asked about.
type explanation struct {
	Kind    string        `json:"kind"` // token, capability or decision
	ID      string        `json:"id"`
	Verdict string        `json:"verdict"` // holds, fails, or the decision
	Hops    []hop         `json:"hops"`    // the chain, root first; each is inside the one before
	Facts   []fact        `json:"facts"`
	First   *failure      `json:"first_failure,omitempty"`
	More    []failure     `json:"further_failures,omitempty"`
	Fix     string        `json:"fix,omitempty"` // the command or the change that fixes it
	Notes   []string      `json:"notes,omitempty"`
	Chains  []explanation `json:"chains,omitempty"` // further capabilities of a file
}

// hop is one step by which authority was passed on.
type hop struct {
	ID       string   `json:"id"`
	Issuer   string   `json:"issuer,omitempty"`
	Holder   string   `json:"holder,omitempty"`
	Expires  string   `json:"expires"`
	Narrowed []string `json:"narrowed"`
	Holds    bool     `json:"holds"`
	Problem  string   `json:"problem,omitempty"`
}

// fact is one thing that holds, in words.
type fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// failure is one check that does not hold.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Doc     string `json:"doc"` // where the code is explained
}

func (e *explanation) fact(name, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		e.Facts = append(e.Facts, fact{name, text})
	}
}

func (e *explanation) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// fail notes a check that does not hold; the first is what to look at.
func (e *explanation) fail(code, message string) {
	f := failure{code, message, a2a.DocOf(code)}
	if e.First == nil {
		e.First = &f
		return
	}
	e.More = append(e.More, f)
}

// explainer gathers what an explanation is made from.
type explainer struct {
	*cli.Program
	operator *cli.Operator // nil where no server can be asked
	why      error         // why not
	anchors  *token.KeySet
	offline  bool
	agents   []cli.AgentStatus
}

func newExplain(p *cli.Program) *cobra.Command {
	var anchors string
	var offline bool
	cmd := &cobra.Command{
		Use:   "explain THING",
		Short: "Explain a token, a capability, a decision or a policy",
		Example: "  powerbox explain last\n" +
			"  powerbox explain capability.json\n" +
			"  powerbox explain rec_01m81030k8rktbf8fcyfezvy0d",
		Long: "Explain shows which checks pass, which one fails first, and how to fix it. THING is a file with a capability or a chain,\n" +
			"a compact token, the id of a capability (cap_...) or the id of a decision (rec_...). THING can also be last: the newest\n" +
			"denial. Ids are looked up at the server. Tokens are verified with the published keys of their issuer, or with the keys of\n" +
			"--anchors. For policies see powerbox explain policy --help.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&anchors, "anchors", "", "`file` with the JWK Set of the trusted issuers, instead of the keys they publish")
	cmd.Flags().BoolVar(&offline, "offline", false, "do not contact any server: no keys of issuers, no revocations")
	cmd.AddCommand(newExplainPolicy(p))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		x := explainer{Program: p, offline: offline}
		if !offline {
			x.operator, x.why = p.Operator(o)
		}
		if anchors != "" {
			data, err := p.ReadFile(anchors)
			if err != nil {
				return err
			}
			set, err := token.ParseKeySet(data)
			if err != nil {
				return cli.Invalid(err)
			}
			x.anchors = &set
		}
		e, err := x.explain(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printExplanation(p, e, *output)
	}
	return cmd
}

// explain finds out what thing is and explains it.
func (x *explainer) explain(ctx context.Context, thing string) (explanation, error) {
	if x.operator != nil {
		if agents, err := x.operator.Agents(ctx); err == nil {
			x.agents = agents // only for the commands that fix; without a server they name no URL
		}
	}
	if thing == "last" {
		var err error
		if thing, err = x.lastDenied(ctx); err != nil {
			return explanation{}, err
		}
	}
	switch {
	case strings.HasPrefix(thing, "cap_"):
		return x.capability(ctx, thing)
	case strings.HasPrefix(thing, "rec_"):
		return x.decision(ctx, thing)
	}
	data, err := x.readThing(thing)
	if err != nil {
		return explanation{}, err
	}
	if !isCapabilityFile(data) && !isTokens(data) {
		return explanation{}, cli.Invalid(fmt.Errorf("%s is no capability file, chain or token; want a file that powerbox request wrote", thing))
	}
	e, err := x.tokens(ctx, data)
	if problem := (*token.Error)(nil); errors.As(err, &problem) {
		err = cli.Invalid(fmt.Errorf("%s is no capability file, chain or token: %w; want a file that powerbox request wrote", thing, err))
	}
	return e, err
}

// isTokens reports whether data can be a chain of compact tokens, in a list or joined.
func isTokens(data []byte) bool {
	text := strings.TrimSpace(string(data))
	return strings.HasPrefix(text, "[") || strings.Contains(text, ".") && !strings.ContainsAny(text, " \n:{")
}

// readThing returns the content of a file, or thing if it is a token.
func (x *explainer) readThing(thing string) ([]byte, error) {
	data, err := x.ReadFile(thing)
	switch {
	case err == nil:
		return data, nil
	case strings.Count(thing, ".") == 2 && strings.HasPrefix(thing, "ey"):
		return []byte(thing), nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usage(fmt.Errorf("%q is not a file, a compact token or an id; want a capability file, a token (eyJ...), cap_..., rec_... or last", thing))
	}
	return nil, err
}

// server is the operator's interface, or why there is none.
func (x *explainer) server() (*cli.Operator, error) {
	if x.operator != nil {
		return x.operator, nil
	}
	if x.offline {
		return nil, cli.Usage(errors.New("an id must be looked up at the server; omit --offline"))
	}
	return nil, x.why
}

// urlOf is the public URL of an agent, or a placeholder.
func (x *explainer) urlOf(agent string) string {
	for _, a := range x.agents {
		if a.ID == agent {
			return a.URL
		}
	}
	return "AGENT_URL"
}

// printExplanation prints the chain as a tree, and exits with 3 where what it
// is about does not hold.
func printExplanation(p *cli.Program, e explanation, output string) error {
	var status error
	if e.First != nil {
		status = cli.Exit(cli.ExitDenied, nil)
	}
	if output == "json" {
		return errors.Join(p.PrintJSON(e), status)
	}
	printExplained(p, e)
	return status
}

func printExplained(p *cli.Program, e explanation) {
	cli.Printf(p.Stdout, "%s %s: %s\n", e.Kind, e.ID, e.Verdict)
	for i, h := range e.Hops {
		printHop(p, i, h)
	}
	for _, f := range e.Facts {
		cli.Printf(p.Stdout, "  %-11s %s\n", f.Name, f.Text)
	}
	if e.First != nil {
		cli.Printf(p.Stdout, "  fails first %s: %s\n", e.First.Code, e.First.Message)
		cli.Printf(p.Stdout, "  see         %s\n", e.First.Doc)
	}
	for _, f := range e.More {
		cli.Printf(p.Stdout, "  fails too   %s: %s\n", f.Code, f.Message)
	}
	if e.Fix != "" {
		cli.Printf(p.Stdout, "  to fix      %s\n", e.Fix)
	}
	for _, n := range e.Notes {
		cli.Printf(p.Stdout, "  note        %s\n", n)
	}
	for _, c := range e.Chains {
		printExplained(p, c)
	}
}

func printHop(p *cli.Program, depth int, h hop) {
	indent := strings.Repeat("  ", depth+1)
	mark := map[bool]string{true: "ok  ", false: "FAIL"}[h.Holds]
	cli.Printf(p.Stdout, "%s%s %s until %s\n", indent, mark, h.ID, h.Expires)
	if h.Issuer != "" {
		cli.Printf(p.Stdout, "%s     from %s\n", indent, h.Issuer)
	}
	if h.Holder != "" {
		cli.Printf(p.Stdout, "%s     to   %s\n", indent, h.Holder)
	}
	for _, n := range h.Narrowed {
		cli.Printf(p.Stdout, "%s     %s\n", indent, n)
	}
	if h.Problem != "" {
		cli.Printf(p.Stdout, "%s     %s\n", indent, h.Problem)
	}
}

// isCapabilityFile reports whether data is what request writes.
func isCapabilityFile(data []byte) bool {
	var f struct {
		Capabilities []json.RawMessage `json:"capabilities"`
	}
	return json.Unmarshal(data, &f) == nil && f.Capabilities != nil
}
