package spiffe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Watching follows the Workload APIs of trust domains.
type Watching struct {
	Now func() time.Time
	Log *slog.Logger
}

// Watch follows the Workload APIs that the trust domains name, until ctx ends. The returned
// function waits for that end.
func (d *Domains) Watch(ctx context.Context, w Watching) (wait func(), err error) {
	byAddress := map[string][]*domain{}
	for _, of := range d.list {
		if at := of.config.WorkloadAPI; at != "" {
			byAddress[at] = append(byAddress[at], of)
		}
	}
	var running sync.WaitGroup
	for address, domains := range byAddress {
		client, err := workloadapi.New(ctx, workloadapi.WithAddr(address))
		if err != nil {
			return running.Wait, fmt.Errorf("identity.trust_domains: workload_api %s: %w", address, err)
		}
		f := &follower{Watching: w, address: address, domains: domains}
		var both sync.WaitGroup
		both.Go(func() {
			f.follow(ctx, func() error { return client.WatchX509Bundles(ctx, f) }, func(d *domain) { d.x509.held.Store(nil) })
		})
		both.Go(func() {
			f.follow(ctx, func() error { return client.WatchJWTBundles(ctx, f) }, func(d *domain) { d.jwt.held.Store(nil) })
		})
		running.Go(func() {
			both.Wait()
			_ = client.Close() // nothing is watched any more
		})
	}
	return running.Wait, nil
}

// follower takes over what one Workload API says.
type follower struct {
	Watching
	address string
	domains []*domain
}

// follow watches until ctx ends. The client gives up where the Workload API says that the
// question is wrong, which can change with another version of it.
func (f *follower) follow(ctx context.Context, watch func() error, end func(*domain)) {
	for ctx.Err() == nil {
		if err := watch(); err != nil && ctx.Err() == nil {
			for _, d := range f.domains {
				end(d)
			}
			f.Log.ErrorContext(ctx, "the Workload API refused to be watched; its trust domains have no bundle", slog.String("address", f.address), slog.Any("error", err))
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
		}
	}
}

const again = 30 * time.Second

// OnX509BundlesUpdate implements [workloadapi.X509BundleWatcher].
func (f *follower) OnX509BundlesUpdate(set *x509bundle.Set) {
	for _, d := range f.domains {
		var next *authorities
		if sent, ok := set.Get(d.name); ok && !sent.Empty() {
			next = newAuthorities(sent)
		}
		told(f, d, &d.x509, next)
	}
}

// OnJWTBundlesUpdate implements [workloadapi.JWTBundleWatcher].
func (f *follower) OnJWTBundlesUpdate(set *jwtbundle.Set) {
	for _, d := range f.domains {
		next, ok := set.Get(d.name)
		if !ok || next.Empty() {
			next = nil
		}
		told(f, d, &d.jwt, next)
	}
}

// told takes over what the Workload API said of a trust domain; nil is that it has no bundle.
func told[T any](f *follower, d *domain, b *bundle[T], next *T) {
	b.lost.Store(nil)
	old := b.held.Swap(next)
	at := []any{slog.String("trust_domain", d.name.Name()), slog.String("kind", b.kind)}
	switch {
	case next == nil && old != nil:
		f.Log.Warn("the Workload API no longer has the trust domain's bundle; no SVID of that kind is believed", at...)
	case next != nil && old == nil:
		f.Log.Info("the Workload API sent the trust domain's bundle", at...)
	}
}

// OnX509BundlesWatchError implements [workloadapi.X509BundleWatcher].
func (f *follower) OnX509BundlesWatchError(err error) {
	for _, d := range f.domains {
		failed(f, d, &d.x509, err)
	}
}

// OnJWTBundlesWatchError implements [workloadapi.JWTBundleWatcher].
func (f *follower) OnJWTBundlesWatchError(err error) {
	for _, d := range f.domains {
		failed(f, d, &d.jwt, err)
	}
}

// failed ends a bundle at once where the Workload API refuses this process, or says what
// cannot be read. One that is not reached, as while its agent restarts, leaves the
// bundle for [stale].
func failed[T any](f *follower, d *domain, b *bundle[T], err error) {
	at := []any{slog.String("address", f.address), slog.String("trust_domain", d.name.Name()), slog.String("kind", b.kind), slog.Any("error", err)}
	code := status.Code(err)
	switch {
	case code == codes.Canceled: // the end of this process
	case code == codes.Unavailable, code == codes.DeadlineExceeded, errors.Is(err, io.EOF):
		now := f.Now()
		if b.lost.CompareAndSwap(nil, &now) {
			f.Log.Warn("the Workload API is not reached; its bundles are believed for another hour", at...)
		}
	default:
		b.held.Store(nil)
		f.Log.Error("the Workload API gave no bundle; no SVID of the trust domain is believed", at...)
	}
}
