package a2a

import "testing"

// TestGATE3_TasksInFront puts tasks of the gateway's own into lists, as agents write
// them.
func TestGATE3_TasksInFront(t *testing.T) {
	own := [][]byte{[]byte(`{"id":"o1"}`), []byte(`{"id":"o2"}`)}
	for in, want := range map[string]string{
		`{"tasks":[{"id":"a"}],"nextPageToken":"x","pageSize":1,"totalSize":1}`: `{"tasks":[{"id":"o1"},{"id":"o2"},{"id":"a"}],"nextPageToken":"x","pageSize":1,"totalSize":3}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tasks":[],"totalSize":0}}`:          `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"id":"o1"},{"id":"o2"}],"totalSize":2}}`,
		`{"tasks":null}`:            `{"tasks":[{"id":"o1"},{"id":"o2"}]}`,
		`{}`:                        `{"tasks":[{"id":"o1"},{"id":"o2"}]}`,
		` { "nextPageToken" : "" }`: ` {"tasks":[{"id":"o1"},{"id":"o2"}], "nextPageToken" : "" }`,
		`{"id":1,"jsonrpc":"2.0","result":{"x":{}}}`:     `{"id":1,"jsonrpc":"2.0","result":{"tasks":[{"id":"o1"},{"id":"o2"}],"x":{}}}`,
		`{"jsonrpc":"2.0","result":{},"id":{"tasks":1}}`: `{"jsonrpc":"2.0","result":{"tasks":[{"id":"o1"},{"id":"o2"}]},"id":{"tasks":1}}`,
	} {
		got, err := WithTasks([]byte(in), own)
		if err != nil || string(got) != want {
			t.Errorf("%s\nbecame %s %v\nwant   %s", in, got, err, want)
		}
	}
	for _, in := range []string{`[]`, `{"tasks":{}}`, `{"result":1}`, `x`} {
		if got, err := WithTasks([]byte(in), own); err == nil {
			t.Errorf("%s became %s", in, got)
		}
	}
}
