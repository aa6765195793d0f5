package reliability

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Control kills the primary of a town whose replication is asynchronous
// ([Config.UnsafeAsynchronous]) while the standby is behind, and returns how many
// decisions were acknowledged and how many of them are lost: a judgement that finds
// none here would find none anywhere.
func (t *Town) Control(ctx context.Context) (acknowledged, lost int, err error) {
	t.ledger = newLedger()
	if err := t.start(ctx); err != nil {
		return 0, 0, err
	}
	pause(ctx, calm)
	err = t.leaveBehind(ctx)
	t.load.stop()
	if err != nil {
		return 0, 0, err
	}
	if err := t.standby.Promote(ctx); err != nil {
		return 0, 0, err
	}
	t.primary, t.standby = t.standby, t.primary
	// The nodes know of more than the database has.
	for _, n := range t.nodes {
		n.kill()
		if err := t.boot(ctx, n); err != nil {
			return 0, 0, err
		}
	}
	var missing []string
	told := t.ledger.told()
	err = until(ctx, 30*time.Second, func() error {
		var answer *statusError
		var err error
		if _, missing, err = t.recorded(ctx, told); errors.As(err, &answer) && answer.status >= http.StatusInternalServerError {
			return err
		}
		return nil
	})
	return len(told), len(missing), err
}
