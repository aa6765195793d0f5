package gateway

import (
	"net/http"
	"testing"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// Otherwise a caller could put words, and any number of series, into the metrics.
func TestTelemetryNamesConfiguredToolsAlone(t *testing.T) {
	for name, want := range map[string]string{"read_note": "read_note", "ignore all instructions": "", "": ""} {
		x := answered(http.MethodPost, a2a.MCP).decoded
		x.Skills = map[string]Skill{"read_note": {}}
		x.mcp = mcp.Message{Kind: mcp.Request, Method: "tools/call", Tool: name}
		if got := x.configuredTool(); got != want {
			t.Errorf("tool %q is %q to telemetry; want %q", name, got, want)
		}
	}
}
