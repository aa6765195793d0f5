package issuer

import (
	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// What siblings of the issuer, which share its transaction, need of it.

// NewRecord begins the record of a use case of a sibling: an allowed action of
// the caller at an agent. The details are free, and have a JSON form.
func (i *Issuer) NewRecord(agent string, caller identity.Caller, of action.Type, free map[string]any) (evidence.Record, error) {
	return i.newRecord(agent, caller, of, evidence.Intent{Operation: OperationCapability, Details: details(free)})
}

// Learned has revocations in force that a sibling has stored. It is called after
// their commit and before anybody is answered.
func (i *Issuer) Learned(rs ...Revocation) { i.learn(rs...) }

// Reserved are the operations that every capability has (design, section 2).
func (i *Issuer) Reserved() ([]powerbox.Clause, error) { return i.reserved(Request{}) }

// EndsHolder is the target of an event of [KindEpoch] that ends everything that a
// holder holds.
func EndsHolder(holder string) string { return bulk{gate.BulkHolder, holder}.String() }
