package reliability

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a program that was started, and ends with this one.
type process struct {
	name string
	log  string // file
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func startProcess(ctx context.Context, folder, name string, env []string, command ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(folder, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...) //nolint:gosec // commands that this package names
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = folder, log, log, append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// It is to end with this process, of which it sees one thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its log
		}
		_ = log.Close()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// ended reports whether it is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends a signal.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// kill ends it as a crash would, and waits for that.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop asks the process to end.
func (p *process) stop(within time.Duration) error {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("%s did not end within %v", p.name, within)
	}
}

// tail is the end of its output.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-3000):])
}

// await waits until it says that it is ready.
func (p *process) await(ctx context.Context, address string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	err := until(ctx, time.Minute, func() error {
		if p.ended() {
			return &over{fmt.Errorf("%s ended:\n%s", p.name, p.tail())}
		}
		return probe(ctx, client, address)
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w\n%s", p.name, err, p.tail())
	}
	return nil
}

// probe asks whether the server on an address is ready.
func probe(ctx context.Context, client *http.Client, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	_ = response.Body.Close() // nothing of it is wanted
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// over is an error that trying again does not fix.
type over struct{ error }

// until tries until it works, something is over, or the time is. It returns the last
// error then.
func until(ctx context.Context, within time.Duration, try func() error) error {
	limit := time.NewTimer(within)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		var end *over
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-limit.C:
			return err
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// pause waits, and returns false where ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
