// Package spiffetest makes trust domains and a Workload API for tests.
package spiffetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"maps"
	"math/big"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// Domain is a trust domain with one authority of each kind.
type Domain struct {
	Name    spiffeid.TrustDomain
	Now     time.Time // at which SVIDs are made
	root    *x509.Certificate
	rootKey *ecdsa.PrivateKey
	jwtKey  *ecdsa.PrivateKey
	kid     string
	serial  int64
}

// New returns a trust domain.
func New(t testing.TB, name string, now time.Time) *Domain {
	t.Helper()
	return (&Domain{Name: spiffeid.RequireTrustDomainFromString(name), Now: now}).Rotated(t)
}

// Rotated returns the trust domain with both authorities replaced.
func (d *Domain) Rotated(t testing.TB) *Domain {
	t.Helper()
	d = &Domain{Name: d.Name, Now: d.Now, serial: d.serial}
	d.rootKey, d.jwtKey = newKey(t), newKey(t)
	d.serial++
	d.kid = "authority-" + strconv.FormatInt(d.serial, 10)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(d.serial), URIs: []*url.URL{d.Name.ID().URL()}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: d.Now.Add(-time.Hour), NotAfter: d.Now.Add(240 * time.Hour),
	}
	d.root = d.sign(t, root, root, d.rootKey)
	return d
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (d *Domain) sign(t testing.TB, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), d.rootKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// X509 returns an X.509-SVID for any id, also one of another trust domain. It is valid for
// an hour; differ changes that.
func (d *Domain) X509(t testing.TB, id string, differ ...func(*x509.Certificate)) *x509svid.SVID {
	t.Helper()
	of, err := spiffeid.FromString(id)
	if err != nil {
		t.Fatal(err)
	}
	d.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(d.serial), URIs: []*url.URL{of.URL()}, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore:   d.Now.Add(-time.Minute), NotAfter: d.Now.Add(59 * time.Minute),
	}
	for _, f := range differ {
		f(template)
	}
	key := newKey(t)
	return &x509svid.SVID{ID: of, Certificates: []*x509.Certificate{d.sign(t, template, d.root, key)}, PrivateKey: key}
}

// JWT returns a JWT-SVID, with what differs among its claims and in its header. Nil leaves
// a claim out.
func (d *Domain) JWT(t testing.TB, id, audience string, differs map[string]any, header map[jose.HeaderKey]any) string {
	t.Helper()
	claims := map[string]any{"sub": id, "aud": []string{audience}, "iat": d.Now.Unix(), "exp": d.Now.Add(5 * time.Minute).Unix()}
	maps.Copy(claims, differs)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	heads := map[jose.HeaderKey]any{"kid": d.kid, "typ": "JWT"}
	maps.Copy(heads, header)
	maps.DeleteFunc(heads, func(_ jose.HeaderKey, v any) bool { return v == nil })
	return oidctest.Sign(t, jose.ES256, d.jwtKey, heads, claims)
}

// Bundle returns the trust bundle of now.
func (d *Domain) Bundle(t testing.TB) *spiffebundle.Bundle {
	t.Helper()
	b := spiffebundle.New(d.Name)
	b.AddX509Authority(d.root)
	if err := b.AddJWTAuthority(d.kid, d.jwtKey.Public()); err != nil {
		t.Fatal(err)
	}
	return b
}

// WriteBundle writes the trust bundle of now to a file, in the SPIFFE format.
func (d *Domain) WriteBundle(t testing.TB, file string) {
	t.Helper()
	data, err := d.Bundle(t).Marshal()
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keys is the JWT part of the bundle.
func (d *Domain) keys() ([]byte, error) {
	b := jwtbundle.New(d.Name)
	if err := b.AddJWTAuthority(d.kid, d.jwtKey.Public()); err != nil {
		return nil, err
	}
	return b.Marshal()
}

// KeyID is the key id of the JWT authority.
func (d *Domain) KeyID() string { return d.kid }

// PEM is the X.509 part of the bundle.
func (d *Domain) PEM(t testing.TB) []byte {
	t.Helper()
	data, err := d.Bundle(t).X509Bundle().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
