package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// writeSecret writes a secret to a file that nobody else may read. One that is
// there must be ours to replace.
func writeSecret(name, secret string) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file; name another for the secret", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".powerbox-*") // mode 0600
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("secret: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// listenSocket makes a Unix socket of mode 0600, in a folder that nobody else
// can enter until it has that mode. A socket that nobody answers on is
// replaced.
func listenSocket(ctx context.Context, name string) (net.Listener, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("socket: %s is something else than a socket; name another file", name)
	default:
		if c, err := (&net.Dialer{}).DialContext(ctx, "unix", name); err == nil {
			return nil, errors.Join(fmt.Errorf("socket: another process answers on %s", name), c.Close())
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(name), ".pb-*") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer func() { _ = os.Remove(dir) }() // it is empty by then
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // its name is about to be another
	if err := errors.Join(os.Chmod(filepath.Join(dir, "s"), 0o600), os.Rename(filepath.Join(dir, "s"), name)); err != nil {
		return nil, fmt.Errorf("socket: %w", errors.Join(err, l.Close(), os.Remove(filepath.Join(dir, "s"))))
	}
	return l, nil
}
