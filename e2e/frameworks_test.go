package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/powerbox-project/powerbox/integrations/conformance"
	"github.com/powerbox-project/powerbox/internal/programtest"
)

// adapter is one adapter under test: the command of its driver.
type adapter struct {
	name    string
	command func(t *testing.T) *exec.Cmd
}

// adapters are all of them. Those in Python run against stubs of the frameworks, which
// the folder of the driver has; the others on the frameworks themselves.
var adapters = []adapter{
	{"langgraph", inPython("langgraph")},
	{"crewai", inPython("crewai")},
	{"adk-python", inPython("adk")},
	{"openai-python", inPython("openai_agents")},
	{"claude-python", inPython("claude")},
	{"vercel", inNode("vercel")},
	{"openai-node", inNode("openai")},
	{"mcp-node", inNode("mcp")},
	{"eino", inGo("eino")},
	{"genkit", inGo("genkit")},
	{"adk", inGo("adk")},
}

// inGo runs the driver of a module, which has its own dependencies.
func inGo(module string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		driver, err := built("driver-"+module, filepath.Join("../integrations", module), "./driver")
		if err != nil {
			t.Fatal(err)
		}
		return exec.Command(driver)
	}
}

func inNode(framework string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		const folder = "../integrations/typescript"
		if _, err := os.Stat(filepath.Join(folder, "node_modules", "ai")); err != nil {
			t.Fatal("the SDKs are not installed: run make test-deps, or npm ci in integrations/typescript")
		}
		cmd := exec.Command("node", filepath.Join("conformance", framework+".mjs"))
		cmd.Dir = folder
		return cmd
	}
}

func inPython(framework string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		module, err := filepath.Abs("../integrations/python")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "-B", "driver.py", framework) // ends with its input
		cmd.Dir = "../integrations/conformance/python"
		cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "http_proxy=http://127.0.0.1:9")
		return cmd
	}
}

// readsDrivers reads what the drivers are made of, or a cached result would stand for it.
func readsDrivers(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"../integrations", "../holder/guard"} {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.Name() == "node_modules":
				return filepath.SkipDir
			case entry.Type().IsRegular():
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// driver is a running driver.
type driver struct {
	t       *testing.T
	name    string
	w       *town
	gates   map[string]string
	in      io.Writer
	out     *bufio.Reader
	talk    *programtest.Log
	n       int
	pending string // the question of the step before
}

func (a adapter) start(t *testing.T, w *town, gates map[string]string) *driver {
	t.Helper()
	cmd := a.command(t)
	own := *w // whose failures are those of this adapter
	own.t = t
	d := &driver{t: t, name: a.name, w: &own, gates: gates, talk: &programtest.Log{}}
	cmd.Stderr = d.talk
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.in, d.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = in.Close() // the driver ends with its input
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("the driver ends with %v\n%s", err, d.talk)
		}
	})
	return d
}

// runs has the driver do a step.
func (d *driver) runs(s conformance.Step) conformance.Reply {
	d.t.Helper()
	d.n++
	r := conformance.Request{
		ID: d.n, URL: cmp.Or(d.gates[s.Gate], d.w.url), Token: frameworkToken(d.name), TimeoutMS: cmp.Or(s.TimeoutMS, 10_000), WaitMS: s.WaitMS,
		Agent: d.named(cmp.Or(s.Agent, "lead")), Calls: s.Calls, Stream: s.Stream,
	}
	if s.To != "" {
		r.To = d.named(s.To)
	}
	if s.Gate == "stranger" {
		r.Token = strings.ToUpper(r.Token)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.in.Write(append(raw, '\n')); err != nil {
		d.t.Fatalf("the driver is gone: %v\n%s", err, d.talk)
	}
	if s.Meanwhile != "" {
		var id string
		d.w.soon("a question of "+r.Agent, func() bool { id = d.question(r.Agent); return id != "" })
		d.answers(id, s.Meanwhile)
	}
	line, err := d.out.ReadBytes('\n')
	if err != nil {
		d.t.Fatalf("the driver says nothing: %v\n%s", err, d.talk)
	}
	var reply conformance.Reply
	if err := json.Unmarshal(line, &reply); err != nil || reply.ID != d.n {
		d.t.Fatalf("the driver answers %d with %s: %v\n%s", d.n, line, err, d.talk)
	}
	return reply
}

func (d *driver) named(agent string) string {
	if agent == "stranger" || agent == "nobody" {
		return agent
	}
	return d.name + "-" + agent
}

// waiting occurs in the question of the call that waits, and in no other: its arguments.
const waiting = `"amount":"3"`

// question is the open question about the call of an agent that waits for the answer.
func (d *driver) question(agent string) string {
	_, all := d.w.asPerson("carol", http.MethodGet, "/v1/approvals", nil)
	list, _ := all["reviews"].([]any)
	for _, one := range list {
		if raw, err := json.Marshal(one); err == nil && strings.Contains(string(raw), agent) && strings.Contains(string(raw), waiting) {
			return one.(map[string]any)["id"].(string)
		}
	}
	return ""
}

func (d *driver) answers(id, word string) {
	d.t.Helper()
	body := map[string]any{}
	if word == "deny" {
		body["deny"] = true
	}
	d.w.answers("carol", id, body)
}

var questionPage = regexp.MustCompile(`/approve/([A-Za-z0-9_-]+)`)

// Every adapter passes every case against the running server.
func TestFrameworkConformance(t *testing.T) {
	asGiven(t)
	cases, err := conformance.Cases()
	if err != nil || len(cases) != 40 {
		t.Fatalf("%d cases, %v; want 40", len(cases), err)
	}
	var names []string
	for _, a := range adapters {
		names = append(names, a.name)
	}
	readsDrivers(t)
	w := frameworkTown(t, names)
	gates, followed := badGates(t)
	t.Run("adapters", func(t *testing.T) {
		for _, a := range adapters {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				passes(t, a, w, gates, cases)
			})
		}
	})
	if n := followed.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
	// Each record of a call of a tool names the agent that made it.
	for _, r := range w.records("agent=tools&limit=1000") {
		if g := r.Powerbox.Gate; r.Decision == "ALLOW" && g != nil && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(g.Origin, n+"-") }) {
			t.Errorf("record %s has %+v", r.ID, g)
		}
	}
}

func passes(t *testing.T, a adapter, w *town, gates map[string]string, cases []conformance.Case) {
	d := a.start(t, w, gates)
	var passed atomic.Int64
	for _, c := range cases {
		if t.Run(c.Name, func(t *testing.T) {
			d.t, d.w.t = t, t
			for i, s := range c.Steps {
				d.step(i, s)
			}
		}) {
			passed.Add(1)
		}
	}
	t.Logf("%s: %d of %d cases passed", a.name, passed.Load(), len(cases))
}

// step does one step and holds what happened to what the case wants.
func (d *driver) step(i int, s conformance.Step) {
	d.t.Helper()
	switch {
	case s.Person != "":
		d.answers(d.pending, s.Person)
		return
	case s.Operator == "freeze":
		d.w.run("freeze", "agent:"+d.named("spare"), "--reason", "conformance")
		return
	}
	r := d.runs(s)
	if m := questionPage.FindStringSubmatch(strings.Join(r.Told, "\n")); m != nil {
		d.pending = m[1]
	}
	wants := []conformance.Want{s.Want}
	if len(s.Want.Or) > 0 {
		wants = s.Want.Or
	}
	var problems []string
	for _, want := range wants {
		p := d.differs(want, r)
		if p == "" {
			problems = nil
			break
		}
		problems = append(problems, p)
	}
	if p := d.breaks(r); p != "" {
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		raw, _ := json.Marshal(r) //nolint:errchkjson // for the message
		d.t.Fatalf("step %d: %s\n%s\n%s", i+1, strings.Join(problems, "; "), raw, d.talk)
	}
}

// differs says what in a reply is otherwise than a case wants.
func (d *driver) differs(want conformance.Want, r conformance.Reply) string {
	var ran, codes []string
	for _, one := range r.Ran {
		ran = append(ran, one.Tool)
	}
	for _, one := range r.Decisions {
		if !one.Allowed {
			codes = append(codes, one.Code)
		}
	}
	slices.Sort(ran)
	slices.Sort(codes)
	told := strings.Join(r.Told, "\n")
	switch {
	case !slices.Equal(ran, slices.Sorted(slices.Values(want.Ran))):
		return fmt.Sprintf("ran %q; want %q", ran, want.Ran)
	case want.Denials > 0 && len(codes) != want.Denials:
		return fmt.Sprintf("denied with %q; want %d denials", codes, want.Denials)
	case !want.Denied && want.Denials == 0 && !slices.Equal(codes, slices.Sorted(slices.Values(want.Codes))):
		return fmt.Sprintf("denied with %q; want %q", codes, want.Codes)
	case want.RanWith != "" && !equalJSON(string(r.Ran[0].Arguments), want.RanWith):
		return fmt.Sprintf("ran with %s; want %s", r.Ran[0].Arguments, want.RanWith)
	case r.Asked != want.Asked && want.Asked > 0:
		return fmt.Sprintf("the program was asked %d times; want %d", r.Asked, want.Asked)
	}
	for _, text := range want.Told {
		if !strings.Contains(told, text) {
			return fmt.Sprintf("the model was told %q; want %q in it", told, text)
		}
	}
	return d.recorded(want, r)
}

// recorded holds the records of the calls that were allowed to what a case wants.
func (d *driver) recorded(want conformance.Want, r conformance.Reply) string {
	var outcomes []string
	for _, one := range r.Decisions {
		if !one.Allowed || one.Tool == "" {
			continue
		}
		on := d.w.record(one.ID)
		if on.Decision != "ALLOW" {
			return fmt.Sprintf("record %s of an allowed call says %s", one.ID, on.Decision)
		}
		if g := on.Powerbox.Gate; want.Origin != "" && g.Target == "tools" && g.Origin != d.named(want.Origin) {
			return fmt.Sprintf("record %s has origin %s; want %s", one.ID, g.Origin, d.named(want.Origin))
		}
		for _, later := range d.w.records("agent=tools&limit=100") {
			if later.Powerbox.OutcomeOf == one.ID {
				outcomes = append(outcomes, later.Status)
			}
		}
	}
	if len(want.Outcomes) > 0 && !slices.Equal(outcomes, want.Outcomes) {
		return fmt.Sprintf("the outcomes are %q; want %q", outcomes, want.Outcomes)
	}
	return ""
}

// breaks says which rule of every step a reply breaks: nothing runs that was not
// allowed, a denial reaches the model with its code and record, and no secret does.
func (d *driver) breaks(r conformance.Reply) string {
	told := strings.Join(r.Told, "\n")
	allowed := map[string]int{}
	for _, one := range r.Decisions {
		if one.Allowed {
			allowed[one.Tool]++
			if one.ID == "" {
				return "a call of " + one.Tool + " was allowed without a record"
			}
			continue
		}
		if !strings.Contains(told, one.Code) || !strings.Contains(told, one.ID) {
			return fmt.Sprintf("the model was told %q of the denial %+v", told, one)
		}
		if strings.Contains(told, "s3cr3t-7f31") {
			return fmt.Sprintf("the model was told an argument: %q", told)
		}
	}
	for _, one := range r.Ran {
		if allowed[one.Tool]--; allowed[one.Tool] < 0 {
			return one.Tool + " ran and was not allowed; allowed are " + fmt.Sprint(slices.Sorted(maps.Keys(allowed)))
		}
	}
	for _, text := range []string{told, d.talk.String()} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(guardToken)) {
			return fmt.Sprintf("the token is in %q", text)
		}
	}
	return ""
}

// equalJSON compares two values, with numbers of any size by their value.
func equalJSON(a, b string) bool {
	read := func(text string) (v any, err error) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		err = decoder.Decode(&v)
		return v, err
	}
	x, err := read(a)
	if err != nil {
		return false
	}
	y, err := read(b)
	return err == nil && equalValue(x, y)
}

func equalValue(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equalValue)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equalValue)
	case json.Number:
		y, ok := b.(json.Number)
		p, first := new(big.Rat).SetString(x.String())
		q, second := new(big.Rat).SetString(string(y))
		return ok && first && second && p.Cmp(q) == 0
	}
	return a == b
}
