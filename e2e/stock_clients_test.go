package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2agrpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// sent is what a client sends with every call beside the message.
type sent struct {
	bearer   string
	metadata map[string]any // of requests that have a slot for it
}

// stockClient says commands, as jsclient has them, to the agent whose card is
// below base, and returns what it printed.
type stockClient func(t *testing.T, base string, with sent, commands [][]string) []string

// stockClients are the clients that have a binding and version.
func stockClients(t *testing.T, on wire) map[string]stockClient {
	t.Helper()
	a2aCommand := commandLine(t)
	return map[string]stockClient{
		"JavaScript SDK": jsClient(on),
		"Go SDK":         goClient,
		"a2a command": func(t *testing.T, base string, with sent, commands [][]string) []string {
			t.Helper()
			return golang(t, a2aCommand, base, inCommandLine(with, commands)...)
		},
	}
}

func jsClient(on wire) stockClient {
	return func(t *testing.T, base string, with sent, commands [][]string) []string {
		t.Helper()
		if on.version == "0.3" {
			t.Setenv("A2A_LEGACY", "1")
		}
		if with.metadata != nil {
			t.Setenv("A2A_METADATA", jsonOf(t, with.metadata))
		}
		return javascript(t, base+cardPath, with.bearer, commands...)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// inCommandLine says commands as the a2a command has them.
func inCommandLine(with sent, commands [][]string) [][]string {
	var out [][]string
	for _, c := range commands {
		var args []string
		switch c[0] {
		case "card":
			args = []string{"discover", "--extended", "$url"}
		case "send":
			args = []string{"send", "$url", c[1]}
		case "stream":
			args = []string{"send", "--stream", "$url", c[1]}
		case "skill":
			args = []string{"send", "$url", "--parts", `[{"data": {"skill": "` + c[1] + `", "arguments": ` + c[2] + `}}]`}
		case "get":
			args = []string{"get", "task", "$url", c[1]}
		case "list":
			args = []string{"list", "tasks", "$url"}
		default:
			args = []string{c[0], "$url", c[1]}
		}
		if args = append(args, "--insecure"); with.bearer != "" {
			args = append(args, "--auth", "Bearer "+with.bearer)
		}
		out = append(out, args)
	}
	return out
}

// goClient is goTalking as a stockClient.
func goClient(t *testing.T, base string, with sent, commands [][]string) []string {
	t.Helper()
	var printed []string
	goTalking(t, base, with, commands, func(line string) { printed = append(printed, line) })
	return printed
}

// goTalking is a client as its author would write it on a2a-go.
func goTalking(t *testing.T, base string, with sent, commands [][]string, out func(string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	card, err := (&agentcard.Resolver{CardParser: eitherCard}).Resolve(ctx, base)
	if err != nil {
		t.Error(err)
		return
	}
	client, err := a2aclient.NewFromCard(ctx, card,
		a2aclient.WithJSONRPCTransport(nil), a2aclient.WithRESTTransport(nil), a2agrpcv1.WithGRPCTransport(plain),
		a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{}), a2av0.WithRESTTransport(a2av0.RESTTransportConfig{}), a2agrpcv0.WithGRPCTransport(plain))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = client.Destroy() }()
	if with.bearer != "" {
		ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"Authorization": {"Bearer " + with.bearer}})
	}
	said := goTalk{t: t, client: client, metadata: with.metadata, out: out}
	for _, c := range commands {
		said.run(ctx, c)
	}
}

// eitherCard reads the card of either version, as in a2a-go's documentation.
func eitherCard(raw []byte) (*a2a.AgentCard, error) {
	var card a2a.AgentCard
	if err := json.Unmarshal(raw, &card); err == nil && !strings.Contains(string(raw), `"protocolVersion":"0.3`) && !strings.Contains(string(raw), `"protocolVersion": "0.3`) {
		return &card, nil
	}
	return a2av0.NewAgentCardParser()(raw)
}

// goTalk runs commands on a client of a2a-go.
type goTalk struct {
	t        *testing.T
	client   *a2aclient.Client
	metadata map[string]any
	task     a2a.TaskID
	out      func(line string)
}

func (g *goTalk) print(v any, err error) {
	g.t.Helper()
	if err != nil {
		g.out(goFailure(g.t, err))
		return
	}
	if e, ok := v.(a2a.Event); ok {
		if task := e.TaskInfo().TaskID; task != "" {
			g.task = task
		}
		v = a2a.StreamResponse{Event: e}
	}
	g.out(jsonOf(g.t, v))
}

// goFailure is what a user of a2a-go has in hand of an error.
func goFailure(t *testing.T, err error) string {
	t.Helper()
	f := map[string]any{"message": err.Error()}
	for name, known := range map[string]error{
		"unauthorized": a2a.ErrUnauthorized, "unauthenticated": a2a.ErrUnauthenticated, "task not found": a2a.ErrTaskNotFound,
	} {
		if errors.Is(err, known) {
			f["is"] = name
		}
	}
	var typed *a2a.Error
	if errors.As(err, &typed) {
		f["details"], f["typed"] = typed.Details, typed.TypedDetails
	}
	return jsonOf(t, map[string]any{"error": f})
}

func (g *goTalk) run(ctx context.Context, c []string) {
	g.t.Helper()
	if last := len(c) - 1; c[last] == "$task" {
		c = append(slices.Clone(c[:last]), string(g.task))
	}
	message := func(part *a2a.Part) *a2a.SendMessageRequest {
		return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part), Metadata: maps.Clone(g.metadata)}
	}
	switch c[0] {
	case "card":
		g.print(g.client.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{}))
	case "send":
		g.print(g.client.SendMessage(ctx, message(a2a.NewTextPart(c[1]))))
	case "skill":
		var arguments any
		if err := json.Unmarshal([]byte(c[2]), &arguments); err != nil {
			g.t.Error(err)
		}
		g.print(g.client.SendMessage(ctx, message(a2a.NewDataPart(map[string]any{"skill": c[1], "arguments": arguments}))))
	case "stream":
		for e, err := range g.client.SendStreamingMessage(ctx, message(a2a.NewTextPart(c[1]))) {
			g.print(e, err)
		}
	case "subscribe":
		for e, err := range g.client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: a2a.TaskID(c[1])}) {
			g.print(e, err)
		}
	case "get":
		g.print(g.client.GetTask(ctx, &a2a.GetTaskRequest{ID: a2a.TaskID(c[1])}))
	case "wait":
		g.wait(ctx, a2a.TaskID(c[1]))
	case "cancel":
		g.print(g.client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: a2a.TaskID(c[1])}))
	case "list":
		g.print(g.client.ListTasks(ctx, &a2a.ListTasksRequest{}))
	default:
		g.t.Errorf("no command %q", c)
	}
}

// wait asks for a task until it is over, and prints it then.
func (g *goTalk) wait(ctx context.Context, id a2a.TaskID) {
	g.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		task, err := g.client.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
		if err != nil || task.Status.State.Terminal() {
			g.print(task, err)
			return
		}
		<-tick.C
	}
}

// conversation is what clients say in observe.
var conversation = [][]string{
	{"send", "hello"},
	{"send", "work"},
	{"get", "$task"},
	{"subscribe", "$task"},
	{"stream", "work"},
	{"send", "open"},
	{"cancel", "$task"},
	{"cancel", "no-such-task"},
	{"skill", "search_documents", `{"text": "\u00fc <&> \u2028", "half": 0.5, "large": 9007199254740993}`},
	{"list"},
	{"get", "no-such-task"},
	{"send", "fail"},
	{"stream", "fail"},
	{"stream", "hello"},
}

// alike returns seen without the values that a gRPC client changes with every
// call: its remaining time, and, on Go, the order of a map.
func alike(t *testing.T, on wire, client string, agent *stock, printed []string, base string) exchanged {
	t.Helper()
	if on.binding != overGRPC {
		return seen(agent, printed, base)
	}
	same := &stock{}
	for _, r := range agent.got() {
		if r.header.Get("Grpc-Timeout") != "" {
			r.header.Set("Grpc-Timeout", "some")
		}
		if client != "JavaScript SDK" {
			r.body = inOrder(t, on, r.header[":path"][0], r.body)
		}
		same.requests = append(same.requests, r)
	}
	return seen(same, printed, base)
}

// inOrder is a message of gRPC with its maps in order. What no field is known for
// stays.
func inOrder(t *testing.T, on wire, path string, framed []byte) []byte {
	t.Helper()
	name := path[strings.LastIndex(path, "/")+1:]
	for core, old := range names03 {
		if old[1] == name {
			name = core
		}
	}
	m := proto.Clone(messages[on.version][name][0])
	if err := proto.Unmarshal(framed[5:], m); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(framed[:5]), b...)
}

// kitRaces is how often a conversation is tried in which the agent's kit lost a race with
// itself: a2a-go closes the queue of a task while it still cancels it.
const kitRaces = 3

func (e exchanged) raced() bool {
	return slices.ContainsFunc(e.Printed, func(line string) bool { return strings.Contains(line, "queue is closed") })
}

// TestSEP18_StockClientsOnEveryBinding has unmodified clients talk to an agent
// on every binding and version that they have, directly and through the gateway
// in mode observe: neither side sees a difference.
func TestSEP18_StockClientsOnEveryBinding(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		for name, say := range stockClients(t, on) {
			t.Run(name, func(t *testing.T) {
				with := sent{bearer: "a-token-of-theirs", metadata: map[string]any{"https://example.org/theirs": map[string]any{"zero": 0, "no": false}}}
				var direct, through exchanged
				var behind *stock
				for range kitRaces {
					alone := newPolyglot(t, on, unhindered())
					behind = newPolyglot(t, on, unhindered())
					w := guarded(t, behind, "observe", "")
					direct = alike(t, on, name, alone, say(t, alone.url, with, conversation), alone.url)
					through = alike(t, on, name, behind, say(t, w.agentURL("documents"), with, conversation), w.agentURL("documents"))
					if !direct.raced() && !through.raced() {
						break
					}
				}
				if diff := cmp.Diff(direct, through); diff != "" {
					t.Errorf("directly (-) and through the gateway (+):\n%s", diff)
				}
				for _, r := range behind.got() {
					if r.header.Get("Powerbox-Context") == "" {
						t.Errorf("a request went past the gateway: %s", r.body)
					}
				}
				if len(direct.Bodies) < len(conversation)-2 {
					t.Errorf("the agent received %d requests: %q", len(direct.Bodies), direct.Printed)
				}
			})
		}
	})
}
