package issuer_test

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// ATK-46: what a person gave for one call is good for one use, descends from what
// the call came under, and is not wider than that.
func TestATK46_OneUse(t *testing.T) {
	w := newTown(t)
	parent := w.read(caller(t, "user:alice"))
	var once issuer.Capability
	err := w.store.Update(t.Context(), func(tx issuer.Tx) error {
		var err error
		once, err = w.issuer.GiveOnce(tx, issuer.Once{
			Agent: parent.Agent, Principal: parent.Principal, Holder: parent.Holder, Approval: "ask_1", Digest: "d", Parent: parent.ID, Under: []string{"link_1"},
			Authority: parent.Authority, Until: parent.Expires.Add(time.Hour),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := once.Accounts()
	if err != nil || len(accounts) != 1 || accounts[0].Of != once.ID || accounts[0].Budgets.Uses != 1 {
		t.Errorf("ATK-46 the use is counted in %+v, %v; want one use of its own", accounts, err)
	}
	if once.Root != parent.ID || once.Expires.After(parent.Expires) || !parent.Authority.Covers(once.Authority) || once.Authority.Depth() != 0 || once.Attenuable {
		t.Errorf("ATK-46 it is wider than what it came under: %+v", once)
	}
	links := map[string]bool{}
	for _, l := range once.Links() {
		links[l] = true
	}
	if !links[parent.ID] || !links["link_1"] {
		t.Errorf("ATK-46 revoking what it came under does not end it: %v", once.Links())
	}
}
