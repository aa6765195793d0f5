package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/app/remote"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

const relayLong = `Relay passes the signed feed of revocations and freezes to gateways, unchanged. It has no signing key: it can only
omit, delay or repeat entries. Followers notice this, and change to another relay or to the server. A relay drops entries
that the server's key does not verify. Gateways follow it with powerbox gateway --feed URL. Relays can follow relays.`

// relayOptions are the flags of a relay.
type relayOptions struct {
	servers   []string
	issuer    string
	keys      []string
	tokenFile string
	admitFile string
	anyone    bool
	listen    string
	streams   int
	tls       config.TLS
	state     string // file with the number that was reached, "" for none
	older     bool   // an older state of the server is accepted
}

func newRelay(p *cli.Program) *cobra.Command {
	var o relayOptions
	cmd := &cobra.Command{
		Use: "relay --server URL --key KEY", Short: "Relay the signed revocation feed to many gateways", Long: relayLong, Args: cobra.NoArgs,
		Example: "  powerbox feed key                                # an operator, at the server: what --key wants\n" +
			"  powerbox relay --server https://powerbox.example.org --key KEY --token-file relay.token \\\n" +
			"    --admit-file gateways.tokens --listen 0.0.0.0:8702 --tls-certificate relay.pem --tls-key relay.key",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(), remote.CheckFeeds(o.servers)); err != nil {
				return cli.Usage(err)
			}
			defer serve.LimitMemory(p.Env)()
			return runRelay(cmd.Context(), p, o)
		},
	}
	cmd.Flags().StringArrayVar(&o.servers, "server", nil, "`URL` of the server or relay to follow; repeat it for several, the first is preferred (required)")
	cmd.Flags().StringVar(&o.issuer, "issuer", "", "public `URL` of the server, as it signs; default the last --server")
	cmd.Flags().StringArrayVar(&o.keys, "key", nil, "public `key` of the feed, as powerbox feed key prints it; repeat it while it changes (required)")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "`file` with the bearer token for the server or relay it follows (issuer.feed.relays of the server)")
	cmd.Flags().StringVar(&o.admitFile, "admit-file", "", "`file` with the bearer tokens of the followers, one per line, at least 32 bytes each")
	cmd.Flags().BoolVar(&o.anyone, "admit-anyone", false, "admit every client that reaches the address: it sees ids of capabilities and pseudonyms")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8702", "`address` to listen on, host:port")
	cmd.Flags().IntVar(&o.streams, "streams", 1024, "maximum number of followers at once")
	cmd.Flags().StringVar(&o.state, "state", "", "`file` with the position in the feed, so that an older state of the server is rejected after a restart too")
	cmd.Flags().BoolVar(&o.older, "accept-older", false, "accept a server that was restored from an older copy, once: the state in --state is deleted")
	cmd.Flags().StringVar((*string)(&o.tls.Certificate), "tls-certificate", "", "PEM `file` with the certificate chain; default: no TLS. The file is read again when it changes")
	cmd.Flags().StringVar((*string)(&o.tls.Key), "tls-key", "", "PEM `file` with its private key")
	return cmd
}

// check reports missing flags.
func (o relayOptions) check() error {
	switch {
	case len(o.servers) == 0:
		return errors.New("--server is missing; want the URL of the server, or of a relay")
	case len(o.keys) == 0:
		return errors.New("--key is missing; want what powerbox feed key prints at the server")
	case o.streams < 1:
		return errors.New("--streams is below 1; want maximum number of followers at once")
	case o.older && o.state == "":
		return errors.New("--accept-older wants --state, the file that is to be forgotten")
	case (o.admitFile == "") == !o.anyone:
		return errors.New("want either --admit-file with the tokens of who may follow, or --admit-anyone")
	case (o.tls.Certificate == "") != (o.tls.Key == ""):
		return errors.New("want --tls-certificate and --tls-key together")
	}
	return nil
}

// runRelay runs until ctx ends.
func runRelay(ctx context.Context, p *cli.Program, o relayOptions) error {
	log := slog.New(slog.NewJSONHandler(p.Stderr, nil))
	relay, err := o.relay(ctx, p.Now, log)
	if err != nil {
		return err
	}
	admitted, err := o.admitted()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen: %w; stop the program that uses the address, or correct --listen", err)
	}
	secured, err := serve.NewTLS("--tls-certificate", o.tls, nil)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var wg sync.WaitGroup
	background, stop := context.WithCancel(ctx)
	wg.Go(func() { relay.Run(background) })
	if secured != nil {
		wg.Go(func() {
			serve.Reread(background, func() []*serve.Source { return []*serve.Source{secured.Source} }, nil, nil, log)
		})
	}
	log.InfoContext(ctx, "relaying", slog.String("listen", listener.Addr().String()), slog.Any("servers", o.servers))
	// One place for each stream, and some for requests for a snapshot. One address has
	// half of them at most.
	places := 2*o.streams + 64
	open := serve.Limited(serve.Shedding(listener, secured != nil, log), nil, config.Limits{Connections: places, PerAddress: places / 2})
	err = serve.Run(ctx, secured.On(open), serve.GuardHosts(listener.Addr(), relayHandler(relay, admitted, o.anyone)))
	stop()
	wg.Wait()
	return err
}

// relay makes the relay, which follows the last server where no other can be.
func (o relayOptions) relay(ctx context.Context, now func() time.Time, log *slog.Logger) (*feed.Relay, error) {
	upstream, err := remote.Relayed(o.servers, o.tokenFile)
	if err != nil {
		return nil, err
	}
	last := upstream[len(upstream)-1]
	c := feed.Config{
		Relays: upstream[:len(upstream)-1], Server: last.URL, Authorize: last.Authorize, Issuer: o.issuer,
		Transport: outbound.New(outbound.Configured()).Transport(), Now: now, Log: log,
	}
	if c.Issuer == "" {
		c.Issuer = last.URL
	}
	if o.state != "" {
		reached := remote.ReachedFile(o.state)
		if o.older {
			log.WarnContext(ctx, "an older state of the server is accepted, as the operator said", slog.String("state", o.state))
			if err := reached.Forget(); err != nil {
				return nil, err
			}
		}
		if c.Floor, err = reached.Read(); err != nil {
			return nil, err
		}
		c.Moved = func(n int64) { reached.Keep(n, log) }
	}
	for n, text := range o.keys {
		key, err := signed.ParsePublic(text)
		if err != nil {
			return nil, fmt.Errorf("--key %d: %w", n+1, err)
		}
		c.Keys = append(c.Keys, key)
	}
	return feed.NewRelay(feed.RelayConfig{Upstream: c, Streams: o.streams, Done: ctx.Done()})
}

// admitted are those who may follow a relay.
func (o relayOptions) admitted() (proxy.FollowTokens, error) {
	if o.anyone {
		return nil, nil
	}
	data, err := os.ReadFile(o.admitFile)
	if err != nil {
		return nil, fmt.Errorf("--admit-file: %w", err)
	}
	var tokens proxy.FollowTokens
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := tokens.Add(o.admitFile, line); err != nil {
			return nil, fmt.Errorf("--admit-file: %w", err)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("--admit-file: %s has no token; want one on a line", o.admitFile)
	}
	return tokens, nil
}

// relayHandler serves the feed to admitted followers, and says how the relay
// does.
func relayHandler(relay *feed.Relay, admitted proxy.FollowTokens, anyone bool) http.Handler {
	mux := http.NewServeMux()
	handler := relay.Handler()
	mux.HandleFunc("GET /v1/", func(w http.ResponseWriter, r *http.Request) {
		if !anyone && !admitted.Shown(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the feed is for whom this relay admits", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { cli.Printf(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := relay.Older(); !relay.Fresh() && why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		if !relay.Fresh() {
			http.Error(w, "the feed is not known here now", http.StatusServiceUnavailable)
			return
		}
		cli.Printf(w, "ok: at %d, %d followers\n", relay.Sequence(), relay.Followers())
	})
	return mux
}
