package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tried is one case of testdata/vectors/gateway/attempts.json: an attempt,
// and its required decision on every binding.
type tried struct {
	Name      string         `json:"name"`
	Skill     string         `json:"skill"`     // called in a data part, or by a2a/skill/invoke
	Text      string         `json:"text"`      // free text instead
	Method    string         `json:"method"`    // or a method with Params
	Params    map[string]any `json:"params"`    //
	Operation string         `json:"operation"` // that the proof names
	Arguments map[string]any `json:"arguments"` // $handle stands for a granted one
	By        string         `json:"by"`        // the credential: a chain, or "reference", or "nothing"
	Decision  string         `json:"decision"`
	Reasons   []string       `json:"reasons"`
	Missing   []string       `json:"missing"`
}

// judged is what a wire says of a case: to the caller, and on record.
type judged struct {
	Code                                   int
	Reason, Missing, Fix, Retryable, Words string
	Decision, Operation, Mode              string
	Reasons                                []string
	Granted, Exercised                     []string
	Gate                                   any
	Requester, Principal                   bool
}

// TestGATE11_OneDecisionOnEveryBinding tries the same on every binding and
// version and by a2a/skill/invoke: the decision, its reasons, the answer to the
// caller and the record are the same (ATK-29).
func TestGATE11_OneDecisionOnEveryBinding(t *testing.T) {
	raw, err := os.ReadFile("../testdata/vectors/gateway/attempts.json")
	var cases []tried
	if err == nil {
		err = json.Unmarshal(raw, &cases)
	}
	if err != nil || len(cases) < 15 {
		t.Fatal(len(cases), err)
	}
	first := map[string]judged{}
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		held := alice.reports()
		for _, c := range cases {
			t.Run("GATE-11 "+c.Name, func(t *testing.T) {
				got := w.judge(t, alice, held, c, false)
				if want, ok := first[c.Name]; !ok {
					first[c.Name] = got
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("JSON-RPC 1.0 (-) and %s (+):\n%s", on, diff)
				}
				if on == (wire{}) && c.Skill != "" {
					if diff := cmp.Diff(got, w.judge(t, alice, held, c, true)); diff != "" {
						t.Errorf("a message (-) and a2a/skill/invoke (+):\n%s", diff)
					}
				}
			})
		}
	})
}

func (w *town) judge(t *testing.T, c *caller, held granted, try tried, invoked bool) judged {
	t.Helper()
	arguments := map[string]any{}
	text, _ := json.Marshal(try.Arguments)
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(text), "$handle", held.ResourceHandles[0].Handle)), &arguments)
	var body []byte
	switch {
	case invoked:
		body = invoke(try.Skill, arguments, "")
	case try.Skill != "":
		body = data(try.Skill, arguments)
	case try.Text != "":
		body = textOf(try.Text)
	default:
		body = rpc(try.Method, try.Params)
	}
	w.documents.forget()
	var a answer
	switch try.By {
	case "nothing":
		a = c.send("documents", body)
	case "reference":
		other := w.caller(bobToken)
		if invoked {
			body = invoke(try.Skill, arguments, held.ID)
		} else {
			body = parted("SendMessage", []any{skillPart(try.Skill, arguments)}, map[string]any{"capabilityId": held.ID}, nil)
		}
		a = other.send("documents", body)
	default:
		a = c.present("documents", body, proven{chain: []string{held.Token}, operation: try.Operation, arguments: arguments})
	}
	r := w.decided(a)
	got := judged{
		Decision: r.Decision, Operation: r.Intent.Operation, Mode: r.Powerbox.Mode, Granted: r.Powerbox.Granted, Exercised: r.Powerbox.Exercised,
		Requester: r.Powerbox.Requester != "", Principal: r.Powerbox.Principal != "", Gate: r.Powerbox.Gate,
	}
	if g := r.Powerbox.Gate; g != nil {
		g.Origin, _, _ = strings.Cut(g.Origin, ":") // another key in every run
	}
	for _, reason := range r.Powerbox.Reasons {
		got.Reasons = append(got.Reasons, reason.Code)
	}
	if a.Error != nil {
		got.Code = a.Error.Code
		got.Words = strings.ReplaceAll(a.Error.Message, w.url, "")
		if len(a.Error.Data) > 0 {
			m := a.Error.Data[0].Metadata
			got.Reason, got.Missing, got.Fix, got.Retryable = m["code"], m["missing"], strings.ReplaceAll(m["fix"], w.url, ""), m["retryable"]
		}
	}
	if got.Decision != try.Decision || !cmp.Equal(got.Reasons, try.Reasons) || (a.Error == nil) != (try.Decision == "ALLOW") {
		t.Errorf("%s for %v; want %s for %v\n%s", got.Decision, got.Reasons, try.Decision, try.Reasons, a.Raw)
	}
	var missing []string
	if got.Missing != "" {
		_ = json.Unmarshal([]byte(got.Missing), &missing)
	}
	if !cmp.Equal(missing, try.Missing) {
		t.Errorf("missing %v; want %v", missing, try.Missing)
	}
	if n, want := len(w.documents.got()), map[string]int{"ALLOW": 1}[try.Decision]; n != want {
		t.Errorf("%d calls reached the agent; want %d", n, want)
	}
	return got
}

func textOf(s string) []byte { return text("SendMessage", s) }

// TestATK34_StreamsOfEveryBindingAreCut has a stream on every binding that said
// something and then nothing: a freeze, and a revocation, end it at once, with a
// proper error (ATK-24).
func TestATK34_StreamsOfEveryBindingAreCut(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		for code, stop := range map[string]func(held granted){
			"frozen": func(granted) {
				w.run("freeze", "agent:documents", "--reason", "odd calls")
			},
			"revoked": func(held granted) { w.run("revoke", held.ID) },
		} {
			t.Run("ATK-34 "+code, func(t *testing.T) {
				held := alice.reports()
				args := map[string]any{"query": "hang"}
				body := []byte(strings.Replace(string(data("search_documents", args)), `"SendMessage"`, `"SendStreamingMessage"`, 1))
				h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch, arguments: args})
				r, _ := w.encode(w.agentURL("documents"), body)
				if on == (wire{}) {
					h.Set("A2A-Version", "1.0")
				}
				res := w.send(r, h)
				defer res.Body.Close()
				first := make([]byte, 64<<10)
				n, err := res.Body.Read(first)
				if err != nil || n == 0 {
					t.Fatalf("the stream begins with %q, %v", first[:n], err)
				}
				stop(held)
				began := time.Now()
				ended := make(chan answer, 1)
				go func() { ended <- w.read(r, res) }()
				select {
				case a := <-ended:
					if a.reason() != code || a.Error.Code != -31403 {
						t.Errorf("it ends with %s; want %s", a.Raw, code)
					}
					t.Logf("cut after %v", time.Since(began).Round(time.Millisecond))
				case <-time.After(atOnce):
					t.Error("it goes on")
				}
				if code == "frozen" {
					w.run("thaw", "agent:documents", "--reason", "explained")
				}
			})
		}
	})
}

// TestATK18_TasksOfStreamsOnEveryBinding: a task that only a stream told of
// belongs to its owner alone.
func TestATK18_TasksOfStreamsOnEveryBinding(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    enforces: context"})
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		held, other := alice.reports(), bob.reports()
		task, _ := alice.opens("SendStreamingMessage", held)
		read := func(c *caller, with granted) answer {
			return c.present("documents", rpc("GetTask", map[string]any{"id": task}), proven{chain: []string{with.Token}, operation: "a2a.task.read", arguments: map[string]any{"task": task}})
		}
		if a := read(alice, held); a.Error != nil {
			t.Errorf("ATK-18 its own task: %s", a.Raw)
		}
		if a := read(bob, other); a.Error == nil || a.Error.Code != -32001 {
			t.Errorf("ATK-18 another's task: %s", a.Raw)
		}
	})
}

// raw sends a request as it is.
func (w *town) raw(client *http.Client, method, url string, header http.Header, body string) (int, http.Header, http.Header, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = header
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, res.Header, res.Trailer, string(out)
}
