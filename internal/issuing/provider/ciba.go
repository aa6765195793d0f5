package provider

import (
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// CIBA says when a person who is known is asked where they are, instead of being sent
// a code (section 7.2, AAP-A3, AAP-A4).
type CIBA string

// When it is used: never; where a client prefers it; wherever the person is known and
// the client does not prefer otherwise.
const (
	CIBAOff       CIBA = "off"
	CIBAAsked     CIBA = "asked"
	CIBAPreferred CIBA = "preferred"
)

// Methods are the approval methods that are offered.
func (p *Provider) Methods() []string {
	if p.config.CIBA == CIBAOff {
		return []string{agentauth.DeviceAuthorization}
	}
	return []string{agentauth.DeviceAuthorization, agentauth.CIBA}
}

// ownerReader reads what people have: whether a hint names one.
type ownerReader interface {
	Passkeys(principal string) ([]Passkey, error)
	Hosts(user string) ([]Host, error)
}

// addressed returns the person whom a question is for, and whether they are asked on
// their own device. A hint without a match, or for someone who has been asked enough, is
// answered like one that matches: no answer reveals who has an account (CIBA Core,
// section 14).
func (p *Provider) addressed(tx ownerReader, h Host, a Agent, kind Kind, asking Asking, open []Approval, now time.Time) (user string, ciba bool, err error) {
	wanted := asking.Method == agentauth.CIBA || p.config.CIBA == CIBAPreferred && asking.Method != agentauth.DeviceAuthorization
	switch {
	case p.config.CIBA == CIBAOff || !wanted:
		return h.User, false, nil
	case h.User != "":
		return h.User, true, nil
	case asking.LoginHint == "", a.Mode != agentauth.Delegated && kind != ForClaim:
		return "", false, nil // for anyone who has the code, or for an administrator
	}
	if user, err = p.hinted(tx, asking.LoginHint); err != nil {
		return "", false, err
	}
	if p.bothered(user, a.ID, open, now) {
		user = ""
	}
	return user, true, nil
}

// maxHint bounds the hint that is looked up.
const maxHint = 256

// hinted is the principal that a hint names, "" for none. It looks for as much
// where there is someone as where there is not.
func (p *Provider) hinted(r ownerReader, hint string) (user string, err error) {
	if len(hint) > maxHint {
		hint = hint[:maxHint]
	}
	for _, c := range []string{hint, "user:" + hint} {
		keys, err := r.Passkeys(c)
		if err != nil {
			return "", err
		}
		hosts, err := r.Hosts(c)
		if err != nil {
			return "", err
		}
		if len(keys) > 0 || len(hosts) > 0 || p.config.Known(c) {
			user = c
		}
	}
	return user, nil
}

// How much hosts that a person has nothing to do with may ask of them by name: at a
// time, and in an hour (ATK-48).
const (
	maxOpenHints = 3
	maxHints     = 6
	hintTime     = time.Hour
)

// bothered reports whether a person has been asked by name enough, and notes that
// they are asked where they have not.
func (p *Provider) bothered(user, agent string, open []Approval, now time.Time) bool {
	n := 0
	for _, o := range open {
		if o.User == user && o.Method == agentauth.CIBA && o.Kind != ForCapability && o.Agent != agent && o.Open(now) {
			n++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.hints[user]
	if now.Sub(g.since) > hintTime {
		g = guesses{since: now}
	}
	if n >= maxOpenHints || g.n >= maxHints {
		return true
	}
	g.n++
	p.hints[user] = g
	return false
}

// binding is the message that person and agent both see (section 7.1).
func binding(asking Asking, a Agent) string {
	if said := plain(asking.Message, maxMessageText); said != "" {
		return said
	}
	return "Approve " + a.Name
}
