package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		taken       time.Duration
		want        string
	}{
		{0, 4 << 20, 0, "[                              ]   0 % of 4.0 MiB, ? left"},
		{1 << 20, 4 << 20, 10 * time.Second, "[########                      ]  25 % of 4.0 MiB, 30s left"},
		{4 << 20, 4 << 20, time.Minute, "[##############################] 100 % of 4.0 MiB, 0s left"},
		{6 << 20, 4 << 20, time.Minute, "[##############################] 100 % of 6.0 MiB, 0s left"},
	} {
		if got := progressText(c.done, c.total, c.taken); got != c.want {
			t.Errorf("%d of %d:\n%q, want\n%q", c.done, c.total, got, c.want)
		}
	}
}

// TestProgressIsForPeople shows the bar at most every 200 ms, and nothing if
// the output is no terminal.
func TestProgressIsForPeople(t *testing.T) {
	now := time.Unix(1000, 0)
	var seen strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	shown := &Progress{ctx: ctx, out: &seen, now: func() time.Time { return now }, total: 8, begun: now}
	reader := &shownReader{strings.NewReader("12345678"), shown}
	for range 4 {
		now = now.Add(100 * time.Millisecond)
		if _, err := io.ReadFull(reader, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
	}
	shown.Clear()
	if got := strings.Count(seen.String(), "left"); got != 2 || !strings.HasSuffix(seen.String(), "\r\x1b[K") {
		t.Errorf("%d figures in %q", got, seen.String())
	}
	cancel()
	if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("reads go on after the program was asked to end: %v", err)
	}
	p := &Program{Stderr: &seen, Now: time.Now}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if quiet := p.ShowProgress(t.Context(), false); quiet.out != nil {
		t.Error("a bar where stderr is no terminal")
	}
	seen.Reset()
	asked := p.ShowProgress(t.Context(), true)
	if _, err := asked.Add(f).Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	asked.Clear()
	if got := seen.String(); !strings.HasSuffix(got, "left\n") || strings.Contains(got, "\r") {
		t.Errorf("asked for, a log has %q", got)
	}
}

// TestProgressIsOfAllFiles: a figure is of what all of them have, from the first one
// on, and of what has no size there is none.
func TestProgressIsOfAllFiles(t *testing.T) {
	now := time.Unix(1000, 0)
	var seen strings.Builder
	p := &Program{Stderr: &seen, Now: func() time.Time { return now }}
	shown := p.ShowProgress(t.Context(), true)
	var readers []io.Reader
	for _, size := range []int64{1 << 20, 3 << 20} {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, shown.Add(f))
	}
	for _, r := range readers {
		now = now.Add(10 * time.Second)
		if _, err := io.ReadFull(r, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"25 % of 4.0 MiB, 30s left\n", "50 % of 4.0 MiB, 20s left\n"} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("%q has no %q", seen.String(), want)
		}
	}
	shown = p.ShowProgress(t.Context(), true)
	shown.Add(strings.NewReader("1"))
	if shown.out != nil {
		t.Error("a figure of what nobody knows the size of")
	}
}
