package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/registry"
)

// A card that was read before is read as it is now: another card, and a card that cannot be
// relied on, are never taken for it. So many cards are forgotten that memory is bounded.
func TestCardsThatAreRemembered(t *testing.T) {
	const text = `{"name":"%s","description":"%s","version":"1","supportedInterfaces":[{"url":"https://a.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}`
	var cards registry.CardReader
	for range 2 {
		for n := range 12 { // more than 8 MiB together
			name := fmt.Sprint("agent ", n)
			card, err := cards.Parse(fmt.Appendf(nil, text, name, strings.Repeat("x", 800<<10)))
			if err != nil || card.Name() != name {
				t.Errorf("%s is read as %q, %v", name, card.Name(), err)
			}
		}
		if _, err := cards.Parse([]byte(`{"name":1}`)); err == nil {
			t.Error("a card that cannot be relied on is read")
		}
	}
}
