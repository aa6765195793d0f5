package identity

import (
	"crypto"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Domains are the trust domains of SPIFFE whose SVIDs prove workloads. internal/identity/spiffe
// has them.
type Domains interface {
	// Has reports whether a trust domain is one of them.
	Has(domain spiffeid.TrustDomain) bool
	// Verify believes an X.509-SVID, the leaf first, by the bundle of its own trust domain alone.
	Verify(chain []*x509.Certificate, now time.Time) error
	// Authority returns the key of a trust domain that signs JWT-SVIDs under a key id. ok is
	// false where the domain has no bundle now, or no such key in it.
	Authority(domain spiffeid.TrustDomain, kid string, now time.Time) (key crypto.PublicKey, ok bool)
	// Rules are the audiences of JWT-SVIDs that are accepted besides the audience of the
	// request, and how long one may be valid.
	Rules(domain spiffeid.TrustDomain) (audiences []string, lifetime time.Duration)
	// Audiences are those of all trust domains.
	Audiences() []string
}

// svidAlgorithms are those of the JWT-SVID specification, section 2.1.
var svidAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512,
}

// workload returns the SPIFFE id that a token names as its subject, if the id is of a trust
// domain that is configured. Such a token is a JWT-SVID or nothing: no issuer of sessions
// can speak for a workload.
func (a *Authenticator) workload(u unverified) (spiffeid.ID, bool) {
	if a.domains == nil {
		return spiffeid.ID{}, false
	}
	id, err := spiffeid.FromString(textMember(u.claims, "sub"))
	return id, err == nil && a.domains.Has(id.TrustDomain())
}

// svid believes a JWT-SVID or says why not.
func (a *Authenticator) svid(u unverified, id spiffeid.ID, lifetime time.Duration, now time.Time) (session, error) {
	if err := checkHeader(u.header, append(slices.Clone(tokenTypes[:2]), "jose")); err != nil {
		return session{}, err
	}
	expires, err := checkTimes(u.claims, lifetime, false, now)
	if err != nil {
		return session{}, err
	}
	s := session{caller: Caller{SessionExpires: expires}, workload: id.String()}
	if err := s.confirm(u.claims); err != nil {
		return session{}, err
	}
	kid := textMember(u.header, "kid")
	if kid == "" {
		return session{}, refuse(CodeMalformed, "the JWT-SVID has no kid, which says which key of its trust domain signed it")
	}
	if !slices.Contains(svidAlgorithms, jose.SignatureAlgorithm(textMember(u.header, "alg"))) {
		return session{}, refuse(CodeAlgorithm, "the JWT-SVID's alg is none of its specification; want RS, ES or PS with 256, 384 or 512")
	}
	key, ok := a.domains.Authority(id.TrustDomain(), kid, now)
	if !ok {
		return session{}, refuse(CodeUnknownKey, "the trust domain's bundle has no key as the JWT-SVID's kid names, or there is no bundle now")
	}
	jwk := jose.JSONWebKey{Key: key, KeyID: kid}
	if len(algorithms(jwk)) == 0 {
		return session{}, refuse(CodeAlgorithm, "the trust domain's key is none that JWT-SVIDs are verified by here; want RSA of at least 2048 bits, or P-256, P-384 or P-521")
	}
	return s, checkSignature(u, []jose.JSONWebKey{jwk})
}

// certificates returns the holders that the connection's verified client certificate proves.
// Its SPIFFE id comes before its key. An SVID of a configured trust domain is verified
// again, since the bundle may have changed after the handshake.
func (a *Authenticator) certificates(r *http.Request, now time.Time) ([]Holder, error) {
	leaf := clientCertificate(r.TLS)
	if leaf == nil {
		return nil, nil
	}
	byKey := Holder{ID: "mtls:" + digest(leaf.RawSubjectPublicKeyInfo)}
	id, ok := SPIFFEID(leaf)
	if !ok {
		return []Holder{byKey}, nil
	}
	if a.domains != nil && a.domains.Has(id.TrustDomain()) {
		if err := a.domains.Verify(r.TLS.PeerCertificates, now); err != nil {
			return nil, &Error{CodeCertificate, "the client certificate is no X.509-SVID that the bundle of its trust domain verifies now", err}
		}
	}
	return []Holder{{ID: id.String()}, byKey}, nil
}

// SPIFFEID returns the SPIFFE id of a certificate that has one. An SVID has exactly one URI
// (X509-SVID, section 2).
func SPIFFEID(leaf *x509.Certificate) (spiffeid.ID, bool) {
	if len(leaf.URIs) != 1 || !strings.EqualFold(leaf.URIs[0].Scheme, "spiffe") {
		return spiffeid.ID{}, false
	}
	id, err := spiffeid.FromURI(leaf.URIs[0])
	return id, err == nil
}
