package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// What requests show is told apart by their kind, number, lengths and ends.
func TestShownValuesAreToldApart(t *testing.T) {
	chain := strings.Repeat("a", 3*shownTail)
	seen := map[string]int{"": -1}
	for i, h := range []http.Header{
		{"Authorization": {chain}},
		{HeaderCapability: {chain}},
		{HeaderCapability: {chain, chain}},
		{HeaderCapability: {chain + "a"}},
		{HeaderCapability: {chain[1:] + "b"}},
		{HeaderCapability: {chain[:shownTail-1]}},
		{HeaderCapability: {""}},
	} {
		shown := shownBy(h)
		if before, ok := seen[shown]; ok {
			t.Errorf("request %d counts as request %d", i, before)
		}
		if seen[shown] = i; shownBy(h.Clone()) != shown {
			t.Errorf("request %d does not count as itself", i)
		}
	}
}
