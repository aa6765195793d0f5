package audit

import (
	"time"
)

// Freeze is the server's answer.
type Freeze struct {
	Target   string    `json:"target"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
}
