// Package agentauth is the wire of the Agent Auth Protocol, version 1.0-draft:
// names, constraints, tokens of hosts and agents, documents and errors. It holds
// no state and knows no HTTP.
//
// Its laws: constraints are a codec onto the algebra, where they are decided and met; an
// unknown operator refuses; the key decides the algorithm; claims of a token are
// believed only after its signature.
package agentauth

// Version is the version of the protocol that is spoken here.
const Version = "1.0-draft"

// The modes of an agent (section 2.2). A mode never changes.
const (
	Delegated  = "delegated"
	Autonomous = "autonomous"
)

// The ways to ask a person (section 7).
const (
	DeviceAuthorization = "device_authorization"
	CIBA                = "ciba"
)

// Status is the state of a host, an agent or a grant (sections 2.3, 2.11, 3.3).
type Status string

// The states. Hosts are never expired or claimed; grants are pending, active,
// denied or revoked.
const (
	Pending  Status = "pending"
	Active   Status = "active"
	Expired  Status = "expired"
	Revoked  Status = "revoked"
	Rejected Status = "rejected"
	Claimed  Status = "claimed"
	Denied   Status = "denied"
)

// maxName bounds the name of a capability, in bytes.
const maxName = 128

// ValidName reports whether s is the name of a capability (AAP-P11).
func ValidName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}
