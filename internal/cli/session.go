package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/powerbox-project/powerbox/internal/filelock"
	"github.com/powerbox-project/powerbox/internal/filemode"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// Session is the login of a person at a server, as powerbox login keeps it.
type Session struct {
	Server   string    `json:"server"`
	Issuer   string    `json:"issuer"`
	ClientID string    `json:"client_id"`
	Subject  string    `json:"subject"`
	Token    string    `json:"id_token"`
	Refresh  string    `json:"refresh_token,omitempty"`
	Expires  time.Time `json:"expires"`
}

// ErrNoSession says that no person is logged in at a server.
var ErrNoSession = errors.New("not logged in")

// refreshBefore is how long before its end a session is refreshed.
const refreshBefore = 30 * time.Second

// ConfigFolder is the user's folder of configuration, for Powerbox.
func (p *Program) ConfigFolder() (string, error) {
	folder := p.Env("XDG_CONFIG_HOME")
	if folder == "" {
		if p.Env("HOME") == "" {
			return "", errors.New("there is no home folder; set HOME or XDG_CONFIG_HOME")
		}
		folder = filepath.Join(p.Env("HOME"), ".config")
	}
	return filepath.Join(folder, "powerbox"), nil
}

// SessionFile is where the session at a server is kept.
func (p *Program) SessionFile(server string) (string, error) {
	folder, err := p.ConfigFolder()
	if err != nil {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", Usage(fmt.Errorf("the server %q is not a URL; want one such as https://powerbox.example.org", server))
	}
	name := strings.NewReplacer("/", "_", ":", "_").Replace(strings.TrimRight(u.Scheme+"_"+u.Host+u.Path, "/"))
	return filepath.Join(folder, "sessions", name+".json"), nil
}

// LoadSession reads the session at a server: [ErrNoSession] where there is none. A file
// that others can read is refused, since they can be the person.
func (p *Program) LoadSession(server string) (Session, error) {
	file, err := p.SessionFile(server)
	if err != nil {
		return Session{}, err
	}
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return Session{}, ErrNoSession
	}
	if err != nil {
		return Session{}, err
	}
	if filemode.Others(info.Mode()) != 0 {
		return Session{}, fmt.Errorf("%s has mode %04o, so that others can read your session; want 0600: run chmod 600 %s", file, info.Mode().Perm(), file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Session{}, err
	}
	var s Session
	if err := json.Unmarshal(data, &s); err != nil || s.Token == "" || s.Server != server {
		return Session{}, fmt.Errorf("%s is no session at %s; %s", file, server, logInAt(server))
	}
	return s, nil
}

// loggedInAt is the one server that the user is logged in at; unread where there is none.
func (p *Program) loggedInAt(unread error) (string, error) {
	folder, err := p.ConfigFolder()
	if err != nil {
		return "", unread
	}
	files, err := filepath.Glob(filepath.Join(folder, "sessions", "*.json"))
	if err != nil {
		return "", err
	}
	var servers []string
	for _, file := range files {
		var s Session
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &s) == nil && s.Server != "" {
			servers = append(servers, s.Server)
		}
	}
	switch len(servers) {
	case 0:
		return "", unread
	case 1:
		return servers[0], nil
	}
	return "", fmt.Errorf("you are logged in at several servers: %s", strings.Join(servers, ", "))
}

// SaveSession keeps a session, with mode 0600.
func (p *Program) SaveSession(s Session) error {
	file, err := p.SessionFile(s.Server)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(s) //nolint:gosec // a session is kept with its secrets, mode 0600
	if err != nil {
		return err
	}
	return WriteSecret(file, string(data))
}

// ForgetSession removes the session at a server.
func (p *Program) ForgetSession(server string) error {
	file, err := p.SessionFile(server)
	if err == nil {
		err = os.Remove(file)
	}
	return err
}

// logInAt is the command that makes a new session.
func logInAt(server string) string { return "run powerbox login --server " + server }

// sessionToken returns the bearer token of the session at a server, refreshed where it
// ends soon. One process at a time refreshes: a provider that takes each refresh token
// once would end the session of the other.
func (p *Program) sessionToken(ctx context.Context, server string) (string, error) {
	s, err := p.LoadSession(server)
	if err != nil || p.Now().Before(s.Expires.Add(-refreshBefore)) {
		return s.Token, err
	}
	file, err := p.SessionFile(server)
	if err != nil {
		return "", err
	}
	lock, err := lockFor(ctx, file+".lock")
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // it ends with the process at the latest
	if s, err = p.LoadSession(server); err != nil || p.Now().Before(s.Expires.Add(-refreshBefore)) {
		return s.Token, err // another process refreshed it
	}
	if s.Refresh == "" {
		return "", fmt.Errorf("your session at %s has ended; %s", server, logInAt(server))
	}
	fresh, err := s.refreshed(ctx)
	if err != nil {
		return "", fmt.Errorf("your session at %s has ended, and is not refreshed: %w; %s", server, err, logInAt(server))
	}
	return fresh.Token, p.SaveSession(fresh)
}

// lockWait is how long a command waits for another one that refreshes the session.
const lockWait = 10 * time.Second

func lockFor(ctx context.Context, file string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		lock, err := filelock.Take(file)
		if err == nil {
			return lock, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// refreshed returns the session with a new token of the same person.
func (s Session) refreshed(ctx context.Context) (Session, error) {
	ctx = oidc.ClientContext(ctx, NewHTTPClient())
	provider, err := oidc.NewProvider(ctx, s.Issuer)
	if err != nil {
		return s, err
	}
	c := oauth2.Config{ClientID: s.ClientID, Endpoint: provider.Endpoint()}
	c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	if err := SafeForToken(c.Endpoint.TokenURL); err != nil {
		return s, err
	}
	answer, err := c.TokenSource(ctx, &oauth2.Token{RefreshToken: s.Refresh, Expiry: time.Unix(1, 0)}).Token()
	if err != nil {
		return s, shortened(err)
	}
	fresh, err := SessionOf(ctx, provider, answer, s, "")
	if err == nil && fresh.Subject != s.Subject {
		err = errors.New("the provider answers with the session of another person")
	}
	return fresh, err
}

// SessionOf returns what a provider answered as a session. Its ID token is checked, with
// its nonce where there is one.
func SessionOf(ctx context.Context, provider *oidc.Provider, answer *oauth2.Token, s Session, nonce string) (Session, error) {
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return s, errors.New("the provider's answer has no ID token")
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: s.ClientID}).Verify(ctx, raw)
	if err != nil {
		return s, err
	}
	if nonce != "" && id.Nonce != nonce {
		return s, errors.New("the ID token is of another login")
	}
	s.Token, s.Expires, s.Subject = raw, id.Expiry, id.Subject
	if answer.RefreshToken != "" {
		s.Refresh = answer.RefreshToken
	}
	return s, nil
}

// shortened leaves the body of a provider's refusal out, which can be anything.
func shortened(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.ErrorCode != "" {
		return errors.New("the identity provider says " + refused.ErrorCode)
	}
	if errors.As(err, &refused) && refused.Response != nil {
		return errors.New("the identity provider answers " + refused.Response.Status)
	}
	return err
}

// LoginInfo is how people log in at a server.
type LoginInfo = operators.Login

// LoginAt asks a server how people log in to operate it.
func LoginAt(ctx context.Context, server string) (LoginInfo, error) {
	op := &Operator{Base: server, HTTP: NewHTTPClient()}
	var l LoginInfo
	if err := op.Get(ctx, operators.PathLogin, &l); err != nil {
		return l, err
	}
	if l.Issuer == "" || l.ClientID == "" {
		return l, fmt.Errorf("%s does not say how people log in", server)
	}
	return l, nil
}
