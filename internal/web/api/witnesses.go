package api

import (
	"net/http"
	"time"
)

// WitnessStatus is a witness of the log, as operators see it.
type WitnessStatus struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Size is how many records its last cosignature covers, and At when it made that, by its own
	// clock; both are absent where it has made none since the server started.
	Size int64      `json:"size,omitempty"`
	At   *time.Time `json:"at,omitempty"`
	// Why says why it did not cosign when it was asked last, "" where it did.
	Why string `json:"why,omitempty"`
}

func (a *Admin) witnesses(*http.Request) (any, error) {
	return append([]WitnessStatus{}, a.Witnesses()...), nil
}
