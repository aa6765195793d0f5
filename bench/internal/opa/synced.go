package opa

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/plugins/logs"
)

// disk is a file that is synced.
type disk interface {
	io.Writer
	Sync() error
}

// durable makes the plugin that syncs OPA's decision log.
type durable struct{ file disk }

// Validate implements [plugins.Factory].
func (durable) Validate(*plugins.Manager, []byte) (any, error) { return struct{}{}, nil }

// New implements [plugins.Factory].
func (d durable) New(m *plugins.Manager, _ any) plugins.Plugin {
	m.UpdatePluginStatus(synced, &plugins.Status{State: plugins.StateOK})
	return &syncing{file: d.file}
}

// syncing writes decisions in groups: those that come while a group is on its way to the
// disk are the next one.
type syncing struct {
	file   disk
	mu     sync.Mutex
	group  *group // that is filled
	writes sync.Mutex
}

type group struct {
	lines bytes.Buffer
	done  chan struct{}
	err   error
}

// Log implements [logs.Logger].
func (s *syncing) Log(_ context.Context, e logs.EventV1) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.append(append(line, '\n'))
}

// append returns when the line is on the disk.
func (s *syncing) append(line []byte) error {
	s.mu.Lock()
	g := s.group
	first := g == nil
	if first {
		g = &group{done: make(chan struct{})}
		s.group = g
	}
	g.lines.Write(line)
	s.mu.Unlock()
	if !first {
		<-g.done
		return g.err
	}
	s.writes.Lock()
	s.mu.Lock()
	s.group = nil
	s.mu.Unlock()
	_, err := s.file.Write(g.lines.Bytes())
	g.err = errors.Join(err, s.file.Sync())
	s.writes.Unlock()
	close(g.done)
	return g.err
}

// Start implements [plugins.Plugin].
func (*syncing) Start(context.Context) error { return nil }

// Stop implements [plugins.Plugin].
func (*syncing) Stop(context.Context) {}

// Reconfigure implements [plugins.Plugin].
func (*syncing) Reconfigure(context.Context, any) {}
