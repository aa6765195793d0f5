package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/powerbox-project/powerbox/internal/config"
)

// File reads the secret from a file for every call, so that it can be replaced.
type File string

// Secret implements [Source].
func (f File) Secret(context.Context, string, config.Secret) (config.Secret, error) {
	data, err := os.ReadFile(string(f))
	return config.NewSecret(strings.TrimSpace(string(data))), err
}

// Static is a secret that stays.
type Static struct{ Text config.Secret }

// Secret implements [Source].
func (s Static) Secret(context.Context, string, config.Secret) (config.Secret, error) {
	return s.Text, nil
}

// Got is a secret with its end, zero for none that is known.
type Got struct {
	Secret config.Secret
	Until  time.Time
}

// Kept keeps what a slow source returned for a while. One getting serves all calls that
// wait for it.
type Kept struct {
	Get func(ctx context.Context, person string) (Got, error)
	Now func() time.Time

	flights singleflight.Group
	mu      sync.Mutex
	got     map[string]Got
	failed  map[string]failure
}

type failure struct {
	at  time.Time
	err error
}

// Times and number of kept secrets.
const (
	early   = 30 * time.Second // before the end of a secret another one is got
	life    = 5 * time.Minute  // of one without an end
	resting = time.Second      // after a failure
	maxKept = 10_000           // persons
)

// Secret implements [Source].
func (k *Kept) Secret(ctx context.Context, person string, refused config.Secret) (config.Secret, error) {
	if have, ok, err := k.known(person, refused); ok || err != nil {
		return have, err
	}
	flight := k.flights.DoChan(person, func() (any, error) {
		// It is not one caller's: one that leaves ends it for no other.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), getting)
		defer cancel()
		if have, ok, err := k.known(person, refused); ok || err != nil {
			return have, err // another flight has ended meanwhile
		}
		got, err := k.Get(ctx, person)
		return got.Secret, k.keep(person, got, err)
	})
	select {
	case r := <-flight:
		secret, _ := r.Val.(config.Secret)
		return secret, r.Err
	case <-ctx.Done():
		return config.Secret{}, ctx.Err()
	}
}

// known returns a secret that is good still and was not refused, or a failure of a moment
// ago.
func (k *Kept) known(person string, refused config.Secret) (config.Secret, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f, ok := k.failed[person]; ok && k.Now().Sub(f.at) < resting {
		return config.Secret{}, false, f.err
	}
	have, ok := k.got[person]
	return have.Secret, ok && have.Secret != refused && k.Now().Before(have.Until), nil
}

func (k *Kept) keep(person string, got Got, err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.got == nil || len(k.got)+len(k.failed) > maxKept {
		k.got, k.failed = map[string]Got{}, map[string]failure{}
	}
	delete(k.got, person)
	delete(k.failed, person)
	var consent *ConsentError
	switch {
	case errors.As(err, &consent): // the next call may come after it
	case err != nil:
		k.failed[person] = failure{k.Now(), err}
	case got.Until.IsZero():
		got.Until = k.Now().Add(life)
		k.got[person] = got
	default:
		got.Until = got.Until.Add(-early)
		k.got[person] = got
	}
	return err
}

// Forget drops the secret and the failure kept for a person.
func (k *Kept) Forget(person string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.got, person)
	delete(k.failed, person)
}

// Vault reads a field of the key-value engine of Vault or OpenBao, version 2.
type Vault struct {
	Address, Mount, Path, Field, Namespace, TokenFile string
	Client                                            *http.Client // follows no redirect
}

// Get is for [Kept].
func (v Vault) Get(ctx context.Context, _ string) (Got, error) {
	token, err := os.ReadFile(v.TokenFile)
	if err != nil {
		return Got{}, fmt.Errorf("token_file: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(v.Address, "/")+"/v1/"+v.Mount+"/data/"+(&url.URL{Path: v.Path}).EscapedPath(), nil)
	if err != nil {
		return Got{}, err
	}
	r.Header.Set("X-Vault-Token", strings.TrimSpace(string(token)))
	r.Header.Set("X-Vault-Request", "true")
	if v.Namespace != "" {
		r.Header.Set("X-Vault-Namespace", v.Namespace)
	}
	answer, err := v.Client.Do(r)
	if err != nil {
		return Got{}, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return Got{}, fmt.Errorf("vault answers %d for %s/%s", answer.StatusCode, v.Mount, v.Path)
	}
	var has struct {
		Data struct {
			Data map[string]any `json:"data"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&has); err != nil {
		return Got{}, errors.New("vault's answer is not that of its key-value engine, version 2")
	}
	text, ok := has.Data.Data[v.Field].(string)
	if !ok {
		return Got{}, fmt.Errorf("%s/%s has no text in the field %q", v.Mount, v.Path, v.Field)
	}
	return Got{Secret: config.NewSecret(text)}, nil
}
