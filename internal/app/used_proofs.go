package app

import (
	"log/slog"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
)

// memory is a memory of used proofs of a kind, with the proofs that were used before the
// start.
func (i *Instance) memory(kind string) *gate.Memory {
	m := gate.NewMemory(proxy.ReplayEntries)
	if i.before != nil {
		m.Restore(i.before.Proofs[kind])
	}
	if i.memories == nil {
		i.memories = map[string]*gate.Memory{}
	}
	i.memories[kind] = m
	return m
}

// keepUsed keeps which proofs were used, where this process alone knows. Nothing is
// served any more.
func (i *Instance) keepUsed(now time.Time, log *slog.Logger) {
	if i.shared != nil || i.sessions == nil || i.began.IsZero() {
		return
	}
	u := proxy.UsedProofs{Began: i.began, Sessions: i.began, Ended: now, Proofs: map[string]map[string]time.Time{}, Callers: i.sessions.Used()}
	for kind, m := range i.memories {
		u.Proofs[kind] = m.Used()
	}
	if err := u.Keep(string(i.Config.Issuer.Directory)); err != nil {
		log.Warn("used proofs are not kept: proofs from before the next start will be refused", slog.Any("error", err))
	}
}
