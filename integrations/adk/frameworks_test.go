package powerboxadk_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/token"
)

// The same three agents and the same scopes, whatever they are written on.
const frameworks = `listen: %[1]s
issuer: {url: "http://%[1]s"}
identity:
  callers: [{agent: coordinator, key: "%[2]s"}]
  guards: [{name: program, token_file: guard.token, agents: [coordinator, reader, writer]}]
defaults: {mode: scoped}
agents:
  - {id: coordinator, protocol: local}
  - {id: reader, %[3]s, required: [answer/read]}
  - {id: writer, %[3]s, required: [answer/write]}
offers:
  reader: [{id: answer, operations: [read]}]
  writer: [{id: answer, operations: [write]}]
skills:
  reader: [{skill: answer, grant: answer, operation: read}]
  writer: [{skill: answer, grant: answer, operation: write}]
scopes:
  coordinator: {reader: [answer/read]}
`

// evidence is the part of a record about the attempt, without ids and times.
type evidence struct {
	Decision, Origin, Target, Mode string
	Required, Missing, Codes       []string
	Members                        []string
}

// evidenceOf reads the records of an agent as maps.
func (w *town) evidenceOf(target string) []evidence {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/v1/records?agent="+target, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var whole []map[string]any
	var parts []struct {
		Decision string `json:"decision"`
		Powerbox struct {
			Mode string `json:"mode"`
			Gate struct {
				Origin   string   `json:"origin"`
				Target   string   `json:"target"`
				Required []string `json:"required"`
				Missing  []string `json:"missing"`
			} `json:"gate"`
			Reasons []struct {
				Code string `json:"code"`
			} `json:"reasons"`
		} `json:"powerbox"`
	}
	if err := json.Unmarshal(raw, &whole); err != nil {
		w.t.Fatalf("%v: %s", err, raw)
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		w.t.Fatal(err)
	}
	var out []evidence
	for i, p := range parts {
		e := evidence{
			Decision: p.Decision, Origin: p.Powerbox.Gate.Origin, Target: p.Powerbox.Gate.Target, Mode: p.Powerbox.Mode,
			Required: slices.Sorted(slices.Values(p.Powerbox.Gate.Required)), Missing: p.Powerbox.Gate.Missing,
			Members: slices.Sorted(maps.Keys(whole[i])),
		}
		for _, r := range p.Powerbox.Reasons {
			e.Codes = append(e.Codes, r.Code)
		}
		out = append(out, e)
	}
	return out
}

// start runs the gate for agents of one kind: members of their entries.
func (w *town) start(thumbprint, kind string) { w.startWith(frameworks, thumbprint, kind) }

func (w *town) startWith(configuration, thumbprint, kind string) {
	w.t.Helper()
	address := freeport.Address(w.t)
	w.dir, w.url = w.t.TempDir(), "http://"+address
	files := map[string]string{"guard.token": guardToken, "powerbox.yaml": fmt.Sprintf(configuration, address, thumbprint, kind)}
	maps.Copy(files, w.files)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.boot()
}

// send posts a message to an agent at the gateway, as the coordinator, who proves
// its key.
func (w *town) send(key *token.PrivateKey, to, body string) string {
	w.t.Helper()
	url := w.url + "/agents/" + to
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	client := &holder.Client{Key: key, HTTP: http.DefaultClient, Now: time.Now, Random: rand.Reader} //nolint:forbidigo // the gate beside us reads this clock
	if err := client.Identify(w.t.Context(), r.Header, holder.Agent{Issuer: url}, http.MethodPost, url); err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("A2A-Version", "1.0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// card is that of an agent of A2A at a URL.
const card = `{"name":"x","description":"x","version":"1","supportedInterfaces":[{"url":"%s/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
"capabilities":{},"defaultInputModes":["text"],"defaultOutputModes":["text"],"skills":[{"id":"answer","name":"answer","description":"x","tags":["x"]}]}`

const swarm = `
import os, powerbox
class Agent:
    def __init__(self, name): self.name = name
gate = powerbox.Gate(os.environ["GATE"], os.environ["TOKEN"])
@gate.handoffs("coordinator")
def to_writer(): return Agent("writer")
try:
    to_writer()
    print("handed over")
except powerbox.Refused as why:
    print(why)
`

const violation = "Capability scope violation: {a2a.message, writer/answer/write}"

// One forbidden hand-off, written on four frameworks: as agents of A2A behind the
// gateway, as a hierarchy of the ADK, as a host with servers of MCP, as functions of
// Swarm. The decision, the missing set and the shape of the evidence are the same,
// and nothing reaches the writer (GATE-11, GATE-10).
func TestGATE11_FourFrameworks(t *testing.T) {
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	reached := 0
	var behind *httptest.Server
	behind = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(rw, card, behind.URL)
			return
		}
		reached++
	}))
	t.Cleanup(behind.Close)
	module, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(module, "powerbox.py")); err != nil { // or a cached result would stand for what python reads
		t.Fatal(err)
	}
	tries := map[string]struct {
		kind string
		try  func(w *town) string
	}{
		"A2A": {"upstream: " + behind.URL, func(w *town) string {
			return w.send(key, "writer", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"write it"}]}}}`)
		}},
		"ADK": {"protocol: local", func(w *town) string {
			coordinator, writer := says("coordinator", "transfer_to_agent", object{"agent_name": "writer"}), says("writer")
			root := w.agent(coordinator, func(c *llmagent.Config) { c.Tools, c.SubAgents = nil, []agent.Agent{w.agent(writer, nil)} })
			w.run(w.gate(root), root)
			if len(writer.shown) > 0 {
				t.Error("ADK: the writer ran")
			}
			return fmt.Sprint(coordinator.heard)
		}},
		"MCP": {"protocol: mcp, upstream: " + behind.URL, func(w *town) string {
			return w.send(key, "writer", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"answer","arguments":{}}}`)
		}},
		"Swarm": {"protocol: local", func(w *town) string {
			cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-B", "-c", swarm)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "GATE="+w.url, "TOKEN="+guardToken)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return string(out)
		}},
	}
	var first evidence
	for _, name := range slices.Sorted(maps.Keys(tries)) {
		w := &town{t: t}
		w.start(key.Public().Thumbprint(), tries[name].kind)
		said := tries[name].try(w)
		if !strings.Contains(said, violation) {
			t.Errorf("%s: said %s; want %s", name, said, violation)
		}
		records := w.evidenceOf("writer")
		records = slices.DeleteFunc(records, func(e evidence) bool { return slices.Equal(e.Required, []string{"a2a.message"}) }) // lists of tools
		if len(records) != 1 {
			t.Fatalf("%s: %d records: %+v", name, len(records), records)
		}
		if first.Decision == "" {
			first = records[0]
		}
		if got := records[0]; fmt.Sprint(got) != fmt.Sprint(first) || got.Decision != "DENY" || got.Origin != "coordinator" || got.Target != "writer" ||
			strings.Join(got.Missing, ", ") != "a2a.message, writer/answer/write" {
			t.Errorf("%s: on record %+v\nwant %+v", name, got, first)
		}
	}
	if reached != 0 {
		t.Errorf("%d calls reached the writer", reached)
	}
}
