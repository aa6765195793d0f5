package gateway

import (
	"testing"

	"github.com/powerbox-project/powerbox/agentcard"
)

// TestCARD12_Behaviours: every behaviour is named by the feature that it takes, and a version
// is drift unless the card has an interface for it.
func TestCARD12_Behaviours(t *testing.T) {
	for _, b := range []behaviour{streams, streamsMessages, registersPush, servesExtendedCard, pauses} {
		if f, ok := agentcard.LookupFeature(string(b)); !ok || f.Tier != agentcard.Declared {
			t.Errorf("CARD-12 %s is no declared feature", b)
		}
	}
	card, err := agentcard.Parse([]byte(`{"name":"A","description":"D","version":"1","capabilities":{},
		"supportedInterfaces":[{"url":"https://a.example.com","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"S","tags":["t"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for version, drifts := range map[string]bool{"1.0": false, "1.0.3": false, "0.3": true, "1.1": true} {
		v, err := agentcard.ParseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		if driftsVersion(card, "JSONRPC", v) != drifts || driftsVersion(card, "", v) != drifts || !driftsVersion(card, "GRPC", v) {
			t.Errorf("CARD-12 version %s: want drift %t", version, drifts)
		}
	}
}
