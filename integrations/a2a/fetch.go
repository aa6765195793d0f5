package powerboxa2a

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

const (
	// life is how long keys and card are used before they are fetched again.
	life = time.Minute
	// pause is how long nothing is fetched again after a fetch, so that calls
	// with made-up keys cannot have us ask all the time.
	pause     = 5 * time.Second
	patience  = 10 * time.Second
	maxAnswer = 1 << 20
)

const (
	jwksPath = "/.well-known/jwks.json"
	cardPath = "/.well-known/agent-card.json"
)

// fetched is one document of the gateway, as it was last seen. It must not be
// copied after first use.
type fetched[T any] struct {
	url   string
	parse func([]byte) (T, error)
	http  *http.Client
	now   func() time.Time

	mu    sync.Mutex // guards the fields below, and held while it is fetched
	have  bool
	value T
	tried time.Time
	err   error
}

// get returns the document, from the cache if the copy is young enough. anew
// rejects the copy in the cache. If the fetch fails, get does not return an
// old copy: it may have been revoked.
func (f *fetched[T]) get(ctx context.Context, anew bool) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	age := f.now().Sub(f.tried)
	if (f.have || f.err != nil) && age >= 0 && (age < pause || f.have && !anew && age < life) {
		return f.value, f.err
	}
	var none T
	// The request that needs it must not be able to fail it for the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	raw, err := read(ctx, f.http, f.url)
	f.value, f.have, f.tried = none, false, f.now()
	if err == nil {
		f.value, err = f.parse(raw)
	}
	f.have, f.err = err == nil, err
	if err != nil {
		f.err = fmt.Errorf("powerbox: %s: %w", f.url, err)
	}
	return f.value, f.err
}

func read(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP status %s; want 200", response.Status)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	return raw, nil
}

func newKeys(c Config) *fetched[token.KeySet] {
	return &fetched[token.KeySet]{url: base(c.URL) + jwksPath, parse: token.ParseKeySet, http: c.HTTP, now: c.Now}
}

func newSkills(c Config) *fetched[map[string]holder.Skill] {
	return &fetched[map[string]holder.Skill]{
		url: base(c.URL) + cardPath, http: c.HTTP, now: c.Now,
		parse: func(raw []byte) (map[string]holder.Skill, error) {
			a, err := holder.ReadAgent(base(c.URL), raw)
			if err != nil {
				return nil, err
			}
			if a.Issuer != c.URL {
				return nil, fmt.Errorf("the card is of issuer %q; want %q, the agent's URL at its gateway", a.Issuer, c.URL)
			}
			return a.Skills, nil
		},
	}
}

func base(url string) string { return strings.TrimRight(url, "/") }
