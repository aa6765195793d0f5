package gateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// TestATK152_NamesOfOneAnswer counts each name once, and bounds all of them.
func TestATK152_NamesOfOneAnswer(t *testing.T) {
	var n names
	for i, want := range []bool{true, false, false} {
		if fresh, err := n.add(taskNamed("one")); fresh != want || err != nil {
			t.Errorf("ATK-152 time %d: fresh %t, %v; want %t", i+1, fresh, err, want)
		}
	}
	if fresh, err := n.add(contextNamed("one")); !fresh || err != nil {
		t.Errorf("ATK-152 a context with the name of a task: %t, %v", fresh, err)
	}
	if _, err := n.add(taskNamed(strings.Repeat("x", maxNames))); !errors.Is(err, errNames) {
		t.Errorf("ATK-152 a long name: %v; want %v", err, errNames)
	}
}

// TestATK153_AnAnswerThatGrowsIsNotKept tells the caller that an answer is too large to be
// kept, and not that it has none.
func TestATK153_AnAnswerThatGrowsIsNotKept(t *testing.T) {
	x := &decoded{identified: &identified{received: &received{}}, call: a2a.Call{Binding: a2a.JSONRPC}}
	for size, want := range map[int]bool{1 << 10: false, maxAnswer + 1: true} {
		w := &bufferedAnswer{header: http.Header{"Content-Type": {"application/json"}}}
		body := `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"` + strings.Repeat("<", size) + `"}]}}}`
		w.body.WriteString(body)
		if _, text, failed := w.result(x); failed != want {
			t.Errorf("ATK-153 an answer of %d bytes: failed %t, %q; want %t", size, failed, text, want)
		}
	}
}
