package operate

import (
	"errors"
	"fmt"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newPerson(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "person",
		Short:   "List, log out, freeze, thaw or remove people who log in",
		Example: "  powerbox person list",
		Long: "A person logs in to the pages or to the API, for example user:alice. A frozen or removed person cannot log in, approve\n" +
			"or administer, and the agents that act for them stop. A removal is final.",
	}
	cmd.AddCommand(newPersonList(p), newPersonShow(p),
		personVerb(p, "freeze", "Freeze a person and the agents that act for them", "powerbox person freeze user:alice --reason 'laptop stolen'"),
		personVerb(p, "thaw", "End the freeze of a person, who then logs in again", "powerbox person thaw user:alice --reason 'new laptop'"),
		personVerb(p, "logout", "End every login of a person, who can log in again", "powerbox person logout user:alice --reason 'left the laptop open'"),
		personVerb(p, "remove", "Remove a person permanently, with passkeys and hosts", "powerbox person remove user:alice --reason 'left the company'"))
	return cmd
}

// personStatus is a person as the server tells.
type personStatus struct {
	Principal     string     `json:"principal"`
	State         string     `json:"state"`
	Administrator bool       `json:"administrator"`
	Passkeys      int        `json:"passkeys"`
	Hosts         int        `json:"hosts"`
	LastUsed      *time.Time `json:"passkey_last_used,omitempty"`
	By            string     `json:"by,omitempty"`
	Reason        string     `json:"reason,omitempty"`
	Changed       *time.Time `json:"changed,omitempty"`
}

const pathPeople = "/v1/people"

func newPersonList(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List people with a passkey or a host, frozen or removed people too",
		Example: "  powerbox person list",
		Args:    cobra.NoArgs,
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get(pathPeople), func(all []personStatus) error {
			w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
			cli.Printf(w, "PERSON\tSTATE\tADMINISTRATOR\tPASSKEYS\tHOSTS\tREASON\n")
			p.Empty(len(all), "no person has a passkey or a host")
			for _, k := range all {
				cli.Printf(w, "%s\t%s\t%t\t%d\t%d\t%s\n", k.Principal, k.State, k.Administrator, k.Passkeys, k.Hosts, k.Reason)
			}
			return w.Flush()
		})
	}
	return cmd
}

func newPersonShow(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "show PERSON", Short: "Show one person", Example: "  powerbox person show user:alice", Args: cobra.ExactArgs(1)}
	o := cli.AddOperatorFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		var all []personStatus
		if err := op.Get(cmd.Context(), pathPeople+"?principal="+url.QueryEscape(args[0]), &all); err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("no person %q is known: no passkey, no host, never frozen or removed. powerbox person list shows all people", args[0])
		}
		return p.PrintJSON(all[0])
	}
	return cmd
}

// personVerb is a verb that changes the state of a person.
func personVerb(p *cli.Program, verb, short, example string) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " PERSON --reason TEXT", Short: short, Example: "  " + example, Args: cobra.ExactArgs(1)}
	var reason string
	v := p.OperatorVerb(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` for the record (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if reason == "" {
			return cli.Usage(errors.New("--reason is missing; want a short text for the record, such as 'laptop stolen'"))
		}
		type changed struct {
			Principal string `json:"principal"`
			State     string `json:"state,omitempty"`
			LoggedOut bool   `json:"logged_out,omitempty"`
		}
		change := cli.Post(pathPeople+"/"+verb, map[string]string{"principal": args[0], "reason": reason}).Of("person " + verb + " " + args[0])
		return cli.Show(cmd.Context(), v, change, func(now changed) error {
			if now.LoggedOut {
				now.State = "logged out everywhere"
			}
			cli.Printf(p.Stdout, "%s is %s\n", now.Principal, now.State)
			return nil
		})
	}
	return cmd
}
