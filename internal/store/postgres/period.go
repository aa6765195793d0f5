package postgres

import (
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// ClosePeriod implements [issuer.Tx]. A period ends in what has committed: what
// waits in this batch is of the next one.
func (t *transaction) ClosePeriod(signed []byte, at time.Time) (issuer.Period, error) {
	if signed == nil {
		signed = t.head.note
	}
	return t.PutPeriod(signed, t.config.Checkpoint.(verifier), at)
}
