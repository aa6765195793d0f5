package issuer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// An operation without a handle is granted by the ruling on the agent itself
// or by one on a selected resource, and each brings what it demands.
func TestSEP7_OperationWithoutHandleNeedsARuling(t *testing.T) {
	demanding := issuer.Ruling{Allow: true, Approval: "human", MaximumLifetime: time.Minute}
	brief := issuer.Ruling{Allow: true, MaximumLifetime: time.Minute}
	for name, c := range map[string]struct {
		on       map[string]issuer.Ruling // by resource, of search
		query    bool
		want     issuer.Code
		lifetime time.Duration
	}{
		"no query, rulings on resources":       {map[string]issuer.Ruling{"q1": demanding, "q2": demanding}, false, issuer.CodeNothingGranted, 0},
		"no query, free rulings on resources":  {map[string]issuer.Ruling{"q1": {Allow: true}}, false, issuer.CodeNothingGranted, 0},
		"no query, ruling on the agent":        {map[string]issuer.Ruling{"agent": brief, "q1": demanding}, false, "", time.Minute},
		"no query, the agent needs approval":   {map[string]issuer.Ruling{"agent": demanding}, false, issuer.CodeApprovalRequired, 0},
		"query, a selected one needs approval": {map[string]issuer.Ruling{"q1": demanding, "q2": {Allow: true}}, true, issuer.CodeApprovalRequired, 0},
		"query, a selected one is brief":       {map[string]issuer.Ruling{"q1": brief, "q2": {Allow: true}}, true, "", time.Minute},
		"query, the agent is brief":            {map[string]issuer.Ruling{"agent": brief, "q2": {Allow: true}}, true, "", time.Minute},
	} {
		w := newTown(t)
		p := rules{digest: "two", subjects: &w.asked, allow: map[string]issuer.Ruling{}}
		for resource, r := range c.on {
			p.allow["user:alice search "+resource] = r
		}
		w.config.Policy = p
		w.restart()
		req := issuer.Request{Grants: []string{"read"}, Operations: []string{"search"}, Purpose: "p"}
		if c.query {
			req.Query = query(t)
		}
		got, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), req)
		if refusal(t, err) != c.want {
			t.Errorf("SEP-7 %s: %v; want %q", name, err, c.want)
		}
		if err == nil && got[0].Expires.Sub(noon) != c.lifetime {
			t.Errorf("SEP-8 %s: for %s; want %s", name, got[0].Expires.Sub(noon), c.lifetime)
		}
	}
}

// One operation has one set of arguments, whichever skill it is asked by.
func TestSEP10_SkillsOfOneOperationAgree(t *testing.T) {
	w := newTown(t)
	mapped := w.agent.Skills
	for name, s := range map[string]issuer.Skill{
		"without the handle": {Skill: "other", Grant: "read", Operation: "retrieve", Shape: mapped[0].Shape},
		"any arguments":      {Skill: "other", Grant: "read", Operation: "retrieve", Handle: "handle", Shape: powerbox.AnyArguments()},
	} {
		w.agent.Skills = append(mapped[:len(mapped):len(mapped)], s)
		_, err := issuer.New(t.Context(), w.config)
		if err == nil || !strings.Contains(err.Error(), `"retrieve_document" and "other" are both operation retrieve of grant "read"`) {
			t.Errorf("SEP-10 %s: %v", name, err)
		}
	}
}
