// Package link is what a remote gateway needs of it: the
// server's side of what gateway.Config declares, over signed requests, with what
// never changes kept locally.
//
// The cache holds: capabilities on record, which never change; owners of tasks, of
// whom the first stays; pseudonyms. Anything that is not known and cannot be asked is
// refused. Whether any of it was taken back is the feed's to say.
package link

import (
	"encoding/json"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/trust"
)

// The paths of the server that gateways ask.
const (
	PathEnroll     = "/v1/gateway/enroll"
	PathSetup      = "/v1/gateway/setup"
	PathStatus     = "/v1/gateway/status"
	PathCapability = "/v1/gateway/capability"
	PathVeto       = "/v1/gateway/veto"
	PathTasks      = "/v1/gateway/tasks"
	PathPseudonym  = "/v1/gateway/pseudonym"
	PathProof      = "/v1/gateway/proof"
	PathIssue      = "/v1/gateway/issue"
	PathShip       = "/v1/records/ship"
	PathHeld       = "/v1/gateway/held"
	PathBudget     = "/v1/gateway/budget"
	PathCard       = "/v1/gateway/card"
	PathScopes     = "/v1/gateway/scopes"
	PathLink       = "/v1/gateway/link"
	PathPolicy     = "/v1/gateway/policy"
	PathReceipt    = "/v1/gateway/receipt"
	PathData       = "/v1/gateway/data"
)

// The types of statements between gateways and server.
const (
	TypeRequest   = "powerbox-gateway-request+jwt"
	TypeEnrolment = "powerbox-gateway-enrolment+jwt"
	TypeEnrolled  = "powerbox-gateway-enrolled+jwt"
	TypeSetup     = "powerbox-gateway-setup+jwt"
)

// HeaderGateway carries the statement of a gateway, behind [Scheme]. It is a
// header of its own since Authorization is a caller's. The scheme is the version of
// what gateway and server say to each other: one that does not know it refuses, on
// either side, where something that is left out would be taken for something else.
const (
	HeaderGateway = "Powerbox-Gateway"
	Scheme        = "v2 " // tasks are told apart by tenant, too (ADR 96)
	OldScheme     = "v1 "
)

// RequestWindow is how far the time of a request may be from the server's.
const RequestWindow = time.Minute

// Request is what a gateway signs of every request.
type Request struct {
	Audience string `json:"aud"` // public base URL of the server
	Method   string `json:"m"`
	Path     string `json:"p"`
	Digest   string `json:"d"` // base64url SHA-256 of the body
	Time     int64  `json:"t"` // Unix milliseconds
}

// Enrolment is what a gateway asks to be known by.
type Enrolment struct {
	Secret  string        `json:"secret"` // of the one-time token
	Key     signed.Public `json:"key"`
	Record  string        `json:"record"`  // JWK of what signs its records
	Context string        `json:"context"` // JWK of what signs the context header
}

// Enrolled is the server's answer.
type Enrolled struct {
	Server  string        `json:"server"`
	Gateway string        `json:"gateway"`
	Agent   string        `json:"agent"`
	Key     signed.Public `json:"key"`  // of the gateway
	Feed    signed.Public `json:"feed"` // of the server
}

// Setup is what a gateway of an agent is made of. It has the key that opens
// handles, and is for that gateway alone.
type Setup struct {
	Server        string                 `json:"server"`
	Gateway       string                 `json:"gateway"`
	Time          int64                  `json:"t"`
	Configuration string                 `json:"configuration"` // powerbox.yaml with that agent alone
	Files         map[string][]byte      `json:"files"`         // what it refers to
	Dev           []DevUser              `json:"dev,omitempty"` // only of a server with --dev
	Issuing       json.RawMessage        `json:"issuing"`       // JWK Set that capabilities are issued under
	ContextKeys   []json.RawMessage      `json:"context_keys"`  // of all open gateways of the agent
	Sealing       []byte                 `json:"sealing"`       // key of handles
	Names         map[string]string      `json:"names"`         // of resources, by id
	Mode          string                 `json:"mode"`
	ModeSet       bool                   `json:"mode_set,omitempty"`   // by an operator, over the rules of the configuration
	OwnTokens     [][]byte               `json:"own_tokens,omitempty"` // digests of bearer tokens that the server takes for itself
	PolicyDigest  string                 `json:"policy_digest"`
	Trust         map[string]trust.Level `json:"trust,omitempty"` // as in Status
	Data          DataRules              `json:"data,omitzero"`   // rules that other agents are part of
	OAuth         OAuth                  `json:"oauth,omitzero"`  // zero where OAuth clients do not reach the agent
	Digest        string                 `json:"digest"`          // changes with what the gateway is made of
}

// String shows no secrets.
func (s Setup) String() string { return "setup of gateway " + s.Gateway }

// GoString is String.
func (s Setup) GoString() string { return s.String() }

// OAuth has a gateway believe the access tokens of its server, and say where clients get them.
type OAuth struct {
	Keys     json.RawMessage `json:"keys,omitempty"`     // JWK Set that access tokens are signed under
	Resource json.RawMessage `json:"resource,omitempty"` // metadata of the protected resource (RFC 9728)
}

// DevUser is a built-in user of a server that runs with --dev.
type DevUser struct {
	Name       string     `json:"name"`
	Token      string     `json:"token"`
	Groups     []string   `json:"groups,omitempty"`
	Roles      []string   `json:"roles,omitempty"`
	Attributes Attributes `json:"attributes,omitempty"`
}

// Attributes are what an identity provider says of a user, on the wire.
type Attributes map[string]json.RawMessage

// AttributesOf words attributes for the wire.
func AttributesOf(all map[string]powerbox.Value) Attributes {
	out := Attributes{}
	for name, v := range all {
		out[name] = v.AppendJSON(nil)
	}
	return out
}

// Values returns the attributes as policies read them.
func (a Attributes) Values() (map[string]powerbox.Value, error) {
	out := map[string]powerbox.Value{}
	for name, raw := range a {
		v, err := powerbox.ParseValue(raw)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// StatusQuery tells, on the way, how far the gateway has followed the feed: what
// is revoked up to there is enforced by it.
type StatusQuery struct {
	Sequence int64 `json:"sequence"`
	Lease    int64 `json:"lease"` // its own, in ms
	// Version is that of its program, for people.
	Version string `json:"version"`
	Unsent  int64  `json:"unsent"` // records that the server has not taken yet
}

// Status is what can change while a gateway runs.
type Status struct {
	Mode         string            `json:"mode"`
	ModeSet      bool              `json:"mode_set,omitempty"` // as in Setup
	PolicyDigest string            `json:"policy_digest"`
	ContextKeys  []json.RawMessage `json:"context_keys"`
	Digest       string            `json:"digest"` // of the setup
	// Trust is how far agents have come, by their names; who is not there is of the
	// lowest level.
	Trust map[string]trust.Level `json:"trust,omitempty"`
}

// CapabilityQuery asks for a capability on record.
type CapabilityQuery struct {
	ID string `json:"id"`
}

// Capability is the record of one; the zero one is none.
type Capability struct {
	ID           string          `json:"id"`
	Root         string          `json:"root"`
	Principal    string          `json:"principal"` // pseudonym
	Holder       string          `json:"holder"`
	Authority    json.RawMessage `json:"authority"`
	Lineage      []string        `json:"lineage"`
	Links        []string        `json:"links"`
	Through      []string        `json:"through"`
	Issued       int64           `json:"issued"` // its root, Unix seconds
	Legacy       bool            `json:"legacy"`
	Task         string          `json:"task"`
	Tenant       string          `json:"tenant,omitempty"` // of that task
	Handles      []string        `json:"handles"`
	PolicyDigest string          `json:"policy_digest"`
	Digest       string          `json:"digest,omitempty"`   // of the one request that it is good for, "" for any
	Accounts     []string        `json:"accounts,omitempty"` // of budgets, for gateways that only refuse them
	Budgets      []Budget        `json:"budgets,omitempty"`  // the same with their bounds
}

// CardSeen tells which card the agent has now, as it was written (CARD-13).
type CardSeen struct {
	Card []byte `json:"card"`
}

// CardKnown is the answer: what stopped by it is in the feed up to Sequence.
type CardKnown struct {
	Sequence int64 `json:"sequence"`
}

// VetoQuery asks the policies about attempts under a capability.
type VetoQuery struct {
	ID       string    `json:"id"`
	Attempts []Attempt `json:"attempts"`
}

// Veto is why not, "" where nothing is against it.
type Veto struct {
	Why string `json:"why"`
}

// Attempt is one attempt: an invocation, or an admission where Arguments is
// absent.
type Attempt struct {
	Operations []string        `json:"operations"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
}

// Attempt returns the attempt.
func (a Attempt) Attempt() (powerbox.Attempt, error) {
	var ops []powerbox.Operation
	for _, name := range a.Operations {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			return powerbox.Attempt{}, err
		}
		ops = append(ops, op)
	}
	if a.Arguments == nil || len(ops) != 1 {
		return powerbox.Admission(ops...), nil
	}
	args, err := powerbox.ParseValue(a.Arguments)
	if err != nil {
		return powerbox.Attempt{}, err
	}
	return powerbox.Invocation(ops[0], args)
}

// attemptOf is the wire form of an attempt.
func attemptOf(a powerbox.Attempt) Attempt {
	var out Attempt
	for _, op := range a.Required() {
		out.Operations = append(out.Operations, op.String())
	}
	if !a.IsAdmission() {
		out.Arguments = a.Arguments().AppendJSON(nil)
	}
	return out
}

// TaskQuery asks about the owner of a task in a tenant, "" for none: owner, bind or
// end.
type TaskQuery struct {
	Do     string `json:"do"`
	Tenant string `json:"tenant,omitempty"`
	Task   string `json:"task"`
	Owner  Owner  `json:"owner"`
}

// TaskAnswer is the owner, where it is known.
type TaskAnswer struct {
	Known bool  `json:"known"`
	Owner Owner `json:"owner"`
}

// PseudonymQuery has a principal's name, and in the answer its pseudonym.
type PseudonymQuery struct {
	Name string `json:"name"`
}

// ProofQuery uses up a proof.
type ProofQuery struct {
	ID    string `json:"id"`
	Until int64  `json:"until"` // Unix seconds
	// Session is set for the proof of a caller (RFC 9449), whose ids have nothing to do
	// with those of proofs of capabilities.
	Session bool `json:"session,omitempty"`
}

// ProofAnswer says whether it was the first use.
type ProofAnswer struct {
	Fresh bool `json:"fresh"`
}

// Shipment is records in order.
type Shipment struct {
	Records []json.RawMessage `json:"records"`
	// Bodies are what records commit to, by their places in Records.
	Bodies map[int]*evidence.Body `json:"bodies,omitempty"`
}

// Shipped says which record comes next. The answer to a shipment without records
// names the chain and the hash of its last record as well.
type Shipped struct {
	Next  int64             `json:"next"`
	Chain *evidence.ChainID `json:"chain,omitempty"`
	Hash  *evidence.Hash    `json:"hash,omitempty"`
}
