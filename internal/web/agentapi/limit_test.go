package agentapi

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/bucket"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPF3_Executions: an agent, a user and a capability have their own limits,
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
		want("a capability", l.execution("one", "host of "+"alice", "alice", "transfer"), false)
	}
	want("a capability too often", l.execution("one", "host of "+"alice", "alice", "transfer"), true)
	for range 2 {
		want("another capability", l.execution("one", "host of "+"alice", "alice", "balance"), false)
	}
	want("an agent too often", l.execution("one", "host of "+"alice", "alice", "balance"), true)
	for range 2 {
		want("another agent", l.execution("two", "host of "+"alice", "alice", "transfer"), false)
	}
	want("a user too often", l.execution("two", "host of "+"alice", "alice", "balance"), true)
	want("another user", l.execution("three", "host of "+"bob", "bob", "balance"), false)
	want("nobody", l.execution("four", "a host", "", "balance"), false)
	now = now.Add(time.Minute)
	want("a minute later", l.execution("one", "host of "+"alice", "alice", "transfer"), false)
}

// TestAAPF3_Hosts: all agents of one host have one limit, with a user or without.
func TestAAPF3_Hosts(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Limits{Host: 3}, func() time.Time { return now })
	for n, agent := range []string{"one", "two", "three"} {
		if err := l.execution(agent, "a host", "", "balance"); err != nil {
			t.Errorf("AAP-F3: execution %d: %v", n, err)
		}
	}
	if err := l.execution("four", "a host", "", "balance"); err == nil {
		t.Error("AAP-F3: a fourth agent of the host executes; want it limited")
	}
	if err := l.execution("five", "another host", "", "balance"); err != nil {
		t.Errorf("AAP-F3: another host: %v", err)
	}
}

// TestATK117_AUserDoesNotUseUpTheLimitOfTheHost: what one user's limit refuses leaves the host's
// executions to the other users.
func TestATK117_AUserDoesNotUseUpTheLimitOfTheHost(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Limits{Host: 5, User: 2}, func() time.Time { return now })
	for range 20 {
		_ = l.execution("one", "a host", "alice", "balance")
	}
	for n := range 2 {
		if err := l.execution("two", "a host", "bob", "balance"); err != nil {
			t.Errorf("ATK-117: execution %d of another user: %v", n, err)
		}
	}
}

// from is a request that comes from an address.
func from(address string) *http.Request {
	return &http.Request{RemoteAddr: net.JoinHostPort(address, "1234")}
}

// TestAAPF3_Networks: anyone who has a network of IPv6 has one limit, whatever addresses
// it sends from.
func TestAAPF3_Networks(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Limits{Unknown: 1}, func() time.Time { return now })
	for _, c := range []struct {
		address string
		limited bool
	}{
		{"2001:db8:1:2::1", false},
		{"2001:db8:1:2::2", true},
		{"2001:db8:1:2:ffff:ffff:ffff:ffff", true},
		{"2001:db8:1:2::1%eth0", true},
		{"2001:db8:1:3::1", false},
		{"192.0.2.1", false},
		{"192.0.2.2", false},
		{"::ffff:192.0.2.1", true},
	} {
		if err := l.unknown(from(c.address)); (err != nil) != c.limited {
			t.Errorf("AAP-F3 %s: %v; want limited %t", c.address, err, c.limited)
		}
	}
}

// TestAAPF3_StrangersTakeNoRoom: a caller with very many addresses fills the memory of
// limits with them and locks no other caller out, known or new. Used-up limits stay used
// up.
func TestAAPF3_StrangersTakeNoRoom(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Limits{Requests: 1, Unknown: 2, Agent: 1}, func() time.Time { return now })
	for range 2 {
		if err := l.unknown(from("192.0.2.7")); err != nil {
			t.Fatal(err)
		}
	}
	for n := range bucket.Max + 1000 {
		if err := l.allow(from(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String())); err != nil {
			t.Fatalf("AAP-F3: address %d: %v", n, err)
		}
	}
	if n := l.strangers.Len(); n > bucket.Max {
		t.Errorf("AAP-F3: %d buckets are kept; want %d at most", n, bucket.Max)
	}
	if err := l.allow(from("192.0.2.8")); err != nil {
		t.Errorf("AAP-F3: somebody else who is new: %v", err)
	}
	if err := l.unknown(from("192.0.2.7")); err == nil {
		t.Error("AAP-F3: what was used up is there again")
	}
	if l.known.Len() != 0 {
		t.Errorf("AAP-F3: strangers have %d buckets of those who are known", l.known.Len())
	}
	if err := l.execution("one", "a host", "", "balance"); err != nil {
		t.Errorf("AAP-F3: an agent: %v", err)
	}
}

// TestAAPI3_OpenIntrospection: where every caller may introspect, an address can a few
// times a second, and other requests have a separate limit.
func TestAAPI3_OpenIntrospection(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Limits{Introspections: 2, Requests: 100}, func() time.Time { return now })
	allowed := 0
	for l.introspection(from("192.0.2.1")) == nil {
		allowed++
	}
	if allowed != 11 {
		t.Errorf("AAP-I3: %d introspections at once; want 11", allowed)
	}
	if l.introspection(from("192.0.2.2")) != nil || l.allow(from("192.0.2.1")) != nil {
		t.Error("AAP-I3: another address, or another request, is limited")
	}
	now = now.Add(time.Second)
	for n, limited := range []bool{false, false, true} {
		if err := l.introspection(from("192.0.2.1")); (err != nil) != limited {
			t.Errorf("AAP-I3: %d a second later: %v", n, err)
		}
	}
}

// TestAAPS3_Polls: anyone who looks more often than the interval is told to wait.
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
