package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
)

// rereadEvery is how often files that a server reads again are looked at. They
// are read whole: a renewed certificate may have the size and, on coarse file
// systems, the time of the old one.
const rereadEvery = 2 * time.Second

// source is something that is read from files again when they change, while it
// is in use. What cannot be read, or does not fit together, changes nothing.
type source struct {
	setting string // in the configuration
	files   []config.Path
	use     func(contents [][]byte) error
	seen    [sha256.Size]byte // what the files were when they were last looked at
}

// rereads are the sources of a process.
type rereads struct {
	mu   sync.Mutex
	list []*source
}

func (r *rereads) add(s *source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
}

// all are the sources of now.
func (r *rereads) all() []*source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// replace puts the sources of agents that changed instead of the ones that they had. Sources
// of agents that are gone are dropped.
func (r *rereads) replace(made []*source, agents []config.Agent, same func(id string) bool) {
	kept := map[string]bool{}
	for _, a := range agents {
		if same(a.ID) {
			kept[tlsOf(a.ID)] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(s *source) bool { return strings.HasPrefix(s.setting, "agents, ") && !kept[s.setting] })
	r.list = append(r.list, made...)
}

// read reads the files and puts them to use where they differ from what was
// read last, or in any case with anyway. It reports whether it did.
func (s *source) read(anyway bool) (used bool, err error) {
	contents := make([][]byte, len(s.files))
	sum := sha256.New()
	var problems error
	for n, file := range s.files {
		data, err := os.ReadFile(string(file))
		problems = errors.Join(problems, err)
		fmt.Fprintf(sum, "%t %d\n", err == nil, len(data))
		sum.Write(data)
		contents[n] = data
	}
	now := [sha256.Size]byte(sum.Sum(nil))
	if now == s.seen && !anyway {
		return false, nil
	}
	s.seen = now
	if problems == nil {
		problems = s.use(contents)
	}
	if problems != nil {
		return false, fmt.Errorf("%s: %w", s.setting, problems)
	}
	return true, nil
}

// reread looks at the sources' files from time to time, and at once when asked,
// until ctx ends. Then the configuration is read again, too, where reload does that.
func reread(ctx context.Context, sources func() []*source, asked <-chan os.Signal, reload func(context.Context), log *slog.Logger) {
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for {
		anyway := false
		select {
		case <-ctx.Done():
			return
		case <-asked:
			anyway = true
		case <-tick.C:
		}
		for _, s := range sources() {
			switch used, err := s.read(anyway); {
			case err != nil:
				log.ErrorContext(ctx, "files that were renewed cannot be used; what was read before stays in use", slog.Any("error", err))
			case used:
				log.InfoContext(ctx, "files were read again", slog.String("setting", s.setting))
			}
		}
		switch {
		case anyway && reload != nil:
			reload(ctx)
		case anyway && len(sources()) == 0:
			log.InfoContext(ctx, "there are no files to be read again")
		}
	}
}

// listenerTLS is how TLS is spoken on listeners. Handshakes take the settings in
// use; connections that are open keep theirs.
type listenerTLS struct {
	settings atomic.Pointer[tls.Config]
	source   *source // the files that it is read from
}

// newListenerTLS returns how TLS is spoken, with the files as they are now, nil
// where there is no certificate. A client certificate is asked for, and believed
// only when one of the authorities signed it.
func newListenerTLS(setting string, c config.TLS) (*listenerTLS, error) {
	if c.Certificate == "" {
		return nil, nil
	}
	l := &listenerTLS{}
	l.source = &source{setting: setting, files: []config.Path{c.Certificate, c.Key}}
	if c.ClientCA != "" {
		l.source.files = append(l.source.files, c.ClientCA)
	}
	l.source.use = func(contents [][]byte) error {
		certificate, err := keyPair(contents)
		if err != nil {
			return err
		}
		settings := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		if c.ClientCA != "" {
			settings.ClientAuth = tls.VerifyClientCertIfGiven
			// A session that is resumed was verified under the authorities of its
			// beginning, which may be gone.
			settings.SessionTicketsDisabled = true
			if settings.ClientCAs, err = authorities(contents[2], string(c.ClientCA)); err != nil {
				return fmt.Errorf("client_ca: %w", err)
			}
		}
		l.settings.Store(settings)
		return nil
	}
	_, err := l.source.read(true)
	return l, err
}

// on puts TLS on a listener, with its protocols; nil leaves it as it is.
func (l *listenerTLS) on(inner net.Listener, protocols ...string) net.Listener {
	if l == nil {
		return inner
	}
	return tls.NewListener(inner, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			own := l.settings.Load().Clone()
			own.NextProtos = protocols
			return own, nil
		},
	})
}

func keyPair(contents [][]byte) (tls.Certificate, error) {
	c, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return c, fmt.Errorf("certificate and key: %w", err)
	}
	return c, nil
}

func authorities(pem []byte, file string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return pool, nil
}
