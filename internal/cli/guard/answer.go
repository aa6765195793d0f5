package guard

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
)

func newQuestions(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use: "questions", Short: "List what sessions ask",
		Example: "  powerbox guard questions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := locate(p)
			if err != nil {
				return err
			}
			r, err := daemon.Call(cmd.Context(), at.socket, daemon.Request{Do: "questions"})
			if err != nil {
				return err
			}
			for _, q := range r.Questions {
				who := q.Client
				if q.Agent != "" {
					who += ", sub-agent " + fmt.Sprintf("%q", q.Agent)
				}
				cli.Printf(p.Stdout, "%s  %s in %s: %s\n", q.ID, who, q.Project, strings.Join(q.Needs, ", "))
			}
			return nil
		},
	}
}

func newAnswer(p *cli.Program) *cobra.Command {
	var a daemon.Answer
	cmd := &cobra.Command{
		Use: "answer ID --allow once|task|no", Short: "Answer what a session asks",
		Example: "  powerbox guard answer q1 --allow once", Args: cobra.ExactArgs(1),
		Long: "An answer for the task is remembered for the agent that asked, until its lease ends. It lifts exactly what\n" +
			"was asked, or with --under everything of that kind below a folder. It never goes beyond the ask part of the grant.",
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := locate(p)
			if err != nil {
				return err
			}
			a.ID = args[0]
			_, err = daemon.Call(cmd.Context(), at.socket, daemon.Request{Do: "answer", Answer: &a})
			return err
		},
	}
	cmd.Flags().StringVar(&a.Allow, "allow", "", "once, task or no")
	cmd.Flags().StringVar(&a.Under, "under", "", "with task: remember the answer for every path below this `folder` of the project")
	cli.Values(cmd, "allow", "once", "task", "no")
	cli.Required(cmd, "allow")
	return cmd
}
