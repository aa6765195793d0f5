package a2a

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The decision is about the one thing that is named.
func TestSEP10_Naming(t *testing.T) {
	type namingCase struct {
		Name, URL, Want, Error string
		Metadata               json.RawMessage
		Params                 map[string]json.RawMessage
	}
	for _, c := range cases[namingCase](t, "naming.json") {
		t.Run(c.Name, func(t *testing.T) {
			if c.Metadata != nil {
				c.Params["metadata"] = json.RawMessage(`{"` + ExtensionURI + `":` + string(c.Metadata) + `}`)
			}
			body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": c.Params})
			call, derr := Decode(body, Header{Version: "1.0"}, testLimits)
			if derr != nil {
				t.Fatal(derr)
			}
			named, found, err := call.Naming(c.URL)
			got := "none"
			if found {
				got = named.Where + ": " + named.Skill + named.Arguments.String()
			}
			if err != nil {
				if diff := cmp.Diff(c.Error, err.Error()); diff != "" || err.Reason != ReasonSkill || found {
					t.Errorf("error %s, found %v (-want +got):\n%s", err.Reason, found, diff)
				}
				return
			}
			if c.Error != "" || c.Want != got {
				t.Errorf("got %q; want %q, error %q", got, c.Want, c.Error)
			}
		})
	}
}

func TestLearn(t *testing.T) {
	type learnCase struct {
		Name, Text string
		Response   json.RawMessage
		Want       []string
	}
	for _, c := range cases[learnCase](t, "learn.json") {
		t.Run(c.Name, func(t *testing.T) {
			if c.Text != "" {
				c.Response = json.RawMessage(c.Text)
			}
			var got []string
			for _, ref := range Learn(c.Response) {
				got = append(got, ref.Task+" "+ref.Context)
			}
			if diff := cmp.Diff(c.Want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

type filterCase struct{ Name, Response, Want, Error string }

func TestFilterTasks(t *testing.T) {
	for _, c := range cases[filterCase](t, "filter.json") {
		t.Run(c.Name, func(t *testing.T) {
			got, err := FilterTasks([]byte(c.Response), func(r TaskRef) bool { return strings.HasPrefix(r.Task, "mine") })
			if err != nil {
				if c.Error == "" || !strings.HasPrefix(err.Error(), c.Error) || got != nil {
					t.Errorf("error %q and %q; want %q", err, got, c.Error)
				}
				return
			}
			if diff := cmp.Diff(c.Want, string(got)); diff != "" || c.Error != "" {
				t.Errorf("want error %q (-want +got):\n%s", c.Error, diff)
			}
		})
	}
}

func TestComposeTask(t *testing.T) {
	type composeCase struct {
		Name, Version, Want, Error string
		Message                    json.RawMessage
	}
	for _, c := range cases[composeCase](t, "compose.json") {
		t.Run(c.Name, func(t *testing.T) {
			got, err := ComposeTask(TaskSendParams{Message: value(t, c.Message)}, []byte("5"), c.Version, "m1")
			if err != nil {
				if diff := cmp.Diff(c.Error, err.Error()); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				return
			}
			method := map[string]string{"1.0": "SendMessage", "0.3": "message/send"}[c.Version]
			want := `{"jsonrpc":"2.0","id":5,"method":"` + method + `","params":{"message":` + c.Want + `}}`
			if diff := cmp.Diff(want, string(got)); diff != "" || c.Error != "" {
				t.Errorf("want error %q (-want +got):\n%s", c.Error, diff)
			}
			if _, err := Decode(got, Header{Version: c.Version}, testLimits); err != nil {
				t.Errorf("what is composed is refused: %v", err)
			}
		})
	}
}

// The arguments that were decided on are those that are sent.
func TestATK22_Compose(t *testing.T) {
	p := InvokeParams{Skill: `re"ad`, Arguments: value(t, []byte(`{ "n" : 9007199254740993, "f" : 1.0 }`))}
	for version, want := range map[string]string{
		Version1:  `{"jsonrpc":"2.0","id":"x","method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"data":{"skill":"re\"ad","arguments":{"f":1.0,"n":9007199254740993}}}]}}}`,
		Version03: `{"jsonrpc":"2.0","id":"x","method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"data","data":{"skill":"re\"ad","arguments":{"f":1.0,"n":9007199254740993}}}]}}}`,
	} {
		got := Compose(p, []byte(`"x"`), version, "m1")
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		call, err := Decode(got, Header{Version: version}, testLimits)
		if err != nil {
			t.Fatal(err)
		}
		if named, found, err := call.Naming(p.Skill); !found || err != nil || named.Arguments.String() != `{"f":1,"n":9007199254740993}` || call.Message.Loose {
			t.Errorf("%s reads back as %v, %v, %v, loose %v", version, named, found, err, call.Message.Loose)
		}
	}
}

func TestDenial(t *testing.T) {
	type denialCase struct {
		Name   string
		Denial Denial
		Want   string
	}
	for _, c := range cases[denialCase](t, "denial.json") {
		t.Run(c.Name, func(t *testing.T) {
			if diff := cmp.Diff(c.Want, string(c.Denial.JSONRPC([]byte("1")))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := fmt.Sprintf("data: %s\n\n", c.Want); want != string(c.Denial.Event(JSONRPC, []byte("1"))) {
				t.Errorf("event is %q", c.Denial.Event(JSONRPC, []byte("1")))
			}
		})
	}
}

// A2A 1.0 section 5.4: what the protocol itself calls an error has its own
// code, and a call whose id is unknown is answered with null.
func TestProtocolErrors(t *testing.T) {
	_, err := Decode([]byte(`{"jsonrpc":`), Header{}, testLimits)
	if got := string(err.Denial().JSONRPC(nil)); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`) {
		t.Errorf("parse error: %s", got)
	}
	got := string(MethodNotFound(JSONRPC, "acme/ping").Denial().JSONRPC([]byte("1")))
	if !strings.Contains(got, `"code":-32601,"message":"method \"acme/ping\" is not known here`) || !strings.Contains(got, `"reason":"METHOD_NOT_FOUND"`) {
		t.Errorf("unknown method: %s", got)
	}
	limits := testLimits
	limits.Bytes = 10
	if _, err := Decode([]byte(`{"jsonrpc":"2.0"}`), Header{}, limits); err == nil || err.Reason != ReasonTooLarge || err.Code != CodeInvalidRequest {
		t.Errorf("too large: %v", err)
	}
	if call, err := Decode([]byte(`{"jsonrpc":"2.0","id":"keep","method":"GetTask","params":{}}`), Header{}, testLimits); err == nil || string(call.ID) != `"keep"` {
		t.Errorf("a refused call keeps its id, got %q, %v", call.ID, err)
	}
}

func TestComposeKeepsTenant(t *testing.T) {
	body := `{"jsonrpc":"2.0","id":1,"method":"a2a/skill/invoke","params":{"tenant":"acme","skill":"a"}}`
	call, err := Decode([]byte(body), Header{}, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(Compose(*call.Invoke, call.ID, Version1, "m"), Header{Version: "1.0"}, testLimits)
	if err != nil || again.Tenant != "acme" {
		t.Errorf("tenant %q, %v; want acme", again.Tenant, err)
	}
}

func TestMethodNames(t *testing.T) {
	for m := SendMessage; m <= TaskSend; m++ {
		if got, v03 := ParseMethod(m.String()); got != m || v03 {
			t.Errorf("%s parses to %s, 0.3 %v", m, got, v03)
		}
		if wire := methodNames[m].v03; wire != "" {
			if got, v03 := ParseMethod(wire); got != m || !v03 {
				t.Errorf("%s parses to %s, 0.3 %v", wire, got, v03)
			}
		}
	}
	for _, wire := range []string{"", "Unknown", "getTask", "tasks/send"} {
		if got, _ := ParseMethod(wire); got != Unknown {
			t.Errorf("%q parses to %s", wire, got)
		}
	}
	if Method(200).String() != "Unknown" || Unknown.IsExtension() || Unknown.IsMessage() || Unknown.NamesTask() {
		t.Error("a method of no table has properties")
	}
}

// The answer to an unknown method names the protocol that the target speaks.
func TestMethodNotFoundNamesTheProtocol(t *testing.T) {
	for by, want := range map[Binding]string{JSONRPC: "A2A 1.0, of A2A 0.3", MCP: "MCP, which this server speaks"} {
		e := MethodNotFound(by, "SendMessage")
		if !strings.Contains(e.Message, want) || !IsMistake(e.Reason) {
			t.Errorf("%s: %s, a mistake: %t; want %q", by, e.Message, IsMistake(e.Reason), want)
		}
	}
	if IsMistake("operation_not_granted") {
		t.Error("a denial is no mistake in the call")
	}
}
