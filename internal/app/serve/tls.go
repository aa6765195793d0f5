package serve

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
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// rereadEvery is how often files that a server reads again are looked at. They
// are read whole: a renewed certificate may have the size and, on coarse file
// systems, the time of the old one.
const rereadEvery = 2 * time.Second

// Source is something that is read from files again when they change, while it is in
// use. Files that cannot be read, or do not fit together, change nothing, except where
// there is a Drop.
type Source struct {
	Setting string // in the configuration
	Files   []config.Path
	Use     func(contents [][]byte) error
	// Drop takes the last usable contents out of use when the files can no longer be used.
	// Nil: they stay in use.
	Drop func()
	seen [sha256.Size]byte // the files' digest when they were last looked at
}

// Rereads are the sources of a process.
type Rereads struct {
	mu   sync.Mutex
	list []*Source
}

// Add has files read again from now on.
func (r *Rereads) Add(s *Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
}

// All are the sources of now.
func (r *Rereads) All() []*Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// Replace puts the sources of agents that changed instead of the ones that they had. Sources
// of agents that are gone are dropped.
func (r *Rereads) Replace(made []*Source, agents []config.Agent, same func(id string) bool) {
	kept := map[string]bool{}
	for _, a := range agents {
		if same(a.ID) {
			kept[TLSOf(a.ID)] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(s *Source) bool { return strings.HasPrefix(s.Setting, "agents, ") && !kept[s.Setting] })
	r.list = append(r.list, made...)
}

// Read reads the files and uses them where they differ from the last read, or in any
// case with anyway. It reports whether it used them.
func (s *Source) Read(anyway bool) (used bool, err error) {
	contents := make([][]byte, len(s.Files))
	sum := sha256.New()
	var problems error
	for n, file := range s.Files {
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
		problems = s.Use(contents)
	}
	if problems != nil && s.Drop != nil {
		s.Drop()
	}
	if problems != nil {
		return false, fmt.Errorf("%s: %w", s.Setting, problems)
	}
	return true, nil
}

// Reread looks at the sources' files from time to time, and at once when asked,
// until ctx ends. Then the configuration is read again, too, where reload does that.
func Reread(ctx context.Context, sources func() []*Source, asked <-chan os.Signal, reload func(context.Context), log *slog.Logger) {
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
			switch used, err := s.Read(anyway); {
			case err != nil && s.Drop != nil:
				log.ErrorContext(ctx, "files that were renewed cannot be used; nothing is believed by them until they can", slog.Any("error", err))
			case err != nil:
				log.ErrorContext(ctx, "files that were renewed cannot be used; what was read before stays in use", slog.Any("error", err))
			case used:
				log.InfoContext(ctx, "files were read again", slog.String("setting", s.Setting))
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

// TLS is how TLS is spoken on listeners. Handshakes take the settings in
// use; connections that are open keep theirs.
type TLS struct {
	settings atomic.Pointer[tls.Config]
	domains  func() *spiffe.Domains
	Source   *Source // the files that it is read from
}

// NewTLS returns how TLS is spoken, with the files as they are now, nil
// where there is no certificate. A client certificate is asked for where there are
// authorities of client_ca or trust domains, and believed only when one of them signed it.
// Domains, which may be nil, returns those of now, nil for none.
func NewTLS(setting string, c config.TLS, domains func() *spiffe.Domains) (*TLS, error) {
	if c.Certificate == "" {
		return nil, nil
	}
	l := &TLS{domains: domains}
	l.Source = &Source{Setting: setting, Files: []config.Path{c.Certificate, c.Key}}
	if c.ClientCA != "" {
		l.Source.Files = append(l.Source.Files, c.ClientCA)
	}
	l.Source.Use = func(contents [][]byte) error {
		certificate, err := KeyPair(contents)
		if err != nil {
			return err
		}
		settings := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		if c.ClientCA != "" {
			askForCertificates(settings)
			if settings.ClientCAs, err = outbound.Authorities(contents[2], string(c.ClientCA)); err != nil {
				return fmt.Errorf("client_ca: %w", err)
			}
		}
		l.settings.Store(settings)
		return nil
	}
	_, err := l.Source.Read(true)
	return l, err
}

// On puts TLS on a listener, with its protocols; nil leaves it as it is.
func (l *TLS) On(inner net.Listener, protocols ...string) net.Listener {
	if l == nil {
		return inner
	}
	return tls.NewListener(inner, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			own := l.settings.Load().Clone()
			own.NextProtos = protocols
			if l.domains == nil {
				return own, nil
			}
			if d := l.domains(); d != nil {
				believe(own, d)
			}
			return own, nil
		},
	})
}

func askForCertificates(settings *tls.Config) {
	settings.ClientAuth = tls.VerifyClientCertIfGiven
	// A session that is resumed was verified under the authorities of its
	// beginning, which may be gone.
	settings.SessionTicketsDisabled = true
}

// believe also asks for X.509-SVIDs of trust domains. An SVID of one of them counts under its
// own bundle alone, and any other certificate under client_ca alone.
func believe(settings *tls.Config, d *spiffe.Domains) {
	others := settings.ClientCAs
	askForCertificates(settings)
	settings.ClientCAs = x509.NewCertPool()
	if others != nil {
		settings.ClientCAs = others.Clone()
	}
	d.Pool(settings.ClientCAs)
	settings.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		leaf := state.PeerCertificates[0]
		if id, ok := identity.SPIFFEID(leaf); ok && d.Has(id.TrustDomain()) {
			return d.Verify(state.PeerCertificates, time.Now())
		}
		if others == nil {
			return errors.New("the client certificate is of no configured trust domain, and there is no client_ca")
		}
		between := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := leaf.Verify(x509.VerifyOptions{Roots: others, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
}

// KeyPair makes a certificate of the contents of two files, certificate chain and key.
func KeyPair(contents [][]byte) (tls.Certificate, error) {
	c, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return c, fmt.Errorf("certificate and key: %w", err)
	}
	return c, nil
}

// TLSOf names the TLS settings of an agent.
func TLSOf(agent string) string { return fmt.Sprintf("agents, %s, tls", agent) }
