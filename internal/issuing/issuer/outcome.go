package issuer

import "github.com/powerbox-project/powerbox/evidence"

// OutcomeReader finds, in a transaction, what outcomes are held against.
type OutcomeReader interface {
	// Logged returns the record of an id, also one that was appended just now; false
	// where there is none.
	Logged(id string) (evidence.Sealed, bool, error)
	// FirstTold remembers that a record tells the outcome of a decision in a chain. It
	// keeps the first one, and returns the id of that.
	FirstTold(chain evidence.ChainID, decision, record string) (first string, err error)
}

// CheckOutcome refuses what verifiers of the evidence would name: an outcome that
// another chain tells than that of its decision, and a second one that says something
// else than the first (ATK-71). A decision that is not here may be archived, or its
// gateway may have gone on without it, as in observe: nothing is known against that.
func CheckOutcome(in OutcomeReader, r evidence.Record) error {
	if !r.IsOutcome() {
		return nil
	}
	decision, known, err := in.Logged(r.Details.OutcomeOf)
	if err != nil {
		return err
	}
	if known {
		if err := r.Follows(decision.Record()); err != nil {
			return noTarget("%v", err)
		}
	}
	id, err := in.FirstTold(r.Details.ChainID, r.Details.OutcomeOf, r.ID)
	if err != nil || id == r.ID {
		return err
	}
	first, known, err := in.Logged(id)
	if err == nil && known && !r.SameOutcome(first.Record()) {
		err = noTarget("record %q tells another outcome of record %q than record %q does", r.ID, r.Details.OutcomeOf, id)
	}
	return err
}
