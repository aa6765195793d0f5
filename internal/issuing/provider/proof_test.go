package provider_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPJ9_Certificates: a token that is bound to a client certificate is good on its
// connection alone (RFC 8705).
func TestAAPJ9_Certificates(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.RequireProof = true })
	m := w.active()
	sum := sha256.Sum256([]byte("certificate"))
	bound := func() provider.Presented {
		return bearer(m.token(claims{"cnf": map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}}))
	}
	good, none, other := bound(), bound(), bound()
	good.Certificate, other.Certificate = []byte("certificate"), []byte("another")
	w.want("AAP-J9", second(w.provider.AuthenticateAgent(t.Context(), good, provider.Once, location)), "")
	w.want("no certificate", second(w.provider.AuthenticateAgent(t.Context(), none, provider.Once, location)), agentauth.CodeInvalidJWT)
	w.want("another", second(w.provider.AuthenticateAgent(t.Context(), other, provider.Once, location)), agentauth.CodeInvalidJWT)
	w.want("policy", second(w.provider.AuthenticateAgent(t.Context(), bearer(m.token()), provider.Once, location)), agentauth.CodeInvalidJWT)
}
