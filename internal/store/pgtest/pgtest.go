// Package pgtest runs private PostgreSQL clusters for tests: each in a temporary
// folder, on a socket in it and nowhere else, as a user who is not root, and ended
// with the process that began it.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is who owns everything in a cluster.
const superuser = "powerbox"

// Cluster is a running server, or one that was stopped.
type Cluster struct {
	folder string // of everything; also of the socket

	mu     sync.Mutex
	server *exec.Cmd
	ended  chan struct{} // closed when server has ended
	made   int           // databases
}

// New makes a cluster with some settings ("fsync=on") and starts it. The caller ends
// it with [Cluster.Close].
func New(settings ...string) (*Cluster, error) {
	c, err := begin()
	if err != nil {
		return nil, err
	}
	if err := c.run("initdb", "-D", c.data(), "-U", superuser, "-N", "-E", "UTF8", "--locale=C.UTF-8", "--auth=trust"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.Start(settings...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Standby makes a cluster that follows another one, and starts it. Its name is what
// the other one's synchronous_standby_names can have.
func (c *Cluster) Standby(name string, settings ...string) (*Cluster, error) {
	s, err := begin()
	if err != nil {
		return nil, err
	}
	from := fmt.Sprintf("host=%s user=%s application_name=%s", c.folder, superuser, name)
	if err := s.run("pg_basebackup", "-D", s.data(), "-R", "-X", "stream", "-c", "fast", "-d", from); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Start(settings...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func begin() (*Cluster, error) {
	folder, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	c := &Cluster{folder: folder}
	if err := giveToOwner(folder); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.folder, "data") }

// program finds one of PostgreSQL's programs, which Debian has outside PATH.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return "", fmt.Errorf("pgtest: the tests need PostgreSQL 15 or newer, and %s is nowhere (make test-deps; Debian: apt-get install postgresql-15)", name)
	}
	return found[len(found)-1], nil
}

func (c *Cluster) command(name string, args ...string) (*exec.Cmd, error) {
	path, err := program(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), path, args...) //nolint:gosec // what this package names
	cmd.Dir = c.folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + c.folder}
	return cmd, asOwner(cmd)
}

func (c *Cluster) run(name string, args ...string) error {
	cmd, err := c.command(name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: %s: %w\n%s", name, err, out)
	}
	return nil
}

// Start starts the server and waits until it answers.
func (c *Cluster) Start(settings ...string) error {
	args := []string{"-D", c.data(), "-k", c.folder, "-c", "listen_addresses=", "-c", "shared_buffers=32MB", "-c", "max_connections=100"}
	if !strings.Contains(strings.Join(settings, " "), "fsync=") {
		args = append(args, "-c", "fsync=off")
	}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	cmd, err := c.command("postgres", args...)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	endWithUs(cmd)
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		// The server is to end with this process, of which it sees one thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // however it ends
		}
		_ = log.Close()
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	c.mu.Lock()
	c.server, c.ended = cmd, ended
	c.mu.Unlock()
	return c.await(ended)
}

// await waits until the server answers.
func (c *Cluster) await(ended chan struct{}) error {
	var err error
	for range 600 {
		var conn *pgx.Conn
		if conn, err = pgx.Connect(context.Background(), c.URL("postgres")); err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-ended:
			said, _ := os.ReadFile(filepath.Join(c.folder, "log"))
			return fmt.Errorf("pgtest: the server ended:\n%s", said)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("pgtest: the server does not answer: %w", err)
}

// URL is where one of its databases is.
func (c *Cluster) URL(database string) string {
	return "postgres://" + superuser + "@/" + database + "?host=" + url.QueryEscape(c.folder)
}

// Both is where a database is on whichever of two clusters takes writes.
func (c *Cluster) Both(other *Cluster, database string) string {
	return "postgres://" + superuser + "@/" + database + "?host=" + url.QueryEscape(c.folder+","+other.folder) + "&port=5432,5432&target_session_attrs=read-write"
}

// Exec runs statements in one of its databases.
func (c *Cluster) Exec(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, c.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("pgtest: %s: %w", s, err)
		}
	}
	return nil
}

// Database makes an empty database and returns its URL.
func (c *Cluster) Database(ctx context.Context) (string, error) {
	return c.Like(ctx, "template1")
}

// Like makes a database with everything that another one has, and returns its URL. Nothing may
// be connected to the other one.
func (c *Cluster) Like(ctx context.Context, other string) (string, error) {
	c.mu.Lock()
	c.made++
	name := fmt.Sprintf("test%d", c.made)
	c.mu.Unlock()
	return c.URL(name), c.Exec(ctx, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+other)
}

// Dump writes a backup of a database with PostgreSQL's own means, into its folder, and
// returns where.
func (c *Cluster) Dump(database string) (string, error) {
	file := filepath.Join(c.folder, database+".dump")
	return file, c.run("pg_dump", "-h", c.folder, "-U", superuser, "-Fc", "-f", file, database)
}

// Restore makes a database of what Dump wrote, and returns its URL.
func (c *Cluster) Restore(ctx context.Context, file string) (string, error) {
	url, err := c.Database(ctx)
	if err != nil {
		return "", err
	}
	return url, c.run("pg_restore", "-h", c.folder, "-U", superuser, "-d", nameOf(url), file)
}

// nameOf is the name of the database at a URL of a cluster.
func nameOf(url string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(url, "postgres://"+superuser+"@/"), "?")
	return name
}

// Promote makes a standby the primary.
func (c *Cluster) Promote(ctx context.Context) error {
	return c.Exec(ctx, "postgres", "SELECT pg_promote(true, 30)")
}

// Kill ends the server at once, as a crash would.
func (c *Cluster) Kill() { c.signal(syscall.SIGKILL) }

// Pause stops every process of the server where it stands, until the returned function is
// called.
func (c *Cluster) Pause() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return func() {}
	}
	pids := append([]int{c.server.Process.Pid}, children(c.server.Process.Pid)...)
	pause(pids)
	return func() { resumeAll(pids) }
}

// Stop ends the server, and everybody's connections.
func (c *Cluster) Stop() { c.signal(syscall.SIGINT) }

func (c *Cluster) signal(s syscall.Signal) {
	c.mu.Lock()
	server, ended := c.server, c.ended
	c.server = nil
	c.mu.Unlock()
	if server == nil {
		return
	}
	if s == syscall.SIGKILL {
		killAll(append([]int{server.Process.Pid}, children(server.Process.Pid)...))
	} else {
		_ = server.Process.Signal(s)
	}
	<-ended
}

// Close ends the server and removes everything.
func (c *Cluster) Close() error {
	c.signal(syscall.SIGINT)
	return os.RemoveAll(c.folder)
}

// Folder is where everything is, the server's log among it.
func (c *Cluster) Folder() string { return c.folder }

// Shared is one cluster for all tests of a program, begun by the first that asks.
type Shared struct {
	once    sync.Once
	cluster *Cluster
	err     error

	preparing  sync.Once
	unprepared error
}

// Database makes an empty database for a test and returns its URL. Where PostgreSQL
// is missing the test fails.
func (s *Shared) Database(t testing.TB) string {
	t.Helper()
	s.begin(t)
	database, err := s.cluster.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.endWith(t, database)
	return database
}

func (s *Shared) begin(t testing.TB) {
	t.Helper()
	// With a database for each test, autovacuum would look at one of them all the time: that takes a
	// third of a processor with 150 of them.
	s.once.Do(func() { s.cluster, s.err = New("autovacuum=off") })
	if s.err != nil {
		t.Fatal(s.err)
	}
}

// prepared is the database that others are copied from.
const prepared = "prepared"

// Prepared makes a database for a test and returns its URL. It is a copy of one that prepare
// was called with, once for all tests.
func (s *Shared) Prepared(t testing.TB, prepare func(url string) error) string {
	t.Helper()
	s.begin(t)
	s.preparing.Do(func() {
		if s.unprepared = s.cluster.Exec(t.Context(), "postgres", "CREATE DATABASE "+prepared); s.unprepared == nil {
			s.unprepared = prepare(s.cluster.URL(prepared))
		}
	})
	if s.unprepared != nil {
		t.Fatal(s.unprepared)
	}
	database, err := s.cluster.Like(t.Context(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	s.endWith(t, database)
	return database
}

// endWith removes a database of 8 MB at the end of its test if it takes memory. On a disk it
// ends with the cluster, as its removal would take as long as making it.
func (s *Shared) endWith(t testing.TB, database string) {
	t.Helper()
	if !inMemory(s.cluster.folder) {
		return
	}
	name := nameOf(database)
	t.Cleanup(func() {
		if err := s.cluster.Exec(context.WithoutCancel(t.Context()), "postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
}

// Cluster is the one that databases were made in, nil before the first.
func (s *Shared) Cluster() *Cluster { return s.cluster }

// Close ends it, where it was begun.
func (s *Shared) Close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}
