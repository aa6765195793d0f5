package issuer

import (
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// Period is a part of the log that was closed: the records from First up to, and
// without, Size. Its checkpoint is final, and named by a record of the next one.
type Period struct {
	Number     int64 // from 1
	First      int64
	Size       int64
	Closed     time.Time
	Archived   bool   // its records are elsewhere
	Checkpoint []byte // signed
}

// The errors of periods.
var (
	// ErrNothingToClose says that nothing was recorded since the last period.
	ErrNothingToClose = errors.New("nothing has been recorded since the last period was closed")
	// ErrBodiesLeft says that bodies are kept beside records of a period.
	ErrBodiesLeft = errors.New("bodies are kept beside records of the period; erase them, or wait until their time is over")
	// ErrArchived says that the records of a period are elsewhere.
	ErrArchived = errors.New("the records of the period were archived; they are in the bundle that was written then")
)

// Periods returns the periods of the log that were closed, oldest first.
func (i *Issuer) Periods(ctx context.Context) (all []Period, err error) {
	err = i.config.Store.View(ctx, func(r Reader) error {
		all, err = r.Periods()
		return err
	})
	return all, err
}

// ClosePeriod closes a period with what a signed checkpoint covers, nil for the
// latest one. The record that says so is of the next period and names the
// checkpoint: the two hold together anyone who keeps them.
func (i *Issuer) ClosePeriod(ctx context.Context, by string, signed []byte) (p Period, err error) {
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, action.EvidencePeriod, evidence.Intent{Operation: action.EvidencePeriod.String()})
	if err != nil {
		return p, err
	}
	record.OutcomeStatus = evidence.Achieved
	// Who reads records sees all that was acknowledged, and so does the period.
	if err := i.config.Store.View(ctx, func(r Reader) error { _, err := r.Records(RecordQuery{Limit: 1}); return err }); err != nil {
		return p, err
	}
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		if p, err = tx.ClosePeriod(signed, i.config.Now()); err != nil {
			return err
		}
		said, err := p.details()
		if err != nil {
			return err
		}
		closing := record
		closing.Intent.Details = said
		_, err = tx.Append(closing)
		return err
	})
	if errors.Is(err, ErrNothingToClose) {
		err = &TargetError{ErrNothingToClose.Error()}
	}
	return p, err
}

func (p Period) details() ([]byte, error) {
	c, err := evidence.ReadCheckpoint(p.Checkpoint)
	return details(map[string]any{"period": p.Number, "first": p.First, "size": p.Size, "root": c.Root.String(), "origin": c.Origin}), err
}

// ArchivePeriod takes the records of a closed period out of the store. The caller
// has them elsewhere and has verified them: root, in base64, is that of the
// checkpoint that they end in. Earlier periods must be archived before.
func (i *Issuer) ArchivePeriod(ctx context.Context, by string, number int64, root string) (Period, error) {
	all, err := i.Periods(ctx)
	if err != nil {
		return Period{}, err
	}
	p, err := archivable(all, number, root)
	if err != nil {
		return p, err
	}
	if !p.Archived {
		if err := i.markArchived(ctx, by, p); err != nil {
			return p, err
		}
	}
	for n := 1; n > 0; {
		err := i.config.Store.Update(ctx, func(tx Tx) (err error) {
			n, err = tx.DeleteArchived()
			return err
		})
		if err != nil {
			return p, err
		}
	}
	p.Archived = true
	return p, nil
}

// archivable returns the period, where it is the next to be archived or was
// archived before.
func archivable(all []Period, number int64, root string) (Period, error) {
	for _, p := range all {
		c, err := evidence.ReadCheckpoint(p.Checkpoint)
		switch {
		case err != nil:
			return p, err
		case p.Number < number && !p.Archived:
			return p, noTarget("period %d comes before period %d and is not archived yet", p.Number, number)
		case p.Number == number && c.Root.String() != root:
			return p, noTarget("period %d ends in a checkpoint with root %s, and the bundle in one with root %s: it is not the bundle of that period", number, c.Root, root)
		case p.Number == number:
			return p, nil
		}
	}
	return Period{}, ErrNotFound
}

func (i *Issuer) markArchived(ctx context.Context, by string, p Period) error {
	said, err := p.details()
	if err != nil {
		return err
	}
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, action.EvidenceArchive, evidence.Intent{Operation: action.EvidenceArchive.String(), Details: said})
	if err != nil {
		return err
	}
	record.OutcomeStatus = evidence.Achieved
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		if err := tx.ArchivePeriod(p); err != nil {
			return err
		}
		_, err := tx.Append(record)
		return err
	})
	if errors.Is(err, ErrBodiesLeft) {
		err = &TargetError{ErrBodiesLeft.Error()}
	}
	return err
}
