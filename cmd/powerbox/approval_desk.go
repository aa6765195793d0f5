package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// deskPrefix begins the ids of what policy or configuration leaves to people.
const deskPrefix = "ask_"

// deskQuestion is a request, or a call that is held back, as the server tells it.
type deskQuestion struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Status  string `json:"status"`
	Agent   string `json:"agent"`
	By      string `json:"asked_by"`
	Holder  string `json:"holder"`
	For     string `json:"for"`
	Expires string `json:"expires_at"`
	Matters []struct {
		Grant      string `json:"grant"`
		Says       string `json:"description"`
		Operations []struct {
			Name   string `json:"operation"`
			Writes bool   `json:"writes"`
		} `json:"operations"`
		Resources []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"resources"`
		Arguments map[string]string `json:"arguments"`
	} `json:"matters"`
	Answers []struct {
		By      string `json:"by"`
		Approve bool   `json:"approve"`
	} `json:"answers"`
	Words struct {
		Reason string `json:"reason"`
	} `json:"in_its_own_words"`
	Revocable bool   `json:"revocable"`
	Until     string `json:"until"`
}

// open is everything that waits for a person.
type open struct {
	Approvals     []question     `json:"approvals"`
	Confirmations []deskQuestion `json:"confirmations"`
	Reviews       []deskQuestion `json:"reviews"`
	Approved      []deskQuestion `json:"you_approved"`
}

func (w *person) open(ctx context.Context) (open, json.RawMessage, error) {
	var all open
	raw, err := w.call(ctx, http.MethodGet, "/v1/approvals", nil, &all)
	return all, raw, err
}

// printableJSON is printable for JSON, whose quotation marks stay as they are.
func printableJSON(s string) string {
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(printable(s))
}

// asks says in a line what is asked for.
func (q deskQuestion) asks() string {
	var names []string
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			names = append(names, m.Grant+"/"+op.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (p *program) listDesk(title string, questions []deskQuestion) error {
	if len(questions) == 0 {
		return nil
	}
	fmt.Fprintf(p.stdout, "%s\n", title)
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REQUEST\tBY\tFOR\tASKS FOR\tUNTIL")
	for _, q := range questions {
		by := q.By
		if by == "" {
			by = q.Holder
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", q.ID, printable(by), printable(q.For), printable(q.asks()), q.Expires)
	}
	return w.Flush()
}

// newApprovalRevoke takes an approval back.
func newApprovalRevoke(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke ASK", Short: "Take back an approval that you gave, or that was given in your name", Args: cobra.ExactArgs(1),
		Long: "Revoke ends what was issued for an approval and everything derived from it. What was not issued yet is not issued.\n" +
			"powerbox approval list names what you approved; grants of Agent Auth are revoked with powerbox grant revoke.",
		Example: "  powerbox approval revoke ask_... --server https://bank.example --session-file session",
	}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		who, err := p.person(f)
		if err != nil {
			return err
		}
		var q deskQuestion
		raw, err := who.call(cmd.Context(), http.MethodPost, "/v1/approvals/"+url.PathEscape(args[0])+"/revoke", map[string]any{}, &q)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.printRaw(raw)
		}
		fmt.Fprintf(p.stdout, "%s is taken back: %s, for %s.\n", q.ID, printable(q.asks()), printable(cmp.Or(q.By, q.Holder)))
		return nil
	}
	return cmd
}

// listApproved lists what a person has approved.
func (p *program) listApproved(given []deskQuestion) error {
	if len(given) == 0 {
		return nil
	}
	fmt.Fprintln(p.stdout, "What you approved, or others in your name")
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REQUEST\tBY\tFOR\tMAY DO\tUNTIL\tCAN BE REVOKED")
	for _, q := range given {
		can := "no"
		if q.Revocable {
			can = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", q.ID, printable(cmp.Or(q.By, q.Holder)), printable(q.For), printable(q.asks()), q.Until, can)
	}
	return w.Flush()
}

// showDesk shows what the server knows, and apart from it what the agent says.
func (p *program) showDesk(q deskQuestion) {
	by := "an agent that the operator has no name for"
	if q.By != "" {
		by = "agent " + printable(q.By)
	}
	fmt.Fprintf(p.stdout, "%s (%s): %s, which proved to be %s, at %s", q.ID, q.Status, by, printable(q.Holder), printable(q.Agent))
	if q.For != "" {
		fmt.Fprintf(p.stdout, ", for %s", printable(q.For))
	}
	if q.Words.Reason != "" {
		fmt.Fprintf(p.stdout, ", and says: %q", q.Words.Reason)
	}
	if q.Kind == "call" {
		fmt.Fprint(p.stdout, "\n\nIt wants this done now, once:\n")
	} else {
		fmt.Fprint(p.stdout, "\n\nIt asks for:\n")
	}
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			effect := "only reads"
			if op.Writes {
				effect = "changes something"
			}
			fmt.Fprintf(p.stdout, "  %s/%s (%s): %s\n", printable(m.Grant), printable(op.Name), effect, printable(m.Says))
		}
		for _, r := range m.Resources {
			fmt.Fprintf(p.stdout, "      on %s\n", printable(r.Name))
		}
		for _, name := range slices.Sorted(maps.Keys(m.Arguments)) {
			fmt.Fprintf(p.stdout, "      with %s: %s\n", printable(name), printableJSON(m.Arguments[name]))
		}
	}
	for _, a := range q.Answers {
		said := "denied"
		if a.Approve {
			said = "approved"
		}
		fmt.Fprintf(p.stdout, "%s has %s.\n", printable(a.By), said)
	}
	fmt.Fprintf(p.stdout, "Answer until %s.\n", q.Expires)
}

// showAny shows a request by its code or id, of either kind.
func (p *program) showAny(ctx context.Context, who *person, code, output string) error {
	path := "/v1/approvals/" + url.PathEscape(code)
	if strings.HasPrefix(code, deskPrefix) {
		var q deskQuestion
		raw, err := who.call(ctx, http.MethodGet, path, nil, &q)
		if err != nil {
			return err
		}
		if output == "json" {
			return p.printRaw(raw)
		}
		p.showDesk(q)
		return nil
	}
	var q question
	raw, err := who.call(ctx, http.MethodGet, path, nil, &q)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printRaw(raw)
	}
	p.showQuestion(q)
	return nil
}

// deskAnswer is what a person leaves of a request.
type deskAnswer struct {
	only, resources []string
	until           string
}

// body is the answer to a question of the desk; constraints are Agent Auth's.
func (a deskAnswer) body(constraints string) (map[string]any, error) {
	if constraints != "" {
		return nil, usage(errors.New("--constraints is for requests of Agent Auth; this one is narrowed with --only, --resource and --until"))
	}
	body := map[string]any{}
	if a.only != nil {
		body["operations"] = a.only
	}
	if a.resources != nil {
		body["resources"] = a.resources
	}
	if a.until != "" {
		body["until"] = a.until
	}
	return body, nil
}

func (p *program) answerDesk(ctx context.Context, who *person, code string, body map[string]any, output string) error {
	var q deskQuestion
	raw, err := who.call(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(code), body, &q)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printRaw(raw)
	}
	switch q.Status {
	case "pending":
		fmt.Fprintf(p.stdout, "%s waits for others.\n", q.ID)
	default:
		fmt.Fprintf(p.stdout, "%s is %s.\n", q.ID, q.Status)
	}
	return nil
}
