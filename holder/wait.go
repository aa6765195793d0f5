package holder

import (
	"context"
	"errors"
	"time"
)

// RequestAndWait is [Client.Request] that waits for a person where one has to approve:
// asked is called with the first answer, and the same request is sent again until the
// person has answered, or ctx ends.
func (c *Client) RequestAndWait(ctx context.Context, agent Agent, p RequestParams, asked func(*Pending)) ([]Capability, error) {
	for first := true; ; first = false {
		held, err := c.Request(ctx, agent, p)
		var pending *Pending
		if !errors.As(err, &pending) {
			return held, err
		}
		if first && asked != nil {
			asked(pending)
		}
		timer := time.NewTimer(max(time.Duration(pending.Interval), 1) * time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(pending, ctx.Err())
		case <-timer.C:
		}
	}
}
