package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/identity"
)

// TestATK55_CredentialsOfManyParts shows more parts than are looked at, the last of which
// is a session: the header is refused as it is, and reaches no agent.
func TestATK55_CredentialsOfManyParts(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Own: func(string) bool { return false }})
	var parts []string
	for n := range 300 {
		parts = append(parts, fmt.Sprint(n))
	}
	many := "Custom " + strings.Join(parts, ",")
	for _, value := range []string{many, many + "," + i.token(t, nil)} {
		if _, consumed, err := a.Authenticate(request(t, "Authorization", value), audience, now); !consumed || code(err) != identity.CodeMalformed {
			t.Errorf("ATK-55 consumed %v, %v", consumed, err)
		}
	}
	few := "Custom " + strings.Join(parts[:50], ",")
	if _, consumed, err := a.Authenticate(request(t, "Authorization", few), audience, now); consumed || err != nil {
		t.Errorf("ATK-55 consumed %v, %v", consumed, err)
	}
	if _, consumed, err := a.Authenticate(request(t, "Authorization", few+","+i.token(t, nil)), audience, now); !consumed || code(err) != identity.CodeMalformed {
		t.Errorf("ATK-35 consumed %v, %v", consumed, err)
	}
}
