package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// page is where the table is published, seen from this folder.
const page = "../docs/assurance/performance.md"

func main() {
	if err := run(os.Args[1:], time.Now(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and prints. A goal that is missed is no error: a machine's
// speed decides no test.
func run(args []string, now time.Time, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 && args[0] == peerVerb {
		return runPeer(args[1:])
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 6, "rounds; fewer than 6 are for trying things out")
	cell := flags.Duration("cell", 100*time.Millisecond, "how long each contestant runs in a round")
	dir := flags.String("dir", "", "folder on the disk that evidence is to be written to; default the system's temporary one")
	only := flags.String("only", "", "run the trials of one part alone, for trying things out: chains, gateway or agentauth")
	name := flags.String("trial", "", "run only the trials with this, or one of these parted by commas, in their name")
	soaking := flags.Duration("soak", 0, "measure nothing; drive the binary for this long with 32 callers and as long with 512")
	fan := flags.Int("fanout", 0, "measure a revocation to so many subscribers of the feed, and as many open streams, and nothing else")
	curving := flags.Duration("curve", 0, "measure latency against offered load, for this long at each load, and nothing else")
	binary := flags.String("binary", "", "the powerbox binary for -curve; default that of this tree")
	other := flags.String("against", "", "compare the gateway's CPU and latency with this powerbox binary, and measure nothing else")
	write := flags.Bool("write", false, "also write "+page)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *fan > 0 {
		return runFanout(context.Background(), *dir, *fan, stdout)
	}
	if *curving > 0 {
		return curveMain(*dir, *binary, *name, *curving, *write, stdout, stderr)
	}
	if *other != "" {
		return runAgainst(context.Background(), *dir, "", *other, *rounds, *cell, stdout, stderr)
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if *soaking > 0 {
		var out bytes.Buffer
		if err := runSoak(context.Background(), *dir, *soaking, io.MultiWriter(stdout, &out)); err != nil || !*write {
			return err
		}
		return os.WriteFile(page, []byte(withSoak(string(old), out.String())), 0o644) //nolint:gosec // a page of the documentation
	}
	f := newField(now, *dir, *only)
	f.why, f.curve, f.console, f.hostile, f.soak, f.size = whyOf(string(old)), curveOf(string(old)), consoleOf(string(old)), hostileOf(string(old)), soakOf(string(old)), sizeOf(string(old))
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.fill(); err != nil {
		return err
	}
	f.keep(*name)
	all, err := play(f.trials, *rounds, *cell, func(line string) { fmt.Fprintln(stderr, line) })
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := f.report(&out, all, *cell); err != nil {
		return err
	}
	if *write {
		if err := os.WriteFile(page, out.Bytes(), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err
		}
	}
	_, err = out.WriteTo(stdout)
	return err
}
