package issuer

import (
	"context"
	"time"
)

// maxExtension is the longest time for which remote gateways can
// be told to continue without news.
const maxExtension = time.Hour

// Extend tells remote gateways that the revocation feed will be
// silent until then, for a planned outage: what only reads continues under what
// they knew last. It is an event of the sequence, so that every one of them
// has it as soon as it is fresh, and it is recorded with its reason. A time
// that has come ends an extension.
func (i *Issuer) Extend(ctx context.Context, operator string, until time.Time, reason string) (Revocation, error) {
	now := i.config.Now()
	if until = until.UTC().Truncate(time.Second); until.After(now.Add(maxExtension)) {
		return Revocation{}, noTarget("until %s is more than an hour from now; want an earlier time", until.Format(time.RFC3339))
	}
	return i.event(ctx, issuerItself, Revocation{Kind: KindExtend, Target: "lease", By: operator, Reason: reason, Until: until},
		map[string]any{"until": until.Format(time.RFC3339)})
}
