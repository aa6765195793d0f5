package app_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// atOnce does something n times at once, and returns what each got that got a token.
func (d *door) atOnce(n int, do func() tokens) []tokens {
	d.t.Helper()
	all := make([]tokens, n)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for k := range n {
		wg.Go(func() { <-begin; all[k] = do() })
	}
	close(begin)
	wg.Wait()
	var won []tokens
	for _, got := range all {
		if got.Access != "" {
			won = append(won, got)
		} else if got.Error != "invalid_grant" {
			d.t.Errorf("one of %d at once: %+v; want invalid_grant", n, got)
		}
	}
	if len(won) > 1 {
		d.t.Errorf("%d of %d at once got tokens; want at most 1", len(won), n)
	}
	return won
}

// TestCodesAndRefreshTokensComeTwiceAtOnce uses a code, and a refresh token, many times at once. At
// most one use gets tokens. All tokens of the family are dead after that, also those passed on
// before, since the server cannot tell the client from the thief (RFC 9700, section 4.14.2).
func TestCodesAndRefreshTokensComeTwiceAtOnce(t *testing.T) {
	d := openDoor(t, "")
	code := d.code(d.dev, d.request("scope", "notes:read offline_access")).Get("code")
	for _, got := range d.atOnce(12, func() tokens { return d.redeem(code) }) {
		d.dead("a code that came twice", got.Access)
		d.refused("its refresh token", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", got.Refresh))
	}
	first := d.redeem(d.code(d.dev, d.request("scope", "notes:read offline_access", "state", "another")).Get("code"))
	passed := d.exchanges(first.Access, "client_id", "backend", "client_secret", "a-secret-of-the-backend")
	if !d.may(passed.Access, "read_note") {
		t.Fatalf("the token that was passed on: %+v", passed)
	}
	d.calls.Store(0)
	for _, got := range d.atOnce(12, func() tokens { return d.token("grant_type", "refresh_token", "refresh_token", first.Refresh) }) {
		d.dead("a refresh token that came twice", got.Access)
		d.refused("the next refresh token", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", got.Refresh))
	}
	d.dead("what the first token gave to another client", passed.Access)
	d.refused("an exchange of that", "invalid_grant", d.exchanges(passed.Access, "client_id", "backend", "client_secret", "a-secret-of-the-backend"))
}

// TestATK117_OneAddressDoesNotUseUpTheLimitOfAll: an address that has used up its own requests takes
// nothing from the limit that all addresses have together.
func TestATK117_OneAddressDoesNotUseUpTheLimitOfAll(t *testing.T) {
	d := openDoor(t, "approvals: {logins_per_address: 5, logins: 20}\n")
	for range 200 {
		d.get(http.DefaultClient, d.url+"/.well-known/oauth-authorization-server")
	}
	from := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}
	defer from.CloseIdleConnections()
	if got := d.get(&http.Client{Transport: from}, d.url+"/.well-known/oauth-authorization-server"); got.status != http.StatusOK {
		t.Errorf("ATK-117: the first request of another address: %d %s", got.status, got.body)
	}
}

// TestAnExchangeOfAGrantThatIsNoLongerOffered: the operator takes the grant of a token out of the
// offers. The token endpoint refuses to exchange the token, in OAuth's words.
func TestAnExchangeOfAGrantThatIsNoLongerOffered(t *testing.T) {
	d := openDoor(t, "")
	first := d.granted("notes:read offline_access")
	policy := filepath.Join(filepath.Dir(d.config), "notes.cedar")
	if err := os.WriteFile(policy, []byte(strings.ReplaceAll(doorPolicy, "notes/notes:read", "notes/notes:look")), 0o600); err != nil {
		t.Fatal(err)
	}
	d.reload(func(text string) string {
		before, others, _ := strings.Cut(text, "  other:\n    - {skill")
		return strings.ReplaceAll(strings.Replace(before, `"notes:read", description`, `"notes:look", description`, 1), `grant: "notes:read"`, `grant: "notes:look"`) + "  other:\n    - {skill" + others
	})
	d.refused("the exchange", "invalid_grant", d.exchanges(first.Access))
}

// reload changes the configuration file, and has the server read it again.
func (d *door) reload(change func(text string) string) {
	d.t.Helper()
	text, err := os.ReadFile(d.config)
	if err == nil {
		err = os.WriteFile(d.config, []byte(change(string(text))), 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.operate("/v1/config/reload", "{}")
}
