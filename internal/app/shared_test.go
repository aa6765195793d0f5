package app

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// TestAAPT4_NodesShareWhatWasUsed: nodes that share a store remember used proofs in it,
// for chains, tokens of agents and sessions alike. A memory of one node would let each
// of the others take a proof once more.
func TestAAPT4_NodesShareWhatWasUsed(t *testing.T) {
	i := &Instance{shared: &postgres.Store{}}
	for _, kind := range []string{"proof", "token of an agent"} {
		if got := i.replays(kind); got != (api.Replays{Keeper: i.shared, Kind: kind}) {
			t.Errorf("%s: remembered by %T", kind, got)
		}
	}
	if got := i.sharedReplays("session proof"); got != (api.Replays{Keeper: i.shared, Kind: "session proof"}) {
		t.Errorf("session proofs: remembered by %T", got)
	}
}
