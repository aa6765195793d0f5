package gateway

import (
	"context"
	"net/http"
	"testing"
)

// cardsOnce has one card under an entity tag.
type cardsOnce struct{ full, unchanged int }

func (c *cardsOnce) GetChanged(_ context.Context, _, _, tag string) ([]byte, http.Header, bool, error) {
	header := http.Header{"Etag": {`"one"`}}
	if tag == `"one"` {
		c.unchanged++
		return nil, header, false, nil
	}
	c.full++
	return []byte(`{"name":"A","supportedInterfaces":[{"url":"http://a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"skills":[{"id":"s"}]}`), header, true, nil
}

// TestCARD16_AskedAgainByETag: a card that is too old is asked for by its tag, and
// one that did not change is the one that is there.
func TestCARD16_AskedAgainByETag(t *testing.T) {
	cards := &cardsOnce{}
	var seen []string
	a := &agent{Agent: Agent{ID: "a", Behind: Behind{Upstream: "http://a", Cards: cards}}, gateway: &Gateway{config: Config{Answers: Answers{
		CardSeen: func(_ context.Context, _ string, raw []byte) error { seen = append(seen, string(raw)); return nil },
	}}}}
	first, err := a.fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.current = first
	second, err := a.fetch(t.Context())
	if err != nil || second != first || cards.full != 1 || cards.unchanged != 1 {
		t.Errorf("CARD-16 %v: %d whole answers, %d unchanged; want the same view by one of each", err, cards.full, cards.unchanged)
	}
	// Another gateway may have told of another card meanwhile.
	if len(seen) != 2 || seen[0] != seen[1] || seen[0] != string(first.raw) {
		t.Errorf("CARD-13 told of %d cards; want the same with every fetch", len(seen))
	}
}
