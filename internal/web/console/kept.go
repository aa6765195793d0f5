package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/powerbox-project/powerbox/internal/people"
)

// Keeper keeps logins for all processes that serve the pages. Anything that is not there, or
// whose time is over, is an error.
type Keeper interface {
	Keep(ctx context.Context, kind, id string, value []byte, until time.Time) error
	Kept(ctx context.Context, kind, id string, now time.Time) ([]byte, error)
	// Once keeps an id, and returns false if it is kept already.
	Once(ctx context.Context, kind, id string, until, now time.Time) (bool, error)
	// Take is Kept for one caller: of two at once one gets it.
	Take(ctx context.Context, kind, id string, now time.Time) ([]byte, error)
	// AllKept returns everything of a kind, by id.
	AllKept(ctx context.Context, kind string, now time.Time) (map[string][]byte, error)
}

// The kinds of kept values, by the hash of their cookie, which logs no reader in.
const (
	keptSession  = "console session"
	keptFinished = "console login"
	keptCeremony = "console ceremony"
)

// keepTime bounds one use of a keeper.
const keepTime = 5 * time.Second

// sessionForm and ceremonyForm are the kept values.
type sessionForm struct {
	Principal string
	Groups    []string
	Began     time.Time
	Login     people.Login
}

type ceremonyForm struct {
	Purpose, Digest string
	Present         bool
	Nonce           []byte
	Data            webauthn.SessionData
	Until           time.Time
}

func (c *ceremony) form() ceremonyForm {
	return ceremonyForm{c.purpose, c.digest, c.present, c.nonce, c.data, c.until}
}

func (f ceremonyForm) ceremony() ceremony {
	return ceremony{purpose: f.Purpose, digest: f.Digest, present: f.Present, nonce: f.Nonce, data: f.Data, until: f.Until}
}

func cookieHash(cookie string) string {
	sum := sha256.Sum256([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func keepJSON(k Keeper, kind, id string, form any, until time.Time) error {
	value, err := json.Marshal(form)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	return k.Keep(ctx, kind, id, value, until)
}

// keptJSON reads with one of a keeper's functions, and returns false for a value that is
// missing or cannot be read: it logs no visitor in.
func keptJSON[T any](read func(context.Context, string, string, time.Time) ([]byte, error), kind, id string, now time.Time) (form T, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	value, err := read(ctx, kind, id, now)
	return form, err == nil && json.Unmarshal(value, &form) == nil
}

// keptOf is the session of a cookie, nil for none.
func (s *sessions) keptOf(cookie string) *session {
	f, ok := keptJSON[sessionForm](s.keeper.Kept, keptSession, cookieHash(cookie), s.now())
	if !ok || s.now().Sub(f.Began) >= s.lasts {
		return nil
	}
	return &session{principal: f.Principal, groups: f.Groups, login: f.Login, began: f.Began, keeper: s.keeper, id: cookieHash(cookie)}
}

func (s *sessions) keepStarted(one *session, cookie, before string) error {
	if before != "" {
		s.keptEnd(before)
	}
	return keepJSON(s.keeper, keptSession, cookieHash(cookie), sessionForm{one.principal, one.groups, one.began, one.login}, one.began.Add(s.lasts))
}

func (s *sessions) keptEnd(cookie string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	_, _ = s.keeper.Take(ctx, keptSession, cookieHash(cookie), s.now()) // it expires anyway, and the browser forgets it now
}

// keptOpen calls each with every session that is kept, and leaves out what cannot be read: it
// logs no visitor in.
func (s *sessions) keptOpen(ctx context.Context, each func(id string, one *session)) error {
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	all, err := s.keeper.AllKept(ctx, keptSession, s.now())
	for id, value := range all {
		var f sessionForm
		if json.Unmarshal(value, &f) == nil {
			each(id, &session{principal: f.Principal, login: f.Login, began: f.Began})
		}
	}
	return err
}

// keptEndOf ends a session by its id, and reports whether there was one of that person.
func (s *sessions) keptEndOf(ctx context.Context, principal, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	f, ok := keptJSON[sessionForm](s.keeper.Kept, keptSession, id, s.now())
	if !ok || f.Principal != principal {
		return false, nil
	}
	_, err := s.keeper.Take(ctx, keptSession, id, s.now())
	return err == nil, err
}
