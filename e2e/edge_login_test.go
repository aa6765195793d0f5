package e2e

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// finishes a login that was begun, at the provider and then at the server, and returns the
// status of the callback and its URL.
func (v *visitor) finishes(at string) (int, string) {
	v.t.Helper()
	for range 6 {
		r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, at, http.NoBody)
		if err != nil {
			v.t.Fatal(err)
		}
		response, err := v.http.Do(r)
		if err != nil {
			v.t.Fatal(err)
		}
		_ = response.Body.Close()
		if strings.Contains(at, "/login/callback?") {
			return response.StatusCode, at
		}
		next, err := response.Location()
		if err != nil {
			v.t.Fatalf("%s: HTTP %d %v", at, response.StatusCode, err)
		}
		if at = next.String(); strings.Contains(at, "/login/username") {
			id := next.Query().Get("authRequestID")
			form := url.Values{"id": {id}, "username": {"test-user@127.0.0.1"}, "password": {"verysecure"}}
			r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, at, strings.NewReader(form.Encode()))
			if err != nil {
				v.t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			posted, err := v.http.Do(r)
			if err != nil {
				v.t.Fatal(err)
			}
			_ = posted.Body.Close()
			if next, err = posted.Location(); err != nil {
				v.t.Fatalf("the provider's form: HTTP %d %v", posted.StatusCode, err)
			}
			at = next.String()
		}
	}
	v.t.Fatalf("the provider leads nowhere: %s", at)
	return 0, ""
}

// begins a login and returns where the provider is asked.
func (v *visitor) begins() (int, string) {
	v.t.Helper()
	status, where := v.get("/login/provider?next=/approve")
	return status, strings.ReplaceAll(strings.SplitN(where, "<", 2)[0], "&amp;", "&")
}

// visitorFrom is a browser at an address.
func (b *pagesBank) visitorFrom(address string) *visitor {
	b.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	v := &visitor{b.t, b.url, callerFrom(b.t, address, ""), http.Header{"Sec-Fetch-Site": {"same-origin"}}}
	v.http.Jar = jar
	return v
}

// flood begins logins from an address, several at once, and returns how many were begun.
func (b *pagesBank) flood(address string, times int) int {
	b.t.Helper()
	var begun, next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := callerFrom(b.t, address, "")
			c.Transport.(*http.Transport).DisableKeepAlives = false
			for int(next.Add(1)) <= times {
				r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+"/login/passkey/challenge", http.NoBody)
				if err != nil {
					b.t.Error(err)
					return
				}
				response, err := c.Do(r)
				if err != nil {
					b.t.Error(err)
					return
				}
				_ = response.Body.Close()
				if response.StatusCode == http.StatusOK {
					begun.Add(1)
				} else if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
					b.t.Errorf("ATK-67: HTTP %d, Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
				}
			}
		})
	}
	wg.Wait()
	return int(begun.Load())
}

// TestATK67_AFloodOfLoginsStopsNoLogin begins a login, has another address begin more than
// any table holds, and finishes the first. Then another person logs in.
func TestATK67_AFloodOfLoginsStopsNoLogin(t *testing.T) {
	asGiven(t)
	b := behindProvider(t, "")
	alice := b.visitorFrom("127.0.0.1")
	status, where := alice.begins()
	if status != http.StatusSeeOther {
		t.Fatalf("HTTP %d %s", status, where)
	}
	if n := b.flood("127.0.0.3", 12_000); n == 0 || n > 600 {
		t.Errorf("ATK-67 one address began %d of 12000 logins within seconds; want some, and at most its share", n)
	}
	status, callback := alice.finishes(where)
	if status != http.StatusOK {
		t.Errorf("ATK-67 the login that was begun before the flood: HTTP %d; want 200", status)
	}
	if status, _ := alice.get("/approve"); status != http.StatusOK {
		t.Errorf("ATK-67 alice is not logged in: HTTP %d", status)
	}
	bob := b.visitorFrom("127.0.0.4")
	if status, where = bob.begins(); status != http.StatusSeeOther {
		t.Fatalf("ATK-67 a login from another address: HTTP %d; want 303", status)
	}
	if status, _ = bob.finishes(where); status != http.StatusOK {
		t.Errorf("ATK-67 a login from another address is finished: HTTP %d; want 200", status)
	}
	if status, _ := alice.get(strings.TrimPrefix(callback, b.url)); status != http.StatusForbidden {
		t.Errorf("ATK-67 a callback brought twice: HTTP %d; want 403", status)
	}
}

// TestATK67_LoginsAreLimitedInTotal has many addresses begin logins. Logins that were
// begun can still be finished.
func TestATK67_LoginsAreLimitedInTotal(t *testing.T) {
	asGiven(t)
	b := behindProvider(t, "  logins: 20\n  logins_per_address: 10\n")
	alice := b.visitorFrom("127.0.0.1")
	_, where := alice.begins()
	begun := 0
	for n := range 10 {
		begun += b.flood(fmt.Sprintf("127.0.1.%d", n+1), 6)
	}
	if begun < 19 || begun > 25 {
		t.Errorf("ATK-67 %d logins are begun by ten addresses; want about 20", begun)
	}
	if status, _ := alice.finishes(where); status != http.StatusOK {
		t.Errorf("ATK-67 a login that was begun: HTTP %d; want 200", status)
	}
}
