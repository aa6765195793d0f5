// Package fill writes data into the store of a server that does not run, and opens the session of an operator
// of one that runs.
package fill

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

// Recorder is the name under which a server signs records.
const Recorder = "serve"

// batch is how many things are written in one commit.
const batch = 5000

// Store is the store of a server, which signs with the server's keys.
type Store struct {
	*sqlite.Store

	entropy *ulid.MonotonicEntropy
}

// Open opens the store in the folder of a server that has run once, so that its keys are there.
func Open(ctx context.Context, dir string, config sqlite.Config) (*Store, error) {
	ring, err := keyring.Open(filepath.Join(dir, "state", "keys"), rand.Reader, nil)
	if err != nil {
		return nil, err
	}
	if config.Signer, _, err = ring.Evidence(evidence.Ed25519, Recorder); err != nil {
		return nil, err
	}
	if config.Checkpoint, _, err = ring.Checkpoint(config.Origin); err != nil {
		return nil, err
	}
	config.Path, config.Random, config.Patience = filepath.Join(dir, "state", "powerbox.db"), rand.Reader, time.Minute
	store, err := sqlite.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{store, ulid.Monotonic(rand.Reader, 0)}, nil
}

// ID makes an id. The order of ids is that of their times.
func (s *Store) ID(kind string, at time.Time) string {
	return kind + strings.ToLower(ulid.MustNew(ulid.Timestamp(at), s.entropy).String())
}

// InBatches calls put for every number from one up to another, in few commits.
func (s *Store) InBatches(ctx context.Context, from, to int, put func(tx issuer.Tx, i int) error) error {
	for ; from < to; from += batch {
		err := s.Update(ctx, func(tx issuer.Tx) error {
			for i := from; i < min(to, from+batch); i++ {
				if err := put(tx, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Login returns a client with the session of a built-in user of a server in dev mode.
func Login(ctx context.Context, listen, user string) (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	form := strings.NewReader(url.Values{"user": {user}, "next": {"/admin"}}.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+listen+"/login", form)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close() // the answer is a redirection
	if res.StatusCode != http.StatusSeeOther {
		return nil, fmt.Errorf("the login: HTTP %d", res.StatusCode)
	}
	return client, nil
}
