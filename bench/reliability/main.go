package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
	"github.com/powerbox-project/powerbox/bench/internal/reliability"
)

func main() { command.Main("reliability", run) }

// bench is one run of the program.
type bench struct {
	ctx            context.Context
	root           string // of the main module
	binary, older  string
	dir            string
	from           string // revision of older
	only           string
	times, nodes   int
	gateways       int
	workers        int
	followers      int
	pause, soaking time.Duration
	lease, scaling time.Duration
	stdout, stderr io.Writer
	page           *page
	failed         []string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	b := &bench{ctx: ctx, stdout: stdout, stderr: stderr, page: &page{command: strings.Join(append([]string{"go run ./reliability"}, args...), " ")}}
	flags := command.Flags("reliability", stderr)
	flags.IntVar(&b.times, "times", 10, "how often each trial is made")
	flags.DurationVar(&b.pause, "pause", time.Minute, "for how long a node is stopped")
	flags.DurationVar(&b.soaking, "soak", 10*time.Minute, "how long nodes and gateways are killed at random; 0 for not at all")
	flags.DurationVar(&b.lease, "lease", 5*time.Second, "of the gateways")
	flags.DurationVar(&b.scaling, "scaling", 10*time.Second, "how long throughput is measured with each number of nodes; 0 for not at all")
	flags.IntVar(&b.nodes, "nodes", 3, "of the server")
	flags.IntVar(&b.gateways, "gateways", 2, "apart from it")
	flags.IntVar(&b.workers, "workers", 8, "callers")
	flags.IntVar(&b.followers, "followers", 200, "of the feed, where a revocation is measured; 0 for not at all")
	flags.StringVar(&b.only, "only", "", "make only what has this, or one of these parted by commas, in its name")
	flags.StringVar(&b.from, "from", "HEAD~1", "`revision` that nodes are upgraded from")
	powerbox := command.Powerbox(flags)
	write := flags.Bool("write", false, "also write the tables into docs/assurance/reliability.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b.binary = *powerbox
	if b.dir, err = os.MkdirTemp("", "powerbox-reliability"); err != nil {
		return err
	}
	if err := b.build(); err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	b.page.began = time.Now()
	err = b.all()
	fmt.Fprintln(stdout, b.page.text())
	if *write {
		err = errors.Join(err, b.page.writeTo(filepath.Join(b.root, "docs", "assurance", "reliability.md")))
	}
	if len(b.failed) > 0 {
		return errors.Join(err, fmt.Errorf("%s; what was written is in %s", strings.Join(b.failed, "; "), b.dir))
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// build makes the program.
func (b *bench) build() error {
	root, err := built.Tree(b.ctx)
	if err != nil {
		return err
	}
	b.root = root
	b.page.revision = b.git("describe", "--always", "--dirty", "--abbrev=10")
	if b.binary == "" {
		b.binary = filepath.Join(b.dir, "powerbox")
		return built.Build(b.ctx, root, b.binary)
	}
	return nil
}

func (b *bench) git(args ...string) string {
	out, err := exec.CommandContext(b.ctx, "git", append([]string{"-C", b.root}, args...)...).Output() //nolint:gosec // the words are ours
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// wants reports whether a part was asked for.
func (b *bench) wants(name string) bool {
	for part := range strings.SplitSeq(b.only, ",") {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// town builds a new town.
func (b *bench) town(name string, change func(*reliability.Config)) (*reliability.Town, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	c := reliability.Config{
		Binary: b.binary, Dir: dir, Nodes: b.nodes, Gateways: b.gateways, Workers: b.workers, Lease: b.lease, Now: time.Now, Random: rand.Reader, Log: b.say,
	}
	if change != nil {
		change(&c)
	}
	b.say("a town for: %s", name)
	return reliability.NewTown(b.ctx, c)
}

// all makes every part. One that fails is told, and the next one begins.
func (b *bench) all() error {
	for i, trial := range reliability.Trials(b.pause) {
		b.part(trial.Name, fmt.Sprint("trial", i), func(t *reliability.Town) (reliability.Result, error) { return t.Play(b.ctx, trial, b.times) }, nil)
	}
	b.faults()
	if b.soaking > 0 {
		b.part(fmt.Sprintf("soak: kills at random for %v", b.soaking), "soak", func(t *reliability.Town) (reliability.Result, error) {
			return t.Soak(b.ctx, b.soaking)
		}, nil)
	}
	if b.wants("control") {
		if err := b.control(); err != nil {
			b.failed = append(b.failed, "control: "+err.Error())
		}
	}
	const rolling = "rolling upgrade"
	if b.wants(rolling) {
		b.upgrade(rolling)
	}
	if b.followers > 0 && b.wants("revocation") {
		if err := b.revocation(); err != nil {
			b.failed = append(b.failed, "revocation: "+err.Error())
		}
	}
	if b.scaling > 0 && b.wants("scale-out") {
		if err := b.scale(); err != nil {
			b.failed = append(b.failed, "scale-out: "+err.Error())
		}
	}
	return b.ctx.Err()
}

// faults makes the trials of one node on a file, with a program whose clock can be moved.
func (b *bench) faults() {
	binary := ""
	for i, trial := range reliability.Faults(min(b.pause, 30*time.Second)) {
		if !b.wants(trial.Name) {
			continue
		}
		if binary == "" {
			binary = filepath.Join(b.dir, "powerbox-faults")
			if err := built.Build(b.ctx, b.root, binary, "-tags", "faults"); err != nil {
				b.failed = append(b.failed, err.Error())
				return
			}
		}
		b.part(trial.Name, fmt.Sprint("fault", i), func(t *reliability.Town) (reliability.Result, error) { return t.Play(b.ctx, trial, b.times) }, func(c *reliability.Config) {
			c.Binary, c.File, c.Nodes, c.Gateways, c.Env = binary, true, 1, 1, reliability.ClockEnv(c.Dir)
		})
	}
}

// part makes one trial in its own town.
func (b *bench) part(name, folder string, do func(*reliability.Town) (reliability.Result, error), change func(*reliability.Config)) {
	if !b.wants(name) || b.ctx.Err() != nil {
		return
	}
	t, err := b.town(folder, change)
	var r reliability.Result
	if err == nil {
		r, err = do(t)
		err = errors.Join(err, t.Close())
	}
	r.Name = cmp.Or(r.Name, name)
	if err != nil {
		b.say("%s: %v", name, err)
		b.failed = append(b.failed, name+": "+err.Error())
		r.Wrong = append(r.Wrong, err.Error())
	}
	for _, w := range r.Wrong {
		b.say("  %s: %s", name, w)
	}
	for what, n := range r.Excuses {
		b.say("  %s: %d times without a definite answer: %s", name, n, what)
	}
	if !r.OK() {
		b.failed = append(b.failed, fmt.Sprintf("%s: %d lost, %d findings", name, r.Lost, len(r.Wrong)))
	}
	b.page.results = append(b.page.results, r)
}

// upgrade builds the revision before and replaces its nodes by this one.
func (b *bench) upgrade(name string) {
	b.older = filepath.Join(b.dir, "older")
	tree := filepath.Join(b.dir, "tree")
	at := b.git("rev-parse", "--short=10", b.from)
	out, err := exec.CommandContext(b.ctx, "git", "-C", b.root, "worktree", "add", "--detach", tree, b.from).CombinedOutput() //nolint:gosec // as the operator asked
	if err != nil {
		b.failed = append(b.failed, fmt.Sprintf("%s: %v: %s", name, err, out))
		return
	}
	defer b.git("worktree", "remove", "--force", tree)
	if err := built.Build(b.ctx, tree, b.older); err != nil {
		b.failed = append(b.failed, fmt.Sprintf("%s: %v", name, err))
		return
	}
	// Each time in its own town: nothing goes back to an older schema.
	from := len(b.page.results)
	for n := range b.times {
		b.part(fmt.Sprintf("%s, from %s to %s", name, at, b.page.revision), fmt.Sprint("upgrade", n), func(t *reliability.Town) (reliability.Result, error) {
			return t.Upgrade(b.ctx, b.binary)
		}, func(c *reliability.Config) { c.Binary = b.older })
	}
	all := b.page.results[from:]
	for _, r := range all[min(1, len(all)):] {
		all[0].Add(r)
	}
	b.page.results = b.page.results[:from+min(1, len(all))]
}

// machine is where it ran.
func machine() string {
	load, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%s, %d CPUs, load %s", runtime.Version(), runtime.NumCPU(), first)
}
