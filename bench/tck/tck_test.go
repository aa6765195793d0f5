package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// reported is what pytest writes.
const reported = `<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" tests="5">
<testcase classname="tests.compatibility.a.TestA" name="test_one[grpc]" time="0.1" />
<testcase classname="tests.compatibility.a.TestA" name="test_two" time="0.1"><failure message="assert 1&#10;== 2">trace</failure></testcase>
<testcase classname="tests.compatibility.b" name="test_three"><skipped type="pytest.xfail" message="should">x</skipped></testcase>
<testcase classname="tests.compatibility.b" name="test_four"><skipped type="pytest.skip" message="not declared">x</skipped></testcase>
<testcase classname="tests.compatibility.b" name="test_five"><error message="setup">x</error></testcase>
</testsuite></testsuites>`

func TestReportsAreComparedByName(t *testing.T) {
	before, err := parse([]byte(reported))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := before.summary(), "5 tests, 1 passed, 1 failed, 1 failed as expected, 1 error, 1 skipped"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if d := differences(before, before); len(d) != 0 {
		t.Errorf("it differs from itself: %v", d)
	}
	after, err := parse([]byte(strings.NewReplacer(`<failure message="assert 1&#10;== 2">trace</failure>`, "", `name="test_one[grpc]"`, `name="test_six"`).Replace(reported)))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(differences(before, after))
	want := "[a.TestA.test_one[grpc]: passed, then not run\n     a.TestA.test_six: not run, then passed\n    before:  a.TestA.test_two: failed, then passed\n    before: assert 1 == 2]"
	if got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if left := without(differences(before, after), differences(before, after)[:1]); len(left) != 2 || left[0].name != "a.TestA.test_six" {
		t.Errorf("without what differs by itself: %v", left)
	}
	for name, raw := range map[string]string{"no report": "", "a report of nothing": "<testsuites><testsuite/></testsuites>"} {
		if r, err := parse([]byte(raw)); err == nil {
			t.Errorf("%s is %v", name, r)
		}
	}
}

func TestTheKitIsNamed(t *testing.T) {
	for name, args := range map[string][]string{"no kit": nil, "two": {"a", "b"}, "an unknown flag": {"-x", "a"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := run(t.Context(), []string{t.TempDir()}, io.Discard, io.Discard); err == nil || errors.Is(err, errUsage) || !strings.Contains(err.Error(), "no checkout") {
		t.Errorf("a folder without the kit: %v", err)
	}
	trying := trial{dir: t.TempDir()}
	if _, err := trying.guard(t.Context(), "x", "http://127.0.0.1:1", "prefer"); err == nil {
		t.Error("a mode that is not tried is tried")
	}
	trying.attacher = filepath.Join(t.TempDir(), "nothing")
	if err := trying.attach(t.Context(), &guard{}, t.TempDir(), "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "-modes observe") {
		t.Errorf("without attach: %v", err)
	}
}

// TestTheAgentFollowsTheScenarios asks for what the kit's scenarios ask for.
func TestTheAgentFollowsTheScenarios(t *testing.T) {
	url, err := serveAgent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, wants := range map[string][]string{
		"tck-complete-task-1": {"TASK_STATE_COMPLETED", "Hello from TCK"}, "tck-artifact-text-1": {"Generated text content", "COMPLETED"},
		"tck-artifact-file-1": {`"raw"`, "output.txt", "text/plain"}, "tck-artifact-file-url-1": {"https://example.com/output.txt"},
		"tck-artifact-data-1": {`"count":42`, `"key":"value"`}, "tck-message-response-1": {"Direct message response", `"message"`},
		"tck-input-required-1": {"INPUT_REQUIRED"}, "tck-reject-task-1": {"REJECTED", "rejected"}, "tck-stream-002-1": {"COMPLETED"},
		"tck-stream-001-1": {"Stream hello from TCK", "COMPLETED"}, "tck-stream-artifact-chunked-1": {"chunk-1 ", "chunk-2"}, "tck-stream-artifact-file-1": {"output.txt"},
	} {
		body := fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": %q, "role": "ROLE_USER", "parts": [{"text": "x"}]}}}`, id)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/invoke", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		for _, want := range wants {
			if err != nil || !strings.Contains(string(got), want) {
				t.Errorf("%s: %s, %v; want %s", id, got, err, want)
			}
		}
	}
}
