package spool

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// TestATK154_Continues compares a spool with the end of its chain at the server: where both
// are the same, where records wait, and where the chains are two.
func TestATK154_Continues(t *testing.T) {
	s := open(t, config(t, t.TempDir()))
	at := map[int64]evidence.Head{0: s.head}
	for n := int64(1); n <= 40; n++ { // several segments
		fill(t, s, 1)
		at[n] = s.head
	}
	for n, head := range at {
		if err := s.Continues(head); err != nil {
			t.Errorf("ATK-154 with %d records at the server: %v", n, err)
		}
		head.Hash[0] ^= 1
		if err := s.Continues(head); (n > 0) != errors.Is(err, ErrForked) {
			t.Errorf("ATK-154 with another record %d at the server: %v", n-1, err)
		}
	}
	other, newer := at[40], at[40]
	other.ChainID[0] ^= 1
	newer.Sequence++
	for name, head := range map[string]evidence.Head{"another chain": other, "more records": newer} {
		if err := s.Continues(head); !errors.Is(err, ErrForked) {
			t.Errorf("ATK-154 %s: %v", name, err)
		}
	}
	if err := s.Shipped(40); err != nil {
		t.Fatal(err)
	}
	if err := s.Continues(at[2]); err != nil {
		t.Errorf("ATK-154 a record that is not here any more: %v", err)
	}
}

// TestATK154_TheSpoolOfAnotherGateway opens a spool under another name.
func TestATK154_TheSpoolOfAnotherGateway(t *testing.T) {
	c := config(t, filepath.Join(t.TempDir(), "spool"))
	s := open(t, c)
	fill(t, s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){"another recorder": func(c *Config) { c.Recorder = "gw_2" }, "another agent": func(c *Config) { c.Agent = "mail" }} {
		other := c
		change(&other)
		if _, err := Open(other); err == nil || !strings.Contains(err.Error(), "this is the spool of") {
			t.Errorf("ATK-154 %s: %v", name, err)
		}
	}
	open(t, c)
}
