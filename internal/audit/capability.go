package audit

import (
	"time"
)

// Capability is a capability as the server tells operators.
type Capability struct {
	ID         string    `json:"id"`
	Agent      string    `json:"agent"`
	Grant      string    `json:"grant"`
	Ancestors  []string  `json:"ancestors"`
	Principal  string    `json:"principal"`
	Holder     string    `json:"holder"`
	Requester  string    `json:"requester"`
	Purpose    string    `json:"purpose"`
	Task       string    `json:"task"`
	Tenant     string    `json:"tenant"`
	Operations []string  `json:"operations"`
	Resources  []string  `json:"resources"`
	Expires    time.Time `json:"expires"`
	Legacy     bool      `json:"legacy"`
	Revoked    bool      `json:"revoked"`
	Frozen     bool      `json:"frozen"`
	Expired    bool      `json:"expired"`
}
