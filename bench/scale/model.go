package main

import (
	"fmt"
	"io"
	"time"
)

// model is a large installation. Anything that is not measured is assumed, and says so.
type model struct {
	active    float64       // capabilities in force at any time
	life      time.Duration // of a capability
	calls     float64       // under one of them
	peak      float64       // the busiest second against the mean
	revoked   float64       // share of capabilities that are revoked before they end
	gateways  float64
	regions   float64
	relays    float64 // in each region
	heartbeat time.Duration
	nodes     float64 // that serve the feed

	// CPU, us, by docs/assurance/performance.md and its command.
	issueCPU, decideCPU, logCPU float64
	// Bytes of the store for a record with its index, leaf and share of the tree
	// beyond those of the record itself.
	logBytes float64
	// Records a second that one log takes in, docs/assurance/performance.md.
	logRate float64
}

// standard is the model of docs/assurance/scale.md.
var standard = model{
	active: 1e6, life: time.Hour, calls: 10, peak: 4, revoked: 0.001, gateways: 1000, regions: 10, relays: 2, heartbeat: 5 * time.Second, nodes: 3,
	issueCPU: 372, decideCPU: 418, logCPU: 50.4, logBytes: 260, logRate: 27332,
}

const day = 24 * time.Hour

// line is one result of the model.
type line struct {
	name  string
	value float64
	unit  string
}

// lines computes everything from the measured values.
func (d model) lines(m measured) []line {
	issued := d.active * day.Hours() / d.life.Hours()
	calls := issued * d.calls
	records := issued + 2*calls
	second := day.Seconds()
	beats := second / d.heartbeat.Seconds()
	revocations := issued * d.revoked
	relays := d.regions * d.relays
	inForce := d.active * d.revoked
	return []line{
		{"capabilities issued", issued, "a day"},
		{"capabilities issued, mean", issued / second, "a second"},
		{"CPU to issue", issued * d.issueCPU / 1e6 / second, "cores, mean"},
		{"calls", calls, "a day"},
		{"calls at one gateway, mean", calls / second / d.gateways, "a second"},
		{"calls at one gateway, busiest second", d.peak * calls / second / d.gateways, "a second"},
		{"CPU of one gateway, busiest second", d.peak * calls / second / d.gateways * d.decideCPU / 1e6, "cores"},
		{"records of evidence", records, "a day"},
		{"records, mean", records / second, "a second"},
		{"records, busiest second", d.peak * records / second, "a second"},
		{"logs that take in the busiest second", d.peak * records / second / d.logRate, "logs"},
		{"CPU to take records into logs, busiest second", d.peak * records / second * d.logCPU / 1e6, "cores"},
		{"evidence in the stores", records * (m.recordBytes + d.logBytes) / 1e9, "GB a day"},
		{"evidence from gateways, all together", 2 * calls * m.recordBytes / 1e9, "GB a day"},
		{"evidence from gateways, mean", 8 * 2 * calls * m.recordBytes / second / 1e6, "Mbit a second"},
		{"spool of one gateway for a day without its server", 2 * calls / d.gateways * m.recordBytes / 1e9, "GB"},
		{"revocations", revocations, "a day"},
		{"revocations in force", inForce, ""},
		{"snapshot", inForce * m.entryBytes / 1e3, "kB"},
		{"memory of a gateway for revocations", inForce * m.entryMemory / 1e3, "kB"},
		{"all gateways begin at once: snapshots", d.gateways * inForce * m.entryBytes / 1e6, "MB"},
		{"feed, one server to all gateways", d.gateways * (beats*m.heartbeatBytes + revocations*m.eventBytes) / 1e9, "GB a day"},
		{"feed, servers to relays", relays * (beats*m.heartbeatBytes + revocations*m.eventBytes) / 1e9, "GB a day"},
		{"feed, one relay to its gateways", d.gateways / relays * (beats*m.heartbeatBytes + revocations*m.eventBytes) / 1e9, "GB a day"},
		{"CPU to serve the feed to all gateways", d.gateways * (beats*m.heartbeatCPU + revocations*m.eventCPU) / 1e6 / second, "cores, mean"},
		{"CPU of one gateway for the feed", (beats + 2*revocations) * m.followerCPU / 2 / 1e6, "s a day"},
	}
}

func (d model) print(out io.Writer, m measured) {
	fmt.Fprintf(out, "The model: %.0f active capabilities that live %v, %.0f calls under each, %.1f %% of them revoked, %.0f gateways in %.0f regions with %.0f relays each, "+
		"heartbeats every %v, the busiest second %.0f times the mean.\n\n| computed | |\n| --- | --- |\n",
		d.active, d.life, d.calls, 100*d.revoked, d.gateways, d.regions, d.relays, d.heartbeat, d.peak)
	for _, l := range d.lines(m) {
		fmt.Fprintf(out, "| %s | %s %s |\n", l.name, readable(l.value), l.unit)
	}
}

// readable has three digits that count.
func readable(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3g million", v/1e6)
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
