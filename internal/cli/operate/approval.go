package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// question is a request as the server tells it.
type question struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"`
	Status       string `json:"status"`
	Agent        string `json:"agent_id"`
	Host         string `json:"host_id"`
	HostKnown    bool   `json:"host_known"`
	Mode         string `json:"mode"`
	Expires      string `json:"expires_at"`
	Capabilities []struct {
		Grant       string          `json:"grant"`
		Capability  string          `json:"capability"`
		Description string          `json:"description"`
		Sensitivity string          `json:"sensitivity"`
		Constraints json.RawMessage `json:"constraints"`
		Nothing     bool            `json:"nothing_remains"`
	} `json:"capabilities"`
	Holds  []string `json:"holds"`
	Claims []struct {
		Agent string `json:"agent_id"`
		Name  string `json:"name"`
	} `json:"claims"`
	Words struct {
		Name     string `json:"name"`
		HostName string `json:"host_name"`
		Reason   string `json:"reason"`
		Message  string `json:"message"`
	} `json:"in_its_own_words"`
}

const pathApprovals = "/v1/approvals"

// pathOf is where the server has a question, by its id or its code.
func pathOf(code string) string { return pathApprovals + "/" + url.PathEscape(code) }

func newApproval(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approval",
		Short: "Show and answer the requests of agents",
		Long: "Approval lists the requests that wait for you, and answers them. You can deny every request here. A request that changes\n" +
			"something needs a passkey: approve it on the page that the request names.",
	}
	cmd.AddCommand(newApprovalList(p), newApprovalShow(p), newApprovalApprove(p), newApprovalDeny(p), newApprovalRevoke(p), newApprovalWatch(p), newApprovalWebhooks(p))
	return cmd
}

func newApprovalList(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the requests that wait for you",
		Example: "  powerbox approval list --session-file session",
		Args:    cobra.NoArgs,
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get(pathApprovals), func(all open) error { return listOpen(p, all) })
	}
	return cmd
}

// listOpen lists what waits for a person: what agents want to be let in for, what
// was asked for in the person's own name, and what the person reviews.
func listOpen(p *cli.Program, all open) error {
	if len(all.Approvals)+len(all.Confirmations)+len(all.Reviews) == 0 {
		cli.Printf(p.Stdout, "Nothing waits for you.\n")
		return listApproved(p, all.Approved)
	}
	return errors.Join(listQuestions(p, all.Approvals), listDesk(p, "My confirmations", all.Confirmations), listDesk(p, "To review for others", all.Reviews), listApproved(p, all.Approved))
}

func listQuestions(p *cli.Program, questions []question) error {
	if len(questions) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "REQUEST\tAGENT\tASKS FOR\tUNTIL\n")
	for _, q := range questions {
		names := make([]string, len(q.Capabilities))
		for i, c := range q.Capabilities {
			names[i] = c.Capability
		}
		cli.Printf(w, "%s\t%q\t%s\t%s\n", q.ID, q.Words.Name, strings.Join(names, ", "), q.Expires)
	}
	return w.Flush()
}

func newApprovalShow(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show CODE",
		Short:   "Show one request, by its code or id",
		Example: "  powerbox approval show KV7N-9G3G --session-file session",
		Args:    cobra.ExactArgs(1),
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		one := cli.Get(pathOf(args[0]))
		if strings.HasPrefix(args[0], deskPrefix) {
			return cli.Show(cmd.Context(), v, one, func(q deskQuestion) error {
				showDesk(p, q)
				return nil
			})
		}
		return cli.Show(cmd.Context(), v, one, func(q question) error {
			showQuestion(p, q)
			return nil
		})
	}
	return cmd
}

// showQuestion shows what the server knows, and apart from it what the agent says.
func showQuestion(p *cli.Program, q question) {
	host := "a host that no person has approved yet"
	if q.HostKnown {
		host = "a host that was approved before"
	}
	cli.Printf(p.Stdout, "%s: agent %s, under %s, %s\nIt calls itself %q", q.ID, q.Agent, q.Host, host, q.Words.Name)
	if q.Words.HostName != "" {
		cli.Printf(p.Stdout, " on %q", q.Words.HostName)
	}
	if q.Words.Reason != "" {
		cli.Printf(p.Stdout, " and says: %q", q.Words.Reason)
	}
	cli.Printf(p.Stdout, "\n\nIt asks for:\n")
	for _, c := range q.Capabilities {
		cli.Printf(p.Stdout, "  %s (%s): %s\n", c.Capability, c.Sensitivity, c.Description)
		if c.Constraints != nil {
			cli.Printf(p.Stdout, "      only with %s\n", c.Constraints)
		}
		if c.Nothing {
			cli.Printf(p.Stdout, "      nothing of it remains within what the server holds it to by now: it cannot be granted\n")
		}
	}
	if len(q.Holds) > 0 {
		cli.Printf(p.Stdout, "It has already: %s\n", strings.Join(q.Holds, ", "))
	}
	if len(q.Claims) > 0 {
		ends := "1 agent that acts on its own under it ends"
		if n := len(q.Claims); n > 1 {
			ends = fmt.Sprintf("%d agents that act on their own under it end", n)
		}
		cli.Printf(p.Stdout, "The host becomes yours when you approve. %s then, with all that they may do, and what they have done is attributed to you:\n", ends)
		for _, a := range q.Claims {
			cli.Printf(p.Stdout, "  %s, which calls itself %q\n", a.Agent, a.Name)
		}
	}
	cli.Printf(p.Stdout, "Answer until %s.\n", q.Expires)
}

func newApprovalApprove(p *cli.Program) *cobra.Command {
	var left deskAnswer
	var narrow string
	cmd := &cobra.Command{
		Use:   "approve CODE",
		Short: "Approve a request, or a part of it",
		Example: "  powerbox approval approve KV7N-9G3G --session-file session\n" +
			"  powerbox approval approve KV7N-9G3G --server http://127.0.0.1:4850 --as alice --only check_balance",
		Args: cobra.ExactArgs(1),
	}
	v := p.PersonVerb(cmd)
	cmd.Flags().StringSliceVar(&left.only, "only", nil, "approve these `capabilities`, or operations, and deny the others")
	cmd.Flags().StringSliceVar(&left.resources, "resource", nil, "`names` or ids of the resources to approve; default: all")
	cmd.Flags().StringVar(&left.until, "until", "", "an earlier end, as a `time` such as 2027-01-02T15:04:05Z")
	cmd.Flags().StringVar(&narrow, "constraints", "", "narrower constraints by capability, as `JSON`: {\"transfer_money\": {\"amount\": {\"max\": 100}}}")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.HasPrefix(args[0], deskPrefix) {
			body, err := left.body(narrow)
			if err != nil {
				return err
			}
			return answerQuestion(cmd.Context(), p, v, args[0], body)
		}
		if left.resources != nil || left.until != "" {
			return cli.Usage(errors.New("--resource and --until are not for requests of Agent Auth; use --only and --constraints"))
		}
		body := map[string]any{}
		if cmd.Flags().Changed("only") {
			body["only"] = left.only
		}
		if narrow != "" {
			if !json.Valid([]byte(narrow)) {
				return cli.Usage(errors.New("--constraints is no JSON; want {\"capability\": {\"field\": {\"max\": 1}}}"))
			}
			body["constraints"] = json.RawMessage(narrow)
		}
		return answerQuestion(cmd.Context(), p, v, args[0], body)
	}
	return cmd
}

func newApprovalDeny(p *cli.Program) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "deny CODE",
		Short:   "Deny a request",
		Example: "  powerbox approval deny KV7N-9G3G --reason 'not this quarter' --session-file session",
		Args:    cobra.ExactArgs(1),
	}
	v := p.PersonVerb(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "reason that the agent receives")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return answerQuestion(cmd.Context(), p, v, args[0], map[string]any{"deny": true, "reason": reason})
	}
	return cmd
}

// answered is an agent after the answer about it.
type answered struct {
	Agent  string `json:"agent_id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Grants []struct {
		Capability  string          `json:"capability"`
		Status      string          `json:"status"`
		Constraints json.RawMessage `json:"constraints"`
	} `json:"agent_capability_grants"`
}

func answerQuestion(ctx context.Context, p *cli.Program, v *cli.Verb, code string, body map[string]any) error {
	answer := cli.Post(pathOf(code), body)
	if strings.HasPrefix(code, deskPrefix) {
		return cli.Show(ctx, v, answer, func(q deskQuestion) error {
			is := "is " + q.Status
			if q.Status == "pending" {
				is = "waits for others"
			}
			cli.Printf(p.Stdout, "%s %s.\n", q.ID, is)
			return nil
		})
	}
	return cli.Show(ctx, v, answer, func(s answered) error {
		s.print(p)
		return nil
	})
}

func (s answered) print(p *cli.Program) {
	cli.Printf(p.Stdout, "Agent %s (%q) is %s.\n", s.Agent, s.Name, s.Status)
	for _, g := range s.Grants {
		cli.Printf(p.Stdout, "  %s: %s", g.Capability, g.Status)
		if g.Constraints != nil {
			cli.Printf(p.Stdout, ", only with %s", g.Constraints)
		}
		cli.Printf(p.Stdout, "\n")
	}
}

// watchEvery is how often watch asks.
const watchEvery = 2 * time.Second

func newApprovalWatch(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "watch",
		Short:   "Show new requests until interrupted",
		Example: "  powerbox approval watch --session-file session",
		Args:    cobra.NoArgs,
	}
	f := cli.AddPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		who, err := p.Person(f)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			var all open
			if _, err := who.Call(cmd.Context(), http.MethodGet, pathApprovals, nil, &all); err != nil {
				return err
			}
			showNew(p, all, seen)
			select {
			case <-cmd.Context().Done():
				return nil
			case <-tick.C:
			}
		}
	}
	return cmd
}

// showNew prints requests that were not printed yet.
func showNew(p *cli.Program, all open, seen map[string]bool) {
	for _, q := range all.Approvals {
		if !seen[q.ID] {
			seen[q.ID] = true
			showQuestion(p, q)
			cli.Printf(p.Stdout, "\n")
		}
	}
	for _, q := range slices.Concat(all.Confirmations, all.Reviews) {
		if !seen[q.ID] {
			seen[q.ID] = true
			showDesk(p, q)
			cli.Printf(p.Stdout, "\n")
		}
	}
}
