package reliability

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // as another process would open the file
)

// clockFile is the file of a town's folder that moves the clock of its processes, where
// these are built with -tags faults.
const clockFile = "clock"

// ClockEnv is the environment that says so.
func ClockEnv(dir string) []string {
	return []string{"POWERBOX_FAULT_CLOCK=" + filepath.Join(dir, clockFile)}
}

// Faults are trials of one node on a file ([Config.File]), which they leave as it was.
// pause is for how long a dependency is away.
func Faults(pause time.Duration) []Trial {
	held := func(do func(context.Context, *Town, time.Duration) (string, error)) func(context.Context, *Town) (string, error) {
		return func(ctx context.Context, t *Town) (string, error) { return do(ctx, t, pause) }
	}
	return []Trial{
		{"file-size limit of the server", true, limitFiles},
		{fmt.Sprintf("another process locks the store's file for %v", pause), true, held(lockFile)},
		{"no file descriptors are left", true, held(noFiles)},
		{"keys are deleted or emptied", true, loseKeys},
		{"everything is restored from an older copy", true, restoreOlder},
		{"kill -9 of the server at random moments", true, killOften},
		{"damage in the journal's last record after kill -9", true, damageLast},
		{"the disk of a gateway is full, at one server", false, fillDisk},
		{"the clock jumps ahead by 3700s and back", true, held(moveClock)},
	}
}

func (t *Town) store() string { return filepath.Join(t.Dir, "powerbox-data") }

// moveClock sets the clock of all processes ahead, has 70 capabilities revoked meanwhile,
// and sets it back.
func moveClock(ctx context.Context, t *Town, length time.Duration) (string, error) {
	if len(t.Env) == 0 {
		return "", errors.New("the program is to be built with -tags faults, and Env to be ClockEnv")
	}
	set := func(by string) error {
		path := filepath.Join(t.Dir, clockFile)
		return errors.Join(os.WriteFile(path+".new", []byte(by), 0o600), os.Rename(path+".new", path))
	}
	direct, err := t.newDirect(ctx, t.gateways[0])
	if err != nil {
		return "", err
	}
	revoke := func(target string) error {
		return t.operate(ctx, http.MethodPost, "/v1/revocations", map[string]string{"target": target}, nil)
	}
	refused := func() error {
		if code, err := direct.search(ctx); err != nil || code != "revoked" {
			return fmt.Errorf("a revoked capability: %q %w", code, err)
		}
		return nil
	}
	if err := errors.Join(revoke(direct.held.ID), until(ctx, 10*time.Second, refused)); err != nil {
		return "", err
	}
	// Meanwhile every capability and session has ended, as far as the server knows.
	t.lenient.Store(true)
	defer t.lenient.Store(false)
	err = set("3700s")
	for n := range 70 {
		err = errors.Join(err, revoke(fmt.Sprintf("tok_of_nothing_%d", n)))
	}
	ok := pause(ctx, min(length, 3*time.Second))
	if err := errors.Join(err, set("0s")); err != nil || !ok {
		return "", errors.Join(err, ctx.Err())
	}
	if err := refused(); err != nil {
		t.ledger.finding("wrong allow: after the jump %v", err)
	}
	// Calls that were judged by the other clock have their answers by then.
	return "70 revocations meanwhile; the program is built with -tags faults", t.unhurried(ctx)
}

// unhurried waits until every call that is on its way has an answer.
func (t *Town) unhurried(ctx context.Context) error {
	if !pause(ctx, time.Second) {
		return ctx.Err()
	}
	return nil
}

// limitFiles lets the files of the server not grow beyond sizes at random, and not at all.
func limitFiles(ctx context.Context, t *Town) (string, error) {
	n := t.nodes[0]
	limit := func(size uint64) error {
		return unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil)
	}
	for _, size := range []uint64{0, uint64(rand.IntN(1 << 14)), uint64(rand.IntN(1 << 18)), 0} { //nolint:gosec // no secret
		if err := limit(size); err != nil {
			return "", err
		}
		ok := pause(ctx, calm)
		if err := limit(unix.RLIM_INFINITY); err != nil || !ok {
			return "", errors.Join(err, ctx.Err())
		}
		if err := n.await(ctx, n.address); err != nil {
			return "", err
		}
	}
	return "RLIMIT_FSIZE of 0 and of sizes at random", nil
}

// lockFile has another connection hold the file of the store.
func lockFile(ctx context.Context, t *Town, length time.Duration) (string, error) {
	db, err := sql.Open("sqlite", filepath.Join(t.store(), "powerbox.db"))
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }() // it has rolled back
	db.SetMaxOpenConns(1)
	if err := until(ctx, 10*time.Second, func() error { _, err := db.ExecContext(ctx, "BEGIN EXCLUSIVE"); return err }); err != nil {
		return "", err
	}
	said, err := t.unready(ctx, length, "store")
	_, failed := db.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return said, errors.Join(err, failed)
}

// unready waits for a time, in which /readyz of the first node has to name a dependency.
func (t *Town) unready(ctx context.Context, length time.Duration, dependency string) (string, error) {
	began := t.Now()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	err := until(ctx, length, func() error {
		text, err := t.says(ctx, client)
		if err == nil && !strings.Contains(text, `"`+dependency+`"`) {
			err = fmt.Errorf("/readyz says %s", text)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("for %v it does not say that the %s is away: %w", length, dependency, err)
	}
	first := t.Now().Sub(began)
	t.Log("/readyz named the %s after %v", dependency, first.Round(10*time.Millisecond))
	if !pause(ctx, length-first) {
		return "", ctx.Err()
	}
	return "/readyz names the " + dependency, nil
}

// says is the answer of /readyz where it is 503.
func (t *Town) says(ctx context.Context, client *http.Client) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.nodes[0].address+"/readyz", nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	var text bytes.Buffer
	_, err = text.ReadFrom(http.MaxBytesReader(nil, response.Body, largest))
	if err == nil && response.StatusCode == http.StatusOK {
		err = errors.New("ready")
	}
	return text.String(), err
}

// noFiles leaves the server some descriptors, which strangers' connections take.
func noFiles(ctx context.Context, t *Town, length time.Duration) (string, error) {
	n := t.nodes[0]
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid))
	if err != nil {
		return "", err
	}
	before := len(n.tail())
	var was unix.Rlimit
	if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		return "", err
	}
	if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + 8), Max: was.Max}, nil); err != nil {
		return "", err
	}
	var all []net.Conn
	for range 40 {
		if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", n.address); err == nil {
			all = append(all, c)
		}
	}
	ok := pause(ctx, min(length, 5*time.Second))
	wrote := len(n.tail()) - before
	for _, c := range all {
		_ = c.Close() // nothing of it is wanted
	}
	if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_NOFILE, &was, nil); err != nil || !ok {
		return "", errors.Join(err, ctx.Err())
	}
	if wrote > 2000 {
		t.ledger.finding("without descriptors the server wrote %d bytes of log", wrote)
	}
	return "RLIMIT_NOFILE, and 40 connections of strangers", n.await(ctx, n.address)
}

// refuses starts the stopped node, which must end and say something.
func (t *Town) refuses(ctx context.Context, why string, says ...string) error {
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := t.run(limited, t.Binary, "serve", "-c", t.nodes[0].file, "--dev")
	if err == nil || limited.Err() != nil {
		t.ledger.finding("%s: the server starts: %v\n%s", why, err, out)
		return nil
	}
	for _, want := range says {
		if !strings.Contains(out, want) {
			t.ledger.finding("%s: the server does not say %q: %s", why, want, out)
		}
	}
	return ctx.Err()
}

// loseKeys deletes and empties each key of the stopped server.
func loseKeys(ctx context.Context, t *Town) (string, error) {
	n := t.nodes[0]
	if err := n.process.stop(20 * time.Second); err != nil {
		return "", err
	}
	keys, err := filepath.Glob(filepath.Join(t.store(), "keys", "*.secret"))
	if err != nil || len(keys) == 0 {
		return "", fmt.Errorf("no keys: %w", err)
	}
	tried := 0
	for _, path := range keys {
		whole, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		name := filepath.Base(path)
		if name == "operator.secret" { // a password, on which no record depends
			continue
		}
		tried++
		err = errors.Join(os.Remove(path), t.refuses(ctx, name+" is deleted", name, "powerbox "))
		err = errors.Join(err, os.WriteFile(path, nil, 0o600), t.refuses(ctx, name+" is empty", name))
		if err := errors.Join(err, os.WriteFile(path, whole, 0o600)); err != nil { //nolint:gosec // a file of the town
			return "", err
		}
	}
	return fmt.Sprintf("%d keys, each deleted and emptied: the server does not start, and names a command", tried), t.boot(ctx, n)
}

// killOften kills the node at moments at random.
func killOften(ctx context.Context, t *Town) (string, error) {
	const kills = 5
	for range kills {
		if !pause(ctx, time.Duration(50+rand.IntN(500))*time.Millisecond) { //nolint:gosec // no secret
			return "", ctx.Err()
		}
		n := t.nodes[0]
		n.kill()
		if err := t.boot(ctx, n); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d kills each time", kills), nil
}

// damageLast flips a bit of the last record of the journal after a kill. The server must
// not cut it off. With the bit as it was nothing is lost.
func damageLast(ctx context.Context, t *Town) (string, error) {
	n := t.nodes[0]
	before := t.ledger.told()
	if !pause(ctx, calm) {
		return "", ctx.Err()
	}
	n.kill()
	path := filepath.Join(t.store(), "powerbox.db-spool")
	whole, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	// The bytes behind the last batch may be left of earlier ones.
	last, known := -1, t.ledger.told()
	for i := len(known) - 1; i >= 0 && last < 0 && !slices.Contains(before, known[i]); i-- {
		last = bytes.LastIndex(whole, []byte(`"`+known[i]+`"`))
	}
	if last < 0 {
		return "", errors.New("the journal has no record that was acknowledged just now")
	}
	changed := bytes.Clone(whole)
	changed[last] ^= 1
	err = errors.Join(os.WriteFile(path, changed, 0o600), t.refuses(ctx, "its last record is damaged", "powerbox store salvage"), os.WriteFile(path, whole, 0o600)) //nolint:gosec // a file of the town
	if err != nil {
		return "", err
	}
	return "the server does not start and names the command that salvages; with the bit as it was nothing is lost", t.boot(ctx, n)
}
