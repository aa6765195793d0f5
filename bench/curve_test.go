package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// The curve measures every load of the gateway, with calls that were refused at three times
// its capacity counted apart.
func TestCurve(t *testing.T) {
	if _, err := (contestant{name: "gateway"}).run(t.Context(), t.TempDir(), "no such binary", time.Millisecond, func(string) {}); err == nil {
		t.Error("a binary that does not exist is measured")
	}
	lacking := contestant{lines: func(context.Context) (string, bool, func() error, error) { return "", false, nil, nil }}
	if c, err := lacking.run(t.Context(), t.TempDir(), "", time.Millisecond, func(string) {}); c != nil || err != nil {
		t.Errorf("what the machine lacks is measured: %v, %v", c, err)
	}
	rows := 0
	c, err := contestant{name: "gateway", evidence: "outcome: behind"}.run(t.Context(), t.TempDir(), program, 20*time.Millisecond, func(line string) {
		if strings.HasPrefix(line, "| gateway |") {
			rows++
		}
	})
	must(t, err)
	if rows != len(shares) || len(c.points) != len(shares) || c.capacity <= 0 {
		t.Fatalf("%d rows of %+v", rows, c)
	}
	for _, p := range c.points {
		if p.served <= 0 || p.p50 <= 0 || p.p99 < p.p50 || p.fsync99 < p.fsync50 {
			t.Errorf("%+v", p)
		}
	}
	section, picture := curveSection(time.Unix(0, 0), loadNow(), time.Second, []curve{*c}), drawCurves([]curve{*c})
	if strings.Count(section, "\n| gateway |") != len(shares) {
		t.Errorf("%s", section)
	}
	page := "# Page\n\n" + hostileBegins + "rest\n"
	page = withCurve(withCurve(page, curveBegins+"old\n\n"), section)
	if curveOf(page) != section || strings.Count(page, curveBegins) != 1 || !strings.HasSuffix(page, hostileBegins+"rest\n") {
		t.Errorf("%s", page)
	}
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture: %v\n%s", err, picture)
		}
	}
}

// A latency counts from when the call had to begin, although no connection was free then.
func TestLatencyCountsTheWaitForAConnection(t *testing.T) {
	world := measured(t, "")
	front, err := world.byReference(t.Context(), byReference)
	must(t, err)
	conns, err := front.load.dialAll(t.Context(), 1)
	must(t, err)
	served, refused, took, err := front.load.open(conns, 20, 1e6, front.request) // all at once, on one connection
	must(t, err)
	if len(served) != 20 || len(refused) != 0 || took <= 0 || served[19] < 2*served[0] {
		t.Errorf("latencies %v, refused %v, in %v", served, refused, took)
	}
	must(t, closeConns(conns))
}
