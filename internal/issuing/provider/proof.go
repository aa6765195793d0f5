package provider

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// Presented is a token of an agent with the proof that came along with it.
type Presented struct {
	Token       string
	Scheme      string   // of the Authorization header: Bearer or DPoP
	Proofs      []string // DPoP headers
	Method, URL string   // of the request, as the client knows it
	Certificate []byte   // DER of the client's TLS certificate, nil for none

	elsewhere bool // it was shown to another service, which checks its binding
}

// proven checks the proof of possession that a token asks for, or that policy does
// (section 4.4, RFC 9449, RFC 8705, AAP-J9). A token that is bound is good with its
// proof alone, whether or not policy asks for one.
func (p *Provider) proven(t agentauth.Token, shown Presented, now time.Time) error {
	switch {
	case p.config.RequireProof && !t.Bound:
		return agentauth.Errorf(agentauth.CodeInvalidJWT, "tokens are taken with a proof of possession alone: sign a cnf.jkt into the token, and send it with a DPoP proof")
	case shown.elsewhere:
		return nil
	case t.Bound && t.Confirmed == "" && t.Certificate == "":
		return agentauth.Errorf(agentauth.CodeInvalidJWT, "the token's cnf has neither jkt nor x5t#S256; others are not understood")
	case (shown.Scheme == "DPoP") != (t.Confirmed != ""):
		return agentauth.Errorf(agentauth.CodeInvalidJWT, "a token with cnf.jkt comes as Authorization: DPoP, and no other does")
	}
	if t.Certificate != "" {
		sum := sha256.Sum256(shown.Certificate)
		given := base64.RawURLEncoding.EncodeToString(sum[:])
		if shown.Certificate == nil || subtle.ConstantTimeCompare([]byte(given), []byte(t.Certificate)) != 1 {
			return agentauth.Errorf(agentauth.CodeInvalidJWT, "the token is bound to another client certificate than that of the connection")
		}
	}
	if t.Confirmed == "" {
		return nil
	}
	if len(shown.Proofs) != 1 {
		return agentauth.Errorf(agentauth.CodeInvalidJWT, "the token is bound to a key; want one DPoP header with a proof of it")
	}
	proof, err := token.VerifyDPoP(shown.Proofs[0], token.DPoPRequest{Method: shown.Method, URL: shown.URL, AccessToken: shown.Token, Now: now, Window: agentauth.Skew})
	switch {
	case err != nil:
		return agentauth.Errorf(agentauth.CodeInvalidJWT, "the DPoP proof: %v", err)
	case proof.Key.Thumbprint() != t.Confirmed:
		return agentauth.Errorf(agentauth.CodeInvalidJWT, "the DPoP proof is by another key than the token is bound to")
	case proof.IssuedAt.Before(p.config.Started.Truncate(time.Second)):
		return agentauth.Errorf(agentauth.CodeInvalidJWT, "the DPoP proof was made before this server started; make a new one")
	}
	fresh, err := p.fresh("dpop "+t.Confirmed+" "+proof.ID, now.Add(2*agentauth.Skew+time.Second), now)
	if err == nil && !fresh {
		err = agentauth.Errorf(agentauth.CodeInvalidJWT, "the DPoP proof was used before; make a new one for every request")
	}
	return err
}

// WantsProof reports whether a capability is executed with a token that is bound
// alone.
func (p *Provider) WantsProof(c *Capability) bool { return p.config.RequireProof || c.Proof }

// confirmation is the key that a token is bound to, nil for none.
func confirmation(t agentauth.Token) map[string]string {
	if !t.Bound {
		return nil
	}
	out := map[string]string{}
	if t.Confirmed != "" {
		out["jkt"] = t.Confirmed
	}
	if t.Certificate != "" {
		out["x5t#S256"] = t.Certificate
	}
	return out
}
