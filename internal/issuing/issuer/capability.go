package issuer

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
)

// Capability is a grant that can be presented: an authority given to a holder
// for a principal, on record. It is never changed once it is stored; what ends
// it early is a [Revocation].
type Capability struct {
	ID           string   // "cap_..."
	Root         string   // id of the capability at the top of its tree, its own for a root
	Ancestors    []string // ids from the root to the parent
	Agent        string   // id of the issuing agent
	Grant        string   // label of the grant, such as documents:read
	Principal    string   // the user behind, such as user:alice
	Holder       string   // who has it, such as key:<thumbprint>
	Requester    string   // configured name of the calling agent, "" where it has none
	Purpose      string   // in the agent's own words
	Task         string   // A2A task or context that it is for, "" where it is for the purpose alone
	Tenant       string   `json:",omitempty"` // of the agent, in which that task is; "" for none
	Authority    powerbox.Authority
	Handles      []Handle
	Token        string // root token, bound to the holder's key and so no secret; "" when by reference only
	RevocationID string // "rv_..."
	Attenuable   bool
	Legacy       bool // wraps a service without capability support (SEP-3)
	// Budgets are those of the root, for the whole tree under it. A capability with any is by
	// reference only: only the server can keep them.
	Budgets Budgets
	// Once says that it is good for one call, of the request with that Digest, and
	// Under are ids of links that its holder presented for that call: their
	// revocation ends it, too.
	Once   bool
	Digest string
	Under  []string
	// ByPerson says that a person gave it, and not a policy, which then has no veto.
	ByPerson bool
	// Approval is the id of the question that a person answered, "" for none.
	Approval string
	Subject  Subject
	// Given names the operator who gave it to a caller whose call was denied. Only a call
	// that presents nothing uses it.
	Given Given `json:",omitzero"`
	// Card is the digest of the agent's card with which in view it was issued, ""
	// where the agent has none (CARD-13).
	Card         string
	PolicyDigest string // the policies that it was issued under
	Created      time.Time
	Expires      time.Time
	// Rooted is when the root was issued, the zero time for a root, and Through
	// are the holders that it came through, root's first.
	Rooted  time.Time
	Through []string
	// NextResources is the cursor of the resources after those of Handles, for the answer to
	// the request alone.
	NextResources string `json:"-"`

	// Wants is who must approve it before it is issued, "" for none. It is not stored.
	Wants string `json:"-"`
}

// Budgets are bounds of use in the form that is stored: sums are exact decimals.
type Budgets struct {
	Uses int               `json:",omitempty"`
	Sum  map[string]string `json:",omitempty"`
}

func (c Capability) budgeted() bool { return c.Budgets.Uses > 0 || len(c.Budgets.Sum) > 0 }

// Accounts are what a use of c is counted in.
func (c Capability) Accounts() ([]gate.Account, error) {
	var out []gate.Account
	if c.budgeted() {
		b := gate.Budgets{Uses: c.Budgets.Uses, Sum: map[string]powerbox.Decimal{}}
		for field, text := range c.Budgets.Sum {
			var err error
			if b.Sum[field], err = powerbox.ParseDecimal(text); err != nil {
				return nil, fmt.Errorf("issuer: the budget of capability %s: %w", c.Root, err)
			}
		}
		out = append(out, gate.Account{Of: c.Root, Budgets: b})
	}
	if c.Once {
		out = append(out, gate.Account{Of: c.ID, Budgets: gate.Budgets{Uses: 1}})
	}
	return out, nil
}

// Issued returns when the root of c was issued.
func (c Capability) Issued() time.Time {
	if len(c.Ancestors) == 0 {
		return c.Created
	}
	return c.Rooted
}

// Subject describes the principal at issue, so that policy can be
// asked again at use, when there may be no session (see [Issuer.Vetoed]).
type Subject struct {
	Groups, Roles []string
	Attributes    map[string]json.RawMessage // JSON values
}

// Handle is the opaque name of one resource with what a person may see of it.
// Resource is the real identifier, which never leaves the issuer and its
// gateways (SEP-5).
type Handle struct {
	Handle   string
	Name     string
	Resource string
	// Collection and Attributes are those at issue of a resource of a live collection, for
	// policy to be asked again.
	Collection string                     `json:",omitempty"`
	Attributes map[string]json.RawMessage `json:",omitempty"`
}

// Lineage returns the ids from the root to c, any of which a revocation can
// name to end c. The id of a capability is also the jti of its token.
func (c Capability) Lineage() []string { return append(slices.Clone(c.Ancestors), c.ID) }

// Operations returns the operations of c as the wire has them: without the
// agent and the grant in front, without those that every capability has.
func (c Capability) Operations() []string {
	var names []string
	for _, clause := range c.Authority.Clauses() {
		if name, ok := unqualify(c.Agent, c.Grant, clause.Pattern.Name()); ok {
			names = append(names, name)
		}
	}
	return names
}

// Kind says what an event of the revocation sequence does.
type Kind string

// The kinds. A freeze is the reversible form of a revocation.
const (
	KindRevoke Kind = "revoke"
	KindFreeze Kind = "freeze"
	KindThaw   Kind = "thaw"
	// KindExtend lets remote gateways continue for a while without news.
	KindExtend Kind = "extend"
	// KindEpoch ends everything of one issuer, holder, delegator or user that
	// was issued up to then.
	KindEpoch Kind = "epoch"
)

// action is the action type of the record of an event of that kind by an operator.
func (k Kind) action() action.Type {
	return map[Kind]action.Type{
		KindRevoke: action.OperatorRevoke, KindFreeze: action.OperatorFreeze, KindThaw: action.OperatorThaw,
		KindExtend: action.OperatorExtend, KindEpoch: action.OperatorEpoch,
	}[k]
}

// Revocation is one event of the sequence of everything that stops authority,
// or lets it continue: it ends a capability, or a link of a chain, and everything
// that descends from it; or it freezes or thaws an agent, a principal, a holder
// or a capability. Sequence numbers have no gaps.
type Revocation struct {
	Sequence int64
	Kind     Kind
	Target   string // capability id, token id, or hash of a derived link's signing input; see [Issuer.Freeze] for the others
	By       string
	Reason   string // in the operator's words, "" for none
	At       time.Time
	Until    time.Time // after this what it ends has expired anyway, or the extension is over; zero for a freeze and a thaw
}

// Owner is to whom a task belongs: the holder that started it, for its
// principal, under the root of the capability that allowed it.
type Owner struct {
	Root      string // id of the root capability, "" without one
	Principal string
	Holder    string
}
