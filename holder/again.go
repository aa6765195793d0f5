package holder

import (
	"context"
	"net/http"
	"time"
)

// The headers by which a gateway says that nothing was executed, and why. It writes
// them itself over what an agent may have written.
const (
	headerOutcome = "Powerbox-Outcome"
	headerReason  = "Powerbox-Reason"
)

// outcomeHeld is the outcome of a call that a person has to approve.
const outcomeHeld = "held"

// codeProofBefore is the reason of a gateway that was started after the proof was made:
// it cannot tell whether the proof was used.
const codeProofBefore = "proof_before_start"

// SignAgain reports whether a call may be signed again and repeated once: its answer says
// that nothing was executed, because the gateway began to remember proofs after the proof
// was made. It then closes the answer, and waits until a new proof is younger than the
// gateway's memory, which counts whole seconds. Every other answer stays as it is.
func (c *Client) SignAgain(ctx context.Context, answer *http.Response) bool {
	if answer.Header.Get(headerOutcome) != "denied" || answer.Header.Get(headerReason) != codeProofBefore {
		return false
	}
	now := c.Now()
	wait := time.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now) + 10*time.Millisecond)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wait.C:
		_ = answer.Body.Close() // it is not read
		return true
	}
}

// sent sends a call, and once more with a new signature where [Client.SignAgain] permits it.
func (c *Client) sent(ctx context.Context, send func() (*http.Response, error)) (*http.Response, error) {
	answer, err := send()
	if err != nil || !c.SignAgain(ctx, answer) {
		return answer, err
	}
	return send()
}
