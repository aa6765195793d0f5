package investigate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newCan(p *cli.Program) *cobra.Command {
	var arguments string
	cmd := &cobra.Command{
		Use:     "can CALLER OPERATION on AGENT",
		Short:   "Check whether a caller's scope allows an operation",
		Example: "  powerbox can planner documents:read/search on documents",
		Long: "Can checks the configured scope of a calling agent, without a capability, as mode scoped does. OPERATION is\n" +
			"grant/operation, for example documents:read/search. Can exits with 0 for allowed and 3 for denied.",
		Args: cobra.ExactArgs(4),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&arguments, "arguments", "", "arguments of the call, a JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[2] != "on" {
			return cli.Usage(fmt.Errorf("the third word is %q; want: can CALLER OPERATION on AGENT", args[2]))
		}
		if bare, ok := strings.CutPrefix(args[1], args[3]+"/"); ok {
			return cli.Usage(fmt.Errorf("the operation is %q; write it without the agent: powerbox can %s %s on %s", args[1], args[0], bare, args[3]))
		}
		body := map[string]any{"caller": args[0], "agent": args[3], "operation": args[3] + "/" + args[1]}
		if arguments != "" {
			if !json.Valid([]byte(arguments)) {
				return cli.Usage(errors.New(`--arguments is not JSON; want an object such as {"title": "x"}`))
			}
			body["arguments"] = json.RawMessage(arguments)
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		var answer canAnswer
		if err := op.Call(cmd.Context(), http.MethodPost, "/v1/can", body, &answer); err != nil {
			return err
		}
		return printCan(p, answer, *output)
	}
	return cmd
}

type canAnswer struct {
	Allowed bool `json:"allowed"`
	Reasons []struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"reasons"`
}

func printCan(p *cli.Program, answer canAnswer, output string) error {
	switch {
	case output == "json":
		if err := p.PrintJSON(answer); err != nil {
			return err
		}
	case answer.Allowed:
		cli.Printf(p.Stdout, "yes\n")
	default:
		cli.Printf(p.Stdout, "no\n")
		for _, r := range answer.Reasons {
			cli.Printf(p.Stdout, "  %s: %s\n", r.Code, r.Message)
		}
	}
	if !answer.Allowed {
		return cli.Exit(cli.ExitDenied, nil)
	}
	return nil
}
