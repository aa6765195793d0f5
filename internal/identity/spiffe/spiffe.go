package spiffe

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

const (
	stale           = time.Hour // after which bundles of a Workload API that is not reached end
	maximumVerified = 4096      // chains that a bundle remembers
)

// Domains are the configured trust domains. They are safe for concurrent use, and implement
// [identity.Domains].
type Domains struct {
	list map[spiffeid.TrustDomain]*domain
	all  []string // audiences
}

type domain struct {
	config config.TrustDomain
	name   spiffeid.TrustDomain
	x509   bundle[authorities]
	jwt    bundle[jwtbundle.Bundle]
}

// bundle is one kind of bundle of a trust domain.
type bundle[T any] struct {
	kind string                    // in logs
	held atomic.Pointer[T]         // nil while there is none
	lost atomic.Pointer[time.Time] // when the Workload API was lost; nil while it is reached
}

// now returns the bundle, nil where there is none or the Workload API has not been reached
// for too long.
func (b *bundle[T]) now(at time.Time) *T {
	if lost := b.lost.Load(); lost != nil && at.Sub(*lost) > stale {
		return nil
	}
	return b.held.Load()
}

// authorities are the X.509 part of one bundle, and the chains that it has verified.
type authorities struct {
	bundle   *x509bundle.Bundle
	mu       sync.Mutex
	verified map[[sha256.Size]byte]span
}

// span is when every certificate of a chain is valid.
type span struct{ from, until time.Time }

// New returns the trust domains, without any bundle.
func New(list []config.TrustDomain) (*Domains, error) {
	d := &Domains{list: map[spiffeid.TrustDomain]*domain{}}
	for _, c := range list {
		name, err := spiffeid.TrustDomainFromString(c.Name)
		if err != nil {
			return nil, fmt.Errorf("identity.trust_domains: %w", err)
		}
		of := &domain{config: c, name: name}
		of.x509.kind, of.jwt.kind = "X.509", "JWT"
		d.list[name] = of
		d.all = append(d.all, c.Audience...)
	}
	return d, nil
}

// Has implements [identity.Domains].
func (d *Domains) Has(name spiffeid.TrustDomain) bool { return d.list[name] != nil }

// Audiences implements [identity.Domains].
func (d *Domains) Audiences() []string { return d.all }

// Rules implements [identity.Domains].
func (d *Domains) Rules(name spiffeid.TrustDomain) ([]string, time.Duration) {
	c := d.list[name].config
	return c.Audience, c.MaximumLifetime
}

// Authority implements [identity.Domains].
func (d *Domains) Authority(name spiffeid.TrustDomain, kid string, now time.Time) (crypto.PublicKey, bool) {
	keys := d.list[name].jwt.now(now)
	if keys == nil {
		return nil, false
	}
	return keys.FindJWTAuthority(kid)
}

// Verify implements [identity.Domains].
func (d *Domains) Verify(chain []*x509.Certificate, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("there is no certificate")
	}
	id, err := x509svid.IDFromCert(chain[0])
	if err != nil {
		return err
	}
	of := d.list[id.TrustDomain()]
	if of == nil {
		return fmt.Errorf("trust domain %q is not configured", id.TrustDomain().Name())
	}
	now = now.UTC()
	if leaf := chain[0]; leaf.NotAfter.Sub(leaf.NotBefore) > of.config.MaximumLifetime {
		return fmt.Errorf("the X.509-SVID is valid for %s; want at most %s", leaf.NotAfter.Sub(leaf.NotBefore), of.config.MaximumLifetime)
	}
	a := of.x509.now(now)
	if a == nil {
		return fmt.Errorf("trust domain %q has no bundle now", of.name.Name())
	}
	return a.verify(chain, now)
}

// verify believes a chain, or says why not. It remembers verified chains, since
// every request asks about one.
func (a *authorities) verify(chain []*x509.Certificate, now time.Time) error {
	sum := sha256.New()
	for _, c := range chain {
		sum.Write(c.Raw) // DER says its own length
	}
	of := [sha256.Size]byte(sum.Sum(nil))
	a.mu.Lock()
	known, ok := a.verified[of]
	a.mu.Unlock()
	if ok && !now.Before(known.from) && !now.After(known.until) {
		return nil
	}
	_, chains, err := x509svid.Verify(chain, a.bundle, x509svid.WithTime(now))
	if err != nil {
		return err
	}
	s := span{chains[0][0].NotBefore, chains[0][0].NotAfter}
	for _, c := range chains[0][1:] {
		s.from = slices.MaxFunc([]time.Time{s.from, c.NotBefore}, time.Time.Compare)
		s.until = slices.MinFunc([]time.Time{s.until, c.NotAfter}, time.Time.Compare)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.verified) >= maximumVerified {
		clear(a.verified)
	}
	a.verified[of] = s
	return nil
}

// File is the bundle file of one trust domain.
type File struct {
	Domain string
	Path   config.Path
	of     *domain
}

// Files are the bundle files of all trust domains.
func (d *Domains) Files() []File {
	var files []File
	for _, of := range d.list {
		if of.config.BundleFile != "" {
			files = append(files, File{of.name.Name(), of.config.BundleFile, of})
		}
	}
	sorting.Sort(files, func(a, b File) int { return bytes.Compare([]byte(a.Domain), []byte(b.Domain)) })
	return files
}

// Use puts a file's contents in force: the bundle in the SPIFFE format, or X.509
// authorities in PEM. After an error the trust domain has no bundle.
func (f File) Use(contents []byte) error {
	read, err := parse(f.of.name, contents)
	if err != nil {
		f.Drop()
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	f.of.x509.held.Store(newAuthorities(read.X509Bundle()))
	f.of.jwt.held.Store(read.JWTBundle())
	return nil
}

// Drop takes the bundle away: nothing of the trust domain is believed until [File.Use].
func (f File) Drop() {
	f.of.x509.held.Store(nil)
	f.of.jwt.held.Store(nil)
}

func newAuthorities(b *x509bundle.Bundle) *authorities {
	return &authorities{bundle: b, verified: map[[sha256.Size]byte]span{}}
}

func parse(name spiffeid.TrustDomain, contents []byte) (*spiffebundle.Bundle, error) {
	var read *spiffebundle.Bundle
	if bytes.HasPrefix(bytes.TrimSpace(contents), []byte("{")) {
		var err error
		if read, err = spiffebundle.Parse(name, contents); err != nil {
			return nil, err
		}
	} else {
		x509, err := x509bundle.Parse(name, contents)
		if err != nil {
			return nil, err
		}
		read = spiffebundle.FromX509Bundle(x509)
	}
	if len(read.X509Authorities()) == 0 && len(read.JWTAuthorities()) == 0 {
		return nil, errors.New("the bundle has no authorities; want the trust domain's bundle in the SPIFFE format, or certificates in PEM")
	}
	return read, nil
}

// Pool adds the X.509 authorities of all trust domains to a pool. A certificate that it
// verifies is believed only after [Domains.Verify].
func (d *Domains) Pool(into *x509.CertPool) {
	for _, of := range d.list {
		if a := of.x509.held.Load(); a != nil {
			for _, c := range a.bundle.X509Authorities() {
				into.AddCert(c)
			}
		}
	}
}
