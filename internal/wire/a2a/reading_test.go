package a2a

import "testing"

// A member that is null is absent, and a name may have escapes.
func TestATK125_ErrorsOfAnswers(t *testing.T) {
	for response, code := range map[string]int64{
		`{"error":{"code":-1}}`: -1, `{"result":null,"error":{"code":-1}}`: -1, `{"\u0065rror":{"code":-1}}`: -1,
		`{"error":null,"result":{}}`: 0, `{"result":{},"error":{"code":-1}}`: 0, `{"error":null}`: 0, `{"result":{"error":{"code":-1}}}`: 0, `{}`: 0,
	} {
		if got, wrong := ErrorCode([]byte(response)); got != code || wrong != (code != 0) {
			t.Errorf("ATK-125 %s: %d, %v", response, got, wrong)
		}
	}
}

// The kit for Go answers without a result when it has deleted a configuration.
func TestATK125_ResponsesThatSayNothing(t *testing.T) {
	for response, one := range map[string]bool{
		`{"jsonrpc":"2.0","id":1}`: true, `{"jsonrpc":"2.0","id":1,"result":null}`: true, `{"jsonrpc":"2.0","id":1.0,"result":{}}`: true,
		`{"jsonrpc":"2.0","id":1,"task":{"id":"t"}}`: false, `{"jsonrpc":"2.0","id":"1","result":{}}`: false, `[]`: false,
	} {
		if err := ReadResponse([]byte(response)).OneResponse([]byte(`1`)); (err == nil) != one {
			t.Errorf("ATK-125 %s: %v", response, err)
		}
	}
}
