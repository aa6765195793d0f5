package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// process is a program that bench started.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// startProcess starts a program that listens on an address, and returns when it
// does.
func startProcess(ctx context.Context, folder, name, listen string, command ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(folder, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()                                                  // the process has it
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...) //nolint:gosec // the words are ours
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = folder, log, log
	p.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // the measuring itself takes seconds
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", listen)
		if err == nil {
			return p, c.Close()
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s ended at once:\n%s", name, p.tail())
		default:
		}
	}
	return nil, errors.Join(fmt.Errorf("%s does not listen on %s:\n%s", name, listen, p.tail()), p.stop())
}

// tail is the end of what the process wrote.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-2000):])
}

// stop ends the process and waits for its end.
func (p *process) stop() error {
	err := p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
		return nil
	case <-time.After(15 * time.Second):
		return errors.Join(err, p.cmd.Process.Kill())
	}
}

// cpu is the user and system time of the process so far, by its own clock: what
// getrusage tells of a child only after its end.
func (p *process) cpu() (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of linux/posix-timers.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("CPU time of %s: %w", p.name, err)
	}
	return time.Duration(t.Nano()), nil
}
