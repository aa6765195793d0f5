package main

import (
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"path"
	"strings"

	v03 "github.com/a2aproject/a2a-go/a2apb"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

//go:embed corpus
var corpusFiles embed.FS

// seedFile is one file of the corpus: a method and its parameters, as one version
// of one protocol has them.
type seedFile struct {
	name   string // with its folder
	form   string // the folder: 1.0, 0.3, 0.3-proto or mcp
	method string
	root   *node // of the parameters
	narrow bool
}

// bindings are all that there are.
var bindings = []string{"jsonrpc/go", "jsonrpc/js", "rest/go", "rest/js", "grpc/go", "grpc/js", "mcp/go", "mcp/js"}

// corpusOf reads the files that a binding can carry.
func corpusOf(binding string) ([]seedFile, error) {
	kind, _, _ := strings.Cut(binding, "/")
	forms := map[string][]string{"jsonrpc": {"1.0", "0.3"}, "rest": {"1.0", "0.3-proto"}, "grpc": {"1.0", "0.3-proto"}, "mcp": {"mcp"}}[kind]
	var out []seedFile
	for _, form := range forms {
		entries, err := corpusFiles.ReadDir("corpus/" + form)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			text, err := corpusFiles.ReadFile("corpus/" + form + "/" + e.Name())
			if err != nil {
				return nil, err
			}
			var file struct {
				Method string
				Params json.RawMessage
			}
			if err := json.Unmarshal(text, &file); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
			root, err := parseNode(file.Params)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
			out = append(out, seedFile{path.Join(form, e.Name()), form, file.Method, root, strings.HasPrefix(e.Name(), "narrow")})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no binding %q; there are %s", binding, strings.Join(bindings, ", "))
	}
	return out, nil
}

// newGenerator makes the cases of a binding.
func newGenerator(binding string) (*generator, error) {
	corpus, err := corpusOf(binding)
	return &generator{binding: binding, corpus: corpus}, err
}

// make returns the case of that number: a function of seed, binding and number.
func (g *generator) make(seed uint64, number int) *request {
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.binding))
	_ = binary.Write(h, binary.LittleEndian, int64(number))
	g.rng = rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // repeatable is what it must be
	g.spell = spelling{rng: g.rng}
	file := one(g, g.corpus)
	r := &request{Binding: g.binding, Seed: file.name, Number: number, Narrow: file.narrow, Method: "POST"}
	root := file.root.clone()
	switch strings.SplitN(g.binding, "/", 2)[0] {
	case "grpc":
		g.makeGRPC(r, file, root)
	case "rest":
		g.makeREST(r, file, root)
	case "mcp":
		g.makeMCP(r, file, root)
	default:
		g.makeRPC(r, file, root)
	}
	return r
}

// mutate changes a tree once, or a few times, and returns the family.
func (g *generator) mutate(n *node) string {
	if g.rng.IntN(5) == 0 {
		for range 2 + g.rng.IntN(3) {
			one(g, mutations).change(g, n)
		}
		return "several"
	}
	m := one(g, mutations)
	m.change(g, n)
	return m.family
}

func (g *generator) common(r *request, version string) {
	r.Header = [][2]string{{"Authorization", "Bearer $MAIN"}, {"Content-Type", "application/json"}}
	if version != "" {
		r.Header = append(r.Header, [2]string{"A2A-Version", version})
	}
}

func (g *generator) makeRPC(r *request, file seedFile, params *node) {
	r.Target = "/agents/" + r.agent()
	g.common(r, map[string]string{"1.0": "1.0", "0.3": one(g, []string{"", "0.3"})}[file.form])
	root := envelope(file.method, params)
	if g.rng.IntN(8) == 0 {
		r.Family = g.aroundHTTP(r)
		r.Body = root.text(g.spell)
		return
	}
	// Now and then something around the parameters is changed, too.
	r.Family = g.mutate(one(g, []*node{root, params, params}))
	g.write(r, root)
}

// envelope is a request of JSON-RPC.
func envelope(method string, params *node) *node {
	return &node{kind: '{', members: []member{{`"jsonrpc"`, &node{raw: `"2.0"`}}, {`"id"`, &node{raw: `1`}}, {`"method"`, &node{raw: quote(method)}}, {`"params"`, params}}}
}

// write makes the body, and now and then puts something around it.
func (g *generator) write(r *request, root *node) {
	r.Body = root.text(g.spell)
	if g.rng.IntN(25) != 0 {
		return
	}
	r.Family = "framing"
	other := envelope("SendMessage", mustNode(`{"message":`+one(g, messageValues)+`,"metadata":`+wideMembers+`}`)).text(spelling{})
	switch g.rng.IntN(8) {
	case 0:
		r.Body = append([]byte("\ufeff"), r.Body...)
	case 1:
		r.Body = append([]byte(one(g, []string{" ", "\n", "\x00", "//x\n", "/**/", "\x0b", "\u00a0"})), r.Body...)
	case 2:
		r.Body = append(r.Body, []byte(one(g, []string{"\x00", " ", "//x", "]", "}", ",", "null"}))...)
	case 3:
		r.Body = append(append(r.Body, '\n'), other...)
	case 4:
		r.Body = append(append(append(append([]byte{'['}, r.Body...), ','), other...), ']')
	case 5:
		r.Body = append(append([]byte{'['}, r.Body...), ']')
	case 6:
		r.Body = r.Body[:g.rng.IntN(len(r.Body))]
	default:
		at := g.rng.IntN(len(r.Body))
		r.Body[at] = byte(g.rng.IntN(256))
	}
}

func (g *generator) makeREST(r *request, file seedFile, params *node) {
	version, prefix := "1.0", ""
	if file.form != "1.0" {
		version, prefix = "0.3", "/v1"
	}
	base := "/agents/" + r.agent() + prefix
	g.common(r, version)
	id := func() string {
		for _, name := range []string{"id", "name"} {
			if v := params.get(name); v != nil {
				return url.PathEscape(strings.TrimPrefix(unquoted(v.raw), "tasks/"))
			}
		}
		return ownTask
	}
	tenant := ""
	if v := params.get("tenant"); v != nil && file.method == "SendMessage" && g.rng.IntN(2) == 0 {
		tenant = "/" + unquoted(v.raw)
	}
	switch file.method {
	case "SendMessage":
		r.Target = base + tenant + "/message:send"
		if g.rng.IntN(4) == 0 {
			break
		}
		r.Family = g.mutate(params)
		g.write(r, params)
		return
	case "GetTask":
		r.Method, r.Target = "GET", base+"/tasks/"+id()
	case "ListTasks":
		r.Method, r.Target = "GET", base+"/tasks?contextId="+ownContext
	default:
		r.Target = base + "/tasks/" + id() + ":cancel"
		r.Body = []byte(`{}`)
	}
	if file.method == "SendMessage" {
		r.Body = params.text(g.spell)
	}
	r.Family = g.aroundHTTP(r)
}

func (g *generator) makeMCP(r *request, file seedFile, params *node) {
	capability := wideCapability
	if file.narrow {
		capability = narrowCapability
	}
	r.Target = "/agents/" + r.agent()
	r.Header = [][2]string{
		{"Authorization", "Bearer $MAIN"},
		{"Content-Type", "application/json"},
		{"Accept", "application/json, text/event-stream"},
		{"MCP-Protocol-Version", one(g, []string{"2025-11-25", "2025-11-25", "2025-06-18"})},
		{"Powerbox-Capability", capability},
	}
	root := envelope(file.method, params)
	if g.rng.IntN(8) == 0 {
		r.Family = g.aroundHTTP(r)
		r.Body = root.text(g.spell)
		return
	}
	r.Family = g.mutate(one(g, []*node{root, params}))
	g.write(r, root)
}

// inputs are the messages of the methods, by version and method.
func input(form, method string) proto.Message {
	if form == "1.0" {
		return map[string]proto.Message{"SendMessage": &v1.SendMessageRequest{}, "GetTask": &v1.GetTaskRequest{}, "ListTasks": &v1.ListTasksRequest{}, "CancelTask": &v1.CancelTaskRequest{}}[method]
	}
	return map[string]proto.Message{"SendMessage": &v03.SendMessageRequest{}, "GetTask": &v03.GetTaskRequest{}}[method]
}

func (g *generator) makeGRPC(r *request, file seedFile, params *node) {
	service := "/lf.a2a.v1.A2AService/"
	r.Header = [][2]string{{"Authorization", "Bearer $MAIN"}, {"Content-Type", "application/grpc"}, {"Te", "trailers"}}
	if file.form == "1.0" {
		r.Header = append(r.Header, [2]string{"A2a-Version", "1.0"})
	} else {
		service = "/a2a.v1.A2AService/"
	}
	r.Target = service + file.method
	m := input(file.form, file.method)
	families := "json"
	if g.rng.IntN(4) > 0 {
		families = "wire"
	} else {
		r.Family = g.mutate(params)
	}
	if err := readJSON.Unmarshal(params.text(spelling{}), m); err != nil { // what JSON alone can say is not in protobuf
		proto.Reset(m)
		_ = readJSON.Unmarshal(file.root.text(spelling{}), m)
		families = "wire"
	}
	raw, _ := steady.Marshal(m)
	if families == "wire" {
		raw, r.Family = g.mutateWire(raw, m.ProtoReflect().Descriptor())
	}
	r.Body = g.framed(r, raw)
}

// framed puts the frame of gRPC around a message.
func (g *generator) framed(r *request, raw []byte) []byte {
	frame := func(flag byte, m []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(m))), m...)
	}
	if g.rng.IntN(60) != 0 {
		return frame(0, raw)
	}
	r.Family = "wire: frame"
	switch g.rng.IntN(4) {
	case 0:
		return append(frame(0, raw), frame(0, raw)...)
	case 1:
		return append(frame(0, raw), 0)
	case 2:
		return frame(1, raw)
	default:
		return frame(0, raw)[:5+g.rng.IntN(len(raw)+1)]
	}
}

// readJSON takes of JSON what there are fields for.
var readJSON = protojson.UnmarshalOptions{DiscardUnknown: true}

// steady writes the entries of a map in one order, so that a case is always the same.
var steady = proto.MarshalOptions{Deterministic: true}
