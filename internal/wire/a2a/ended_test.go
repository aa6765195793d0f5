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
	_, ended := ReadResponse([]byte(response)).Told()
	return ended
}

func TestLastEventsOfAStream(t *testing.T) {
	for event, want := range map[string]bool{
		`{"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}}`:              true,
		`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`:                         true,
		`{"result":{"message":{"messageId":"m"}}}`:                                                          true,
		`{"result":{"kind":"message","messageId":"m"}}`:                                                     true,
		`{"result":{"kind":"status-update","taskId":"t","final":true,"status":{"state":"input-required"}}}`: true,
		`{"error":{"code":-32603,"message":"m"}}`:                                                           true,
		`{"result":{"kind":"status-update","taskId":"t","final":false,"status":{"state":"working"}}}`:       false,
		`{"result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}`:                            false,
		`{"result":{"artifactUpdate":{"taskId":"t"}}}`:                                                      false,
		`[`: false,
	} {
		if got := ReadResponse([]byte(event)).IsLast(); got != want {
			t.Errorf("IsLast(%s) = %v, want %v", event, got, want)
		}
	}
}

func TestResponsesOfMCP(t *testing.T) {
	for message, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{}}`: true, `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`: true,
		`{"jsonrpc":"2.0","method":"notifications/progress"}`: false, `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`: false, `7`: false,
	} {
		if got := IsResponse([]byte(message)); got != want {
			t.Errorf("IsResponse(%s) = %v, want %v", message, got, want)
		}
	}
}
