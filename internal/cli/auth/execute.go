package auth

import (
	"context"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/agentauth"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// Execute uses a capability of a provider. The events of a stream are printed as
// they come.
func Execute(ctx context.Context, p *cli.Program, f *Flags, of, capability string, arguments powerbox.Value, output string) error {
	client, err := AgentClient(p, f)
	if err != nil {
		return err
	}
	agent, err := AgentOf(client, of)
	if err != nil {
		return err
	}
	streamed := false
	result, err := client.Execute(ctx, agent, agentauth.Execution{Capability: capability, Arguments: arguments.AppendJSON(nil)}, func(e agentauth.Event) error {
		streamed = true
		if output == "json" {
			return p.PrintJSON(map[string]any{"event": e.Name, "data": e.Data})
		}
		cli.Document(p.Stdout, e.Data)
		return nil
	})
	switch {
	case err != nil:
		return Refused(p, err, output)
	case streamed:
		return nil
	case output == "json":
		return p.PrintJSON(ResultOf(result))
	}
	cli.Document(p.Stdout, result.Data)
	return nil
}
