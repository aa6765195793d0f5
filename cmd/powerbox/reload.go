package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
// until ctx ends.
func reread(ctx context.Context, sources func() []*source, asked <-chan os.Signal, log *slog.Logger) {
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
		if anyway && len(sources()) == 0 {
			log.InfoContext(ctx, "there are no files to be read again; the configuration itself is read at the start alone")
		}
	}
}

// listeningTLS returns how TLS is spoken, with the files as they are now, nil
// where the configuration has no certificate. A client certificate is asked for,
// and believed only when one of the configured authorities signed it.
func (i *instance) listeningTLS() (*tls.Config, error) {
	c := i.config.Issuer.TLS
	if c.Certificate == "" {
		return nil, nil
	}
	s := &source{setting: "issuer.tls", files: []config.Path{c.Certificate, c.Key}}
	if c.ClientCA != "" {
		s.files = append(s.files, c.ClientCA)
	}
	s.use = func(contents [][]byte) error {
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
			if settings.ClientCAs, err = authorities(contents[2], c.ClientCA); err != nil {
				return fmt.Errorf("client_ca: %w", err)
			}
		}
		i.settings.Store(settings)
		return nil
	}
	if _, err := s.read(true); err != nil {
		return nil, err
	}
	i.sources = append(i.sources, s)
	// Handshakes take what is in use; connections that are open keep theirs.
	return &tls.Config{MinVersion: tls.VersionTLS12}, nil
}

// current gives every handshake the settings in use, with the protocols of its
// listener.
func (i *instance) current(protocols ...string) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		own := i.settings.Load().Clone()
		own.NextProtos = protocols
		return own, nil
	}
}

func keyPair(contents [][]byte) (tls.Certificate, error) {
	c, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return c, fmt.Errorf("certificate and key: %w", err)
	}
	return c, nil
}

func authorities(pem []byte, file config.Path) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return pool, nil
}
