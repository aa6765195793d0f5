package a2a

import "testing"

// TestEXT26_WithMetadata puts a receipt where metadata is, and leaves every other byte.
func TestEXT26_WithMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		binding     Binding
		given, want string
	}{
		"none yet":              {JSONRPC, `{"result": {"task": {"id":"t"}},"id":1}`, `{"result": {"task": {"metadata":{"n":7},"id":"t"}},"id":1}`},
		"an empty one":          {JSONRPC, `{"result":{"task":{"id":"t","metadata":{}}}}`, `{"result":{"task":{"id":"t","metadata":{"n":7}}}}`},
		"one that is null":      {JSONRPC, `{"result":{"task":{"id":"t","metadata":null}}}`, `{"result":{"task":{"id":"t","metadata":{"n":7}}}}`},
		"with others":           {JSONRPC, `{"result":{"task":{"id":"t","metadata":{ "a":1e2}}}}`, `{"result":{"task":{"id":"t","metadata":{"n":7, "a":1e2}}}}`},
		"the agent's own":       {JSONRPC, `{"result":{"task":{"id":"t","metadata":{"n":"forged","a":1}}}}`, `{"result":{"task":{"id":"t","metadata":{"n":7,"a":1}}}}`},
		"a message":             {JSONRPC, `{"result":{"message":{"messageId":"m"}}}`, `{"result":{"message":{"metadata":{"n":7},"messageId":"m"}}}`},
		"0.3":                   {JSONRPC, `{"result":{"kind":"task","id":"t"}}`, `{"result":{"metadata":{"n":7},"kind":"task","id":"t"}}`},
		"an update":             {JSONRPC, `{"result":{"statusUpdate":{"taskId":"t"}}}`, `{"result":{"statusUpdate":{"metadata":{"n":7},"taskId":"t"}}}`},
		"HTTP+JSON":             {HTTPJSON, `{"task":{"id":"t"}}`, `{"task":{"metadata":{"n":7},"id":"t"}}`},
		"HTTP+JSON, bare":       {HTTPJSON, `{"id":"t","status":{}}`, `{"metadata":{"n":7},"id":"t","status":{}}`},
		"a tool":                {MCP, `{"result":{"content":[]},"id":1}`, `{"result":{"_meta":{"n":7},"content":[]},"id":1}`},
		"a tool without result": {MCP, `{"result":{},"id":1}`, `{"result":{"_meta":{"n":7}},"id":1}`},
		"an error":              {JSONRPC, `{"error":{"code":1}}`, ""},
		"a result that is null": {JSONRPC, `{"result":null}`, ""},
		"a list of tasks":       {HTTPJSON, `{"tasks":[{"id":"t"}]}`, ""},
		"an empty answer":       {HTTPJSON, `{}`, ""},
	} {
		got, put, err := WithMetadata(c.binding, []byte(c.given), "n", []byte("7"))
		want := c.want
		if want == "" {
			want = c.given
		}
		if err != nil || string(got) != want || put != (c.want != "") {
			t.Errorf("EXT-26 %s: %s %t %v, want %s", name, got, put, err, want)
		}
	}
	for _, wrong := range []string{"", "[]", "{", `{"result":{},"result":{}}`} {
		if _, put, err := WithMetadata(JSONRPC, []byte(wrong), "n", []byte("7")); err == nil || put {
			t.Errorf("EXT-26 %q is an answer", wrong)
		}
	}
}

// TestEXT26_EndsStream knows the last event of a stream in both versions.
func TestEXT26_EndsStream(t *testing.T) {
	for event, want := range map[string]bool{
		`{"result":{"message":{"messageId":"m"}}}`:                                          true,
		`{"result":{"kind":"message","messageId":"m"}}`:                                     true,
		`{"result":{"kind":"status-update","final":true,"status":{"state":"working"}}}`:     true,
		`{"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_FAILED"}}}}`: true,
		`{"task":{"id":"t","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}`:                true,
		`{"result":{"kind":"task","id":"t","status":{"state":"auth-required"}}}`:            true,
		`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`:                       false,
		`{"result":{"kind":"status-update","final":false,"status":{"state":"working"}}}`:    false,
		`{"result":{"artifactUpdate":{"taskId":"t"}}}`:                                      false,
		`{"error":{"code":1}}`: false,
		`nothing`:              false,
	} {
		if got := EndsStream([]byte(event)); got != want {
			t.Errorf("EXT-26 %s ends a stream: %t", event, got)
		}
	}
}
