package main

import (
	"bytes"
	"encoding/json"
	"strings"
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

// The root says what the exit codes mean, and which version it is.
func TestRootHelp(t *testing.T) {
	run := func(args ...string) string {
		var out, talk bytes.Buffer
		if code := Run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &out, &talk); code != exitFine {
			t.Fatalf("%v: %d %s", args, code, talk.String())
		}
		return out.String()
	}
	help := run("--help")
	for _, text := range []string{"0  fine", "1  an error", "2  wrong use", "3  something is denied", "4  something is invalid"} {
		if !strings.Contains(help, text) {
			t.Errorf("the help does not say %q:\n%s", text, help)
		}
	}
	if version := run("--version"); version != run("version") || !strings.HasPrefix(version, "powerbox ") {
		t.Errorf("--version says %q", version)
	}
}
