package holder

import (
	"encoding/json"
	"fmt"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Denied is the refusal of a call by the side that enforces. It is
// [powerbox.ErrDenied]. The caller should not repeat the call unless Retryable
// says so, and not look for another way.
type Denied struct {
	Code        powerbox.Code // stable reason, such as operation_not_granted
	Missing     []string      // operations that the caller lacks (GATE-3)
	Message     string        // one sentence
	Fix         string        // what the caller can do instead; "" when nothing
	DecisionID  string        // the record of the decision; "" when there is none
	ApprovalURL string        // where a person may be asked; "" for none
	Retryable   bool          // the same call may succeed later
}

// Error returns the sentence and the code.
func (d *Denied) Error() string { return fmt.Sprintf("denied (%s): %s", d.Code, d.Message) }

// Unwrap returns [powerbox.ErrDenied].
func (*Denied) Unwrap() error { return powerbox.ErrDenied }

// CallError is a JSON-RPC error that is no denial: the call is wrong, or the
// agent failed. The caller should fix the call.
type CallError struct {
	RPC     int           // JSON-RPC error code
	Code    powerbox.Code // stable reason; "" where the agent gives none
	Message string
}

// Error returns the message and the codes.
func (e *CallError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("error %d: %s", e.RPC, e.Message)
	}
	return fmt.Sprintf("error %d (%s): %s", e.RPC, e.Code, e.Message)
}

// Pending says that a person has to approve a request first. It is no denial:
// the same request may be made again after Interval seconds (SEP-27).
type Pending struct {
	ID          string
	ApprovalURL string
	Interval    int
}

// Error says where to approve.
func (p *Pending) Error() string {
	return fmt.Sprintf("request %s waits for approval at %s; ask again after %d s", p.ID, p.ApprovalURL, p.Interval)
}

// wireError is the error of a JSON-RPC response. What it says about the
// decision stands in the metadata of a google.rpc.ErrorInfo.
type wireError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// metadata returns what the first ErrorInfo says; an agent may answer data of
// any form, which is no error.
func (e *wireError) metadata() map[string]string {
	var data []json.RawMessage
	if json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	for _, d := range data {
		var info struct {
			Metadata map[string]string `json:"metadata"`
		}
		if json.Unmarshal(d, &info) == nil && info.Metadata != nil {
			return info.Metadata
		}
	}
	return nil
}

func (e *wireError) err() error {
	m := e.metadata()
	if e.Code != a2a.CodeUnauthorized && e.Code != a2a.CodeUnauthenticated {
		return &CallError{RPC: e.Code, Code: powerbox.Code(m["code"]), Message: e.Message}
	}
	d := a2a.ReadDenial(e.Code, e.Message, m)
	return &Denied{
		Code: powerbox.Code(d.Reason), Missing: d.Missing, Message: d.Message, Fix: d.Fix,
		DecisionID: d.DecisionID, ApprovalURL: d.ApprovalURL, Retryable: d.Retryable,
	}
}
