package a2a

import (
	"fmt"
	"strings"
	"testing"
)

// ATK-55: every interface of a card is looked for among all of them, for every reader of
// the card.
func TestATK55_CardsOfManyInterfaces(t *testing.T) {
	for n, good := range map[int]bool{maxInterfaces: true, maxInterfaces + 1: false} {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"url":"http://a","protocolBinding":"JSONRPC","protocolVersion":"1.0.%d","tenant":"%d"}`, i, i)
		}
		raw := []byte(`{"name":"n","supportedInterfaces":[` + strings.Join(all, ",") + `]}`)
		v, err := ReadCard(raw)
		if good {
			for _, i := range v.Interfaces {
				if !v.protected(i) {
					t.Errorf("%+v is not the first of its tenant", i)
				}
			}
		}
		if (err == nil) != good || !good && !strings.Contains(err.Error(), "1025 interfaces") {
			t.Errorf("ATK-55 %d interfaces: %v", n, err)
		}
	}
}
