package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPZ3_RetentionOfGrants: a grant that ended stays for the retention, then it is gone.
// Grants in force stay, however old they are.
func TestAAPZ3_RetentionOfGrants(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.Retention = 2 * time.Hour })
	m := w.active("balance", "transfer")
	w.now = w.now.Add(90 * time.Minute)
	w.must(second(w.provider.RevokeGrantAs(t.Context(), alice, m.id, "transfer")))
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{119 * time.Minute, "balance active, transfer revoked"},
		{2 * time.Minute, "balance active"},
	} {
		w.now = w.now.Add(c.after)
		w.must(second(w.provider.Clean(t.Context())))
		var got []string
		for _, g := range m.standing().Grants {
			got = append(got, g.Capability+" "+string(g.Status))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("AAP-Z3 after %s: %v; want %s", c.after, got, c.want)
		}
	}
}

// TestAAPH1_UnreadableTokens: the answer says that the token cannot be read, and not what a
// token without claims would be wrong in.
func TestAAPH1_UnreadableTokens(t *testing.T) {
	w := newTown(t)
	for name, text := range map[string]string{"words": "not a token", "two parts": "e30.e30", "nothing": ""} {
		_, err := w.provider.AuthenticateHost(t.Context(), text, true)
		if code(err) != agentauth.CodeInvalidJWT || strings.Contains(err.Error(), "aud") {
			t.Errorf("AAP-H1 %s: %v", name, err)
		}
	}
}
