package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/config"
)

// defaultConfig is the file that every verb reads unless told otherwise.
const defaultConfig = "powerbox.yaml"

func newServe(p *program) *cobra.Command {
	var file string
	var dev, newStore bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run issuer and gateway in front of the configured agents",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(file, os.ReadFile, os.Environ())
			if err != nil {
				return err
			}
			return p.serve(cmd.Context(), c, dev, newStore)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", defaultConfig, "configuration `file`")
	cmd.Flags().BoolVar(&dev, "dev", false, "admit the built-in users of identity.dev; NOT SAFE outside experiments")
	cmd.Flags().BoolVar(&newStore, "new-store", false, "begin a new store for keys that were used with one that is gone")
	return cmd
}

// serve runs until ctx ends, and then lets calls that are under way finish.
func (p *program) serve(ctx context.Context, c *config.Config, dev, newStore bool) error {
	log := slog.New(slog.NewJSONHandler(p.stderr, nil))
	if dev {
		fmt.Fprintln(p.stderr, "NOT SAFE: --dev admits built-in users with fixed tokens. Use it for experiments on this machine only.")
	}
	i, err := assemble(ctx, assembly{config: c, dev: dev, newStore: newStore, now: p.now, log: log})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), i.Close())
	}
	if listener, err = secure(listener, c.Issuer.TLS); err != nil {
		return errors.Join(err, i.Close())
	}
	if dev && !loopback(listener.Addr()) {
		return errors.Join(errors.New("--dev listens on loopback addresses only; set listen to 127.0.0.1"), listener.Close(), i.Close())
	}
	for agent, problem := range i.gateway.Check(ctx) {
		log.WarnContext(ctx, "an agent cannot be reached yet; until its card can be read nothing of it is allowed",
			slog.String("agent", agent), slog.Any("error", problem))
	}
	overridden, err := i.admin.Overridden(ctx)
	if err != nil {
		return errors.Join(err, listener.Close(), i.Close())
	}
	for agent, modes := range overridden {
		log.WarnContext(ctx, "an operator set another mode than the configuration has; it stays in force until 'powerbox mode AGENT configured'",
			slog.String("agent", agent), slog.String("mode", modes[0]), slog.String("configured", modes[1]))
	}
	log.InfoContext(ctx, "serving", slog.String("listen", listener.Addr().String()), slog.String("url", c.Issuer.URL), slog.Int("agents", len(c.Agents)))
	return errors.Join(run(ctx, listener, i.handler), i.Close())
}

// secure puts TLS on a listener where the configuration has a certificate. A
// client certificate is asked for, and believed only when one of the configured
// authorities signed it.
func secure(l net.Listener, c config.TLS) (net.Listener, error) {
	if c.Certificate == "" {
		return l, nil
	}
	certificate, err := tls.LoadX509KeyPair(string(c.Certificate), string(c.Key))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("issuer.tls: %w", err), l.Close())
	}
	settings := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if c.ClientCA != "" {
		pem, err := os.ReadFile(string(c.ClientCA))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("issuer.tls.client_ca: %w", err), l.Close())
		}
		settings.ClientCAs, settings.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !settings.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, errors.Join(fmt.Errorf("issuer.tls.client_ca: %s holds no certificate in PEM form", c.ClientCA), l.Close())
		}
	}
	return tls.NewListener(l, settings), nil
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// run serves until ctx ends. Streams have no write deadline.
func run(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// Calls that are under way get their time; the context that ended is not
	// theirs.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(grace); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}
