package console

import (
	"cmp"
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// The cookies. On https their names have the prefix __Host-, so that no other
// host sets them.
const (
	sessionCookie = "powerbox-session"
	loginCookie   = "powerbox-login"
)

// maxSessions bounds how many logins are remembered; the oldest is forgotten.
const maxSessions = 10000

// loginTime is how long a login that was begun can be finished.
const loginTime = 10 * time.Minute

// session is one person's login in one browser.
type session struct {
	principal string
	groups    []string
	login     people.Login
	began     time.Time // of the login

	keeper Keeper // for the state that processes share; nil for one that is alone
	id     string // there

	mu       sync.Mutex
	ceremony *ceremony // the last text that the person was asked to sign
}

// ceremony is a challenge that a passkey is to sign, once.
type ceremony struct {
	purpose string // which kind of answer it is for
	digest  string // names that answer
	present bool   // the person was there when it began
	nonce   []byte
	data    webauthn.SessionData
	until   time.Time
}

// take returns the ceremony of a session and forgets it.
func (s *session) take(purpose string, now time.Time) *ceremony {
	if s.keeper != nil {
		f, ok := keptJSON[ceremonyForm](s.keeper.Take, keptCeremony, s.id, now)
		if c := f.ceremony(); ok && c.purpose == purpose && now.Before(c.until) {
			return &c
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.ceremony
	s.ceremony = nil
	if c == nil || c.purpose != purpose || !now.Before(c.until) {
		return nil
	}
	return c
}

func (s *session) begin(c *ceremony) error {
	if s.keeper != nil {
		return keepJSON(s.keeper, keptCeremony, s.id, c.form(), c.until)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ceremony = c
	return nil
}

// attempt is a login that was begun.
type attempt struct {
	next                   string
	state, nonce, verifier string   // at an OpenID provider
	ceremony               ceremony // with a passkey
	until                  time.Time
	id                     string // of the cookie that it is in
}

// sessions are the visitors who are logged in. Without a keeper they are in memory: a
// restart logs all visitors out.
type sessions struct {
	keeper Keeper // for the state that processes share; nil for one that is alone
	lasts  time.Duration
	now    func() time.Time
	random io.Reader

	seal  cipher.AEAD // of logins that were begun, which are in the browser alone
	began time.Time   // since when finished logins are remembered; zero with a keeper

	mu       sync.Mutex // guards the maps, and the contents of a session except its ceremony
	open     map[[sha256.Size]byte]*session
	finished map[string]time.Time // logins, until when they could be finished again
}

func newSessions(c Config) *sessions {
	s := &sessions{lasts: c.Session, now: c.Now, random: c.Random, keeper: c.Keeper, seal: c.Seal, open: map[[sha256.Size]byte]*session{}, finished: map[string]time.Time{}}
	if s.keeper == nil {
		s.began = s.now()
	}
	return s
}

// secret returns 256 random bits as text.
func secret(random io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("console: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// of returns the session of a cookie, nil for none.
func (s *sessions) of(cookie string) *session {
	if cookie == "" {
		return nil
	}
	if s.keeper != nil {
		return s.keptOf(cookie)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[sha256.Sum256([]byte(cookie))]
	if one == nil || s.now().Sub(one.began) >= s.lasts {
		return nil
	}
	return one
}

// start begins a session under its own name, and ends the one before.
func (s *sessions) start(who provider.Person, before string) (string, error) {
	cookie, err := secret(s.random)
	if err != nil {
		return "", err
	}
	now := s.now()
	one := &session{principal: who.Principal, groups: who.Groups, login: who.Login, began: now}
	if s.keeper != nil {
		return cookie, s.keepStarted(one, cookie, before)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(before)))
	oldest := [sha256.Size]byte{}
	for id, one := range s.open {
		if now.Sub(one.began) >= s.lasts {
			delete(s.open, id)
		} else if o := s.open[oldest]; o == nil || one.began.Before(o.began) {
			oldest = id
		}
	}
	if len(s.open) >= maxSessions {
		delete(s.open, oldest)
	}
	s.open[sha256.Sum256([]byte(cookie))] = one
	return cookie, nil
}

// list returns the open sessions of a person, "" for those of all people, the newest first.
func (s *sessions) list(ctx context.Context, principal string) ([]people.Session, error) {
	out, now := []people.Session{}, s.now()
	add := func(id string, one *session) {
		if (principal == "" || one.principal == principal) && now.Sub(one.began) < s.lasts {
			out = append(out, people.Session{ID: id, Principal: one.principal, Login: one.login, Began: one.began, Ends: one.began.Add(s.lasts)})
		}
	}
	if s.keeper != nil {
		if err := s.keptOpen(ctx, add); err != nil {
			return nil, fmt.Errorf("console: the sessions: %w", err)
		}
	} else {
		s.mu.Lock()
		for id, one := range s.open {
			add(base64.RawURLEncoding.EncodeToString(id[:]), one)
		}
		s.mu.Unlock()
	}
	sorting.Sort(out, func(a, b people.Session) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// endOf ends one session of a person, and reports whether there was one.
func (s *sessions) endOf(ctx context.Context, principal, id string) (bool, error) {
	if s.keeper != nil {
		return s.keptEndOf(ctx, principal, id)
	}
	sum, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(sum) != sha256.Size {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[[sha256.Size]byte(sum)]
	if one == nil || one.principal != principal {
		return false, nil
	}
	delete(s.open, [sha256.Size]byte(sum))
	return true, nil
}

func (s *sessions) end(cookie string) {
	if s.keeper != nil {
		s.keptEnd(cookie)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(cookie)))
}

// cookieName is how a cookie is called here.
func (k *Console) cookieName(name string) string {
	if k.secure {
		return "__Host-" + name
	}
	return name
}

func (k *Console) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(k.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie that scripts do not see. Only that of a login in
// progress comes along from another site: from the OpenID provider.
func (k *Console) setCookie(w http.ResponseWriter, name, value string, lasts time.Duration) {
	c := &http.Cookie{ //nolint:gosec // Secure wherever the server is at https; without, browsers take none on http
		Name: k.cookieName(name), Value: value, Path: "/", MaxAge: int(lasts / time.Second), HttpOnly: true, Secure: k.secure, SameSite: http.SameSiteStrictMode,
	}
	if name == loginCookie {
		c.SameSite = http.SameSiteLaxMode
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// logIn gives the browser a session.
func (k *Console) logIn(v *visit, c people.Claim) error {
	c.Began = k.config.Now()
	who, err := k.config.People.Recognize(v.r.Context(), c)
	if err != nil {
		return err
	}
	cookie, err := k.sessions.start(who, k.cookie(v.r, sessionCookie))
	if err != nil {
		return err
	}
	k.setCookie(v.w, sessionCookie, cookie, k.config.Session)
	k.setCookie(v.w, loginCookie, "", 0)
	return nil
}

// person returns the visitor; every page calls it. A visitor without a session is sent
// to log in, and someone who was frozen or removed is told so.
func (k *Console) person(v *visit) (provider.Person, error) {
	if v.session == nil || v.session.principal == "" {
		return provider.Person{}, errLogin
	}
	return k.config.People.Recognize(v.r.Context(), v.claim(k.fresh(v)))
}

// claim is the visitor's identity, as the session says.
func (v *visit) claim(fresh bool) people.Claim {
	return people.Claim{Principal: v.session.principal, Groups: v.session.groups, Login: v.session.login, Began: v.session.began, Fresh: fresh, Address: peer.Of(v.r).Network()}
}

// fresh reports whether the visitor has logged in just now (AAP-A6).
func (k *Console) fresh(v *visit) bool {
	return v.session != nil && k.config.Now().Sub(v.session.began) < k.config.Fresh
}
