package main

import (
	"bytes"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superfly/macaroon"
	"github.com/superfly/macaroon/resset"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// Every contestant allows the one request and denies the other: else a row
// would compare different work.
func TestContestantsDoTheSameWork(t *testing.T) {
	now := time.Now()
	macaroon.RegisterCaveatType(&files{})
	p, err := newProduct(now, 3)
	must(t, err)
	b, err := newBiscuit(now, 3)
	must(t, err)
	chain, err := newJWTChain(now, 3)
	must(t, err)
	fly, err := newFly(now, 3)
	must(t, err)
	for operation, allowed := range map[string]bool{"read": true, "write": false} {
		attempt, action := p.read, resset.ActionRead
		if operation == "write" {
			attempt, action = p.write, resset.ActionWrite
		}
		biscuitJob, err := b.verify(operation)
		must(t, err)
		ucan, err := newUCAN(now, 3, operation)
		must(t, err)
		ours, err := ourPolicies(10, operation)
		must(t, err)
		cedarJob, err := cedarPolicies(10, operation)
		must(t, err)
		opa, err := opaPolicies(10, operation, false)
		must(t, err)
		ready, err := opaPolicies(10, operation, true)
		must(t, err)
		cached, cachedErr := fly.cached(action)
		if (cachedErr == nil) != allowed {
			t.Errorf("superfly's cache %s: %v", operation, cachedErr)
		}
		for name, j := range map[string]job{
			"ours":       repeat(func() error { return p.authorize(token.NewMemo(1<<20), p.chain, attempt) }),
			"biscuit-go": biscuitJob, "go-ucan": ucanVerify(ucan), "golang-jwt": chain.verify(operation),
			"superfly/macaroon": fly.verify(action), "superfly's cache": cached,
			"our policies": ours, "cedar-go": cedarJob, "OPA": opa, "OPA, input ready": ready,
		} {
			if err := j.run(); (err == nil) != allowed {
				t.Errorf("%s %s: %v", name, operation, err)
			}
		}
	}
}

// Each refused request is refused for the reason that its row names.
func TestRefusals(t *testing.T) {
	p, err := newProduct(time.Now(), 3)
	must(t, err)
	wide, err := p.tooWide()
	must(t, err)
	_, err = token.NewMemo(1<<20).Verify(wide, p.anchors, p.options)
	if err == nil || !strings.Contains(err.Error(), string(token.CodeWidened)) {
		t.Errorf("an over-wide link: %v", err)
	}
	for _, chain := range p.garbage() {
		if err := p.authorize(token.NewMemo(1<<20), chain, p.read); err == nil {
			t.Errorf("%.20s... was not refused", chain)
		}
	}
}

func TestBothStoresKeepWhatWasAppended(t *testing.T) {
	l, err := newLedger()
	must(t, err)
	for name, open := range map[string]func(string) (appender, error){"ours": l.open, "chain only": l.openChainOnly} {
		a, err := open(t.TempDir())
		must(t, err)
		latencies, err := appendFor(a, 20*time.Millisecond)
		if err != nil || len(latencies) < producers {
			t.Errorf("%s: %d appended, %v", name, len(latencies), err)
		}
		must(t, a.Close())
	}
	bundle, err := l.bundle(t.TempDir(), 10, time.Now())
	must(t, err)
	report, err := evidence.Verify(bytes.NewReader(bundle), l.trust)
	if err != nil || report.Verdict() != evidence.OK || report.Records != 10 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestGoals(t *testing.T) {
	rounds := []round{{"a": 10, "b": 30}, {"a": 10, "b": 50}, {"a": 10, "b": 40}, {"a": 10, "b": 20}, {"a": 10, "b": 60}}
	for _, c := range []struct {
		goal             goal
		median, quartile float64
		met              bool
	}{
		{faster("", "a", "b", 3), 4, 3, true},
		{faster("", "a", "b", 3.1), 4, 3, false},
		{within("", "b", "a", 5), 4, 5, true},
		{within("", "b", "a", 4.9), 4, 5, false},
	} {
		r := c.goal.judge(rounds)
		if math.Abs(r.median-c.median) > 1e-9 || math.Abs(r.quartile-c.quartile) > 1e-9 || r.met() != c.met {
			t.Errorf("%+v: median %v quartile %v met %v", c, r.median, r.quartile, r.met())
		}
	}
}

// A row that is context has its numbers, and neither a goal nor a judgement.
func TestContextHasNoGoal(t *testing.T) {
	row := beside("ours", "theirs", "a", "b").judge([]round{{"a": 30, "b": 10}}).String()
	if want := "| ours | theirs | - | 3.00x | 3.00x |  |"; row != want {
		t.Errorf("%s; want %s", row, want)
	}
}

// One short round runs every trial, and every goal finds what it needs.
func TestReport(t *testing.T) {
	cell := time.Microsecond
	trials := []trial{cpuTrial("a", repeat(func() error { return nil })), cpuTrial("longer than a cell", repeat(func() error {
		for range 100_000 {
			runtime.KeepAlive(cell)
		}
		return nil
	}))}
	rounds, err := play(trials, 2, cell, func(string) {})
	must(t, err)
	var out bytes.Buffer
	must(t, newField(time.Now(), "", "").report(&out, rounds, cell))
	if !strings.Contains(out.String(), "| cold, 3 links | biscuit-go | at least 3.00x |") {
		t.Error(out.String())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
