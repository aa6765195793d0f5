package mcp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

var limits = powerbox.Limits{Bytes: 1 << 20, Depth: 64}

func TestGATE9_Decode(t *testing.T) {
	for body, want := range map[string]Message{
		`{"jsonrpc":"2.0","id":"a","method":"ping"}`:                                                                {Kind: Request, Method: "ping", ID: []byte(`"a"`)},
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                                                    {Kind: Notification, Method: "notifications/initialized"},
		`{"jsonrpc":"2.0","id":7,"result":{}}`:                                                                      {Kind: Response, ID: []byte(`7`)},
		`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}`:                                                {Kind: Response, ID: []byte(`7`)},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1}}}`:          {Method: "tools/call", ID: []byte(`1`), Tool: "t", Subject: "t"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":null}}`:                     {Method: "tools/call", ID: []byte(`1`), Tool: "t", Subject: "t"},
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a","_meta":{"anything":true}}}`: {Method: "resources/read", ID: []byte(`1`), Subject: "file:///a"},
	} {
		got, wrong := Decode([]byte(body), limits)
		arguments := got.Arguments
		got.Arguments, got.sent, got.Dropped = powerbox.Value{}, powerbox.Value{}, nil
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(powerbox.Value{}, Message{})); wrong != nil || diff != "" {
			t.Errorf("%s: %v\n%s", body, wrong, diff)
		}
		if uri, _ := arguments.Get("uri"); got.Method == "resources/read" && (!uri.Equal(powerbox.String("file:///a")) || len(arguments.AppendJSON(nil)) != len(`{"uri":"file:///a"}`)) {
			t.Errorf("%s: arguments %s", body, arguments.AppendJSON(nil))
		}
	}
}

func TestATK27_DecodeRefuses(t *testing.T) {
	for _, body := range []string{
		``, `null`, `"ping"`, `[]`, `{}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1}`,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":""}`, `{"jsonrpc":"2.0","id":1,"method":7}`,
		`{"jsonrpc":"2.0","method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","id":1,"params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":[]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"URI":"file:///a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":{"path":"x","PATH":"y"}}}}`,
		// Arguments of prompts are strings: a reader in Go takes null for the empty one.
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":{"dry_run":null}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":{"n":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":[]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":null}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":null},"argument":{"name":"a","value":"v"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"},"context":{"arguments":{"b":null}}}}`,
	} {
		if m, wrong := Decode([]byte(body), limits); wrong == nil || wrong.Message == "" {
			t.Errorf("%s is taken for %+v", body, m)
		}
	}
	if _, wrong := Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), powerbox.Limits{Bytes: 8, Depth: 8}); wrong == nil {
		t.Error("a message beyond the limit is taken")
	}
}

// judged runs a stream through Events, with the data "cut" cut, "swap" replaced, and
// "fail" an error.
func judged(stream io.Reader) (out string, seen []string, err error) {
	e := NewEvents(io.NopCloser(stream), 64, func(data []byte) ([]byte, bool, error) {
		seen = append(seen, string(data))
		switch string(data) {
		case "cut":
			return nil, false, nil
		case "swap":
			return []byte("other"), true, nil
		case "1\n2":
			return []byte("[1,\n\n2]"), true, nil
		case "fail":
			return nil, false, errors.New("failed")
		}
		return nil, true, nil
	})
	all, err := io.ReadAll(e)
	return string(all), seen, err
}

func TestATK33_EventsAreJudgedWhole(t *testing.T) {
	for in, want := range map[string]string{
		"data: a\n\ndata: cut\n\nid: 1\ndata: swap\nevent: m\n\n:c\n\ndata: z\n\n": "data: a\n\nid: 1\ndata: other\nevent: m\n\n:c\n\ndata: z\n\n",
		"data: a\r\n\r\ndata:cut\r\n\r\n":                                          "data: a\r\n\r\n",
		"data: sw\ndata: ap\n\n":                                                   "data: sw\ndata: ap\n\n", // two lines are not one word
		"\uFEFFdata: cut\n\nid: 7\n\n":                                             "id: 7\n\n",
		"database: cut\n\n":                                                        "database: cut\n\n",
		"data: 1\nid: 3\ndata: 2\n\n":                                              "data: [1,  2]\nid: 3\n\n",
		"\uFEFFdata: swap\n\n":                                                     "data: other\n\n",
		"\uFEFFid: 7\n\n":                                                          "\uFEFFid: 7\n\n",
		"data: cut":                                                                "", // SDKs read an event that the stream ends in
		"data: a\n\ndata: swap":                                                    "data: a\n\ndata: other\n",
		"":                                                                         "",
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			if got, _, err := judged(r); got != want || err != nil {
				t.Errorf("%q became %q, %v; want %q", in, got, err, want)
			}
		}
	}
	for _, in := range []string{"data: a\rdata: cut\n\n", "data: fail\n\n", "data: {\n\uFEFFdata: \"result\":{\ndata: }\n\n", "\uFEFFdata: {\n\uFEFFdata: }\n\n", "data: " + strings.Repeat("x", 100) + "\n\n"} {
		if got, _, err := judged(strings.NewReader(in)); err == nil || got != "" {
			t.Errorf("%q became %q; want an error", in, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}`, `[]`, `{"jsonrpc":"2.0","id":7,"result":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, wrong := Decode(body, limits)
		if wrong != nil {
			return
		}
		if m.IsTool() && (m.Tool == "" || m.Arguments.Kind() != powerbox.KindObject) {
			t.Errorf("%q is a call of no tool: %+v", body, m)
		}
		if (m.Kind == Notification) != (m.ID == nil) {
			t.Errorf("%q: kind %d with id %s", body, m.Kind, m.ID)
		}
	})
}

// Whatever passes was seen, and nothing is added.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\ndata: cut\n\n", "id: 1\ndata: swap\n\n", ":\n\n", "data\n\n", "a\nJdata: cut\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		out, seen, err := judged(bytes.NewReader(stream))
		for event := range strings.SplitSeq(strings.ReplaceAll(out, "\r\n", "\n"), "\n\n") {
			var data []string
			for line := range strings.SplitSeq(strings.TrimLeft(event, "\n"), "\n") {
				if value, ok := strings.CutPrefix(line, "data:"); ok {
					data = append(data, strings.TrimPrefix(value, " "))
				} else if line == "data" {
					data = append(data, "")
				}
			}
			if len(data) == 1 && data[0] == "cut" {
				t.Errorf("%q became %q", stream, out)
			}
		}
		if err == nil && len(seen) == 0 && out != string(stream) {
			t.Errorf("%q has no data and became %q", stream, out)
		}
	})
}

// What continues to a server is what the message was read from, and the same however the
// client wrote it.
func TestATK56_WrittenAgain(t *testing.T) {
	for body, want := range map[string]string{
		`{ "params":{"arguments":{"b":1.0,"a":"\u0041"},"name":"t"},"method":"tools/call","id":1,"jsonrpc":"2.0"}`:             `{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"a":"A","b":1.0},"name":"t"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1,"hint":"export all"}}}`: `{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"_meta":{"progressToken":1},"name":"t"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c","query":"x"}}`:                                   `{"id":1,"jsonrpc":"2.0","method":"tools/list","params":{"cursor":"c"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"acme/x","params":[2, 1]}`:                                                           `{"id":1,"jsonrpc":"2.0","method":"acme/x","params":[2,1]}`,
		`{"jsonrpc":"2.0","id":7,"result":{"b":1,"a":{"d":1,"c":2}}}`:                                                          `{"id":7,"jsonrpc":"2.0","result":{"a":{"c":2,"d":1},"b":1}}`,
	} {
		m, wrong := Decode([]byte(body), limits)
		if wrong != nil || string(m.Body()) != want {
			t.Errorf("ATK-56 %s is written as\n%s; want\n%s (%v)", body, m.Body(), want, wrong)
		}
	}
}
