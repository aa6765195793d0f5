package evidence

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Claim is what a record is presented for. A record that verifies proves what it
// says and nothing else: anyone who acts on one first states the expected contents, and
// the present facts that the record cannot know (ATK-45).
type Claim struct {
	// Members are what members of the record must be, by the names that
	// [ClaimMembers] returns. Optional.
	Members map[string]string
	// Revoked are the capabilities, by id, that are revoked now. Optional.
	Revoked []string
	// Honoured are the ids of records that were acted on before. Optional.
	Honoured []string
}

// Misuse is why a record does not support a claim.
type Misuse struct {
	Reason  MisuseReason
	Message string
}

// Error implements error.
func (m *Misuse) Error() string { return "evidence: " + string(m.Reason) + ": " + m.Message }

// MisuseReason names a kind of misuse.
type MisuseReason string

// The reasons, of which the first that holds is told, in this order.
const (
	WrongClaim        MisuseReason = "wrong_claim"        // it is about another action, operation, agent, requester, recorder, chain or task
	WrongPrincipal    MisuseReason = "wrong_principal"    // it is for another user
	WrongCapability   MisuseReason = "wrong_capability"   // another capability allowed it
	StalePolicy       MisuseReason = "stale_policy"       // it was decided under other policies
	NotExecuted       MisuseReason = "not_executed"       // it does not tell that the action had that outcome
	CapabilityRevoked MisuseReason = "capability_revoked" // what allowed it is revoked
	Replayed          MisuseReason = "replayed"           // it was acted on before
)

// claimMember is a member that a claim can name.
type claimMember struct {
	name   string
	reason MisuseReason
	of     func(Record) string
}

var claimMembers = []claimMember{
	{"action", WrongClaim, func(r Record) string { return r.ActionType }},
	{"operation", WrongClaim, func(r Record) string { return r.Intent.Operation }},
	{"decision", WrongClaim, func(r Record) string { return string(r.Decision) }},
	{"agent", WrongClaim, func(r Record) string { return r.AgentID }},
	{"requester", WrongClaim, func(r Record) string { return r.Details.Requester }},
	{"recorder", WrongClaim, func(r Record) string { return r.Details.Recorder }},
	{"task", WrongClaim, func(r Record) string { return r.TaskID }},
	{"chain", WrongClaim, func(r Record) string { return r.Details.ChainID.String() }},
	{"outcome_of", WrongClaim, func(r Record) string { return r.Details.OutcomeOf }},
	{"principal", WrongPrincipal, func(r Record) string { return r.Details.Principal }},
	{"capability", WrongCapability, func(r Record) string { return r.Details.Capability }},
	{"policy", StalePolicy, func(r Record) string { return r.Details.PolicyDigest }},
	{"outcome", NotExecuted, func(r Record) string { return string(r.OutcomeStatus) }},
}

// ClaimMembers returns the names that [Claim.Members] can have.
func ClaimMembers() []string {
	var names []string
	for _, m := range claimMembers {
		names = append(names, m.name)
	}
	return names
}

// Check returns nil if the record supports the claim, and otherwise a
// [Misuse]; any other error is of a claim with a name that no member has. The
// record must have been verified.
func (c Claim) Check(r Record) error {
	for _, name := range slices.Sorted(maps.Keys(c.Members)) {
		if !slices.Contains(ClaimMembers(), name) {
			return fmt.Errorf("evidence: no member %q can be claimed; there are %s", name, strings.Join(ClaimMembers(), ", "))
		}
	}
	if _, named := c.Members["chain"]; c.Members["outcome_of"] != "" && !named {
		// A recorder of another chain can name any decision (ATK-71).
		return errors.New("evidence: outcome_of is claimed without chain; claim the chain_id of the decision's record, in which alone its outcome is told")
	}
	for _, m := range claimMembers {
		if want, asked := c.Members[m.name]; asked && m.of(r) != want {
			return &Misuse{m.reason, fmt.Sprintf("%s is %q, and %q is claimed", m.name, m.of(r), want)}
		}
	}
	for _, id := range c.Revoked {
		if r.Details.Capability == id {
			return &Misuse{CapabilityRevoked, fmt.Sprintf("capability %q, which allowed it, is revoked", id)}
		}
	}
	if slices.Contains(c.Honoured, r.ID) {
		return &Misuse{Replayed, fmt.Sprintf("record %q was acted on before", r.ID)}
	}
	return nil
}
