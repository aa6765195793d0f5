package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/token"
)

const (
	opMail    = "mail/mail:send/send"
	opMessage = "a2a.message"
)

// newKey is a fresh key of a calling agent.
func newKey(t *testing.T) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// named returns the sections that give keys the names of calling agents.
func named(t *testing.T, keys map[string]*token.PrivateKey) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callers.yaml")
	text := "identity:\n  callers:\n"
	for name, k := range keys {
		text += "    - {agent: " + name + ", key: " + k.Public().Thumbprint() + "}\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "include: [" + file + "]\n"
}

// operator calls the operator's interface.
func (w *town) operator(method, path string, body any) []byte {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequest(method, w.url+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	out, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %s %v\n%s", method, path, r.Status, err, out)
	}
	return out
}

// recorded is a record as in the operator's interface.
type recorded struct {
	ID        string `json:"record_id"`
	AgentID   string `json:"agent_id"`
	TaskID    string `json:"task_id"`
	Action    string `json:"action_type"`
	Decision  string `json:"decision"`
	Status    string `json:"outcome_status"`
	Timestamp string `json:"timestamp_utc"`
	Prev      string `json:"prev_record_hash"`
	Hash      string `json:"record_hash"`
	Signature string `json:"signature"`
	Algorithm string `json:"signature_algorithm"`
	Outcome   struct {
		Cause string   `json:"cause"`
		Told  string   `json:"told"`
		Drift []string `json:"drift"`
	} `json:"outcome"`
	Intent struct {
		Operation string `json:"operation"`
		Purpose   string `json:"purpose"`
	} `json:"intent"`
	Powerbox struct {
		ChainID      string   `json:"chain_id"`
		Sequence     int64    `json:"sequence"`
		Recorder     string   `json:"recorder"`
		KeyID        string   `json:"signing_key_id"`
		Requester    string   `json:"requester"`
		Principal    string   `json:"principal"`
		Tenant       string   `json:"tenant"`
		TraceID      string   `json:"trace_id"`
		Capability   string   `json:"capability"`
		Granted      []string `json:"granted"`
		Exercised    []string `json:"exercised"`
		OutcomeOf    string   `json:"outcome_of"`
		Mode         string   `json:"mode"`
		PolicyDigest string   `json:"policy_digest"`
		Gate         *struct {
			Origin   string   `json:"origin"`
			Target   string   `json:"target"`
			Required []string `json:"required"`
			Allowed  []string `json:"allowed"`
			Missing  []string `json:"missing"`
		} `json:"gate"`
		Reasons []struct {
			Code string `json:"code"`
		} `json:"reasons"`
	} `json:"powerbox"`
}

func (r recorded) has(code string) bool {
	for _, reason := range r.Powerbox.Reasons {
		if reason.Code == code {
			return true
		}
	}
	return false
}

// record is the record of a decision.
func (w *town) record(id string) recorded {
	w.t.Helper()
	var r recorded
	if w.apart != "" || len(w.fronts) > 0 { // a remote gateway sends its records a moment later
		w.soon("record "+id, func() bool {
			return slices.ContainsFunc(w.records("limit=1000"), func(r recorded) bool { return r.ID == id })
		})
	}
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/records/"+id, nil), &r); err != nil {
		w.t.Fatal(err)
	}
	w.classed(r)
	return r
}

// decided is the record of the decision about a call that was answered.
func (w *town) decided(a answer) recorded {
	w.t.Helper()
	id := a.Header.Get("Powerbox-Decision")
	if id == "" {
		w.t.Fatalf("the answer names no decision: %s", a.Raw)
	}
	return w.record(id)
}

// records are those that a query selects, newest first.
func (w *town) records(query string) []recorded {
	w.t.Helper()
	var out []recorded
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/records?"+query, nil), &out); err != nil {
		w.t.Fatal(err)
	}
	w.classed(out...)
	return out
}

// classed holds every record that a test reads to the list of action types, by which the
// verbs of operators count.
func (w *town) classed(records ...recorded) {
	w.t.Helper()
	for _, r := range records {
		if action.ClassOf(r.Action) == action.Unlisted {
			w.t.Errorf("record %s has action type %q, which internal/action does not list", r.ID, r.Action)
		}
	}
}

// again stops the server, changes its files and starts it.
func (w *town) again(change func()) {
	w.t.Helper()
	pid := w.process.Process.Pid
	if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); syscall.Kill(pid, 0) == nil; <-tick.C {
		if time.Now().After(deadline) {
			w.t.Fatal("powerbox does not end")
		}
	}
	change()
	w.boot()
}

// agentKey is the issuing key of an agent, as only its server has it.
func (w *town) agentKey(agent string) *token.PrivateKey {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "agent-"+agent+".jwk"))
	if err != nil {
		w.t.Fatal(err)
	}
	k, err := token.ParsePrivateKey(data)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// bearer makes a call with a session alone: by a caller without a key.
func (w *town) bearer(session, agent string, body []byte) answer {
	w.t.Helper()
	return w.post(w.agentURL(agent), body, http.Header{"Authorization": {"Bearer " + session}})
}

// send makes a call with the session's headers and a body of one's own.
func (c *caller) send(agent string, body []byte) answer {
	c.w.t.Helper()
	url := c.w.agentURL(agent)
	return c.w.post(url, body, c.headers(url))
}

// verified is a chain that its holder has checked.
func (c *caller) verified(agent string, chain ...string) token.Verified {
	c.w.t.Helper()
	keys := token.NewKeySet(c.w.agentKey(agent).Public())
	v, err := token.NewMemo(1<<20).Verify(token.JoinChain(chain), keys, token.Options{Now: time.Now(), Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		c.w.t.Fatal(err)
	}
	return v
}

// derive passes a chain on offline.
func (c *caller) derive(agent string, chain []string, n token.Narrowing) []string {
	c.w.t.Helper()
	v := c.verified(agent, chain...)
	n.ID, n.Now = nonce(), time.Now()
	if n.Tools == nil {
		n.Tools = v.Tools()
	}
	derived, err := token.Derive(v, c.key, n)
	if err != nil {
		c.w.t.Fatal(err)
	}
	return append(append([]string{}, chain...), derived)
}

// refused expects a denial with a reason, of which the agent behind saw
// nothing.
func (w *town) refused(t *testing.T, a answer, want string) {
	t.Helper()
	if got := a.reason(); got != want {
		t.Errorf("reason %q; want %q\n%s", got, want, a.Raw)
	}
	if n := len(w.documents.got()) + len(w.mail.got()); n > 0 {
		t.Errorf("%d calls reached an agent", n)
	}
}

// allowed expects that a call reached its agent.
func allowed(t *testing.T, a answer) {
	t.Helper()
	if a.Error != nil || a.Status != http.StatusOK {
		t.Errorf("refused: %d %s", a.Status, a.Raw)
	}
}

// rewrite changes a file of the configuration.
func (w *town) rewrite(name, from, to string) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		w.t.Fatalf("%s has no %q", name, from)
	}
	w.write(name, strings.ReplaceAll(string(data), from, to))
}

// settled is a caller whose proofs are believed: those of the second in which
// a server started again are not.
func (w *town) settled(session string) *caller {
	w.t.Helper()
	c := w.caller(session)
	w.settle(c)
	return c
}

func (w *town) settle(c *caller) {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; <-tick.C {
		a := c.call("documents", "a2a/capabilities/list", map[string]any{})
		if a.Error == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no proof is believed: %s", a.Raw)
		}
	}
}
