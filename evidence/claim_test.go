package evidence

import (
	"errors"
	"strings"
	"testing"
)

func TestATK45_ARecordSupportsWhatItSays(t *testing.T) {
	r := fullRecord()
	for _, name := range ClaimMembers() {
		var says string
		for _, m := range claimMembers {
			if m.name == name {
				says = m.of(r)
			}
		}
		chain := r.Details.ChainID.String() // without it an outcome has no owner
		if err := (Claim{Members: map[string]string{"chain": chain, name: says}}).Check(r); err != nil {
			t.Errorf("%s is %q: %v", name, says, err)
		}
		var misuse *Misuse
		if err := (Claim{Members: map[string]string{"chain": chain, name: says + "x"}}).Check(r); !errors.As(err, &misuse) || !strings.Contains(err.Error(), string(misuse.Reason)+": "+name) {
			t.Errorf("%s is claimed otherwise: %v", name, err)
		}
	}
	for reason, c := range map[MisuseReason]Claim{
		CapabilityRevoked: {Revoked: []string{"cap_other", r.Details.Capability}},
		Replayed:          {Honoured: []string{r.ID}},
	} {
		var misuse *Misuse
		if err := c.Check(r); !errors.As(err, &misuse) || misuse.Reason != reason {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if err := (Claim{Revoked: []string{"cap_other"}, Honoured: []string{"rec_other"}}).Check(r); err != nil {
		t.Error(err)
	}
	wantError(t, (Claim{Members: map[string]string{"outcome_of": r.Details.OutcomeOf}}).Check(r), "without chain")
	wantError(t, (Claim{Members: map[string]string{"colour": "red"}}).Check(r), `no member "colour" can be claimed`)
}
