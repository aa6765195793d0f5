package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// past sends bytes to a server past the gateway, as one would forward them that
// decides on its own reading, and returns what the handler saw.
func past(t *testing.T, town *town, url, contentType, version string, body []byte) seen {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	says := base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"` + agentJS + `","decision":"rec_1"}`))
	r.Header = http.Header{"Content-Type": {contentType}, "Powerbox-Context": {"e30." + says + ".e30"}, "Te": {"trailers"}}
	if version != "" {
		r.Header.Set("A2A-Version", version)
	}
	protocols := new(http.Protocols)
	if protocols.SetHTTP1(true); contentType == "application/grpc" {
		protocols.SetHTTP1(false)
		protocols.SetUnencryptedHTTP2(true)
	}
	res, err := (&http.Client{Transport: &http.Transport{Protocols: protocols, DisableKeepAlives: contentType != "application/grpc"}, Timeout: callTime}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a, err := read(res)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-town.seen:
		return s
	case <-time.After(callTime):
		t.Fatalf("no handler was reached: %d %s", a.status, a.body)
		return seen{}
	}
}

// decided returns the record of a call of a skill.
func decided(attempt, arguments string) record {
	var r record
	r.Decision, r.Intent.Operation, r.Details.Attempt = "ALLOW", agentJS+"/data:use/export", attempt
	if arguments != "" {
		r.Details.Arguments = json.RawMessage(arguments)
	}
	return r
}

func verdict(t *testing.T, s seen, r record) []string {
	t.Helper()
	c, err := parseContext(s.Contexts)
	if err != nil {
		t.Fatal(err)
	}
	return judge(s, c, r, func(string) bool { return false })
}

// serversInJavaScript are those on @a2a-js/sdk alone, with their two addresses.
func serversInJavaScript(t *testing.T) (w *town, web, rpc string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("the tests need node: install Node.js 20 or newer")
	}
	w = &town{seen: make(chan seen, 16)}
	t.Cleanup(w.close)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	web, rpc = address(t), address(t)
	if err := w.node(ctx, "a2a", web, rpc); err != nil {
		t.Fatal(err)
	}
	return w, "http://" + web, "http://" + rpc
}

const narrowArguments = `{"collection":"public","dry_run":true}`

func exportCall(arguments string) *v1.Part {
	var m v1.Message
	if err := protojson.Unmarshal([]byte(`{"parts":[{"data":{"skill":"export","arguments":`+arguments+`}}]}`), &m); err != nil {
		panic(err)
	}
	return m.GetParts()[0]
}

// TestHarnessReportsRepeatedFields reintroduces a defect that was found over gRPC:
// a field that occurs twice is merged by the reader that decides, and its last copy
// alone is executed by an agent on ts-proto.
func TestHarnessReportsRepeatedFields(t *testing.T) {
	w, _, url := serversInJavaScript(t)
	message := func(parts ...[]byte) []byte {
		m, err := proto.Marshal(&v1.Message{MessageId: "m", Role: v1.Role_ROLE_USER})
		if err != nil {
			t.Fatal(err)
		}
		var part []byte
		for _, p := range parts {
			part = append(part, p...)
		}
		m = protowire.AppendBytes(protowire.AppendTag(m, 5, protowire.BytesType), part)
		request := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), m)
		return append([]byte{0, 0, 0, byte(len(request) >> 8), byte(len(request))}, request...)
	}
	wire := func(p *v1.Part) []byte {
		raw, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	whole := wire(exportCall(narrowArguments))
	call := func(body []byte) []string {
		s := past(t, w, url+"/lf.a2a.v1.A2AService/SendMessage", "application/grpc", "1.0", body)
		return verdict(t, s, decided("invocation", narrowArguments))
	}
	if wrong := call(message(whole)); len(wrong) != 0 {
		t.Errorf("a plain call differs: %q", wrong)
	}
	// The second copy has one of the two arguments.
	wrong := call(message(whole, wire(exportCall(`{"dry_run":true}`))))
	if len(wrong) == 0 || !strings.Contains(fmt.Sprint(wrong), "arguments") {
		t.Errorf("a repeated field: %q; want a difference in the arguments", wrong)
	}
}

// TestHarnessReportsCompatibilityForms reintroduces a defect that was found in
// version 0.3: data that the SDK unwraps is a call to the agent and free text to the
// reader that decides.
func TestHarnessReportsCompatibilityForms(t *testing.T) {
	w, url, _ := serversInJavaScript(t)
	body := func(data string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[` + data + `]}}}`)
	}
	for name, of := range map[string]struct {
		part     string
		record   record
		mustFind string
	}{
		"a plain call": {`{"kind":"data","data":{"skill":"export","arguments":` + narrowArguments + `}}`, decided("invocation", narrowArguments), ""},
		"words":        {`{"kind":"text","text":"export"}`, decided("admission", ""), ""},
		"a wrapped call": {
			`{"kind":"data","data":{"value":{"skill":"export","arguments":{}}},"metadata":{"data_part_compat":true}}`, decided("admission", ""), "saw a call",
		},
		"other arguments":     {`{"kind":"data","data":{"skill":"export","arguments":{"collection":"secret"}}}`, decided("invocation", narrowArguments), "arguments"},
		"a call beside words": {`{"kind":"data","data":{"skill":"export","arguments":` + narrowArguments + `}},{"kind":"text","text":"x"}`, decided("admission", ""), "saw a call"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := fmt.Sprint(verdict(t, past(t, w, url+"/rpc", "application/json", "", body(of.part)), of.record))
			if (wrong == "[]") != (of.mustFind == "") || !strings.Contains(wrong, of.mustFind) {
				t.Errorf("differences %s; want %q", wrong, of.mustFind)
			}
		})
	}
}
