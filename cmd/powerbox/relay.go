package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// minimumRelayToken is the length of the shortest token by which a feed is
// followed, in bytes.
const minimumRelayToken = 32

const relayLong = `Relay passes the signed feed of revocations and freezes on to gateways, as it is. It has no key: it can leave out, hold back and
repeat, and nothing else, and followers notice that and go on with another relay or the server. What does not hold under the
server's key is not passed on. Gateways follow it with powerbox gateway --feed URL; relays can follow relays.`

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

func newRelay(p *program) *cobra.Command {
	var o relayOptions
	cmd := &cobra.Command{
		Use: "relay --server URL --key KEY", Short: "Pass the signed feed of revocations on to many gateways", Long: relayLong, Args: cobra.NoArgs,
		Example: "  powerbox feed key                                # an operator, at the server: what --key wants\n" +
			"  powerbox relay --server https://powerbox.example.org --key KEY --token-file relay.token \\\n" +
			"    --admit-file gateways.tokens --listen 0.0.0.0:8702 --tls-certificate relay.pem --tls-key relay.key",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(), checkFeeds(o.servers)); err != nil {
				return usage(err)
			}
			defer limitMemory(p.env)()
			return p.runRelay(cmd.Context(), o)
		},
	}
	cmd.Flags().StringArrayVar(&o.servers, "server", nil, "`URL` that is followed, of the server or of a relay; repeat it for several, the first is preferred; required")
	cmd.Flags().StringVar(&o.issuer, "issuer", "", "public `URL` of the server, as it signs; default the last --server")
	cmd.Flags().StringArrayVar(&o.keys, "key", nil, "public `key` of the feed, as powerbox feed key prints it; repeat it while it changes; required")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "`file` with the bearer token by which it follows (issuer.feed.relays of the server)")
	cmd.Flags().StringVar(&o.admitFile, "admit-file", "", "`file` with the bearer tokens of who may follow this relay, one on a line, at least 32 bytes each")
	cmd.Flags().BoolVar(&o.anyone, "admit-anyone", false, "let whoever reaches the address follow: ids of capabilities and pseudonyms are then for everybody there")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8702", "`address` to listen on, host:port")
	cmd.Flags().IntVar(&o.streams, "streams", 1024, "how many followers are served at once")
	cmd.Flags().StringVar(&o.state, "state", "", "`file` in which it keeps how far the feed came, so that an older state of the server is refused after a restart, too")
	cmd.Flags().BoolVar(&o.older, "accept-older", false, "accept a server that was restored from an older copy, once: what --state holds is forgotten")
	cmd.Flags().StringVar((*string)(&o.tls.Certificate), "tls-certificate", "", "PEM `file` with the certificate chain; without it TLS is not spoken. Read again when it changes")
	cmd.Flags().StringVar((*string)(&o.tls.Key), "tls-key", "", "PEM `file` with its private key")
	return cmd
}

// check says what is missing.
func (o relayOptions) check() error {
	switch {
	case len(o.servers) == 0:
		return errors.New("--server is missing; want the URL of the server, or of a relay")
	case len(o.keys) == 0:
		return errors.New("--key is missing; want what powerbox feed key prints at the server")
	case o.streams < 1:
		return errors.New("--streams is below 1; want how many followers are served at once")
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
func (p *program) runRelay(ctx context.Context, o relayOptions) error {
	log := slog.New(slog.NewJSONHandler(p.stderr, nil))
	relay, err := o.relay(ctx, p.now, log)
	if err != nil {
		return err
	}
	admitted, err := o.admitted()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	secured, err := newListenerTLS("--tls-certificate", o.tls)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var wg sync.WaitGroup
	background, stop := context.WithCancel(ctx)
	wg.Go(func() { relay.Run(background) })
	if secured != nil {
		wg.Go(func() { reread(background, func() []*source { return []*source{secured.source} }, nil, nil, log) })
	}
	log.InfoContext(ctx, "relaying", slog.String("listen", listener.Addr().String()), slog.Any("servers", o.servers))
	// One place for each stream, and some for who asks for a snapshot. One address has
	// half of them at most.
	places := 2*o.streams + 64
	open := limited(shedding(listener, secured != nil, log), nil, config.Limits{Connections: places, PerAddress: places / 2})
	err = run(ctx, secured.on(open), guardHosts(listener.Addr(), relayHandler(relay, admitted, o.anyone)))
	stop()
	wg.Wait()
	return err
}

// relay makes the relay, which follows the last server where no other can be.
func (o relayOptions) relay(ctx context.Context, now func() time.Time, log *slog.Logger) (*feed.Relay, error) {
	upstream, err := relayed(o.servers, o.tokenFile)
	if err != nil {
		return nil, err
	}
	last := upstream[len(upstream)-1]
	c := feed.Config{
		Relays: upstream[:len(upstream)-1], Server: last.URL, Authorize: last.Authorize, Issuer: o.issuer,
		Transport: outbound.New(upstreamPolicy()).Transport(), Now: now, Log: log,
	}
	if c.Issuer == "" {
		c.Issuer = last.URL
	}
	if o.state != "" {
		reached := reachedFile(o.state)
		if o.older {
			log.WarnContext(ctx, "an older state of the server is accepted, as the operator said", slog.String("state", o.state))
			if err := reached.forget(); err != nil {
				return nil, err
			}
		}
		if c.Floor, err = reached.read(); err != nil {
			return nil, err
		}
		c.Moved = func(n int64) { reached.keep(n, log) }
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

// checkFeeds reports a URL at which no feed can be followed.
func checkFeeds(urls []string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
			return fmt.Errorf("%q is no place where a feed is followed; want an http or https URL without user name", text)
		}
	}
	return nil
}

// relayed are the places where a feed is followed, with the token for them.
func relayed(urls []string, tokenFile string) ([]feed.Relayed, error) {
	token := ""
	if tokenFile != "" {
		data, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("token of the feed: %w", err)
		}
		token = string(bytes.TrimSpace(data))
	}
	out := make([]feed.Relayed, len(urls))
	for n, text := range urls {
		out[n] = feed.Relayed{URL: strings.TrimSuffix(text, "/")}
		if token != "" {
			out[n].Authorize = func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+token)
				return nil
			}
		}
	}
	return out, nil
}

// followTokens are hashes of the bearer tokens by which a feed may be followed.
type followTokens [][sha256.Size]byte

// shown reports whether a request shows one of them.
func (f followTokens) shown(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum, found := sha256.Sum256([]byte(given)), 0
	for _, one := range f {
		found |= subtle.ConstantTimeCompare(sum[:], one[:])
	}
	return ok && found == 1
}

// add takes one more token from a file.
func (f *followTokens) add(file string, token []byte) error {
	if token = bytes.TrimSpace(token); len(token) < minimumRelayToken {
		return fmt.Errorf("%s has a token of %d bytes; want at least %d", file, len(token), minimumRelayToken)
	}
	*f = append(*f, sha256.Sum256(token))
	return nil
}

// relayTokens are those of the relays that the server knows.
func (i *instance) relayTokens() (followTokens, error) {
	var tokens followTokens
	for n, c := range i.config.Issuer.Feed.Relays {
		data, err := i.readFile(string(c.TokenFile))
		if err == nil {
			err = tokens.add(string(c.TokenFile), data)
		}
		if err != nil {
			return nil, fmt.Errorf("issuer.feed.relays[%d].token_file: %w", n, err)
		}
	}
	return tokens, nil
}

// admitted are those who may follow a relay.
func (o relayOptions) admitted() (followTokens, error) {
	if o.anyone {
		return nil, nil
	}
	data, err := os.ReadFile(o.admitFile)
	if err != nil {
		return nil, fmt.Errorf("--admit-file: %w", err)
	}
	var tokens followTokens
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := tokens.add(o.admitFile, line); err != nil {
			return nil, fmt.Errorf("--admit-file: %w", err)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("--admit-file: %s has no token; want one on a line", o.admitFile)
	}
	return tokens, nil
}

// relayHandler serves the feed to whoever may follow it, and says how the relay
// does.
func relayHandler(relay *feed.Relay, admitted followTokens, anyone bool) http.Handler {
	mux := http.NewServeMux()
	handler := relay.Handler()
	mux.HandleFunc("GET /v1/", func(w http.ResponseWriter, r *http.Request) {
		if !anyone && !admitted.shown(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the feed is for whom this relay admits", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := relay.Older(); !relay.Fresh() && why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		if !relay.Fresh() {
			http.Error(w, "the feed is not known here now", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "ok: at %d, %d followers\n", relay.Sequence(), relay.Followers())
	})
	return mux
}
