package agentcard_test

import (
	"testing"

	"github.com/powerbox-project/powerbox/agentcard"
)

// TestCARD12_Behaviours: every behaviour is named by the feature that it takes, and
// is drift unless that is declared.
func TestCARD12_Behaviours(t *testing.T) {
	for _, b := range []agentcard.Behaviour{agentcard.Streams, agentcard.StreamsMessages, agentcard.RegistersPush, agentcard.ServesExtendedCard, agentcard.Pauses} {
		if f, ok := agentcard.LookupFeature(string(b)); !ok || f.Tier != agentcard.Declared {
			t.Errorf("CARD-12 %s is no declared feature", b)
		}
		for declared, drifts := range map[string]bool{`{}`: true, `{"` + string(b) + `":false}`: true, `{"` + string(b) + `":true}`: false} {
			card, err := agentcard.Parse(minimal(declared, oneInterface, ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := agentcard.Drifts(card, b); got != drifts {
				t.Errorf("CARD-12 %s with %s: drift %t", b, declared, got)
			}
		}
	}
	card, err := agentcard.Parse(minimal(`{}`, oneInterface, ""))
	if err != nil {
		t.Fatal(err)
	}
	for version, drifts := range map[string]bool{"1.0": false, "1.0.3": false, "0.3": true, "1.1": true} {
		v, err := agentcard.ParseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		if agentcard.DriftsVersion(card, "JSONRPC", v) != drifts || !agentcard.DriftsVersion(card, "GRPC", v) {
			t.Errorf("CARD-12 version %s: want drift %t", version, drifts)
		}
	}
}
