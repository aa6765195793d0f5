package main

import (
	"strings"
	"testing"
)

// The simulation runs with few gateways in the suite: whatever is lost, out of
// order or never heard of fails it.
func TestEXT16_Simulation(t *testing.T) {
	var out strings.Builder
	s := simulation{gateways: 12, relays: 3, events: 4, entries: 500, records: 40, dir: t.TempDir(), out: &out}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"through 3 relays", "480 records", "all arrived, in order", "| capabilities issued | 24 million a day |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	s.relays = 0
	if err := s.run(t.Context()); err == nil {
		t.Error("a simulation without relays")
	}
}

// The model is arithmetic, and its parts fit each other.
func TestModel(t *testing.T) {
	m := measured{heartbeatBytes: 1, eventBytes: 2, entryBytes: 3, heartbeatCPU: 1, eventCPU: 1, followerCPU: 1, entryMemory: 1, recordBytes: 1000, appendCPU: 1, shipCPU: 1}
	by := map[string]float64{}
	for _, l := range standard.lines(m) {
		by[l.name] = l.value
	}
	if by["capabilities issued"] != 24e6 || by["calls"] != 240e6 || by["records of evidence"] != 504e6 || by["revocations"] != 24e3 || by["revocations in force"] != 1000 {
		t.Errorf("%v", by)
	}
	if all, ways := by["feed, one server to all gateways"], by["feed, one relay to its gateways"]*20; all-ways > 1e-9 || ways-all > 1e-9 {
		t.Errorf("all relays carry %g GB, and one server %g", ways, all)
	}
}
