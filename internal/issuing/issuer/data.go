package issuer

import "time"

// DataReader reads what callers have read (ADR 149).
type DataReader interface {
	// DataLabels returns the labels that reached one of the holders for the user, for an
	// unknown user, or, where principal is "", for any.
	DataLabels(holders []string, principal string, now time.Time) ([]DataLabel, error)
	// DataValues returns which of the digests one of the holders has read in that task for
	// exactly that user.
	DataValues(holders []string, principal, task string, digests [][]byte, now time.Time) (map[string]bool, error)
}

// DataTx notes what callers read.
type DataTx interface {
	// PutDataLabel keeps the first time of a label that is there already, and the later end.
	PutDataLabel(holder, principal string, label DataLabel) error
	// PutDataValues keeps the newest of what a holder has read, limit at most.
	PutDataValues(holder, principal, task string, digests [][]byte, until time.Time, limit int) error
	// ForgetData deletes what ended before a moment.
	ForgetData(before time.Time) error
}

// DataLabel is a label of data that a holder read.
type DataLabel struct {
	Source                  string
	Untrusted, Confidential bool
	Since, Until            time.Time
}
