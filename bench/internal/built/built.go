// Package built runs the built powerbox for measurements. It starts and ends the program, reads
// the CPU time and memory of its process, and writes the results into a section of a page.
package built

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Tree returns the folder of the main module. It is run inside bench.
func Tree(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/powerbox-project/powerbox").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module; run this inside bench: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// Build builds the program of a tree. The flags are those of go build.
func Build(ctx context.Context, tree, binary string, flags ...string) error {
	args := slices.Concat([]string{"build", "-C", tree}, flags, []string{"-o", binary, "./cmd/powerbox"})
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil { //nolint:gosec // our own module
		return fmt.Errorf("building powerbox: %w\n%s", err, out)
	}
	return nil
}

// Binary returns the absolute path of a given binary, or of one that it builds in a folder
// from this checkout.
func Binary(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	tree, err := Tree(ctx)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	given = filepath.Join(dir, "powerbox")
	return given, Build(ctx, tree, given)
}

// Program is one run of the binary in a folder with its configuration.
type Program struct{ process *exec.Cmd }

// Serve starts powerbox serve and waits until it is ready at an address.
func (p *Program) Serve(ctx context.Context, binary, dir, listen string, patience time.Duration) error {
	log, err := os.Create(filepath.Join(dir, "powerbox.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has it
	p.process = exec.CommandContext(ctx, binary, "serve", "--dev")
	p.process.Dir, p.process.Stdout, p.process.Stderr = dir, log, log
	if err := p.process.Start(); err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < patience; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // the program says readiness by HTTP alone
		if ready(ctx, "http://"+listen+"/readyz") {
			return nil
		}
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("powerbox is not ready after %v:\n%s", patience, text[max(0, len(text)-2000):])
}

func ready(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(r)
	return err == nil && errors.Join(res.Body.Close()) == nil && res.StatusCode == http.StatusOK
}

// End ends the program, which closes its store.
func (p *Program) End() error {
	if p.process == nil || p.process.Process == nil {
		return nil
	}
	http.DefaultClient.CloseIdleConnections()
	err := p.process.Process.Signal(syscall.SIGTERM)
	_ = p.process.Wait() // how it ended is in its log
	p.process = nil
	return err
}

// CPU returns the user and system time of the program so far.
func (p *Program) CPU() (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of linux/posix-timers.h
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^p.process.Process.Pid<<3|schedClock), &spent); err != nil {
		return 0, fmt.Errorf("CPU time of the program: %w", err)
	}
	return time.Duration(spent.Nano()), nil
}

// Memory returns a line of /proc/PID/status in MiB: VmRSS is the resident memory now, VmHWM
// the highest so far.
func (p *Program) Memory(line string) (float64, error) {
	text, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, err
	}
	for s := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(s, line+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			return float64(n) / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in the program's status", line)
}

// ForgetPeak has the system forget the highest memory so far.
func (p *Program) ForgetPeak() error {
	return os.WriteFile(p.proc("clear_refs"), []byte("5"), 0o600)
}

func (p *Program) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.process.Process.Pid, file)
}
