package capability

import (
	"encoding/json"
	"testing"
)

func TestAnswerText(t *testing.T) {
	for given, want := range map[string]string{
		`{"message":{"role":"ROLE_AGENT","parts":[{"text":"done"},{"data":{"n":1}}]}}`:                                                                                                   "done\n{\"n\":1}",
		`{"kind":"message","role":"agent","parts":[{"kind":"text","text":"old"}]}`:                                                                                                       "old",
		`{"task":{"id":"t1","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[{"text":"which?"}]}},"artifacts":[{"parts":[{"url":"https://x"},{"filename":"a.pdf"}]}]}}`: "task t1: input required\nwhich?\nhttps://x\nfile a.pdf",
		`{"kind":"task","id":"t2","status":{"state":"completed"}}`:                                                                                                                       "task t2: completed",
		`{"other":1}`: `{"other":1}`,
		`[1]`:         `[1]`,
	} {
		if got := answerText(json.RawMessage(given)); got != want {
			t.Errorf("%s\n%q; want %q", given, got, want)
		}
	}
}
