package agentapi

import (
	"errors"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/agentauth"
)

// TestAAPF3_Executions: an agent, a user and a capability have limits of their own,
// which come back with time.
func TestAAPF3_Executions(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Limits{Agent: 4, User: 6, Capability: map[string]int{"transfer": 2}}, func() time.Time { return now })
	want := func(what string, err error, limited bool) {
		t.Helper()
		var e *agentauth.Error
		if errors.As(err, &e) != limited || limited && (e.Code != agentauth.CodeRateLimited || e.RetryAfter < 1) {
			t.Errorf("AAP-F3 %s: %v", what, err)
		}
	}
	for range 2 {
		want("a capability", l.execution("one", "alice", "transfer"), false)
	}
	want("a capability too often", l.execution("one", "alice", "transfer"), true)
	for range 2 {
		want("another capability", l.execution("one", "alice", "balance"), false)
	}
	want("an agent too often", l.execution("one", "alice", "balance"), true)
	for range 2 {
		want("another agent", l.execution("two", "alice", "transfer"), false)
	}
	want("a user too often", l.execution("two", "alice", "balance"), true)
	want("another user", l.execution("three", "bob", "balance"), false)
	want("nobody", l.execution("four", "", "balance"), false)
	now = now.Add(time.Minute)
	want("a minute later", l.execution("one", "alice", "transfer"), false)
}

// TestAAPS3_Polls: whoever looks more often than the interval is told to wait.
func TestAAPS3_Polls(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Limits{}, func() time.Time { return now })
	var e *agentauth.Error
	for range pollsAtOnce {
		if err := l.poll("agt_1", 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.poll("agt_1", 5*time.Second); !errors.As(err, &e) || e.Code != agentauth.CodeRateLimited || e.RetryAfter != 6 {
		t.Errorf("AAP-S3: %v %+v", err, e)
	}
	if err := l.poll("agt_2", 5*time.Second); err != nil {
		t.Errorf("AAP-S3: another agent: %v", err)
	}
	now = now.Add(5 * time.Second)
	if err := l.poll("agt_1", 5*time.Second); err != nil {
		t.Errorf("AAP-S3: after the interval: %v", err)
	}
}
