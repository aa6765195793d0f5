package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// soak drives the binary with many callers at once, in every binding and with
// streams among them, and looks whether anything leaks or is lost.
type soak struct {
	town       *town
	length     time.Duration
	capability string
	handle     string
	records    map[string]bool // every decision that a caller was told of
	say        func(format string, args ...any)
}

// state is what a process holds.
type state struct {
	rss         int // KiB
	threads     int
	descriptors int
	goroutines  int // 0 where it was not asked for
}

// soakCallers are the numbers of callers, each of which has its turn.
var soakCallers = []int{32, 512}

func runSoak(ctx context.Context, dir string, length time.Duration, out io.Writer) (err error) {
	t, err := newTown(ctx, dir, "stock", "    grpc: {listen: %s}", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	s := &soak{town: t, length: length, records: map[string]bool{}, say: func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }}
	if s.capability, s.handle, err = t.reference(ctx); err != nil {
		return err
	}
	t.client.CloseIdleConnections()
	// What a server holds that has served many at once and rests.
	if err := s.drive(ctx, 128, 3*time.Second, false); err != nil {
		return err
	}
	before, err := s.rest()
	if err != nil {
		return err
	}
	if before.goroutines, err = s.goroutines(ctx); err != nil {
		return err
	}
	s.say("%s, %s, %d CPUs (%s), by `go run . -soak %s -write`. All callers call at once for %s, each on its own connection over mTLS, by reference. The agent is on a2a-go.\n\n"+
		"One call in %d must be denied, and one in %d makes a task. Streams have %d events over %d ms, and the caller leaves one in %d before its end. "+
		"No other call may fail, but those that the server turns away because its queue is full.\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), processor(), length, length,
		everyDenied, everyTask, events+2, events*10, everyLeft)
	for _, n := range soakCallers {
		if err := s.drive(ctx, n, length, true); err != nil {
			return err
		}
	}
	after, err := s.rest()
	if err != nil {
		return err
	}
	if err := s.evidence(ctx); err != nil {
		return err
	}
	if after.goroutines, err = s.goroutines(ctx); err != nil {
		return err
	}
	s.say("\nAfter the soak, at rest means %s after the last call. Before it, at rest means after three seconds of 128 callers.\n\n| at rest | before | after |\n| --- | --- | --- |\n| memory, MiB | %d | %d |\n| threads | %d | %d |\n| open descriptors | %d | %d |\n| goroutines | %d | %d |",
		resting, before.rss/1024, after.rss/1024, before.threads, after.threads, before.descriptors, after.descriptors, before.goroutines, after.goroutines)
	// A caller's connection, a stream or a watch that stays would be there as
	// many times as there were callers. SQLite keeps up to 8 connections for
	// reading, of two descriptors each, as many as were needed at once.
	if after.descriptors > before.descriptors+2*8 || after.goroutines > before.goroutines+8 {
		return fmt.Errorf("something leaks: %+v before, %+v after", before, after)
	}
	return nil
}

// drive has n callers call for a time, and reports what came of it.
func (s *soak) drive(ctx context.Context, n int, length time.Duration, report bool) error {
	kinds := soakKinds()
	callers := make([]*soakCaller, n)
	until := time.Now().Add(length)
	before, err := s.town.server.cpu()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range callers {
		callers[i] = newSoakCaller(s.town, kinds[i%len(kinds)])
		wg.Go(func() { callers[i].run(ctx, until, s.capability, s.handle) })
	}
	wg.Wait()
	after, err := s.town.server.cpu()
	if err != nil {
		return err
	}
	total := 0
	if report {
		s.say("| | callers | calls | turned away | denied | streams left | per second | p50 ms | p99 ms |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	}
	for k, kind := range kinds {
		var latencies []float64
		calls, shed, denied, left := 0, 0, 0, 0
		for i := k; i < n; i += len(kinds) {
			c := callers[i]
			err = errors.Join(append(c.wrong, err)...)
			latencies = append(latencies, c.latencies...)
			calls, shed, denied, left = calls+len(c.records), shed+c.shed, denied+c.denied, left+c.left
			for _, id := range c.records {
				s.records[id] = true
			}
		}
		total += calls
		if report {
			s.say("| %s | %d | %d | %d | %d | %d | %.0f | %s | %s |", kind.name, (n-k+len(kinds)-1)/len(kinds), calls, shed, denied, left,
				float64(calls)/length.Seconds(), number(quantile(latencies, 0.5)), number(quantile(latencies, 0.99)))
		}
	}
	if report {
		s.say("| all | %d | %d | | | | %.0f | | |", n, total, float64(total)/length.Seconds())
		s.say("\n%.0f us of CPU a call.\n", float64((after-before).Microseconds())/float64(total))
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.town.server.tail())
	}
	return nil
}

// resting is how long the server keeps what it may need again: a connection to
// the agent behind is closed after 90 s without a call.
const resting = 95 * time.Second

// rest returns what the server holds after a while without calls.
func (s *soak) rest() (state, error) {
	time.Sleep(resting) //nolint:forbidigo // it is time that it needs
	return s.town.server.state()
}

// state reads what the system says of a process.
func (p *process) state() (state, error) {
	folder := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	files, err := os.ReadDir(filepath.Join(folder, "fd"))
	if err != nil {
		return state{}, err
	}
	text, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return state{}, err
	}
	s := state{descriptors: len(files)}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		first, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, _ := strconv.Atoi(first) // only of lines that are numbers
		switch name {
		case "VmRSS":
			s.rss = n
		case "Threads":
			s.threads = n
		}
	}
	return s, nil
}

// goroutines ends the server in the way in which Go prints all goroutines, and
// starts it again.
func (s *soak) goroutines(ctx context.Context) (int, error) {
	p := s.town.server
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return 0, err
	}
	<-p.done
	text, err := os.ReadFile(p.log)
	if err != nil {
		return 0, err
	}
	s.town.server, err = s.town.run(ctx, "powerbox", s.town.address, s.town.binary, "serve", "--dev")
	return bytes.Count(text, []byte("\ngoroutine ")), err
}

// evidence exports and verifies the records with the binary's own commands,
// and looks for every decision that a caller was told of.
func (s *soak) evidence(ctx context.Context) error {
	verb := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.town.binary, args...) //nolint:gosec // the words are ours
		cmd.Dir, cmd.Env = s.town.folder, append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(s.town.folder, "ca.pem"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("powerbox %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return out, nil
	}
	trust, err := verb("evidence", "trust")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.town.folder, "trust.json"), trust, 0o600); err != nil {
		return err
	}
	if _, err := verb("evidence", "export", "--out", "bundle.jsonl"); err != nil {
		return err
	}
	start := time.Now()
	report, err := verb("evidence", "verify", "bundle.jsonl", "--trust", "trust.json")
	if err != nil {
		return err
	}
	s.say("powerbox evidence verify, %.1f s:\n\n    %s", time.Since(start).Seconds(), strings.ReplaceAll(strings.TrimSpace(string(report)), "\n", "\n    "))
	return s.lost(filepath.Join(s.town.folder, "bundle.jsonl"))
}

// lost reads the bundle for the records that callers were told of, and for
// decisions without an outcome.
func (s *soak) lost(bundle string) error {
	f, err := os.Open(bundle)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	told := len(s.records)
	in := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if id, ok := memberOf(line, `"record_id":"`); ok {
			delete(s.records, id)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	s.say("\n%d answers named their decision; %d of these are not in the evidence.", told, len(s.records))
	if len(s.records) > 0 {
		return fmt.Errorf("%d records are lost", len(s.records))
	}
	return nil
}

// memberOf returns the text behind a mark.
func memberOf(line []byte, mark string) (string, bool) {
	i := bytes.LastIndex(line, []byte(mark))
	if i < 0 {
		return "", false
	}
	rest := line[i+len(mark):]
	j := bytes.IndexByte(rest, '"')
	if j < 0 {
		return "", false
	}
	return string(rest[:j]), true
}
