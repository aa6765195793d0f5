package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
)

// TestMain is the processes of the servers too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{verbOPA, verbPowerbox}, os.Args[1]) {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := run(ctx, os.Args[1:], io.Discard, os.Stderr)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEveryContestantDecidesAndRecords: each permits the one skill, denies another one, and has
// its decisions on the disk.
func TestEveryContestantDecidesAndRecords(t *testing.T) {
	dir := t.TempDir()
	w, err := newTown(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, r := range w.contestants() {
		send, err := r.ask(1)
		if err != nil {
			t.Fatal(err)
		}
		if took, err := send(t.Context()); err != nil || took <= 0 {
			t.Errorf("%s: %v, %v", r.name, took, err)
		}
	}
	body := strings.Replace(fmt.Sprintf(message, 1), "read_note", "delete_note", 1)
	for _, name := range []string{verbPowerbox, anyForm, synced, "console", nothing, verbPowerbox + " thin", synced + " thin"} {
		door := w.doors[name]
		if of, thin := strings.CutSuffix(name, " thin"); thin {
			door, name = w.thin[of], of
		}
		a, err := door.Check(t.Context(), &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{
			Method: "POST", Host: "edge.example.com", Path: "/agents/notes", RawBody: []byte(body), Headers: map[string]string{"content-type": "application/json", "a2a-version": "1.0"},
		}}}})
		if decides := name != nothing; err != nil || decides == (a.GetStatus().GetCode() == int32(codes.OK)) {
			t.Errorf("%s answers %v, %v about another skill", name, a, err)
		}
	}
	for name, denied := range map[string]int{synced: 2, "console": 1} {
		text, err := os.ReadFile(filepath.Join(dir, name+".decisions"))
		if err != nil || strings.Count(string(text), "delete_note") != denied || strings.Count(string(text), "read_note") != 1 {
			t.Errorf("the decision log %s: %v\n%s", name, err, text)
		}
	}
}

// TestTheSectionJudgesTheUpperQuartile over the gateway's own in the same round.
func TestTheSectionJudgesTheUpperQuartile(t *testing.T) {
	rows := []row{{name: "own"}, {name: "good", goal: true}, {name: "bad", goal: true}}
	for n := range 6 {
		own := time.Duration(n+1) * time.Millisecond
		late := own + 1100*time.Microsecond
		if n > 2 {
			late = own
		}
		rows[0].rounds = append(rows[0].rounds, quantiles{own, own})
		rows[1].own, rows[2].own = append(rows[1].own, quantiles{own, own}), append(rows[2].own, quantiles{own, own})
		rows[1].rounds = append(rows[1].rounds, quantiles{own, own + 900*time.Microsecond})
		rows[2].rounds = append(rows[2].rounds, quantiles{own, late})
	}
	text := page(rows, settings{rounds: 6}, time.Unix(0, 0))
	if !strings.Contains(text, "| good | 4.00 | 4.90 | 0.90 | 0.90 | met |") || !strings.Contains(text, "| 1.10 | **missed** |") {
		t.Error(text)
	}
}
