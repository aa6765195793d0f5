package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// TestAAPH1_TokensOfHosts: what a host's token must be, each thing alone.
func TestAAPH1_TokensOfHosts(t *testing.T) {
	w := newTown(t)
	h, other := w.key(), w.key()
	for name, c := range map[string]claims{
		"another type":     {"head": claims{"typ": "agent+jwt"}},
		"no type":          {"head": claims{"typ": ""}},
		"none":             {"head": claims{"alg": "none"}},
		"HMAC":             {"head": claims{"alg": "HS256"}},
		"a key in header":  {"head": claims{"jwk": h.jwk()}},
		"a URL in header":  {"head": claims{"jku": "https://keys.example"}},
		"critical":         {"head": claims{"crit": []string{"b64"}}},
		"no audience":      {"aud": nil},
		"the location":     {"aud": location},
		"two audiences":    {"aud": []string{bankURL, "https://other.example"}},
		"no issuer":        {"iss": nil},
		"another issuer":   {"iss": other.public.Thumbprint()},
		"no jti":           {"jti": nil},
		"no iat":           {"iat": nil},
		"no exp":           {"exp": nil},
		"times as text":    {"exp": "2000000000"},
		"signed ahead":     {"iat": noon.Unix() + 31, "exp": noon.Unix() + 60},
		"expired":          {"iat": noon.Unix() - 30, "exp": noon.Unix() - 30},
		"lives long":       {"exp": noon.Unix() + 61},
		"before the start": {"iat": noon.Unix() - 1},
		"two keys":         {"host_jwks_url": "https://keys.example"},
		"no key":           {"host_public_key": nil},
		"another key":      {"host_public_key": other.jwk()},
	} {
		if _, err := w.provider.AuthenticateHost(t.Context(), w.host(h, c), true); code(err) != agentauth.CodeInvalidJWT {
			t.Errorf("AAP-H1 %s: %v", name, err)
		}
	}
	ok := w.host(h)
	if _, err := w.provider.AuthenticateHost(t.Context(), ok[:len(ok)-4]+"AAAA", true); code(err) != agentauth.CodeInvalidJWT {
		t.Errorf("AAP-H6: a signature that does not hold: %v", err)
	}
	s, err := w.provider.AuthenticateHost(t.Context(), ok, true)
	if err != nil || !s.New {
		t.Errorf("AAP-H5: a host that is new: %+v %v", s, err)
	}
	late := w.host(h)
	w.now = w.now.Add(90 * time.Second)
	w.want("AAP-H6: a token that is over", second(w.provider.AuthenticateHost(t.Context(), late, true)), agentauth.CodeInvalidJWT)
	w.want("AAP-H13: a stranger that is not to be let in", second(w.provider.AuthenticateHost(t.Context(), w.host(h), false)), agentauth.CodeHostNotFound)
}

func second[T any](_ T, err error) error { return err }

// TestAAPT2_UsedTokens: a token is used once, regardless of who shows it first, for as long
// as it could be shown again, and after a restart; other identities have their own
// ids; what does not verify uses nothing up.
func TestAAPT2_UsedTokens(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	id := claims{"jti": "the-same"}
	again := m.token(id)
	use := func() error {
		return second(w.provider.AuthenticateAgent(t.Context(), bearer(again), provider.Once, location))
	}
	forged := again[:strings.LastIndexByte(again, '.')+1] + strings.Repeat("A", 86)
	w.want("ATK-9, AAP-J6: a forged token", second(w.provider.AuthenticateAgent(t.Context(), bearer(forged), provider.Once, location)), agentauth.CodeInvalidJWT)
	w.want("ATK-9: the real one afterwards", use(), "")
	w.want("AAP-T5: again", use(), agentauth.CodeInvalidJWT)
	w.want("AAP-I5: shown where it may be again", second(w.provider.AuthenticateAgent(t.Context(), bearer(again), provider.Again, location)), "")
	other := w.active("balance")
	w.want("AAP-T3: the same id of another agent", other.execute("balance", `{}`, id), "")
	_, err := w.provider.AuthenticateHost(t.Context(), w.host(m.host, id), true)
	w.want("AAP-T3: the same id of its host", err, "")
	// It is remembered for as long as its times would let it in.
	for w.now = noon; w.now.Before(noon.Add(100 * time.Second)); w.now = w.now.Add(time.Second) {
		w.want("AAP-T2: "+w.now.Sub(noon).String()+" later", use(), agentauth.CodeInvalidJWT)
	}
	host := w.host(m.host)
	w.must(second(w.provider.AuthenticateHost(t.Context(), host, true)))
	for from := w.now; w.now.Before(from.Add(100 * time.Second)); w.now = w.now.Add(time.Second) {
		w.want("AAP-H7: "+w.now.Sub(from).String()+" later", second(w.provider.AuthenticateHost(t.Context(), host, true)), agentauth.CodeInvalidJWT)
	}
}

// TestAAPT4_AfterARestart: the memory of used tokens is the process's, and a token that
// could have been used before it began is refused.
func TestAAPT4_AfterARestart(t *testing.T) {
	for name, ahead := range map[string]int64{"signed before": 0, "signed by a clock that is ahead": 29} {
		w := newTown(t)
		m := w.active("balance")
		used := m.token(claims{"iat": noon.Unix() + ahead})
		w.must(second(w.provider.AuthenticateAgent(t.Context(), bearer(used), provider.Once, location)))
		host := w.host(m.host, claims{"iat": noon.Unix() + ahead})
		w.must(second(w.provider.AuthenticateHost(t.Context(), host, true)))
		w.now = noon.Add(time.Second)
		w.restart()
		for ; w.now.Before(noon.Add(100 * time.Second)); w.now = w.now.Add(time.Second) {
			w.want("AAP-T4 "+name, second(w.provider.AuthenticateAgent(t.Context(), bearer(used), provider.Once, location)), agentauth.CodeInvalidJWT)
			w.want("AAP-T4 a host, "+name, second(w.provider.AuthenticateHost(t.Context(), host, true)), agentauth.CodeInvalidJWT)
		}
		w.want("AAP-T4: a new one", m.execute("balance", `{}`), "")
	}
}

// TestAAPJ1_TokensOfAgents: what an agent's token must be, each thing alone.
func TestAAPJ1_TokensOfAgents(t *testing.T) {
	w := newTown(t)
	m, foreign := w.active("balance"), w.active("balance")
	for name, c := range map[string]claims{
		"another type":      {"head": claims{"typ": "host+jwt"}},
		"the issuer":        {"aud": bankURL},
		"another location":  {"aud": outside},
		"no audience":       {"aud": ""},
		"no subject":        {"sub": nil},
		"another agent":     {"sub": foreign.id},
		"nobody":            {"sub": "agt_nobody"},
		"another host":      {"iss": foreign.host.public.Thumbprint()},
		"an unknown host":   {"iss": w.key().public.Thumbprint()},
		"no jti":            {"jti": ""},
		"a long jti":        {"jti": strings.Repeat("j", 257)},
		"ends as it begins": {"exp": noon.Unix(), "iat": noon.Unix()},
		"names as one text": {"capabilities": "balance"},
		"a name of another": {"capabilities": []any{5}},
	} {
		if _, err := w.provider.AuthenticateAgent(t.Context(), bearer(m.token(c)), provider.Once, location); code(err) != agentauth.CodeInvalidJWT {
			t.Errorf("AAP-J1 %s: %v", name, err)
		}
	}
	w.want("AAP-J2: no iss", m.execute("balance", `{}`, claims{"iss": nil}), "")
	w.want("AAP-J8: within", m.execute("balance", `{}`, claims{"capabilities": []string{"balance", "other"}}), "")
	w.want("AAP-J8: restricted to another", m.execute("balance", `{}`, claims{"capabilities": []string{"accounts"}}), agentauth.CodeNotGranted)
	w.want("AAP-J8: restricted to nothing", m.execute("balance", `{}`, claims{"capabilities": []string{}}), agentauth.CodeNotGranted)

	strict := newTown(t, func(c *provider.Config) { c.RequireIssuer = true })
	w.want("AAP-J2: no iss where it is required", strict.active("balance").execute("balance", `{}`, claims{"iss": nil}), agentauth.CodeInvalidJWT)
}

// TestAAPJ5_StatesOfAgents: each state has its own refusal, told only to the holder
// of the key.
func TestAAPJ5_StatesOfAgents(t *testing.T) {
	w := newTown(t)
	pending, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	w.want("AAP-J4: under a host that waits", pending.execute("balance", `{}`), agentauth.CodeHostPending)
	m := w.active("balance")
	waits, _, err := w.register(m.host, agentauth.Delegated, asked("transfer")...)
	w.must(err)
	w.want("AAP-J5: pending", waits.execute("balance", `{}`), agentauth.CodeAgentPending)
	q, err := w.provider.ByCode(t.Context(), alice, waits.code)
	w.must(err)
	w.must(second(w.provider.Answer(t.Context(), alice, q.Approval.ID, provider.Answer{Deny: true})))
	w.want("AAP-A5: rejected", waits.execute("balance", `{}`), agentauth.CodeAgentRejected)
	gone, _, err := w.register(m.host, agentauth.Delegated)
	w.must(err)
	w.must(w.provider.Revoke(t.Context(), w.hosted(gone.host), gone.id))
	w.want("AAP-J5: revoked", gone.execute("balance", `{}`), agentauth.CodeAgentRevoked)
	stranger := &member{w: w, host: m.host, key: w.key(), id: gone.id}
	w.want("AAP-J5: told to nobody else", stranger.execute("balance", `{}`), agentauth.CodeInvalidJWT)
	idle := w.active("balance")
	w.now = w.now.Add(31 * time.Minute)
	w.want("AAP-L4: expired", idle.execute("balance", `{}`), agentauth.CodeAgentExpired)
	w.must(second(w.provider.RevokeHost(t.Context(), w.hosted(m.host))))
	w.want("AAP-J4: under a host that is revoked", m.execute("balance", `{}`), agentauth.CodeHostRevoked)
	_, err = w.provider.AuthenticateHost(t.Context(), w.host(m.host), true)
	w.want("AAP-H8: the host itself", err, agentauth.CodeHostRevoked)
}

// TestAAPH8_HostsThatWait: a host that no person has approved registers and asks what
// has become of its agents, and sees no more than a stranger.
func TestAAPH8_HostsThatWait(t *testing.T) {
	w := newTown(t)
	m, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	if s := m.standing(); s.Status != agentauth.Pending {
		t.Errorf("AAP-H8: %+v", s)
	}
	_, err = w.provider.AuthenticateHost(t.Context(), w.host(m.host), false)
	w.want("AAP-H8: anything else", err, agentauth.CodeHostPending)
	v, err := w.provider.Viewer(t.Context(), bearer(w.host(m.host)))
	w.must(err)
	page, err := w.provider.List(v, "", "", 0)
	w.must(err)
	if len(page.Capabilities) != 1 {
		t.Errorf("AAP-H8, AAP-H13: a host that waits is shown %d capabilities; want the public one", len(page.Capabilities))
	}
	q, err := w.provider.ByCode(t.Context(), alice, m.code)
	w.must(err)
	w.must(second(w.provider.Answer(t.Context(), alice, q.Approval.ID, provider.Answer{Deny: true})))
	if s := m.standing(); s.Status != agentauth.Rejected || s.Host.Status != agentauth.Rejected {
		t.Errorf("AAP-H8: a rejected host is told %s of its agent", s.Status)
	}
	_, err = w.provider.AuthenticateHost(t.Context(), w.host(m.host), false)
	w.want("AAP-H8: a rejected host does anything else", err, agentauth.CodeHostRejected)
	again, _, err := w.register(m.host, agentauth.Delegated, asked("balance")...)
	w.must(err)
	if s := again.standing(); s.Status != agentauth.Pending || s.Host.Status != agentauth.Pending || m.standing().Status != agentauth.Rejected {
		t.Errorf("AAP-H8: a rejected host that asks again waits: %s under %s", s.Status, s.Host.Status)
	}
	w.must(second(w.approve(alice, again.code)))
	if s := again.standing(); s.Status != agentauth.Active || s.Host.Status != agentauth.Active {
		t.Errorf("AAP-H8: what was asked again and approved is %s under %s", s.Status, s.Host.Status)
	}
}

// TestATK77_ARefusedHostIsNotLetInAtOnce: where strangers' autonomous agents are active
// at once, a host that a person refused still waits for a person.
func TestATK77_ARefusedHostIsNotLetInAtOnce(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.AnyHost = true })
	m, _, err := w.register(w.key(), agentauth.Delegated, asked("accounts")...)
	w.must(err)
	q, err := w.provider.ByCode(t.Context(), alice, m.code)
	w.must(err)
	w.must(second(w.provider.Answer(t.Context(), alice, q.Approval.ID, provider.Answer{Deny: true})))
	for range 2 {
		_, s, err := w.register(m.host, agentauth.Autonomous, asked("accounts")...)
		w.must(err)
		if s.Status != agentauth.Pending || s.Challenge == nil {
			t.Errorf("ATK-77 an agent of a host that was refused is %s", s.Status)
		}
	}
	if _, s, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...); err != nil || s.Status != agentauth.Active {
		t.Errorf("a stranger's is %s, %v; want active", s.Status, err)
	}
}

// TestAAPH5_KeySets: a host that publishes its keys may sign with another one of
// them; the way that a key is delivered stays.
func TestAAPH5_KeySets(t *testing.T) {
	w := newTown(t)
	one, two, agent := w.key(), w.key(), w.key()
	const set = "https://host.example/keys"
	w.sets[set], w.sets["https://agent.example/keys"] = []token.PublicKey{one.public, agent.public}, []token.PublicKey{agent.public}
	by := func(k okp, more ...claims) string {
		return w.host(k, append([]claims{{"host_public_key": nil, "host_jwks_url": set, "head": claims{"kid": k.public.Thumbprint()}}}, more...)...)
	}
	var waits provider.AgentState
	register := func(c claims) error {
		s, err := w.provider.AuthenticateHost(t.Context(), by(one, c), true)
		w.must(err)
		waits, err = w.provider.Register(t.Context(), s, provider.Registration{Name: "Tester"})
		return err
	}
	both := by(one, claims{"host_public_key": one.jwk()})
	w.want("AAP-H9: both ways", second(w.provider.AuthenticateHost(t.Context(), both, true)), agentauth.CodeInvalidJWT)
	w.want("AAP-H12: no key", register(claims{}), agentauth.CodeInvalidRequest)
	w.want("AAP-H12: no kid", register(claims{"agent_jwks_url": "https://agent.example/keys"}), agentauth.CodeInvalidRequest)
	w.want("AAP-H10: the host's own set", register(claims{"agent_jwks_url": set, "agent_kid": agent.public.Thumbprint()}), agentauth.CodeInvalidRequest)
	inline := claims{"agent_public_key": w.key().jwk(), "agent_jwks_url": "https://agent.example/keys", "agent_kid": agent.public.Thumbprint()}
	w.want("AAP-H12: both ways", register(inline), agentauth.CodeInvalidRequest)
	w.want("its host's key", register(claims{"agent_public_key": one.jwk()}), agentauth.CodeInvalidRequest)
	w.want("AAP-H12", register(claims{"agent_jwks_url": "https://agent.example/keys", "agent_kid": agent.public.Thumbprint()}), "")

	w.want("AAP-H9: inline", second(w.provider.AuthenticateHost(t.Context(), w.host(one, claims{"head": claims{"kid": one.public.Thumbprint()}}), true)), agentauth.CodeInvalidJWT)
	w.want("AAP-H5: a key that is not in the set", second(w.provider.AuthenticateHost(t.Context(), by(two), true)), agentauth.CodeInvalidJWT)
	w.must(second(w.approve(alice, waits.Challenge.Code)))
	w.sets[set] = []token.PublicKey{one.public, two.public}
	later := claims{"host_public_key": nil, "host_jwks_url": nil, "head": claims{"kid": one.public.Thumbprint()}, "agent_jwks_url": set, "agent_kid": agent.public.Thumbprint()}
	known, err := w.provider.AuthenticateHost(t.Context(), w.host(one, later), true)
	w.must(err)
	_, err = w.provider.Register(t.Context(), known, provider.Registration{Name: "Tester"})
	w.want("AAP-H10: the set that it registered with", err, agentauth.CodeInvalidRequest)
	w.want("AAP-H3: another's iss", second(w.provider.AuthenticateHost(t.Context(), by(two, claims{"iss": w.key().public.Thumbprint()}), true)), agentauth.CodeInvalidJWT)
	old := by(two, claims{"iat": noon.Unix() - 1})
	w.want("AAP-H6: a token that is over", second(w.provider.AuthenticateHost(t.Context(), old, true)), agentauth.CodeInvalidJWT)
	if h := w.hostByKey(two); h != "" {
		t.Errorf("AAP-H5: a token that does not hold changed the key of %s", h)
	}
	w.want("AAP-H5: another of its keys", second(w.provider.AuthenticateHost(t.Context(), by(two), true)), "")
	if w.hostByKey(two) == "" {
		t.Error("AAP-H5: the host's key is not stored")
	}
}

// TestAAPH5_WhatChangesNoKey: a host's key is another one by a token that holds in every
// way, of a host that someone has approved.
func TestAAPH5_WhatChangesNoKey(t *testing.T) {
	w := newTown(t)
	one, two := w.key(), w.key()
	const set = "https://host.example/keys"
	w.sets[set] = []token.PublicKey{one.public, two.public}
	by := func(k okp, more ...claims) string {
		return w.host(k, append([]claims{{"host_public_key": nil, "host_jwks_url": set, "head": claims{"kid": k.public.Thumbprint()}}}, more...)...)
	}
	come := func(token string, pending bool) error {
		return second(w.provider.AuthenticateHost(t.Context(), token, pending))
	}
	signsWith := func(what string, k okp) {
		t.Helper()
		if w.hostByKey(k) == "" {
			t.Errorf("AAP-H5 %s: the host's key is another", what)
		}
	}
	s, err := w.provider.AuthenticateHost(t.Context(), by(one, claims{"agent_public_key": w.key().jwk()}), true)
	w.must(err)
	out, err := w.provider.Register(t.Context(), s, provider.Registration{Name: "Tester"})
	w.must(err)
	w.want("while it waits", come(by(two), true), "")
	signsWith("while it waits", one)
	w.want("while it waits, where that is refused", come(by(two), false), agentauth.CodeHostPending)
	signsWith("refused", one)
	w.must(second(w.approve(alice, out.Challenge.Code)))
	used := by(two)
	w.want("approved", come(used, false), "")
	signsWith("approved", two)
	w.want("back", come(by(one), false), "")
	w.want("AAP-H7: used", come(used, false), agentauth.CodeInvalidJWT)
	signsWith("used", one)
	w.must(second(w.provider.RevokeHostAs(t.Context(), alice, out.Host.ID)))
	w.want("AAP-H8: revoked", come(by(two), true), agentauth.CodeHostRevoked)
	signsWith("revoked", one)
}

// hostByKey returns the id of the host that signs with a key, "" for none.
func (w *town) hostByKey(k okp) (id string) {
	w.t.Helper()
	_ = w.store.ViewProvider(w.t.Context(), func(r provider.Reader) error {
		h, err := r.HostByKey(k.public.Thumbprint())
		id = h.ID
		return err
	})
	return id
}
