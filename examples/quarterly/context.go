package quarterly

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// maxBody bounds a request to an agent.
const maxBody = 4 << 20

type bodyKey struct{}

// keepBody keeps the bytes of a request for those that have to compare them with what a gateway has signed.
func keepBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, fmt.Sprintf("the body cannot be read: %v", err), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bodyKey{}, body)))
	})
}

func bodyOf(ctx context.Context) []byte {
	body, _ := ctx.Value(bodyKey{}).([]byte)
	return body
}

// Guarded reads the context that the gateway in front of an agent signs for each request. Its Handles is for Config.Handles.
// It must not be copied after first use.
type Guarded struct {
	// URL is the public URL of the agent, which is the gateway's; its keys are below. Without one the agent is behind no gateway, and
	// its requests are not bounded.
	URL string
	// ID is the agent's name at the gateway, for which contexts are signed. Required.
	ID string
	// HTTP fetches the keys. Required.
	HTTP *http.Client
	// Now is the clock. Required.
	Now func() time.Time

	mu      sync.Mutex // guards the fields below, and held while keys are fetched
	keys    token.KeySet
	fetched time.Time
}

// keysLife is how long keys are used before they are fetched again.
const keysLife = time.Minute

// Handles tells which documents a request may touch, by handle. A request that does not come through the gateway is refused.
func (g *Guarded) Handles(in Incoming) (idByHandle map[string]string, bounded bool, err error) {
	if g.URL == "" {
		return nil, false, nil
	}
	header := strings.Join(in.Headers["powerbox-context"], ",")
	keys, err := g.keySet()
	if err != nil {
		return nil, false, err
	}
	c, err := token.VerifyContext(header, keys, g.ID, g.Now(), in.Body)
	if err != nil {
		return nil, false, err
	}
	if c.Issuer != g.URL {
		return nil, false, fmt.Errorf("the context is of issuer %q; want %q", c.Issuer, g.URL)
	}
	if c.Handles == nil {
		return nil, false, nil
	}
	idByHandle = make(map[string]string, len(c.Handles))
	for handle, resource := range c.Handles {
		idByHandle[handle] = resource.ID
	}
	return idByHandle, true, nil
}

func (g *Guarded) keySet() (token.KeySet, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Now()
	if g.keys.Len() > 0 && now.Sub(g.fetched) < keysLife {
		return g.keys, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/.well-known/jwks.json", nil)
	if err != nil {
		return token.KeySet{}, err
	}
	response, err := g.HTTP.Do(r)
	if err != nil {
		return token.KeySet{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	jwks, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return token.KeySet{}, err
	}
	if response.StatusCode != http.StatusOK {
		return token.KeySet{}, errors.New("keys of the gateway: HTTP status " + response.Status)
	}
	if g.keys, err = token.ParseKeySet(jwks); err == nil {
		g.fetched = now
	}
	return g.keys, err
}
