package operate

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
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

// asks describes a request in one line.
func (q deskQuestion) asks() string {
	var names []string
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			names = append(names, m.Grant+"/"+op.Name)
		}
	}
	return strings.Join(names, ", ")
}

func listDesk(p *cli.Program, title string, questions []deskQuestion) error {
	if len(questions) == 0 {
		return nil
	}
	cli.Printf(p.Stdout, "%s\n", title)
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "REQUEST\tBY\tFOR\tASKS FOR\tUNTIL\n")
	for _, q := range questions {
		by := q.By
		if by == "" {
			by = q.Holder
		}
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\n", q.ID, by, q.For, q.asks(), q.Expires)
	}
	return w.Flush()
}

// newApprovalRevoke takes an approval back.
func newApprovalRevoke(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke ASK", Short: "Revoke an approval and everything issued for it", Args: cobra.ExactArgs(1),
		Long: "Revoke ends everything that was issued for an approval and everything derived from it. Pending grants are not issued.\n" +
			"powerbox approval list names your approvals. To revoke grants of Agent Auth, use powerbox grant revoke.",
		Example: "  powerbox approval revoke ask_... --session-file session",
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return cli.Show(cmd.Context(), v, cli.Post(pathOf(args[0])+"/revoke", map[string]any{}), func(q deskQuestion) error {
			cli.Printf(p.Stdout, "%s is taken back: %s, for %s.\n", q.ID, q.asks(), cmp.Or(q.By, q.Holder))
			return nil
		})
	}
	return cmd
}

// listApproved lists what a person has approved.
func listApproved(p *cli.Program, given []deskQuestion) error {
	if len(given) == 0 {
		return nil
	}
	cli.Printf(p.Stdout, "What you approved, or others in your name\n")
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "REQUEST\tBY\tFOR\tMAY DO\tUNTIL\tCAN BE REVOKED\n")
	for _, q := range given {
		can := "no"
		if q.Revocable {
			can = "yes"
		}
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", q.ID, cmp.Or(q.By, q.Holder), q.For, q.asks(), q.Until, can)
	}
	return w.Flush()
}

// showDesk shows what the server knows, and apart from it what the agent says.
func showDesk(p *cli.Program, q deskQuestion) {
	by := "an agent that the operator has no name for"
	if q.By != "" {
		by = "agent " + q.By
	}
	cli.Printf(p.Stdout, "%s (%s): %s, which proved to be %s, at %s", q.ID, q.Status, by, q.Holder, q.Agent)
	if q.For != "" {
		cli.Printf(p.Stdout, ", for %s", q.For)
	}
	if q.Words.Reason != "" {
		cli.Printf(p.Stdout, ", and says: %q", q.Words.Reason)
	}
	if q.Kind == "call" {
		cli.Printf(p.Stdout, "\n\nIt wants this done now, once:\n")
	} else {
		cli.Printf(p.Stdout, "\n\nIt asks for:\n")
	}
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			effect := "only reads"
			if op.Writes {
				effect = "changes something"
			}
			cli.Printf(p.Stdout, "  %s/%s (%s): %s\n", m.Grant, op.Name, effect, m.Says)
		}
		for _, r := range m.Resources {
			cli.Printf(p.Stdout, "      on %s\n", r.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Arguments)) {
			cli.Printf(p.Stdout, "      with %s: %s\n", name, m.Arguments[name])
		}
	}
	for _, a := range q.Answers {
		said := "denied"
		if a.Approve {
			said = "approved"
		}
		cli.Printf(p.Stdout, "%s has %s.\n", a.By, said)
	}
	cli.Printf(p.Stdout, "Answer until %s.\n", q.Expires)
}

// deskAnswer is what a person leaves of a request.
type deskAnswer struct {
	only, resources []string
	until           string
}

// body is the answer to a question of the desk; constraints are Agent Auth's.
func (a deskAnswer) body(constraints string) (map[string]any, error) {
	if constraints != "" {
		return nil, cli.Usage(errors.New("--constraints is for requests of Agent Auth; this one is narrowed with --only, --resource and --until"))
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
