package a2a

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// What continues names our address where the call named the caller's, and every
// byte outside of the configuration is as it was.
func TestATK17_AnotherAddressInTheSamePlace(t *testing.T) {
	to := PushConfig{URL: "https://gateway/x", Token: "ours", Schemes: []string{"Bearer"}, Credentials: "ours"}
	const new1 = `"url":"https://gateway/x","token":"ours","authentication":{"scheme":"Bearer","credentials":"ours"}`
	const old = `"url":"https://gateway/x","token":"ours","authentication":{"schemes":["Bearer"],"credentials":"ours"}`
	for _, c := range []struct{ name, body, want string }{
		{
			"1.0", `{ "jsonrpc":"2.0","id":1e0, "method":"CreateTaskPushNotificationConfig","params":{"taskId":"t","url":"https://c/","x":9007199254740993}}`,
			`{ "jsonrpc":"2.0","id":1e0, "method":"CreateTaskPushNotificationConfig","params":{"taskId":"t","url":"https://gateway/x","x":9007199254740993,"token":"ours","authentication":{"scheme":"Bearer","credentials":"ours"}}}`,
		},
		{
			"0.3", `{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/set","params":{"taskId":"t","pushNotificationConfig": {"url":"https://c/"} }}`,
			`{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/set","params":{"taskId":"t","pushNotificationConfig": {` + old + `} }}`,
		},
		{
			"inline", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"url":"https://c/"}]},"configuration":{"taskPushNotificationConfig":{"url":"https://c/"}}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"url":"https://c/"}]},"configuration":{"taskPushNotificationConfig":{` + new1 + `}}}}`,
		},
		{
			"inline, 0.3", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]},"configuration":{"pushNotificationConfig":{"url":"https://c/"}}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]},"configuration":{"pushNotificationConfig":{` + old + `}}}}`,
		},
	} {
		version := Version1
		if strings.Contains(c.name, "0.3") {
			version = Version03
		}
		call, wrong := Decode([]byte(c.body), Header{Version: version}, powerbox.Limits{Bytes: 1 << 16, Depth: 64})
		if wrong != nil {
			t.Errorf("%s: %v", c.name, wrong)
			continue
		}
		got, err := WithPush([]byte(c.body), &call, to)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", c.name, err, got, c.want)
		}
	}
	call := Call{Method: GetTask}
	if got, err := WithPush([]byte(`{"params":{"url":"https://c/"}}`), &call, to); err == nil {
		t.Errorf("a call without a configuration became %s", got)
	}
}

// The caller sees its own settings, and secrets that cannot be opened are shown to no
// caller.
func TestATK17_TheAnswerShowsTheCallersOwn(t *testing.T) {
	open := func(url string) (PushConfig, bool, bool) {
		sealed, ours := strings.CutPrefix(url, "https://gateway/")
		return PushConfig{URL: "https://c/", Token: "theirs", Schemes: []string{"Bearer", "Basic"}, Credentials: "theirs"}, ours, sealed == "x"
	}
	for _, c := range []struct{ name, answer, want string }{
		{
			"a list", `{"jsonrpc":"2.0", "result":{"configs":[{"id":"a","url":"https://gateway/x","token":"ours","more":1.0},{"id":"b","url":"https://other/"}]},"id":1}`,
			`{"jsonrpc":"2.0", "result":{"configs":[{"id":"a","url":"https://c/","token":"theirs","more":1.0},{"id":"b","url":"https://other/"}]},"id":1}`,
		},
		{
			"0.3", `{"result":[{"taskId":"t","pushNotificationConfig":{"url":"https://gateway/x","authentication":{"schemes":["Bearer"],"credentials":"ours"}}}]}`,
			`{"result":[{"taskId":"t","pushNotificationConfig":{"url":"https://c/","authentication":{"schemes":["Bearer","Basic"],"credentials":"theirs"}}}]}`,
		},
		{
			"one", `{"url":"https://gateway/x","authentication":{"scheme":"Bearer"}}`, `{"url":"https://c/","authentication":{"scheme":"Bearer"}}`,
		},
		{
			"what cannot be opened", `{"url":"https://gateway/y","token":"ours","authentication":{"scheme":"Bearer","credentials":"ours"}}`, `{"url":"https://gateway/y"}`,
		},
		{"nothing of ours", `{ "url": "https://other/" }`, `{ "url": "https://other/" }`},
	} {
		got, err := RestorePush([]byte(c.answer), open)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", c.name, err, got, c.want)
		}
	}
}
