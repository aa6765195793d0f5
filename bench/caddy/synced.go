package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// syncedLog is a log writer whose lines are on the disk before the handler of their request
// ends. Caddy's own file writer leaves that to the operating system.
type syncedLog struct {
	Path string `json:"path"`
}

// CaddyModule implements [caddy.Module].
func (*syncedLog) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.synced", New: func() caddy.Module { return new(syncedLog) }}
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler].
func (s *syncedLog) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if d.Next(); !d.AllArgs(&s.Path) {
		return d.ArgErr()
	}
	return nil
}

// String implements [caddy.WriterOpener].
func (s *syncedLog) String() string { return s.Path }

// WriterKey implements [caddy.WriterOpener].
func (s *syncedLog) WriterKey() string { return "synced:" + s.Path }

// OpenWriter implements [caddy.WriterOpener].
func (s *syncedLog) OpenWriter() (io.WriteCloser, error) {
	file, err := os.OpenFile(s.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &groups{file: file}, err
}

// groups writes lines in groups: those that come while a group is on its way to the disk are
// the next one.
type groups struct {
	file interface {
		io.WriteCloser
		Sync() error
	}
	mu     sync.Mutex
	filled *group // nil for none
	writes sync.Mutex
}

type group struct {
	lines bytes.Buffer
	done  chan struct{}
	err   error
}

// Write returns when the line is on the disk.
func (s *groups) Write(line []byte) (int, error) {
	s.mu.Lock()
	g := s.filled
	first := g == nil
	if first {
		g = &group{done: make(chan struct{})}
		s.filled = g
	}
	g.lines.Write(line)
	s.mu.Unlock()
	if !first {
		<-g.done
		return len(line), g.err
	}
	s.writes.Lock()
	s.mu.Lock()
	s.filled = nil
	s.mu.Unlock()
	_, err := s.file.Write(g.lines.Bytes())
	g.err = errors.Join(err, s.file.Sync())
	s.writes.Unlock()
	close(g.done)
	return len(line), g.err
}

// Close implements [io.Closer].
func (s *groups) Close() error { return s.file.Close() }
