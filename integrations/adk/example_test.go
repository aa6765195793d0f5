package powerboxadk_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxadk "github.com/powerbox-project/powerbox/integrations/adk"
)

// A hierarchy gets the gate as the last plugin of its runner.
func Example() {
	gate, err := powerboxadk.New(powerboxadk.Config{
		Gate:  &guard.Gate{URL: "http://127.0.0.1:8700", Token: "the token of one of identity.guards", HTTP: &http.Client{Timeout: 10 * time.Second}},
		Tools: map[string]powerboxadk.Skill{"read_doc": {Agent: "docs", Skill: "read_doc"}},
		Log:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	held, err := gate.Plugin()
	if err != nil {
		fmt.Println(err)
		return
	}
	config := runner.PluginConfig{Plugins: []*plugin.Plugin{held}}
	fmt.Println(len(config.Plugins), held.Name())
	// Output: 1 powerbox
}
