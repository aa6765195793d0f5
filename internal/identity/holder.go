package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// held returns every identity that the request proves, the strongest first: a
// key, with its proof, a certificate, the client of the session's token.
func (a *Authenticator) held(r *http.Request, c credential, s session, ours bool, audience string, now time.Time) ([]Holder, token.DPoP, error) {
	var all []Holder
	proof, proven, err := a.proof(r, c, s, ours, audience, now)
	if err != nil {
		return nil, proof, err
	}
	if proven {
		all = append(all, Holder{ID: "key:" + proof.Key.Thumbprint(), Key: proof.Key})
	}
	leaf := clientCertificate(r.TLS)
	if s.certificate != "" && (leaf == nil || s.certificate != digest(leaf.Raw)) {
		return nil, proof, refuse(CodeCertificate, "the token is bound to a client certificate that the connection does not have")
	}
	certificates, err := a.certificates(r, now)
	if err != nil {
		return nil, proof, err
	}
	return append(append(all, certificates...), s.holders()...), proof, nil
}

// agent returns the configured name of the caller, which all its identities
// must agree on as far as they are configured.
func (a *Authenticator) agent(held []Holder) (string, error) {
	name, names := "", a.names.Load()
	for _, h := range held {
		other := names.Of(h.ID)
		if other == "" {
			continue
		}
		if name != "" && name != other {
			return "", refuse(CodeCallerAmbiguous, "the key, certificate and token of the request are configured as different agents")
		}
		name = other
	}
	return name, nil
}

// proof verifies the DPoP header (RFC 9449, sections 4.3 and 7) and uses it
// up. A proof that belongs to another party's token is left alone.
func (a *Authenticator) proof(r *http.Request, c credential, s session, ours bool, audience string, now time.Time) (token.DPoP, bool, error) {
	values := r.Header.Values("DPoP")
	foreign := !ours && c.dpop
	switch {
	case foreign:
		return token.DPoP{}, false, nil
	case len(values) > 1:
		return token.DPoP{}, false, refuse(CodeMalformed, "the request has %d DPoP headers; want at most one", len(values))
	case s.keyBound != "" && !c.dpop:
		return token.DPoP{}, false, refuse(CodeProofMissing, "the token is bound to a key; present it as Authorization: DPoP with a DPoP proof")
	case len(values) == 0 && c.dpop:
		return token.DPoP{}, false, refuse(CodeProofMissing, "the DPoP scheme needs a DPoP header with a proof")
	case len(values) == 0:
		return token.DPoP{}, false, nil
	}
	p, err := a.verifyProof(values[0], token.DPoPRequest{
		Method: r.Method, URL: target(audience, r.URL), AccessToken: c.token, Now: now, Window: a.window,
	}, ours)
	if err != nil {
		return token.DPoP{}, false, proofError(err)
	}
	return p, true, a.useProof(p, s, ours, now)
}

// verifyProof demands the hash of a session's token. Beside a foreign Bearer
// token, which passes through, a proof may be made with or without it.
func (a *Authenticator) verifyProof(proof string, want token.DPoPRequest, ours bool) (token.DPoP, error) {
	p, err := token.VerifyDPoP(proof, want)
	if err == nil || ours || want.AccessToken == "" {
		return p, err
	}
	want.AccessToken = ""
	return token.VerifyDPoP(proof, want)
}

func (a *Authenticator) useProof(p token.DPoP, s session, ours bool, now time.Time) error {
	thumbprint := p.Key.Thumbprint()
	if s.keyBound != "" && s.keyBound != thumbprint {
		return refuse(CodeProofKey, "the token is bound to another key than the one that made the proof")
	}
	if p.IssuedAt.Unix() < a.started.Unix() {
		return refuse(CodeProofBefore, "the proof was made before this process began and may have been used; make a new one")
	}
	if a.replay != nil {
		fresh, err := a.replay.Fresh(thumbprint+" "+p.ID, now.Add(2*a.window), now)
		switch {
		case err != nil:
			return fmt.Errorf("%w: whether the proof was used before: %w", ErrUnavailable, err)
		case !fresh:
			return refuse(CodeProofReplayed, "the proof was used before; make a new one for every request")
		}
		return nil
	}
	memory := a.strangers
	if ours {
		memory = a.sessions
	}
	switch memory.use(thumbprint, p.ID, now) {
	case used:
		return refuse(CodeProofReplayed, "the proof was used before; make a new one for every request")
	case full:
		return refuse(CodeProofCapacity, "too many proofs are in use; try again in a minute")
	case fresh:
	}
	return nil
}

// target is the URL that a client means: the public origin, which is
// configured, and never the Host header, with the path as it came. A server
// behind a proxy must see the public path.
func target(audience string, requested *url.URL) string {
	u, err := url.Parse(audience)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + requested.EscapedPath()
}

// clientCertificate returns the leaf of a verified client certificate. One
// that was not verified is ignored.
func clientCertificate(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// proofError makes a refusal of the token package one of ours.
func proofError(err error) error {
	var e *token.Error
	if !errors.As(err, &e) {
		return err
	}
	return &Error{Code: e.Code, Message: "DPoP proof: " + e.Message, cause: err}
}
