package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// page is where the table is published, seen from this folder.
const page = "../docs/performance.md"

func main() {
	if err := run(os.Args[1:], time.Now(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and prints. A goal that is missed is no error: a machine's
// speed decides no test.
func run(args []string, now time.Time, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 6, "rounds; fewer than 6 are for trying things out")
	cell := flags.Duration("cell", 100*time.Millisecond, "how long each contestant runs in a round")
	dir := flags.String("dir", "", "folder on the disk that evidence is to be written to; default the system's temporary one")
	write := flags.Bool("write", false, "also write "+page)
	if err := flags.Parse(args); err != nil {
		return err
	}
	f := newField(now, *dir)
	if err := f.fill(); err != nil {
		return err
	}
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
