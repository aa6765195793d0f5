package e2e

import (
	"compress/gzip"
	be "encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/token"
)

// signed are the headers of a call with a chain, proven for exactly these
// parts: the HTTP method, the URL and the bytes.
func (c *caller) signed(held granted, operation string, args map[string]any, method, url string, body []byte) http.Header {
	c.w.t.Helper()
	p := token.Request{Method: method, URL: url, Digest: token.DigestOf(body)}
	return c.w.proofHeader(c, held, operation, args, p)
}

// TestATK22_BytesOfEveryBinding compares the sent bytes with those that arrive, in forms
// that no library writes. The proof is for the bytes that were sent. The agent gets the
// message that the gateway writes from what it decided on.
func TestATK22_BytesOfEveryBinding(t *testing.T) {
	w := start(t, options{on: wire{overGRPC, "1.0"}})
	alice := w.caller(aliceToken)
	held := alice.reports()
	args := map[string]any{"query": "ä/\"", "n": 1.5}
	body := "  {\r\n\t\"x-unknown\":{\"y\":[null,1.0,123456789012345678901234567890]}, \"message\" :{\"role\":\"ROLE_USER\", \"messageId\":\"m\",\n" +
		"\"parts\":[{\"data\":{\"arguments\":{\"n\":1.50,\"query\":\"\\u00e4\\/\\u0022\"},\"skill\":\"search_documents\"}}]} } \n"
	const written = `{"message":{"messageId":"m","parts":[{"data":{"arguments":{"n":1.50,"query":"ä/\""},"skill":"search_documents"}}],"role":"ROLE_USER"}}`
	url := w.agentURL("documents") + "/message:send"
	h := alice.signed(held, opSearch, args, http.MethodPost, url, []byte(body))
	h.Set("Content-Type", "application/a2a+json; charset=utf-8")
	h.Set("A2A-Version", "1.0")
	status, _, _, out := w.raw(http.DefaultClient, http.MethodPost, url, h, body)
	if got := w.documents.got(); status != http.StatusOK || len(got) != 1 || string(got[0].body) != written || got[0].header.Get("Content-Type") != "application/a2a+json" {
		t.Errorf("ATK-22 HTTP+JSON: %d %s\narrived %q", status, out, got)
	}
	w.documents.forget()

	// A message whose fields are in no order, with one field twice, or with one that is in
	// no definition: the agent gets each known field once, with the last of its values.
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(&v1.Message{MessageId: "m", Role: v1.Role_ROLE_USER, Parts: []*v1.Part{dataPart(t, "search_documents", args)}})
	if err != nil {
		t.Fatal(err)
	}
	role := (&v1.Message{}).ProtoReflect().Descriptor().Fields().ByName("role").Number()
	request := func(inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), inner)
	}
	for name, more := range map[string][]byte{
		"a field once more":            protowire.AppendVarint(protowire.AppendTag(nil, role, protowire.VarintType), uint64(v1.Role_ROLE_AGENT)),
		"a field that nobody can read": protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), "delete_document"),
	} {
		raw := request(append(slices.Clone(more), message...))
		a := w.grpcRaw(alice, held, opSearch, args, "/lf.a2a.v1.A2AService/SendMessage", raw)
		if got := w.documents.got(); a.Error != nil || len(got) != 1 || string(got[0].body) != string(frame(request(message))) {
			t.Errorf("ATK-22 gRPC, %s: %s\narrived %q", name, a.Raw, got)
		}
		w.documents.forget()
	}
}

func frame(message []byte) []byte {
	return append(be.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func dataPart(t *testing.T, skill string, args map[string]any) *v1.Part {
	t.Helper()
	var m v1.SendMessageRequest
	raw, _ := json.Marshal(map[string]any{"message": map[string]any{"parts": []any{skillPart(skill, args)}}})
	if err := unmarshalJSON(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m.Message.Parts[0]
}

// grpcRaw sends one message as it is, with a proof for it.
func (w *town) grpcRaw(c *caller, held granted, operation string, args map[string]any, path string, message []byte) answer {
	w.t.Helper()
	r := request{method: http.MethodPost, url: w.agentURL("documents") + path, dial: "http://" + w.grpc["documents"] + path, body: message, core: "SendMessage"}
	return w.deliver(r, c.signed(held, operation, args, r.method, r.url, message))
}

// TestATK29_PathsOfHTTP tries paths and queries that servers read in several
// ways, and methods and types that are none: whatever is not read as the agent
// would read it does not get there.
func TestATK29_PathsOfHTTP(t *testing.T) {
	w := start(t, options{on: wire{overREST, "1.0"}})
	alice := w.caller(aliceToken)
	held := alice.reports()
	search := `{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"data":{"skill":"search_documents","arguments":{}}}]}}`
	remove := strings.Replace(search, "search_documents", "delete_document", 1)
	for _, c := range []struct{ name, method, path, body, kind, want string }{
		{"another skill than the proof is for", "POST", "/message:send", remove, "", "proof_operation"},
		{"an encoded colon", "POST", "/message%3Asend", remove, "", "proof_operation"},
		{"an encoded letter", "POST", "/%6dessage:send", remove, "", "proof_operation"},
		{"a tenant", "POST", "/acme/message:send", remove, "", "proof_operation"},
		{"another case", "POST", "/Message:send", remove, "", "method_unknown"},
		{"a verb of another case", "POST", "/message:Send", remove, "", "method_unknown"},
		{"a slash behind", "POST", "/message:send/", remove, "", "path"},
		{"an encoded slash", "POST", "/x%2Fmessage:send", remove, "", "path"},
		{"an encoded backslash", "POST", "/x%5Cmessage:send", remove, "", "path"},
		{"a parameter of a segment", "POST", "/message:send;x=1", remove, "", "path"},
		{"encoded twice", "POST", "/message%253Asend", remove, "", "path"},
		{"encoded dots", "POST", "/x/%2e%2e/message:send", remove, "", "path"},
		{"a line feed", "POST", "/message:send%0a", remove, "", "path"},
		{"two tenants", "POST", "/a/b/message:send", remove, "", "method_unknown"},
		{"0.3 where 1.0 is spoken", "POST", "/v1/v1/message:send", remove, "", "method_unknown"},
		{"GET", "GET", "/message:send", "", "", "method_unknown"},
		{"a query that names another version", "POST", "/message:send?a2a-version=0.3", search, "", "member_ambiguous"},
		{"two versions", "POST", "/message:send?A2A-Version=1.0&A2A-Version=0.3", search, "", "version_not_supported"},
		{"another version than the header's", "POST", "/message:send?A2A-Version=0.3", search, "", "version_not_supported"},
		{"a query beside a body", "POST", "/message:send?tenant=other", search, "", "query"},
		{"a task in the query", "GET", "/tasks/t1?id=t2", "", "", "task_ambiguous"},
		{"a task in the body", "POST", "/tasks/t1:cancel", `{"id":"t2"}`, "", "task_ambiguous"},
		{"a tenant in the body", "POST", "/acme/message:send", strings.Replace(search, "{", `{"tenant":"other",`, 1), "", "task_ambiguous"},
		{"a body of a GET", "GET", "/tasks/t1", `{"id":"t2"}`, "", "envelope"},
		{"a body of a DELETE", "DELETE", "/tasks/t1/pushNotificationConfigs/c", `{"id":"t2"}`, "", "envelope"},
		{"no body", "POST", "/message:send", "", "", "syntax"},
		{"an array", "POST", "/message:send", "[" + search + "]", "", "envelope"},
		{"two bodies", "POST", "/message:send", search + search, "", "syntax"},
		{"a name twice", "POST", "/message:send", strings.Replace(remove, `"message"`, `"message":{},"message"`, 1), "", "syntax"},
		{"a name in another case", "POST", "/message:send", strings.Replace(search, `{"message"`, `{"Message":{},"message"`, 1), "", "member_ambiguous"},
		{"a name in snake case beside its own", "POST", "/message:send", strings.Replace(search, `"messageId"`, `"message_id":"m","messageId"`, 1), "", "member_ambiguous"},
		{"the name of the field and of its JSON", "POST", "/message:send", strings.Replace(search, `{"message"`, `{"request":{"parts":[]},"message"`, 1), "", "member_ambiguous"},
		{"a form", "POST", "/message:send", search, "application/x-www-form-urlencoded", "415"},
		{"text", "POST", "/message:send", search, "text/plain", "415"},
		{"another charset", "POST", "/message:send", search, "application/json; charset=utf-16", "415"},
		{"protobuf", "POST", "/message:send", search, "application/grpc", "415"},
	} {
		t.Run("ATK-29 "+c.name, func(t *testing.T) {
			url := w.agentURL("documents") + c.path
			h := alice.signed(held, opSearch, map[string]any{}, c.method, url, []byte(c.body))
			h.Set("A2A-Version", "1.0")
			if c.kind == "" {
				c.kind = "application/json"
			}
			h.Set("Content-Type", c.kind)
			status, header, _, out := w.raw(http.DefaultClient, c.method, url, h, c.body)
			a := answer{Status: status, Header: header, Raw: []byte(out)}
			a.fromREST()
			got := a.reason()
			if got == "" {
				got = fmt.Sprint(status)
			}
			if got != c.want {
				t.Errorf("%s; want %s\n%s", got, c.want, out)
			}
			if status < 400 || len(w.documents.got()) > 0 {
				t.Errorf("%d, and %d calls reached the agent", status, len(w.documents.got()))
				w.documents.forget()
			}
		})
	}
}

// TestATK29_GRPCThatIsNone tries frames, types and paths that are not one
// message of a service that is known.
func TestATK29_GRPCThatIsNone(t *testing.T) {
	w := start(t, options{on: wire{overGRPC, "1.0"}})
	alice := w.caller(aliceToken)
	held := alice.reports()
	message, err := proto.Marshal(&v1.SendMessageRequest{Message: &v1.Message{MessageId: "m", Role: v1.Role_ROLE_USER, Parts: []*v1.Part{dataPart(t, "search_documents", map[string]any{})}}})
	if err != nil {
		t.Fatal(err)
	}
	var zipped strings.Builder
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(message)
	_ = z.Close()
	packed := frame([]byte(zipped.String()))
	packed[0] = 1
	const send = "/lf.a2a.v1.A2AService/SendMessage"
	for _, c := range []struct {
		name, path, kind string
		body             []byte
		header           map[string]string
		want             string // grpc-status, or the status of HTTP
		says             string // within its message
	}{
		{"a compressed message (ATK-30)", send, "", packed, map[string]string{"Grpc-Encoding": "gzip"}, "3", "compressed"},
		{"two messages (ATK-28)", send, "", append(frame(message), frame(message)...), nil, "3", "one whole message"},
		{"half a message", send, "", frame(message)[:len(message)/2], nil, "3", ""},
		{"no message", send, "", nil, nil, "3", ""},
		{"a length beyond the body", send, "", append([]byte{0, 255, 255, 255, 255}, message...), nil, "3", ""},
		{"what is no protobuf", send, "", frame([]byte("\xff\xff\xff")), nil, "3", ""},
		{"a method that is none", "/lf.a2a.v1.A2AService/sendMessage", "", frame(message), nil, "12", ""},
		{"a service that is none", "/lf.a2a.v2.A2AService/SendMessage", "", frame(message), nil, "12", ""},
		{"reflection", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "", frame(message), nil, "12", ""},
		{"a path of JSON-RPC", "/agents/documents", "", frame(message), nil, "12", ""},
		{"the version of another service", send, "", frame(message), map[string]string{"A2a-Version": "0.3"}, "9", ""},
		{"JSON", send, "application/grpc+json", frame([]byte(`{}`)), nil, "415", ""},
		{"gRPC of browsers", send, "application/grpc-web+proto", frame(message), nil, "415", ""},
		{"plain JSON", send, "application/json", []byte(`{}`), nil, "415", ""},
	} {
		t.Run("ATK-29 "+c.name, func(t *testing.T) {
			h := alice.signed(held, opSearch, map[string]any{}, http.MethodPost, w.agentURL("documents")+c.path, message)
			h.Set("Te", "trailers")
			if c.kind == "" {
				c.kind = "application/grpc"
			}
			h.Set("Content-Type", c.kind)
			for name, v := range c.header {
				h.Set(name, v)
			}
			status, header, trailer, out := w.raw(h2, http.MethodPost, "http://"+w.grpc["documents"]+c.path, h, string(c.body))
			got := header.Get("Grpc-Status") + trailer.Get("Grpc-Status")
			if status != http.StatusOK {
				got = fmt.Sprint(status)
			}
			if got != c.want {
				t.Errorf("status %s; want %s\n%v %s", got, c.want, header, out)
			}
			if says := c.says; says != "" && !strings.Contains(header.Get("Grpc-Message"), says) {
				t.Errorf("it says %q; want that it is %s", header.Get("Grpc-Message"), says)
			}
			if n := len(w.documents.got()); n > 0 {
				t.Errorf("%d calls reached the agent", n)
				w.documents.forget()
			}
		})
	}
	// And by HTTP/1.1, over which it cannot come.
	if status, _, _, out := w.raw(http.DefaultClient, http.MethodPost, "http://"+w.grpc["documents"]+send, http.Header{"Content-Type": {"application/grpc"}}, string(frame(message))); status != http.StatusUnsupportedMediaType {
		t.Errorf("ATK-29 HTTP/1.1: %d %s", status, out)
	}
}

// TestATK29_VersionsThatTheAgentHasNot speaks 0.3 to an agent that has 1.0 alone,
// whose server does not look: it would read the call as another one.
func TestATK29_VersionsThatTheAgentHasNot(t *testing.T) {
	w := start(t, options{mode: "prefer"})
	agent := newStepwise(t, unhindered())
	w.again(func() { w.rewrite("powerbox.yaml", w.documents.url, agent.url) })
	alice := w.settled(aliceToken)
	for version, want := range map[string]string{"0.3": "version_not_supported", "1.0": "", "1.0.1": ""} {
		body := data("search_documents", map[string]any{})
		h := alice.headers(w.agentURL("documents"))
		h.Set("A2A-Version", version)
		a := w.post(w.agentURL("documents"), body, h)
		if a.reason() != want || want != "" && a.Error.Code != -32009 {
			t.Errorf("ATK-29 %s: %s", version, a.Raw)
		}
	}
	if n := len(agent.got()); n != 2 {
		t.Errorf("%d calls reached the agent; want 2", n)
	}
}
