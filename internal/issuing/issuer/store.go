package issuer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/people"
)

// ErrNotFound is returned for a capability or a record that the store does not
// have. A caller must not learn from it whether the thing exists elsewhere.
var ErrNotFound = errors.New("not found")

// ErrNotNext is returned for a record that does not come next in its chain.
var ErrNotNext = errors.New("the record does not come next in its chain")

// ErrGap is an [ErrNotNext] of a record that others come before: the store was
// restored from an older backup, perhaps, and they can be sent again.
var ErrGap = fmt.Errorf("%w: others come before it", ErrNotNext)

// ErrNoEvidence is returned for a bundle of a log without records.
var ErrNoEvidence = errors.New("there is no evidence yet")

// Store keeps the issuer's state and its evidence: internal/store/sqlite in one file, for
// one process, and internal/store/postgres in a database that several share. What both do
// is written down in internal/store/storetest.
type Store interface {
	// Update runs change in one transaction and returns when that transaction
	// is durable. An error of change, or of the store, means that nothing of it
	// happened; a failure to write wraps [evidence.ErrNotWritten]. Where the store's
	// database did not say in time what became of a commit, the error is an
	// [evidence.LateError], and the change may have happened. Evidence
	// appended by change, its leaves and a signed checkpoint over them commit
	// together with the state. change may run while other changes share the
	// same commit, and again from its beginning when one of them spoils it; it
	// must not keep tx, nor add to what it sets outside.
	//
	// With a context of [InTime] the error can be an [evidence.LateError]. What change
	// sets outside must not be read then.
	Update(ctx context.Context, change func(tx Tx) error) error
	// View runs read on one consistent snapshot.
	View(ctx context.Context, read func(r Reader) error) error
	// Scrub removes deleted data from the store's files. False means that a
	// reader of an older state was in the way.
	Scrub(ctx context.Context) (bool, error)
}

// Reader reads one snapshot.
type Reader interface {
	DataReader
	CapabilityReader
	RevocationReader
	InForceReader
	TaskReader
	RecordReader
	LogReader
	AgentReader
	AccountReader
}

// Tx changes state within one transaction.
type Tx interface {
	Reader
	CapabilityWriter
	TaskWriter
	BudgetWriter
	DataTx
	RecordWriter
	PeriodWriter
	GatewayWriter
	AgentWriter
}

// CapabilityReader reads capabilities on record.
type CapabilityReader interface {
	// Capability returns the capability of that id, or [ErrNotFound].
	Capability(id string) (Capability, error)
	// CapabilityByRevocation returns the capability of that revocation id, or
	// [ErrNotFound].
	CapabilityByRevocation(id string) (Capability, error)
	// HeldBy returns what a holder holds, newest first.
	HeldBy(query HeldQuery) ([]Capability, error)
	// Trees returns capabilities with all that descend from them, in the order in which
	// they were issued: a parent comes before its children.
	Trees(query TreeQuery) iter.Seq2[Capability, error]
	// LiveBefore returns some capabilities that match, the one that was issued last
	// first. [ErrNotFound] means that there is no capability of the id in Before.
	LiveBefore(query LiveQuery) ([]Capability, error)
}

// RevocationReader reads what ended, and of whom something could end.
type RevocationReader interface {
	// Revocations returns the revocations behind a sequence number, in order.
	Revocations(after int64) ([]Revocation, error)
	// StatusPlaces returns the places in an agent's status list, by capability.
	StatusPlaces(agent string) (map[string]int, error)
	// Holders returns every holder of a capability on record, once.
	Holders() ([]string, error)
	// IssuedAfter returns when the newest of the root capabilities was issued that match and
	// were issued after a time; the zero time for none.
	IssuedAfter(at time.Time, query IssuedQuery) (time.Time, error)
}

// InForceReader reads the events in force.
type InForceReader interface {
	// Revoked calls take for some revocations in the order of their ends and targets, behind a
	// place, which need not be there.
	Revoked(behind RevokedPlace, limit int, take func(RevokedPlace)) error
	// RevokedUntil reports whether a revocation of a target ends at a time or later.
	RevokedUntil(target string, ends time.Time) (bool, error)
	// Stops returns the events other than revocations, and the last event of all, in order.
	Stops() ([]Revocation, error)
}

// RevokedPlace is a revocation in the order of ends and targets.
type RevokedPlace struct {
	Until  int64 // Unix seconds
	Target string
}

// TaskReader reads to whom tasks, contexts and links belong.
type TaskReader interface {
	// TaskOwner returns to whom a task or context in a tenant of an agent, "" for
	// none, belongs, and false where it is not known.
	TaskOwner(agent, tenant, task string) (Owner, bool, error)
	// TaskNamed reports whether a capability was issued for a task or context.
	TaskNamed(agent, tenant, task string) (bool, error)
	// LinkNamed returns the hash of the delegation link that a nonce names, ""
	// where it names none (EXT-14).
	LinkNamed(id string) (string, error)
}

// RecordReader reads records, and the bodies that they commit to.
type RecordReader interface {
	// Record returns one evidence record, or [ErrNotFound].
	Record(id string) (evidence.Sealed, error)
	// Records returns a page of the records that match, newest first: the last
	// of the log is the first. [ErrNotFound] means that there is no record of
	// the id in Before.
	Records(query RecordQuery) (RecordPage, error)
	// Body returns the body that a record commits to, or [ErrNotFound] where it
	// commits to none or that one was erased.
	Body(record string) (*evidence.Body, error)
	// Bodies lists the bodies that match, oldest record first.
	Bodies(query BodyQuery) ([]Body, error)
	// BodyAgents returns the agents of which there are bodies.
	BodyAgents() ([]string, error)
}

// LogReader reads who wrote the log, and its periods.
type LogReader interface {
	// Periods returns the periods of the log that were closed, oldest first.
	Periods() ([]Period, error)
	// Gateways returns every gateway that was ever enrolled, oldest first.
	Gateways() ([]Gateway, error)
	// Recorders returns every key by which this server ever signed records, oldest
	// first.
	Recorders() ([]Recorder, error)
	// Chains returns the chains of an agent that have begun, without how many
	// records they have.
	Chains(agent string) ([]evidence.ListedChain, error)
}

// AgentReader reads the stored data of agents.
type AgentReader interface {
	// AgentKey returns the issuing key that an agent was last recorded with, and
	// since when it has that one; "" for none.
	AgentKey(agent string) (key string, renewed time.Time, err error)
	// NewestKeys returns the key that each agent was last recorded with, and those
	// of the server itself, whose names no agent has: see [ownKey].
	NewestKeys() (map[string]string, error)
	// Modes returns the modes that operators set, by agent.
	Modes() (map[string]string, error)
}

// AccountReader reads the stored data of people.
type AccountReader interface {
	// Account returns the stored data of a person, or [ErrNotFound].
	Account(principal string) (people.Account, error)
}

// CapabilityWriter changes capabilities on record.
type CapabilityWriter interface {
	PutCapability(c Capability) error
	// Revoke stores an event under the next sequence number, which it returns.
	// A repeated revocation for the same time stores nothing and returns
	// the first number; a later Until is a separate event. A freeze and a
	// thaw are always stored. No event is ever changed.
	Revoke(r Revocation) (int64, error)
	// PutStatusPlace gives a capability a place in its agent's status list, and
	// returns false where the place is taken or the capability has one. The
	// places of what has expired are free.
	PutStatusPlace(c Capability, place int, now time.Time) (bool, error)
}

// TaskWriter remembers to whom tasks, contexts and links belong.
type TaskWriter interface {
	// BindTask remembers the owner of a task or context. It keeps the first
	// owner and returns who that is.
	BindTask(agent, tenant, task string, owner Owner) (Owner, error)
	// NameTask remembers that a capability was issued for a task or context.
	NameTask(agent, tenant, task string) error
	// NameLink remembers which link a nonce names until that link has ended. It
	// keeps the first one and returns which that is.
	NameLink(id, link string, until, now time.Time) (string, error)
}

// BudgetWriter changes budgets.
type BudgetWriter interface {
	// Reserve takes from a budget for a decision, and returns false where it does not
	// hold that much.
	Reserve(decision, account string, r gate.Reservation) (bool, error)
	// Settle ends the reservations of a decision, and with back gives back what they
	// took. Doing it again does nothing.
	Settle(decision string, back bool) error
}

// RecordWriter changes records and their bodies.
type RecordWriter interface {
	// Append seals a record at the head of its agent's chain. What it commits to
	// ([evidence.Record.Detach]) is stored with it.
	Append(record evidence.Record) (evidence.Sealed, error)
	// AppendSealed takes a record that its recorder has sealed and returns the
	// sequence of the one that comes next. A record that is there already, byte
	// for byte, is no error; every other one that does not come next is
	// [ErrNotNext], with the sequence that does.
	AppendSealed(sealed evidence.Sealed) (next int64, err error)
	// ChainEnd returns where the next record of a chain goes, or [ErrNotFound]
	// where it has not begun.
	ChainEnd(agent, recorder string) (evidence.Head, error)
	// EraseBody deletes the body of a record, and its key with it.
	EraseBody(record string) error
}

// PeriodWriter changes the periods of the log.
type PeriodWriter interface {
	// ClosePeriod ends a period with what a signed checkpoint covers, nil for the
	// latest one, or returns [ErrNothingToClose].
	ClosePeriod(signed []byte, at time.Time) (Period, error)
	// ArchivePeriod marks a period whose records are elsewhere, or returns
	// [ErrBodiesLeft]. Chains continue from what they ended in.
	ArchivePeriod(p Period) error
	// DeleteArchived deletes some of the records that are elsewhere, and returns how
	// many; 0 once none is left.
	DeleteArchived() (int, error)
}

// GatewayWriter changes who writes the log.
type GatewayWriter interface {
	// PutGatewayToken remembers a token that enrols one gateway.
	PutGatewayToken(hash [32]byte, agent string, expires time.Time) error
	// UseGatewayToken uses a token up and returns its agent, or [ErrNotFound]
	// where there is none, it was used or it has expired.
	UseGatewayToken(hash [32]byte, now time.Time) (agent string, err error)
	// PutGateway stores a gateway, or what has become of it.
	PutGateway(g Gateway) error
	// PutRecorder stores a key by which this server signs records, or what has
	// become of it.
	PutRecorder(r Recorder) error
}

// AgentWriter changes the stored data of agents.
type AgentWriter interface {
	// PutAgentKey remembers the issuing key that an agent has now. For a key that
	// it had before, the first time stays.
	PutAgentKey(agent, key string, renewed time.Time) error
	SetMode(agent, mode string) error
}

// IssuedQuery selects capabilities that an agent issued, or that were issued for a principal.
// Empty members select all.
type IssuedQuery struct{ Agent, Principal string }

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

// TreeQuery selects capabilities that expire after a moment: those that have one of the
// values of one member, and all that descend from those.
type TreeQuery struct {
	After      time.Time
	IDs        []string
	Agents     []string
	Holders    []string
	Requesters []string
	Principals []string
	Once       bool // those that a person gave for one call
	Brief      bool // without their authorities, which take most of the time
	Limit      int  // required
}

// LiveQuery selects capabilities; empty members select everything.
type LiveQuery struct {
	Agent     string
	Agents    []string // of one of these, where it is not nil
	Holder    string
	Requester string // configured name of the holder
	Principal string
	Root      string    // those of one tree
	Below     string    // id of a capability: those that descend from it
	After     time.Time // those that expire after this
	Before    string    // id of a capability: those that were issued before it
	Limit     int       // of how many, 1 at least
}

// RecordQuery selects records; empty members select everything.
type RecordQuery struct {
	Agent      string
	Agents     []string // about one of these, where it is not nil
	Requester  string
	Principals []string // for one of these, where it is not nil
	Task       string
	Trace      string
	Operation  string
	Capability string
	Decision   evidence.Decision
	OutcomeOf  string
	Reason     string // code of one of the reasons
	// Since and Until are about the time of records, both included. Since is
	// looked up by the time in their ids ([Issuer.NewID]).
	Since, Until time.Time
	Before       string // id of a record: those that the log has before it
	Limit        int    // 0 for no limit
	// Scan is how many records are looked at, at the most; 0 for all. A page
	// can be empty and have a next one.
	Scan int
}

// RecordPage is a part of what a query selects.
type RecordPage struct {
	Records []evidence.Sealed
	Next    string // what Before is for the next page, "" after the last
}

// Versions count the changes of what a process remembers of a store that others
// write, too. Where a count is as it was, so is what it counts.
type Versions struct {
	Stops    int64 // revocations, freezes, thaws and extensions, as their sequence
	Modes    int64
	Gateways int64
	Agents   int64  // hosts, agents and grants of Agent Auth
	Cards    int64  // listings, and the cards with which in view agents issue
	Timeline string // of the database: another one after a failover
}

// Covers reports whether v counts every change that w counts.
func (v Versions) Covers(w Versions) bool {
	return v.Stops >= w.Stops && v.Modes >= w.Modes && v.Gateways >= w.Gateways && v.Agents >= w.Agents && v.Cards >= w.Cards
}

// lazy is the key of [Lazy].
type lazy struct{}

// Lazy has an Update wait a little for others to share its commit with, since no call waits
// for it.
func Lazy(ctx context.Context) context.Context { return context.WithValue(ctx, lazy{}, true) }

// IsLazy reports whether a context is one of [Lazy].
func IsLazy(ctx context.Context) bool { return ctx.Value(lazy{}) != nil }

// inTime is the key of [InTime].
type inTime struct{}

// InTime has an Update return with an [evidence.LateError] when the disk does not take a
// change in the time that a store waits for it. It is for changes of which nothing is kept in
// memory once they are durable. Any other Update waits for its true result.
func InTime(ctx context.Context) context.Context { return context.WithValue(ctx, inTime{}, true) }

// IsInTime reports whether a context is one of [InTime].
func IsInTime(ctx context.Context) bool { return ctx.Value(inTime{}) != nil }
