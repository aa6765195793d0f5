package issuer

import (
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// ErrNotFound is returned for a capability or a record that the store does not
// have. A caller must not learn from it whether the thing exists elsewhere.
var ErrNotFound = errors.New("not found")

// Store keeps the issuer's state and its evidence. Two implementations pass
// one contract suite.
type Store interface {
	// Update runs change in one transaction and returns when that transaction
	// is durable. An error of change, or of the store, means that nothing of it
	// happened; a failure to write wraps [evidence.ErrNotWritten]. Evidence
	// appended by change, its leaves and a signed checkpoint over them commit
	// together with the state. change may run while other changes share the
	// same commit; it must not keep tx.
	Update(ctx context.Context, change func(tx Tx) error) error
	// View runs read on one consistent snapshot.
	View(ctx context.Context, read func(r Reader) error) error
}

// Reader reads one snapshot.
type Reader interface {
	// Capability returns the capability of that id, or [ErrNotFound].
	Capability(id string) (Capability, error)
	// CapabilityByRevocation returns the capability of that revocation id, or
	// [ErrNotFound].
	CapabilityByRevocation(id string) (Capability, error)
	// HeldBy returns what a holder holds, newest first.
	HeldBy(query HeldQuery) ([]Capability, error)
	// Revocations returns the revocations behind a sequence number, in order.
	Revocations(after int64) ([]Revocation, error)
	// TaskOwner returns to whom a task or context of an agent belongs, and
	// false where it is not known.
	TaskOwner(agent, task string) (Owner, bool, error)
	// TaskNamed reports whether a capability was issued for a task or context.
	TaskNamed(agent, task string) (bool, error)
	// Record returns one evidence record, or [ErrNotFound].
	Record(id string) (evidence.Sealed, error)
	// Records returns the records that match, newest first.
	Records(query RecordQuery) ([]evidence.Sealed, error)
	// Mode returns the mode that an operator set for an agent, "" for none.
	Mode(agent string) (string, error)
}

// Tx changes state within one transaction.
type Tx interface {
	Reader
	// Append seals a record at the head of its agent's chain.
	Append(record evidence.Record) (evidence.Sealed, error)
	PutCapability(c Capability) error
	// Revoke stores a revocation under the next sequence number, which it
	// returns. Revoking twice returns the first number and keeps the first
	// revocation, except that the later Until of the two counts.
	Revoke(r Revocation) (int64, error)
	// BindTask remembers the owner of a task or context. It keeps the first
	// owner and returns who that is.
	BindTask(agent, task string, owner Owner) (Owner, error)
	// NameTask remembers that a capability was issued for a task or context.
	NameTask(agent, task string) error
	SetMode(agent, mode string) error
}

// HeldQuery selects the capabilities of one holder for one principal at one
// agent. All members but Grant are required.
type HeldQuery struct {
	Agent     string
	Holder    string
	Principal string
	Grant     string    // "" for every grant
	After     time.Time // those that expire after this
	Limit     int       // of how many, 1 at least
}

// RecordQuery selects records; empty members select everything.
type RecordQuery struct {
	Agent     string
	Requester string
	Task      string
	Operation string
	Decision  evidence.Decision
	OutcomeOf string
	Since     time.Time
	Limit     int // 0 for no limit
}
