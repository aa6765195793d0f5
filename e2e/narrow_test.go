package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// keep narrows a chain offline to some of its tools, for the same key.
func (c *caller) keep(chain []string, keep func(powerbox.Clause) (powerbox.Clause, bool)) []string {
	c.w.t.Helper()
	return c.keepFor(c.key.Public(), chain, keep)
}

// keepFor is keep for the holder of another key.
func (c *caller) keepFor(holder token.PublicKey, chain []string, keep func(powerbox.Clause) (powerbox.Clause, bool)) []string {
	c.w.t.Helper()
	u, err := token.ParseChain(chain)
	if err != nil {
		c.w.t.Fatal(err)
	}
	v, err := u.UnsafeTrustRoot(token.Options{Now: time.Now(), Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		c.w.t.Fatal(err)
	}
	var tools []powerbox.Clause
	for _, t := range v.Tools() {
		if kept, ok := keep(t); ok {
			tools = append(tools, kept)
		}
	}
	compact, err := token.Derive(v, c.key, token.Narrowing{
		ID: rand.Text(), Now: time.Now(), Tools: tools, MaxDepth: v.Authority().Depth() - 1, Holder: holder,
	})
	if err != nil {
		c.w.t.Fatal(err)
	}
	return append(append([]string{}, chain...), compact)
}

// TestSEP12_NarrowedHandlesStayNarrowed narrows a capability to one handle and
// then drops every operation that takes one. The rest must not show the other
// resource to the agent behind.
func TestSEP12_NarrowedHandlesStayNarrowed(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	one := c.ResourceHandles[0].Handle
	chain := alice.keep([]string{c.Token}, func(t powerbox.Clause) (powerbox.Clause, bool) {
		if t.Pattern.Name() != opRetrieve {
			return t, true
		}
		shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{Name: "resourceHandle", Constraint: powerbox.OneOf{Values: []powerbox.Value{powerbox.String(one)}}, Required: true})
		if err != nil {
			w.t.Fatal(err)
		}
		return powerbox.Clause{Pattern: t.Pattern, Shape: shape}, true
	})
	chain = alice.keep(chain, func(t powerbox.Clause) (powerbox.Clause, bool) { return t, t.Pattern.Name() != opRetrieve })
	args := map[string]any{"query": "financial"}
	a := alice.present("documents", data("search_documents", args), proven{chain: chain, operation: opSearch, arguments: args})
	if a.Error != nil {
		t.Fatalf("search: %s", a.Raw)
	}
	got := w.documents.got()
	var claims struct {
		Handles map[string]json.RawMessage `json:"handles"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(got[len(got)-1].header.Get("Powerbox-Context"), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	if _, ok := claims.Handles[one]; !ok || len(claims.Handles) != 1 {
		t.Errorf("the agent behind may touch %d resources; want the one that was left", len(claims.Handles))
	}
}
