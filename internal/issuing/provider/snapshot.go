package provider

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// snapshots keep the stored state of agents for as long as nothing changes. Every change
// of hosts, agents and grants is a [Provider.update], or another node's, which calls
// [Provider.Forget]. A snapshot has the words of the store, and no verdict: every
// request checks clocks, signature, decision and revocations.
type snapshots struct {
	begun, ended atomic.Uint64 // changes; from before its transaction, until after it

	mu   sync.Mutex
	at   uint64              // the changes that had begun when the snapshots were read
	kept map[string]snapshot // by agent's id, and by the thumbprint of a host's key
}

// snapshot is an agent with its host and its grants. Its contents never change.
type snapshot struct {
	agent  Agent
	host   Host
	grants []Grant
	key    token.KeptKey // the agent's; the zero one where it is fetched
}

// maxSnapshots bounds the number of snapshots; when it is full it begins anew.
const maxSnapshots = 4096

// get returns the snapshot of an agent, and false where something has begun to change
// since.
func (s *snapshots) get(agent string) (snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != s.begun.Load() {
		return snapshot{}, false
	}
	out, ok := s.kept[agent]
	return out, ok
}

// Forget has everything read again that was read of hosts, agents and grants before:
// another node has changed some of it.
func (p *Provider) Forget() {
	p.seen.begun.Add(1)
	p.seen.ended.Add(1)
}

// keep keeps a snapshot of an agent that was read since so many changes had begun, all
// of which had ended by then.
func (s *snapshots) keep(agent string, read snapshot, at uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at != s.begun.Load() {
		return
	}
	if s.at != at || len(s.kept) >= maxSnapshots || s.kept == nil {
		s.at, s.kept = at, map[string]snapshot{}
	}
	s.kept[agent] = read
}

// known returns an agent with its host and grants, as the store has them.
func (p *Provider) known(ctx context.Context, agent string) (snapshot, error) {
	if s, ok := p.seen.get(agent); ok {
		return s, nil
	}
	at := p.seen.begun.Load()
	settled := p.seen.ended.Load() == at
	var s snapshot
	err := p.config.Store.ViewProvider(ctx, func(r Reader) (err error) {
		if s.agent, err = r.HostAgent(agent); err != nil {
			return err
		}
		if s.host, err = r.Host(s.agent.Host); err != nil {
			return err
		}
		s.grants, err = r.Grants(agent)
		return err
	})
	if err != nil {
		return s, err
	}
	if s.agent.KeysURL == "" {
		key, err := storedKey(s.agent.Key)
		if err != nil {
			return s, err
		}
		s.key = key.Keep()
	}
	if settled {
		p.seen.keep(agent, s, at)
	}
	return s, nil
}

// knownHost returns the host of a token, as in the store.
func (p *Provider) knownHost(ctx context.Context, t agentauth.Token) (Host, error) {
	name := "host " + t.Issuer
	if s, ok := p.seen.get(name); ok {
		return s.host, nil
	}
	at := p.seen.begun.Load()
	settled := p.seen.ended.Load() == at
	var h Host
	byKey := false
	err := p.config.Store.ViewProvider(ctx, func(r Reader) (err error) {
		if h, err = r.HostByKey(t.Issuer); err == nil {
			byKey = true
		}
		if notFound(err) && t.HostKeysURL != "" {
			h, err = r.HostByKeysURL(t.HostKeysURL)
		}
		return err
	})
	if err == nil && settled && byKey {
		p.seen.keep(name, snapshot{host: h}, at)
	}
	return h, err
}
