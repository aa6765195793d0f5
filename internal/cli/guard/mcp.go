package guard

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
	"github.com/powerbox-project/powerbox/internal/version"
)

func newMCP(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use: "mcp", Short: "Serve MCP on standard input, which tells an agent what it may do",
		Example: "  powerbox guard mcp", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := locate(p)
			if err != nil {
				return err
			}
			server := mcp.NewServer(&mcp.Implementation{Name: "powerbox-guard", Version: version.Read().String()}, nil)
			mcp.AddTool(server, &mcp.Tool{Name: "permitted", Description: "Show what the user granted to this session. Commands, edits and hosts beyond it are denied."},
				func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
					dir, err := absolute(".")
					if err != nil {
						return nil, nil, err
					}
					_, text, err := (daemon.Grants{State: at.state}).Find(dir)
					if err != nil {
						return nil, nil, err
					}
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, nil
				})
			return server.Run(cmd.Context(), &mcp.StdioTransport{})
		},
	}
}
