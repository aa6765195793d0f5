package e2e

import (
	"encoding/json"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// startStream starts a client on a stream, and returns what it prints as it prints
// it. The returned function waits for its end.
type startStream func(t *testing.T, base string) (printed io.Reader, wait func() error)

// streamingClients are stockClients that are read while they run.
func streamingClients(t *testing.T, on wire) map[string]startStream {
	t.Helper()
	a2aCommand := commandLine(t)
	return map[string]startStream{
		"JavaScript SDK": func(t *testing.T, base string) (io.Reader, func() error) {
			t.Helper()
			if on.version == "0.3" {
				t.Setenv("A2A_LEGACY", "1")
			}
			cmd := nodeClient(t, base+cardPath, "")
			cmd.Args = append(cmd.Args, "stream", "work")
			return running(t, cmd)
		},
		"Go SDK": func(t *testing.T, base string) (io.Reader, func() error) {
			t.Helper()
			r, w := io.Pipe()
			go func() {
				goTalking(t, base, sent{}, [][]string{{"stream", "work"}}, func(line string) { _, _ = io.WriteString(w, line) })
				_ = w.Close() // never fails
			}()
			return r, func() error { return nil }
		},
		"a2a command": func(t *testing.T, base string) (io.Reader, func() error) {
			t.Helper()
			return running(t, exec.CommandContext(t.Context(), a2aCommand, "-o", "json", "send", "--stream", "--insecure", base, "work"))
		},
	}
}

func running(t *testing.T, cmd *exec.Cmd) (io.Reader, func() error) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return out, cmd.Wait
}

// TestStockStreamsPassAsProducedOnEveryBinding is TestStockStreamPassesAsProduced
// for every client: the agent continues only when the client has printed the event
// before.
func TestStockStreamsPassAsProducedOnEveryBinding(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		for name, start := range streamingClients(t, on) {
			for _, mode := range []string{"observe", "prefer"} {
				t.Run(name+" in "+mode, func(t *testing.T) {
					step := make(chan struct{})
					w := guarded(t, newPolyglot(t, on, step), mode, "")
					out, wait := start(t, w.agentURL("documents"))
					var events []string
					for d := json.NewDecoder(out); ; {
						var e json.RawMessage
						if err := d.Decode(&e); err != nil {
							break // the end, which the events that are missing tell about
						}
						if events = append(events, kindOf(t, e)); len(events) == len(worked) {
							continue
						}
						select {
						case step <- struct{}{}:
						case <-time.After(patience):
							t.Fatalf("the agent does not go on after %q", events)
						}
					}
					if err := wait(); err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(worked, events); diff != "" {
						t.Error(diff)
					}
				})
			}
		}
	})
}

// kindOf names an event as clients print it: under its name, or, by the a2a
// command, as it is.
func kindOf(t *testing.T, event []byte) string {
	t.Helper()
	names := memberNames(t, string(event))
	for _, kind := range []string{"task", "message", "statusUpdate", "artifactUpdate"} {
		if _, ok := names[kind]; ok {
			return kind
		}
	}
	switch {
	case names["artifact"] != nil:
		return "artifactUpdate"
	case names["taskId"] != nil:
		return "statusUpdate"
	default:
		return "task"
	}
}

// TestSEP1_StockClientsReadTheExtendedCard has unmodified clients ask for the
// card that agents show to those they know: it leads to the gateway, names our
// extension, and is the agent's in everything else.
func TestSEP1_StockClientsReadTheExtendedCard(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		agent := newPolyglot(t, on, unhindered())
		w := guarded(t, agent, "observe", "")
		for name, say := range stockClients(t, on) {
			t.Run(name, func(t *testing.T) {
				direct := cardOf(t, say(t, agent.url, sent{}, [][]string{{"card"}})[0])
				through := cardOf(t, say(t, w.agentURL("documents"), sent{}, [][]string{{"card"}})[0])
				want := w.agentURL("documents")
				if on.binding == overGRPC {
					want = w.grpc["documents"]
				}
				for n, at := range through.SupportedInterfaces {
					if at.URL != want {
						t.Errorf("it leads to %s; want %s", at.URL, want)
					}
					at.URL = direct.SupportedInterfaces[min(n, len(direct.SupportedInterfaces)-1)].URL
				}
				if n := len(through.Capabilities.Extensions); n != 2 || through.Capabilities.Extensions[0].URI != extension {
					t.Errorf("extensions %+v; want ours", through.Capabilities.Extensions)
				}
				through.Capabilities.Extensions, through.Signatures = nil, direct.Signatures
				if diff := cmp.Diff(direct, through); diff != "" {
					t.Errorf("the agent's card (-) and ours (+):\n%s", diff)
				}
			})
		}
	})
}
