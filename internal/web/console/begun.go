package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/powerbox-project/powerbox/internal/bucket"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Limits bound the requests by which people log in, before it is known who they are. 0 is
// no limit.
type Limits struct {
	PerAddress int // a minute, from one address
	Total      int // a minute, from all addresses, for beginning and for finishing each
}

// logins counts the requests of those who log in.
type logins struct {
	limits Limits
	table  bucket.Table
}

// The two halves of a login. They count separately in total, so that logins which were
// begun can be finished whatever number of others is begun.
const (
	beginning = "begin"
	finishing = "finish"
)

// limited serves a page of the login within the limits.
func (k *Console) limited(half string, page func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		now, l := k.config.Now(), &k.logins
		if err := l.take(now, bucket.PerMinute(half+" from "+peer.Of(v.r).Network(), l.limits.PerAddress), bucket.PerMinute(half, l.limits.Total)); err != nil {
			return err
		}
		return page(v)
	}
}

func (l *logins) take(now time.Time, buckets ...bucket.Bucket) error {
	wait, ok := l.table.TakeAll(now, buckets...)
	if ok {
		return nil
	}
	err := agentauth.Errorf(agentauth.CodeRateLimited, "too many logins at once; try again in %d seconds", wait)
	err.RetryAfter = wait
	return err
}

// begunForm is a login that was begun, as it is sealed into a cookie. The server keeps
// nothing of it: anyone who begins very many logins costs no memory and no row.
type begunForm struct {
	Next, State, Nonce, Verifier string
	Ceremony                     ceremonyForm
	Until                        time.Time
}

// sealedAs separates these cookies from everything else under a key.
const sealedAs = "powerbox login that was begun"

// maxBegun bounds a sealed login: browsers keep 4 KiB of a cookie with its name.
const maxBegun = 3 << 10

// try seals a login that was begun into the value of a cookie.
func (s *sessions) try(a *attempt) (string, error) {
	a.until = s.now().Add(loginTime)
	form, err := json.Marshal(begunForm{a.next, a.state, a.nonce, a.verifier, a.ceremony.form(), a.until})
	if err != nil {
		return "", err
	}
	value := base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, form, []byte(sealedAs))) //nolint:gosec // the sealer makes a nonce of its own
	if len(value) > maxBegun {
		return "", agentauth.Errorf(agentauth.CodeInvalidRequest, "the address to continue at is too long; open /login")
	}
	return value, nil
}

// tried returns the login that was begun with a cookie; nil for none, and for one that was
// finished.
func (s *sessions) tried(cookie string) *attempt {
	if len(cookie) > maxBegun {
		return nil
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cookie)
	if err != nil {
		return nil
	}
	text, err := s.seal.Open(nil, nil, sealed, []byte(sealedAs))
	var f begunForm
	if err != nil || json.Unmarshal(text, &f) != nil || !s.now().Before(f.Until) {
		return nil
	}
	if f.Until.Before(s.began.Add(loginTime)) {
		return nil // it may have been finished before the start (ATK-145)
	}
	return &attempt{next: f.Next, state: f.State, nonce: f.Nonce, verifier: f.Verifier, ceremony: f.Ceremony.ceremony(), until: f.Until, id: cookieHash(cookie)}
}

// finish uses a login up, once everything that it needs was shown: a login that is brought
// again, here or at another node, is refused.
func (s *sessions) finish(ctx context.Context, a *attempt) error {
	used := agentauth.Errorf(agentauth.CodeUnauthorized, "this login was finished before; log in again")
	now := s.now()
	if s.keeper != nil {
		ctx, cancel := context.WithTimeout(ctx, keepTime)
		defer cancel()
		first, err := s.keeper.Once(ctx, keptFinished, a.id, a.until, now)
		switch {
		case err != nil:
			return fmt.Errorf("console: %w", err)
		case !first:
			return used
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	past := steady.Past(now)
	maps.DeleteFunc(s.finished, func(_ string, until time.Time) bool { return !past.Before(until) })
	if _, again := s.finished[a.id]; again {
		return used
	}
	if len(s.finished) >= maxSessions {
		return agentauth.Errorf(agentauth.CodeRateLimited, "too many people have logged in within %s; try again later", lasting(lang.English, loginTime))
	}
	s.finished[a.id] = a.until
	return nil
}
