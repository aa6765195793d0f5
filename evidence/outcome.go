package evidence

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrOutcome says that a record tells an outcome that does not count: it does not
// follow, in one chain, a decision whose outcome was awaited.
var ErrOutcome = errors.New("evidence: an outcome that does not count")

// IsOutcome reports whether a record tells what became of another one.
func (r Record) IsOutcome() bool { return r.Details.OutcomeOf != "" }

// Follows returns an [ErrOutcome] unless an outcome record may count for that
// decision: anyone who signs one chain says nothing of the decisions of another one
// (ATK-71).
func (r Record) Follows(decision Record) error {
	of := decided{placeOf(decision), decision.OutcomeStatus == Pending}
	return newTold(r).follows(r.ID, placeOf(r), &of)
}

// SameOutcome reports whether two outcome records say the same: a repeated outcome
// contradicts nothing.
func (r Record) SameOutcome(other Record) bool { return newTold(r).said == newTold(other).said }

type chainPlace struct {
	chain    ChainID
	sequence int64
}

func placeOf(r Record) chainPlace { return chainPlace{r.Details.ChainID, r.Details.Sequence} }

// told is the part of an outcome record that the verifier remembers.
type told struct {
	of   string // record id of the decision
	ends bool   // it tells an end: achieved, failed or partial
	said [sha256.Size]byte
}

func newTold(r Record) told {
	ends := r.OutcomeStatus == Achieved || r.OutcomeStatus == Failed || r.OutcomeStatus == Partial
	return told{strings.Clone(r.Details.OutcomeOf), ends, sha256.Sum256(append([]byte(r.OutcomeStatus+"\n"), r.Outcome...))}
}

// decided is what an outcome has to know of its decision.
type decided struct {
	chainPlace
	awaited bool // its outcome was to be told
}

// follows takes nil for a decision that is not here: then nothing is known against it.
func (t told) follows(id string, at chainPlace, of *decided) error {
	why := ""
	switch {
	case !t.ends:
		why = "says neither ACHIEVED, FAILED nor PARTIAL"
	case of == nil:
		return nil
	case at.chain != of.chain:
		why = "is of another chain; only the recorder of a decision tells its outcome, in the same chain"
	case at.sequence <= of.sequence:
		why = "does not come after it"
	case !of.awaited:
		why = "comes where no outcome is awaited"
	default:
		return nil
	}
	return fmt.Errorf("%w: record %q tells an outcome of record %q and %s", ErrOutcome, id, t.of, why)
}

// checkOutcomes holds outcome records against their decisions, as far as those are
// here, and settles the decisions. The first outcome of a decision counts; a later
// one that says something else is a second story (ATK-71).
func (v *verifier) checkOutcomes() {
	decisions := map[string]*decided{}
	var outcomes []*entry
	for e := range v.entries.all() {
		if e.told != nil && e.vouched && !e.unsigned && !e.repeated {
			decisions[e.told.of] = nil
			outcomes = append(outcomes, e)
		}
	}
	for e := range v.entries.all() {
		if known, named := decisions[e.id]; named && known == nil && !e.damaged {
			decisions[e.id] = &decided{chainPlace{e.chain, e.sequence}, e.pending}
		}
	}
	counted := map[string][]*entry{}
	for _, e := range outcomes {
		if err := e.told.follows(e.id, chainPlace{e.chain, e.sequence}, decisions[e.told.of]); err != nil {
			v.problem(BadOutcome, e, "%v", err)
			continue
		}
		counted[e.told.of] = append(counted[e.told.of], e)
	}
	for _, e := range outcomes {
		v.checkTold(counted[e.told.of])
		delete(counted, e.told.of)
	}
}

// checkTold takes the outcomes of one decision.
func (v *verifier) checkTold(all []*entry) {
	if len(all) == 0 {
		return
	}
	v.settled[all[0].told.of] = true
	slices.SortStableFunc(all, bySequence)
	for _, e := range all[1:] {
		if e.told.said != all[0].told.said {
			v.problem(TwoOutcomes, e, "record %q tells another outcome of record %q than record %q does", e.id, e.told.of, all[0].id)
		}
	}
}
