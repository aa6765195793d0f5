package cli

import (
	"time"
)

// GatewayStatus is a gateway as the server tells it.
type GatewayStatus struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Key      string     `json:"key"`
	Enrolled time.Time  `json:"enrolled"`
	Closed   *time.Time `json:"closed,omitempty"`
	Heard    *struct {
		At       time.Time `json:"at"`
		Version  string    `json:"version"`
		Unsent   int64     `json:"unsent"`
		Sequence int64     `json:"sequence"`
		Behind   int64     `json:"behind"`
	} `json:"heard,omitempty"`
}
