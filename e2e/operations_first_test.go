package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// TestOperatorsFirstRun has the built-in user of an experiment operate where the
// configuration names no operator, and prints no URL for a first administrator.
func TestOperatorsFirstRun(t *testing.T) {
	w := start(t, options{})
	alice := w.atPage("alice")
	if status, page := alice.get("/admin"); status != http.StatusOK || !strings.Contains(page, "First steps") {
		t.Errorf("the home of a built-in user: HTTP %d %s", status, page)
	}
	if out := w.log.String(); !strings.Contains(out, `"console":"`+w.url+`/"`) {
		t.Errorf("the server does not print the URL of the console:\n%s", out)
	}
}

// TestOperatorsFirstAdministrator prints the URL that makes a first administrator only where
// the configuration has something for people: a reader of the output can open it.
func TestOperatorsFirstAdministrator(t *testing.T) {
	asGiven(t)
	for _, tt := range []struct {
		name, extra string
		printed     bool
	}{{"nothing for people", "", false}, {"operators", "approvals: {operators: [\"user:carol\"]}\n", true}} {
		t.Run(tt.name, func(t *testing.T) {
			dir, address := t.TempDir(), "127.0.0.1:"+freePort(t)
			file := filepath.Join(dir, "powerbox.yaml")
			text := "listen: " + address + "\nissuer: {url: \"http://" + address + "\"}\nagents:\n  - {id: notes, upstream: \"http://127.0.0.1:9\", mode: observe}\n" + tt.extra
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			log := &programtest.Log{}
			serve := exec.CommandContext(t.Context(), binary, "serve", "-c", file)
			serve.Stderr, serve.Stdout, serve.Dir = log, log, dir
			serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
			if err := serve.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = serve.Process.Signal(os.Interrupt); _ = serve.Wait() })
			eventually(t, 20*time.Second, log.String, func() bool {
				answer, err := http.Get("http://" + address + "/livez")
				if err != nil {
					return false
				}
				_ = answer.Body.Close()
				return strings.Contains(log.String(), "serving") && (!tt.printed || strings.Contains(log.String(), "/first?secret="))
			})
			if printed := strings.Contains(log.String(), "/first?secret="); printed != tt.printed {
				t.Errorf("a URL for a first administrator is printed: %v; want %v\n%s", printed, tt.printed, log)
			}
			answer, err := http.Get("http://" + address + "/login")
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("the console: %v %v", answer, err)
			}
			_ = answer.Body.Close()
		})
	}
}
