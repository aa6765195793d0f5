package a2a

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSEP22_EndedTasks(t *testing.T) {
	for response, want := range map[string][]string{
		`{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}}}`: {"t"},
		`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_REJECTED"}}}`:                        {"t"},
		`{"result":{"id":"t","status":{"state":"TASK_STATE_CANCELED"}}}`:                                  {"t"},
		`{"result":{"kind":"task","id":"t","status":{"state":"completed"}}}`:                              {"t"},
		`{"result":{"kind":"status-update","taskId":"t","status":{"state":"failed"}}}`:                    {"t"},
		`{"result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}`:                          nil,
		`{"result":{"task":{"status":{"state":"TASK_STATE_COMPLETED"}}}}`:                                 nil,
		`{"result":{"message":{"taskId":"t"}}}`:                                                           nil,
		`{"result":7}`:                                                                                    nil,
		`[`:                                                                                               nil,
	} {
		if diff := cmp.Diff(want, ended(response)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", response, diff)
		}
	}
}

func ended(response string) []string {
	_, ended := Told([]byte(response))
	return ended
}
