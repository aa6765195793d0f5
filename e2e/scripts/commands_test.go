package scripts

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// scriptCommands are what scripts can do beside running the program.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits, "stock": stock, "serve": serveInScript, "named": named, "replaced": replaced,
	}
}

// scriptSetup gives every script addresses of its own: of the stock agent, of
// the server, and one where nothing listens.
func scriptSetup(t *testing.T, agent string) func(*testscript.Env) error {
	return func(e *testscript.Env) error {
		server := freeport.Address(t)
		e.Setenv("STOCK_AGENT", agent)
		e.Setenv("STOCK", freeport.Address(t))
		e.Setenv("NOBODY", freeport.Address(t))
		e.Setenv("SERVER", server)
		e.Setenv("POWERBOX_LISTEN", server)
		e.Setenv("POWERBOX_ISSUER_URL", "http://"+server)
		return nil
	}
}

// buildStock builds examples/stock, the agent of the scripts.
func buildStock(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stock")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", name, "./examples/stock").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// stock starts the stock agent at $STOCK.
func stock(ts *testscript.TestScript, _ bool, _ []string) {
	address := ts.Getenv("STOCK")
	start(ts, "http://"+address+"/.well-known/agent-card.json", exec.Command(ts.Getenv("STOCK_AGENT"), "-listen", address))
}

// serveInScript starts "powerbox serve --dev" at $SERVER.
func serveInScript(ts *testscript.TestScript, _ bool, _ []string) {
	cmd := exec.Command("powerbox", "serve", "--dev")
	cmd.Env = append(os.Environ(), "POWERBOX_LISTEN="+ts.Getenv("SERVER"), "POWERBOX_ISSUER_URL=http://"+ts.Getenv("SERVER"))
	start(ts, "http://"+ts.Getenv("SERVER")+"/readyz", cmd)
}

// start runs a program until the script ends, and waits until url answers.
func start(ts *testscript.TestScript, url string, cmd *exec.Cmd) {
	var log strings.Builder
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), &log
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		_ = cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !answers(ctx, url) {
		select {
		case <-ctx.Done():
			ts.Fatalf("%s does not answer", url)
		case <-tick.C:
		}
	}
}

// named makes two holders' keys, and names the first one assistant.
func named(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Exec("powerbox", "keys", "new", "unnamed.jwk"))
	ts.Check(ts.Exec("powerbox", "keys", "new", "named.jwk"))
	thumbprint := strings.TrimSpace(ts.ReadFile("stdout"))
	ts.Check(os.MkdirAll(ts.MkAbs("powerbox.d"), 0o755))
	rule := "identity: {callers: [{agent: assistant, key: \"" + thumbprint + "\"}]}\n"
	ts.Check(os.WriteFile(ts.MkAbs("powerbox.d/callers.yaml"), []byte(rule), 0o600))
}

// replaced is "replaced FILE OLD NEW": the first OLD becomes NEW.
func replaced(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replaced FILE OLD NEW")
	}
	before := ts.ReadFile(args[0])
	after := strings.Replace(before, args[1], args[2], 1)
	if after == before {
		ts.Fatalf("%s has no %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(after), 0o600))
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
