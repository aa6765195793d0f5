package holder_test

import (
	"context"
	"errors"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// SEP-27: the one who waits for a person stops when it is told to, and says what it
// waited for.
func TestSEP27_WaitingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, c := newAgent(t), newClient(t)
	to := discover(t, c, a)
	a.answer = func(string, powerbox.Value, token.PublicKey) string {
		return `"result":{"pending":{"id":"p","approvalUrl":"http://x/approve/p","interval":5}}`
	}
	asked := 0
	_, err := c.RequestAndWait(ctx, to, holder.RequestParams{Grants: []string{"documents:read"}, Purpose: "p"}, func(*holder.Pending) { asked++; cancel() })
	pending := (*holder.Pending)(nil)
	if asked != 1 || !errors.As(err, &pending) || pending.ID != "p" || !errors.Is(err, context.Canceled) {
		t.Errorf("SEP-27 asked %d times, then %v", asked, err)
	}
}
