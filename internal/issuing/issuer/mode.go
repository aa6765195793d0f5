package issuer

import (
	"context"
	"sync"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// modes are those that operators set, by agent, as the store has them: every
// call asks for one, and only [Issuer.SetMode] changes them.
type modes struct {
	changing sync.Mutex // held while one is changed or read, so that memory and store see changes in one order
	version  int64      // of the store, up to which they are known; of [Issuer.CatchUp] alone

	mu  sync.RWMutex
	set map[string]string
}

func (m *modes) put(agent, mode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.set == nil {
		m.set = map[string]string{}
	}
	m.set[agent] = mode
}

func (i *Issuer) loadModes(ctx context.Context) error {
	i.modes.changing.Lock()
	defer i.modes.changing.Unlock()
	return i.config.Store.View(ctx, func(r Reader) error {
		set, err := r.Modes()
		if err != nil {
			return err
		}
		for id := range i.all() {
			i.modes.put(id, set[id])
		}
		return nil
	})
}

// Mode returns the mode that an operator set for an agent, "" for none.
func (i *Issuer) Mode(agent string) string {
	i.modes.mu.RLock()
	defer i.modes.mu.RUnlock()
	return i.modes.set[agent]
}

// SetMode changes the mode of an agent and records who did it. It holds for
// calls that come after SetMode has returned, at every node.
func (i *Issuer) SetMode(ctx context.Context, operator, agent, mode string) error {
	record, err := i.newRecord(agent, identity.Caller{Agent: operator}, action.AgentMode, evidence.Intent{
		Operation: OperationCard, Details: details(map[string]any{"mode": mode}),
	})
	if err != nil {
		return err
	}
	record.OutcomeStatus = evidence.Achieved
	i.modes.changing.Lock()
	defer i.modes.changing.Unlock()
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		if err := tx.SetMode(agent, mode); err != nil {
			return err
		}
		_, err := tx.Append(record)
		return err
	})
	if err == nil {
		i.modes.put(agent, mode)
	}
	return err
}
