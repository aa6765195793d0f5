package provider

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// HostSession is a host that has proven itself.
type HostSession struct {
	Host  Host
	New   bool // nothing is stored of it; it is trusted with nothing
	token agentauth.Token
}

// AuthenticateHost authenticates a host by its token (section 4.5.1). A pending one is
// let in where that is asked for, and so is an unknown or a rejected one: it learns how
// its request was answered, and can ask again. The token is used up when everything else
// holds (AAP-H1 to H8).
func (p *Provider) AuthenticateHost(ctx context.Context, compact string, pending bool) (HostSession, error) {
	t, err := agentauth.ParseToken(compact, agentauth.TypeHost)
	if err != nil {
		return HostSession{}, err
	}
	switch {
	case t.Audience != p.config.URL:
		return HostSession{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the token's aud is not %s", p.config.URL)
	case t.Issuer == "":
		return HostSession{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the token has no iss; want the RFC 7638 thumbprint of the host's key")
	}
	s, key, err := p.hostOf(ctx, t)
	if err != nil {
		return HostSession{}, err
	}
	if err := t.Verify(key); err != nil {
		return HostSession{}, err
	}
	now := p.config.Now()
	if err := p.timely(ctx, t, now, hostName(s.Host), s.New); err != nil {
		return HostSession{}, err
	}
	if s.New && !pending {
		return HostSession{}, agentauth.Errorf(agentauth.CodeHostNotFound, "no host of that key is registered here")
	}
	switch s.Host.Status {
	case agentauth.Revoked:
		return HostSession{}, agentauth.Errorf(agentauth.CodeHostRevoked, "the host has been revoked")
	case agentauth.Rejected:
		if !pending {
			return HostSession{}, agentauth.Errorf(agentauth.CodeHostRejected, "the host was rejected; it can register an agent again, and a person is asked again")
		}
	case agentauth.Pending:
		if !pending {
			return HostSession{}, agentauth.Errorf(agentauth.CodeHostPending, "the host waits for its approval; until then its agents can be registered and asked about")
		}
	default:
	}
	if err := p.use(ctx, s.Host, "host "+t.Issuer+" "+t.ID, t, now); err != nil {
		return HostSession{}, err
	}
	// Nothing changes by a token that does not hold, such as an old one or one that was
	// used, and nothing by strangers, however many keys they publish (AAP-H5).
	if s.Host.Status == agentauth.Active && s.Host.Thumbprint != key.Thumbprint() {
		s.Host, err = p.rotated(ctx, s.Host.ID, key)
	}
	return s, err
}

// timely checks when a token is good whose signature holds. A refusal of a known host is
// in the log, where a clock that goes wrong shows (AAP-H6). Refusals of strangers, who
// can be as many as they like, are logged at the debug level.
func (p *Provider) timely(ctx context.Context, t agentauth.Token, now time.Time, of string, stranger bool) error {
	err := t.CheckTimes(now, p.config.Started)
	if err == nil {
		return nil
	}
	level := slog.LevelInfo
	if stranger {
		of, level = "an unknown host", slog.LevelDebug
	}
	p.config.Log.LogAttrs(ctx, level, "a token is refused for its times", slog.String("of", of), slog.Time("signed", t.IssuedAt.UTC()), slog.Time("ends", t.Expires.UTC()), slog.Any("why", err))
	return err
}

// fresh uses an id up, and returns false where it was used before. An error says that
// it cannot be told now.
func (p *Provider) fresh(id string, until, now time.Time) (bool, error) {
	r, ok := p.replay.(gate.EffectReplay)
	if !ok {
		return p.replay.Use(id, until, now), nil
	}
	fresh, err := r.UseFor(gate.ProofUse{}, id, until, now)
	if err != nil {
		return false, agentauth.Errorf(agentauth.CodeUnavailable, "whether the token or proof was used before cannot be told now; sign a new one in a moment")
	}
	return fresh, nil
}

func usedToken() error {
	return agentauth.Errorf(agentauth.CodeInvalidJWT, "the token was used before; sign a new one for every request")
}

// use uses a token up, under an id that no other identity has (AAP-T3). The memory of
// used tokens ends with the process: tokens that were signed before it began are
// refused. Only where a host's clock is ahead can a token have been used by then that
// says it was signed since. Those are kept in the store (AAP-T4), within a limit for
// each host (ATK-68, ATK-95).
func (p *Provider) use(ctx context.Context, h Host, id string, t agentauth.Token, now time.Time) error {
	ahead := t.IssuedAt.After(now)
	if ahead {
		if err := mayWrite(ctx, h); err != nil {
			return err
		}
	}
	switch fresh, err := p.fresh(id, t.Until(), now); {
	case err != nil:
		return err
	case !fresh:
		return usedToken()
	}
	look := func(r Reader) error {
		if before, err := r.UsedToken(id); err != nil || !before {
			return err
		}
		return usedToken()
	}
	switch {
	case ahead:
		return p.update(ctx, func(tx Tx, _ *unit) error {
			if err := look(tx); err != nil {
				return err
			}
			return tx.UseToken(id, t.Until(), steady.Past(now))
		})
	case t.IssuedAt.After(p.config.Started.Add(agentauth.Skew)), p.noneBefore.Load():
		return nil
	}
	return p.config.Store.ViewProvider(ctx, func(r Reader) error {
		some, err := r.UsedTokens()
		if err == nil && !some {
			p.noneBefore.Store(true) // this process remembers the tokens that it has used
			return nil
		}
		return errors.Join(err, look(r))
	})
}

// hostOf finds the host of a token and the key that it must verify under.
func (p *Provider) hostOf(ctx context.Context, t agentauth.Token) (HostSession, token.PublicKey, error) {
	h, err := p.knownHost(ctx, t)
	s := HostSession{Host: h, token: t}
	switch {
	case notFound(err):
		return p.newHost(ctx, t)
	case err != nil:
		return s, token.PublicKey{}, err
	case h.KeysURL == "" && t.HostKeysURL != "", h.KeysURL != "" && t.HostKey.Kind() != powerbox.KindNull:
		return s, token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the host was registered with its key delivered another way, which cannot be changed")
	case h.KeysURL == "":
		key, err := storedKey(h.Key)
		return s, key, err
	}
	key, err := p.fetched(ctx, h.KeysURL, t.KeyID)
	if err == nil && key.Thumbprint() != t.Issuer {
		err = agentauth.Errorf(agentauth.CodeInvalidJWT, "iss is not the thumbprint of the key %q of the host", clipped(t.KeyID))
	}
	return s, key, err
}

// newHost is a host that is not known: all that it says must fit together
// (AAP-H3, AAP-H9).
func (p *Provider) newHost(ctx context.Context, t agentauth.Token) (HostSession, token.PublicKey, error) {
	s := HostSession{New: true, token: t, Host: Host{Status: agentauth.Pending, KeysURL: t.HostKeysURL}}
	if (t.HostKeysURL == "") == (t.HostKey.Kind() == powerbox.KindNull) {
		return s, token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "an unknown host; want exactly one of host_public_key and host_jwks_url in its token")
	}
	var key token.PublicKey
	var err error
	if t.HostKeysURL != "" {
		if err := mayFetch(ctx); err != nil {
			return s, key, err
		}
		key, err = p.fetched(ctx, t.HostKeysURL, t.KeyID)
	} else {
		key, err = agentauth.ParseKey(t.HostKey)
	}
	if err == nil && key.Thumbprint() != t.Issuer {
		err = agentauth.Errorf(agentauth.CodeInvalidJWT, "iss is not the thumbprint of the host's key")
	}
	if err != nil {
		return s, key, err
	}
	s.Host.Thumbprint = key.Thumbprint()
	if s.Host.KeysURL == "" {
		s.Host.Key = key.JWK().AppendJSON(nil)
	}
	return s, key, nil
}

type fetchKey struct{}

// WithFetches has a request of a stranger ask before a key set is fetched at the URL
// that the stranger named. Key sets of hosts that are known are fetched without asking.
func WithFetches(ctx context.Context, allow func() error) context.Context {
	return context.WithValue(ctx, fetchKey{}, allow)
}

type writeKey struct{}

// WithWrites has a request ask before the token of a host, or of an agent of it, is
// written to the store, as a token from a clock that is ahead is. Strangers and hosts sign as
// many of them as they like (ATK-68, ATK-95).
func WithWrites(ctx context.Context, allow func(h Host) error) context.Context {
	return context.WithValue(ctx, writeKey{}, allow)
}

func mayWrite(ctx context.Context, h Host) error {
	if allow, ok := ctx.Value(writeKey{}).(func(Host) error); ok {
		return allow(h)
	}
	return nil
}

func mayFetch(ctx context.Context) error {
	if allow, ok := ctx.Value(fetchKey{}).(func() error); ok {
		return allow()
	}
	return nil
}

func (p *Provider) fetched(ctx context.Context, url, id string) (token.PublicKey, error) {
	if p.config.Keys == nil {
		return token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "keys by URL are not taken here; send the key itself")
	}
	if id == "" {
		return token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the token's header has no kid, which names the key of a key set")
	}
	key, err := p.config.Keys.Key(ctx, url, id)
	if err != nil {
		// Anyone who names a URL must not learn what this server finds there.
		p.config.Log.LogAttrs(ctx, slog.LevelInfo, "a key set was not had", slog.String("url", clipped(url)), slog.Any("error", err))
		return token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the key %q was not found in the key set at the URL that was named; publish it there, over HTTPS and within the limits of key sets", clipped(id))
	}
	return key, nil
}

// rotated notes that a host with a key set signs with another key now.
func (p *Provider) rotated(ctx context.Context, id string, key token.PublicKey) (h Host, err error) {
	err = p.update(ctx, func(tx Tx, _ *unit) error {
		if h, err = tx.Host(id); err != nil {
			return err
		}
		if h.Status != agentauth.Active {
			return agentauth.Errorf(agentauth.CodeHostRevoked, "the host has been revoked")
		}
		h.Thumbprint, h.Updated = key.Thumbprint(), p.config.Now()
		if err := tx.PutHost(h); err != nil {
			return err
		}
		return p.append(tx, hostName(h), h.User, action.HostRotateKey, map[string]any{"host": h.ID, "key": h.Thumbprint})
	})
	return h, err
}

func storedKey(jwk []byte) (token.PublicKey, error) { return token.ParsePublicKey(jwk) }

// hostName is the name of a host in records.
func hostName(h Host) string { return "host:" + h.ID }

// Session is an agent that has proven itself.
type Session struct {
	Agent  Agent
	Host   Host
	Grants []Grant
	token  agentauth.Token
	until  time.Time
	stored time.Time // the last request that is in the store
}

// Audience returns whom the agent's token is for.
func (s *Session) Audience() string { return s.token.Audience }

// Use says how a token that holds is used up.
type Use int

// The uses.
const (
	Once  Use = iota // it is used up (AAP-J6)
	Again            // it may be shown again: polling, introspection (AAP-E4, AAP-I5)
)

// AuthenticateAgent authenticates an agent by its token (section 4.5), for one of the
// audiences. An agent that is not active gets the error of its state, once its signature
// has been verified: no other caller learns of the state.
func (p *Provider) AuthenticateAgent(ctx context.Context, shown Presented, use Use, audiences ...string) (Session, error) {
	t, err := agentauth.ParseToken(shown.Token, agentauth.TypeAgent)
	if err != nil {
		return Session{}, err
	}
	switch {
	case !slices.Contains(audiences, t.Audience) || t.Audience == "":
		return Session{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the token's aud is not %s", audiences[0])
	case t.Subject == "":
		return Session{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the token has no sub; want the agent's id")
	case t.Issuer == "" && p.config.RequireIssuer:
		return Session{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the token has no iss; want the identifier of the agent's host")
	}
	s, err := p.agentOf(ctx, t)
	if err != nil {
		return Session{}, err
	}
	now := p.config.Now()
	if err := p.timely(ctx, t, now, holder(s.Agent.ID), false); err != nil {
		return Session{}, err
	}
	if err := s.live(now); err != nil {
		return Session{}, err
	}
	if err := p.proven(t, shown, now); err != nil {
		return Session{}, err
	}
	if use == Once {
		if err := p.use(ctx, s.Host, "agent "+s.Agent.ID+" "+t.ID, t, now); err != nil {
			return Session{}, err
		}
	}
	return s, p.touch(ctx, &s, now)
}

func unknownAgent() error {
	return agentauth.Errorf(agentauth.CodeInvalidJWT, "no agent of this token's sub is registered under the host of its iss")
}

// agentOf finds agent and host of a token, and verifies its signature.
func (p *Provider) agentOf(ctx context.Context, t agentauth.Token) (Session, error) {
	s := Session{token: t, until: t.Until()}
	known := true
	found, err := p.known(ctx, t.Subject)
	s.Agent, s.Host, s.Grants = found.agent, found.host, slices.Clone(found.grants)
	if err == nil && t.Issuer != "" && t.Issuer != s.Host.Thumbprint {
		err = p.config.Store.ViewProvider(ctx, func(r Reader) error {
			_, err := r.HostByKey(t.Issuer)
			if known = err == nil; notFound(err) {
				return nil
			}
			return err
		})
	}
	switch {
	case notFound(err):
		return Session{}, unknownAgent()
	case err != nil:
		return Session{}, err
	case t.Issuer == "" || t.Issuer == s.Host.Thumbprint:
	case known || s.Host.KeysURL == "":
		return Session{}, unknownAgent() // of another host, or of a key that is gone
	default:
		// Its host's keys may have changed a moment ago (AAP-J4).
		key, err := p.fetched(ctx, s.Host.KeysURL, t.Issuer)
		if err != nil || key.Thumbprint() != t.Issuer {
			return Session{}, unknownAgent()
		}
	}
	s.stored = s.Agent.LastUsed
	p.merge(&s.Agent)
	if s.Agent.KeysURL == "" {
		return s, t.Verify(found.key)
	}
	key, err := p.fetched(ctx, s.Agent.KeysURL, s.Agent.KeyID)
	if err != nil {
		return Session{}, err
	}
	return s, t.Verify(key)
}

// live refuses an agent that is not active, or whose host is not.
func (s *Session) live(now time.Time) error {
	switch s.Host.Status {
	case agentauth.Active:
	case agentauth.Pending:
		return agentauth.Errorf(agentauth.CodeHostPending, "the agent's host waits for its approval")
	default:
		return agentauth.Errorf(agentauth.CodeHostRevoked, "the agent's host has been revoked")
	}
	if e := stateError(s.Agent.at(now)); e != nil {
		return e
	}
	return nil
}

// stateError is the refusal of an agent in that state, nil for an active one.
func stateError(status agentauth.Status) error {
	switch status {
	case agentauth.Active:
		return nil
	case agentauth.Expired:
		return agentauth.Errorf(agentauth.CodeAgentExpired, "the agent has expired; its host can reactivate it")
	case agentauth.Pending:
		return agentauth.Errorf(agentauth.CodeAgentPending, "the agent waits for its approval")
	case agentauth.Rejected:
		return agentauth.Errorf(agentauth.CodeAgentRejected, "the agent's registration was denied")
	case agentauth.Claimed:
		return agentauth.Errorf(agentauth.CodeAgentClaimed, "the agent's host was linked to a user, who has taken over from the agent")
	default:
		return agentauth.Errorf(agentauth.CodeAgentRevoked, "the agent has been revoked")
	}
}

// merge adds an agent's last request to it, where that is not stored yet.
func (p *Provider) merge(a *Agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.used[a.ID]; ok && at.After(a.LastUsed) {
		a.LastUsed = at
	}
}

// touch notes a request, which keeps the agent alive (AAP-L1). It is stored when
// a tenth of the session's time has gone since: after a crash an agent can have
// expired a little early, and never late.
func (p *Provider) touch(ctx context.Context, s *Session, now time.Time) error {
	a := &s.Agent
	p.mu.Lock()
	p.used[a.ID] = now
	p.mu.Unlock()
	a.LastUsed = now
	if now.Sub(s.stored) < a.Clocks.Session/10 {
		return nil
	}
	return p.update(ctx, func(tx Tx, _ *unit) error {
		latest, err := tx.HostAgent(a.ID)
		if err != nil || latest.LastUsed.After(now) {
			return err
		}
		latest.LastUsed = now
		return tx.PutHostAgent(latest)
	})
}

// Viewer returns the viewer of capabilities: a stranger without a token, the host with a
// host's token, the agent with an agent's. A token that does not hold is refused, and
// not taken for a missing one (AAP-C11).
func (p *Provider) Viewer(ctx context.Context, shown Presented) (Viewer, error) {
	if shown.Token == "" {
		return Viewer{}, nil
	}
	if _, err := agentauth.ParseToken(shown.Token, agentauth.TypeHost); err == nil {
		s, err := p.AuthenticateHost(ctx, shown.Token, true)
		if err != nil || s.Host.Status != agentauth.Active {
			return Viewer{}, err // a stranger still (AAP-H8, AAP-H13)
		}
		return Viewer{Host: &s.Host}, nil
	}
	s, err := p.AuthenticateAgent(ctx, shown, Once, p.config.URL)
	if err != nil {
		return Viewer{}, err
	}
	v := Viewer{Agent: &s.Agent, Host: &s.Host, active: map[string]bool{}}
	held, err := p.standingGrants(ctx, s)
	for _, g := range held {
		if s.token.Allows(g.Capability) {
			v.active[g.Capability] = true
		}
	}
	return v, err
}

// standingGrants are the grants of a session that are in force, without those whose
// capabilities on record were revoked or frozen past the provider.
func (p *Provider) standingGrants(ctx context.Context, s Session) ([]Grant, error) {
	var out []Grant
	for _, g := range s.Grants {
		if !g.Effective(p.config.Now()) {
			continue
		}
		c, err := p.config.Issuer.OnRecord(ctx, g.Record)
		if err != nil {
			return nil, err
		}
		if !p.config.Issuer.Dead(c) && !p.config.Issuer.Stopped(c) {
			out = append(out, g)
		}
	}
	return out, nil
}

// Effective reports whether the grant is in force (AAP-M3).
func (g Grant) Effective(now time.Time) bool {
	return g.Status == agentauth.Active && (g.Expires.IsZero() || now.Before(g.Expires))
}
