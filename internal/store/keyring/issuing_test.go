package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// clocked is a ring's issuing keys of one agent under a clock.
type clocked struct {
	t    *testing.T
	ring *Ring
	dir  string
	now  time.Time
	*Issuing
}

func clock(t *testing.T) *clocked {
	t.Helper()
	c := &clocked{t: t, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	c.ring, c.dir = open(t)
	c.again()
	return c
}

// again is a start of the server.
func (c *clocked) again() {
	c.t.Helper()
	var err error
	if c.Issuing, err = c.ring.Issuing("documents", func() time.Time { return c.now }); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clocked) turn(lead, grace time.Duration) AgentKey {
	c.t.Helper()
	k, err := c.Turn(c.now.Add(lead), c.now.Add(grace), func(AgentKey, AgentKey) error { return nil })
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

func (c *clocked) accepts() int { return len(c.Accepted().Parties()) }

func signs(k *Issuing) token.PublicKey { return k.Signer().Public() }

// TestEXT34_KeysHaveTheirTimes: a new key is accepted at once and signs after its
// lead; an old one is accepted until its grace is over, also over a restart.
func TestEXT34_KeysHaveTheirTimes(t *testing.T) {
	c := clock(t)
	first := c.Current().Key.Public()
	second := c.turn(time.Minute, time.Hour).Key.Public()
	if signs(c.Issuing) != first || c.accepts() != 2 || c.Current().Key.Public() != second {
		t.Errorf("within the lead: %d are accepted", c.accepts())
	}
	c.now = c.now.Add(time.Minute)
	if signs(c.Issuing) != second || c.accepts() != 2 {
		t.Errorf("after the lead: %d are accepted", c.accepts())
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			c.now = c.now.Add(-time.Second)
			c.again()
		} else {
			c.now = c.now.Add(59*time.Minute - time.Second)
		}
		if c.accepts() != 2 || signs(c.Issuing) != second {
			t.Errorf("within the grace, restarted %t: %d are accepted", restarted, c.accepts())
		}
	}
	c.now = c.now.Add(2 * time.Second)
	if c.accepts() != 1 || strings.Contains(string(c.Published()), first.Thumbprint()) {
		t.Errorf("after the grace %d are accepted, published %s", c.accepts(), c.Published())
	}
	c.again()
	if c.accepts() != 1 || signs(c.Issuing) != second {
		t.Errorf("restarted after the grace: %d are accepted", c.accepts())
	}
}

// TestEXT34_AGraceIsForAllOlderKeys: anyone who ends a stolen key need not know in
// which of the old ones it was.
func TestEXT34_AGraceIsForAllOlderKeys(t *testing.T) {
	c := clock(t)
	c.turn(0, time.Hour)
	c.turn(0, time.Hour)
	c.turn(0, time.Minute)
	if c.accepts() != 4 {
		t.Errorf("%d are accepted", c.accepts())
	}
	c.again()
	if c.now = c.now.Add(time.Minute); c.accepts() != 1 {
		t.Errorf("after the shorter grace %d are accepted", c.accepts())
	}
	c.turn(0, time.Hour)
	last := c.turn(0, 0)
	names, err := c.ring.List()
	if err != nil || c.accepts() != 1 || signs(c.Issuing) != last.Key.Public() {
		t.Errorf("without a grace %d are accepted: %v", c.accepts(), err)
	}
	for _, name := range names {
		if _, until, old := SplitOld(name); old && until.After(c.now) {
			t.Errorf("%s is still there", name)
		}
	}
	c.again()
	if c.accepts() != 1 || signs(c.Issuing) != last.Key.Public() {
		t.Errorf("restarted: %d are accepted", c.accepts())
	}
}

// TestEXT34_NoRotationWithoutItsRecord: a rotation that cannot be recorded has not
// happened.
func TestEXT34_NoRotationWithoutItsRecord(t *testing.T) {
	c := clock(t)
	first := c.Current().Key.Public()
	full := errors.New("the disk is full")
	if _, err := c.Turn(c.now, c.now.Add(time.Hour), func(AgentKey, AgentKey) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	// Whether it is on record is known at the next start: until then the file stays.
	for _, want := range []string{"[agent-documents.jwk agent-documents.next-1795352400.jwk]", "[agent-documents.jwk]"} {
		if names, err := c.ring.List(); err != nil || fmt.Sprint(names) != want || signs(c.Issuing) != first || c.accepts() != 1 {
			t.Errorf("%v %v", names, err)
		}
		c.again()
	}
}

func TestEXT33_OldKeysAreTheOwnersAlone(t *testing.T) {
	c := clock(t)
	c.turn(0, time.Hour)
	names, err := c.ring.List()
	if err != nil || len(names) != 2 {
		t.Fatalf("%v %v", names, err)
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(c.dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v: %v", name, info.Mode(), err)
		}
	}
	if err := os.Chmod(filepath.Join(c.dir, names[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ring.Issuing("documents", func() time.Time { return c.now }); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read was used: %v", err)
	}
}

func TestOldKeysAreNamedByTheirEnd(t *testing.T) {
	for file, want := range map[string]bool{
		"agent-documents.until-1795348800.jwk": true, "agent-documents.jwk": false, "evidence.until-5.secret": false, "agent-x.until-soon.jwk": false,
	} {
		agent, until, ok := SplitOld(file)
		if ok != want || ok && (agent != "documents" || until.Unix() != 1795348800) {
			t.Errorf("%s: %s %s %t", file, agent, until, ok)
		}
	}
}

// TestIssuingOfReadsWhatIsOfEachAgent: keys of many agents come from one reading of the
// directory, each with its own old keys, also where the name of one begins that of another.
func TestIssuingOfReadsWhatIsOfEachAgent(t *testing.T) {
	c := clock(t)
	first := c.Current().Key.Public()
	second := c.turn(0, time.Hour).Key.Public()
	now := func() time.Time { return c.now }
	all, err := c.ring.IssuingOf([]string{"doc", "documents", "documents-2"}, now)
	if err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]int{"doc": 1, "documents": 2, "documents-2": 1} {
		if got := len(all[agent].Accepted().Parties()); got != want {
			t.Errorf("%s accepts %d keys, want %d", agent, got, want)
		}
	}
	old := all["documents"].load().old
	if signs(all["documents"]) != second || len(old) != 1 || old[0].Key.Public() != first {
		t.Errorf("documents does not have its keys: %+v", old)
	}
}

// BenchmarkIssuingOf1000Agents is the start of a server with many agents.
func BenchmarkIssuingOf1000Agents(b *testing.B) {
	ring, err := Open(b.TempDir(), rand.Reader, nil)
	if err != nil {
		b.Fatal(err)
	}
	var agents []string
	for n := range 1000 {
		agents = append(agents, fmt.Sprintf("agent-%04d", n))
	}
	now := func() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }
	for b.Loop() {
		if _, err := ring.IssuingOf(agents, now); err != nil {
			b.Fatal(err)
		}
	}
}
