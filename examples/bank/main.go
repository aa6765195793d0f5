// Command bank serves a provider of the Agent Auth Protocol, to try agents and
// clients against: Powerbox as the program that people run, in dev mode, in front
// of a bank that knows nothing of agents. A service at its own location
// verifies agents without asking the provider.
//
//	go run ./examples/bank
//
// Everything is on loopback. Dev mode lets anybody on this machine answer for the
// built-in users:
//
//	powerbox approval approve CODE --server http://127.0.0.1:4850 --as alice
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bank:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	listen                     string
	session, maximum, absolute time.Duration
	store, directory           string
	users                      string
	binary                     string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bank", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:4850", "`address` of the provider, on loopback")
	flags.DurationVar(&o.session, "session-ttl", 30*time.Minute, "an agent without requests expires after this")
	flags.DurationVar(&o.maximum, "max-lifetime", 24*time.Hour, "an agent expires so long after its activation")
	flags.DurationVar(&o.absolute, "absolute-lifetime", 7*24*time.Hour, "an agent ends so long after its registration")
	flags.StringVar(&o.store, "store", "memory", "memory: nothing is left when it ends; sqlite: keys and store stay in --directory")
	flags.StringVar(&o.directory, "directory", "bank-data", "`folder` of --store sqlite")
	flags.StringVar(&o.users, "users", "alice,bob,root", "built-in users, joined by commas; root is the administrator")
	flags.StringVar(&o.binary, "binary", "", "`file` of a powerbox that is built already; built where absent")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch o.store {
	case "memory", "sqlite":
		return o, nil
	}
	return o, fmt.Errorf("--store is %q; want memory or sqlite", o.store)
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "powerbox-bank-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	data := filepath.Join(folder, "data")
	if o.store == "sqlite" {
		if data, err = filepath.Abs(o.directory); err != nil {
			return err
		}
	}
	if o.binary == "" {
		o.binary = filepath.Join(folder, "powerbox")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "github.com/powerbox-project/powerbox/cmd/powerbox") //nolint:gosec // our own package, into our own folder
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building powerbox, which needs a folder of its module: %w\n%s", err, out)
		}
	}
	secret := rand.Text()
	bank := newService()
	closeBank, bankURL, err := listen(ctx, func(string) http.Handler { return bank.handler() })
	if err != nil {
		return err
	}
	defer closeBank()
	bank.url = bankURL
	var broken error
	closeStatement, statementURL, err := listen(ctx, func(url string) (h http.Handler) {
		h, broken = statements(url+"/statement", "http://"+o.listen+"/agent/introspect", secret)
		return h
	})
	if err != nil {
		return err
	}
	defer closeStatement()
	if broken != nil {
		return broken
	}
	file := filepath.Join(folder, "powerbox.yaml")
	text := configuration(o, data, bankURL+"/do", statementURL+"/statement", secret)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return serve(ctx, o, file, stdout, stderr)
}

// listen serves on a free port of loopback.
func listen(ctx context.Context, handler func(url string) http.Handler) (closing func(), url string, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	url = "http://" + l.Addr().String()
	server := &http.Server{Handler: handler(url), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	return func() { _ = server.Close() }, url, nil
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, o options, file string, stdout, stderr io.Writer) error {
	server := exec.CommandContext(ctx, o.binary, "serve", "--dev", "--config", file) //nolint:gosec // built above, or named by who runs this
	server.Stderr = stderr
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	server.WaitDelay = 10 * time.Second
	if err := server.Start(); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := wait(ready, "http://"+o.listen+"/readyz"); err != nil && ctx.Err() == nil {
		return errors.Join(err, server.Process.Kill(), server.Wait())
	}
	fmt.Fprintf(stdout, "the bank is at http://%s\n  discovery  http://%s/.well-known/agent-configuration\n  approve    powerbox approval approve CODE --server http://%s --as %s\n",
		o.listen, o.listen, o.listen, strings.Split(o.users, ",")[0])
	err := server.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func wait(ctx context.Context, url string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close() // nothing in it counts
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
