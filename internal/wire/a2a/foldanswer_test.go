package a2a

import "testing"

// A stream amounts to what a client that reads it to its end has.
func TestGATE3_FoldedStreams(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"a message":        {[]string{`{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","parts":[{"text":"a"}]}}}`}, `{"message":{"messageId":"m","parts":[{"text":"a"}]}}`},
		"a message of 0.3": {[]string{`{"result":{"kind":"message","parts":[{"kind":"text","text":"a"}]}}`}, `{"kind":"message","parts":[{"kind":"text","text":"a"}]}`},
		"a task with updates": {
			[]string{
				`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"0","parts":[]}]}}`,
				`{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"1","parts":[{"text":"a"}]}}}`,
				`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"1","parts":[{"text":"b"}]}}}`,
				`{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"0","parts":[{"text":"z"}]}}}`,
				`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`,
			},
			`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"0","parts":[{"text":"z"}]},{"artifactId":"1","parts":[{"text":"a"},{"text":"b"}]}]}}`,
		},
		"updates of 0.3 alone": {
			[]string{
				`{"result":{"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"working"}}}`,
				`{"result":{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"1","parts":[]}}}`,
				`{"result":{"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"completed"},"final":true}}`,
			},
			`{"task":{"id":"t","contextId":"c","status":{"state":"completed"},"artifacts":[{"artifactId":"1","parts":[]}]}}`,
		},
		"an error":        {[]string{`{"task":{"id":"t"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"broken"}}`}, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"broken"}}`},
		"nothing":         {nil, ""},
		"no JSON":         {[]string{`x`}, ""},
		"no result":       {[]string{`{"result":1}`}, ""},
		"what is unknown": {[]string{`{"other":{}}`}, ""},
	} {
		var events [][]byte
		for _, e := range c.events {
			events = append(events, []byte(e))
		}
		got, err := Folded(events)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}
