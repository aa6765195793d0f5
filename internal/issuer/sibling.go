package issuer

import (
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// What siblings of the issuer, which share its transaction, need of it.

// NewRecord begins the record of a use case of a sibling: an allowed action of
// the caller at an agent. The details are free, and have a JSON form.
func (i *Issuer) NewRecord(agent string, caller identity.Caller, action string, free map[string]any) (evidence.Record, error) {
	return i.newRecord(agent, caller, action, evidence.Intent{Operation: OperationCapability, Details: details(free)})
}

// Learned has revocations in force that a sibling has stored. It is called after
// their commit and before anybody is answered.
func (i *Issuer) Learned(rs ...Revocation) { i.learn(rs...) }
