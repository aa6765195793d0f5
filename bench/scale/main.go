// Scale runs the code that many gateways would run, all in one process: the
// publisher, the relays and the subscribers of the revocation feed, over
// connections in memory, and one spool for each gateway, on the disk. What it
// measures goes into a model, which is printed with it; docs/assurance/scale.md is its
// output with words.
//
//	go run ./scale                       a simulation of 1,000 gateways
//	go run ./scale -gateways 4000 -relays 20
package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/command"
)

// simulation is how large it is.
type simulation struct {
	gateways int
	relays   int // of the feed
	events   int // revocations
	entries  int // that a snapshot has
	records  int // of each gateway's spool
	dir      string
	out      io.Writer
}

func main() { command.Main("scale", start) }

func start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := simulation{out: stdout}
	flags := command.Flags("scale", stderr)
	flags.IntVar(&s.gateways, "gateways", 1000, "gateways in this process")
	flags.IntVar(&s.relays, "relays", 10, "relays between the server and them")
	flags.IntVar(&s.events, "events", 50, "revocations, one after the other")
	flags.IntVar(&s.entries, "entries", 10000, "revocations that are in force when a gateway begins")
	flags.IntVar(&s.records, "records", 100, "records of each gateway")
	flags.StringVar(&s.dir, "dir", "", "folder for the spools; default a temporary one")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	return s.run(ctx)
}

// measured is what the simulation found, for the model.
type measured struct {
	heartbeatBytes, eventBytes, entryBytes float64 // on the wire, for each follower
	heartbeatCPU, eventCPU                 float64 // us of the serving process, for each follower
	followerCPU                            float64 // us of a follower, for an event and its heartbeat
	entryMemory                            float64 // bytes of a follower
	recordBytes                            float64 // in the spool
	appendCPU, shipCPU                     float64 // us for each record
}

func (s simulation) run(ctx context.Context) error {
	if s.gateways < 1 || s.relays < 1 || s.events < 1 || s.entries < 1 || s.records < 1 {
		return fmt.Errorf("every number is from 1 up")
	}
	fmt.Fprintf(s.out, "%s, %s, %d CPUs: %d gateways in one process, by `go run ./scale -gateways %d -relays %d`\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), s.gateways, s.gateways, s.relays)
	var m measured
	if err := s.feeds(ctx, &m); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	if err := s.snapshots(ctx, &m); err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	if err := s.spools(ctx, &m); err != nil {
		return fmt.Errorf("spools: %w", err)
	}
	m.print(s.out)
	standard.print(s.out, m)
	return nil
}

func (m measured) print(out io.Writer) {
	fmt.Fprint(out, "| one | measured |\n| --- | --- |\n")
	for _, r := range []struct {
		name  string
		value float64
		unit  string
	}{
		{"heartbeat, to one follower", m.heartbeatBytes, "B"},
		{"revocation with its heartbeat, to one follower", m.eventBytes, "B"},
		{"entry of a snapshot", m.entryBytes, "B"},
		{"entry in the memory of a follower", m.entryMemory, "B"},
		{"heartbeat, CPU of whoever serves it, for each follower", m.heartbeatCPU, "us"},
		{"revocation with its heartbeat, the same", m.eventCPU, "us"},
		{"revocation with its heartbeat, CPU of a follower", m.followerCPU, "us"},
		{"record in a spool", m.recordBytes, "B"},
		{"record, CPU to seal, sign and write it", m.appendCPU, "us"},
		{"record, CPU to read and note it as shipped", m.shipCPU, "us"},
	} {
		fmt.Fprintf(out, "| %s | %.1f %s |\n", r.name, r.value, r.unit)
	}
	fmt.Fprintln(out)
}

// spent is the CPU time of the process so far.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns the bytes in use after a collection.
func heap() float64 {
	for range 3 { // what pools and finalizers hold goes with the next one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
