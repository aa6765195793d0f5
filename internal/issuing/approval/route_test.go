package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
)

var noon = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

func person(principal string, groups ...string) Person {
	return peopletest.Person(people.Claim{Principal: principal, Groups: groups, Fresh: true, Present: true})
}

// Everybody whom a rule names for a part has to approve: what needs two people is
// not approved in the shadow of what needs one.
func TestSEP27_Routing(t *testing.T) {
	d := &Desk{config: Config{Timeout: time.Hour, Rules: []Rule{
		{Operation: "documents:write/delete", Need: Need{Groups: []string{"finance"}, People: 2}, Timeout: time.Minute},
		{Agent: "documents", Resource: "/vault/salaries.pdf", Need: Need{Who: []string{"user:hr"}, Delegates: []string{"user:ceo"}, After: 10 * time.Minute}},
	}}}
	matters := []issuer.Matter{
		{Grant: "documents:read", Operations: []issuer.Operation{{Name: "retrieve"}}, Resources: []issuer.Resource{{ID: "q1"}, {ID: "/vault/salaries.pdf"}}},
		{Grant: "documents:write", Operations: []issuer.Operation{{Name: "delete", Write: true}}, Resources: []issuer.Resource{{ID: "q1"}}},
	}
	needs, timeout := d.route("documents", matters)
	if len(needs) != 3 || timeout != time.Minute {
		t.Fatalf("%d needs within %s; want self, hr and two of finance within a minute: %+v", len(needs), timeout, needs)
	}
	q := Question{Principal: "user:alice", Needs: needs, Created: noon, Matters: matters}
	for _, c := range []struct {
		who   Person
		at    time.Duration
		needs int
	}{
		{person("user:alice"), 0, 1},
		{person("user:alice", "finance"), 0, 1}, // not as a reviewer of her own
		{person("user:bob", "finance"), 0, 1},
		{person("user:hr", "finance"), 0, 2},
		{person("user:ceo"), 0, 0},
		{person("user:ceo"), 10 * time.Minute, 1},
		{person("user:mallory", "sales"), time.Hour, 0},
		{person(""), 0, 0},
	} {
		if got := q.counts(c.who, noon.Add(c.at)); len(got) != c.needs || q.MayAnswer(c.who, noon.Add(c.at)) != (c.needs > 0) {
			t.Errorf("%+v after %s counts for %v; want %d needs", c.who, c.at, got, c.needs)
		}
	}
	for i, who := range []Person{person("user:alice"), person("user:bob", "finance"), person("user:hr", "finance")} {
		if q.met() {
			t.Errorf("met after %d answers", i)
		}
		q.Answers = append(q.Answers, Given{By: who.Principal, Approve: true, Counts: q.counts(who, noon)})
	}
	if !q.met() {
		t.Error("not met by alice, two of finance, and hr")
	}
}

// TestATK149_EarlierAnswersCountForTheNeedsOfNow changes a rule and a role while a question waits
// for its second person.
func TestATK149_EarlierAnswersCountForTheNeedsOfNow(t *testing.T) {
	approvers := []string{"user:bob", "user:carol"}
	d := &Desk{config: Config{Timeout: time.Hour, Now: func() time.Time { return noon }, Approvers: func(string) (who, groups []string) { return approvers, nil }}}
	d.config.Rules = []Rule{{Need: Need{Groups: []string{"finance"}, People: 2}, Approvers: true}}
	q := Question{Agent: "documents", Principal: "user:alice", State: issuer.StatePending, Created: noon, Expires: noon.Add(time.Hour), Matters: []issuer.Matter{{Grant: "g", Operations: []issuer.Operation{{Name: "o"}}}}}
	q.Needs, _ = d.route(q.Agent, q.Matters)
	for _, who := range []Person{person("user:bob"), person("user:carol"), person("user:dora", "finance")} {
		q.Answers = append(q.Answers, Given{By: who.Principal, Approve: true, Counts: q.counts(who, noon)})
	}
	counted := func(q Question) (n int) {
		for _, g := range q.Answers {
			n += len(g.Counts)
		}
		return n
	}
	if got := d.routed(q); counted(got) != 3 {
		t.Errorf("nothing changed, and %d answers count; want 3", counted(got))
	}
	approvers = []string{"user:carol"}
	if got := d.routed(q); counted(got) != 1 || got.met() || got.MayAnswer(person("user:bob"), noon) || !got.MayAnswer(person("user:eve", "finance"), noon) {
		t.Errorf("a role ended, and %d answers count; want 1: %+v", counted(got), got)
	}
	if counted(q) != 3 {
		t.Error("the stored question was changed")
	}
	for _, c := range []struct {
		who   Person
		waits bool
	}{{person("user:dora", "finance"), true}, {person("user:carol"), false}, {person("user:bob"), false}, {person("user:eve", "finance"), true}} {
		if got := d.routed(q); got.WaitsFor(c.who, noon) != c.waits {
			t.Errorf("a role ended, and the question waits for %s: %t; want %t", c.who.Principal, !c.waits, c.waits)
		}
	}
	if q.State = issuer.StateApproved; counted(d.routed(q)) != 3 {
		t.Error("an answered question was changed")
	}
}

// A question that no person could answer is not asked.
func TestSEP27_SomebodyCanAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		principal string
		need      Need
		want      bool
	}{
		"the user behind":              {"user:alice", Need{Self: true, People: 1}, true},
		"nobody behind":                {"", Need{Self: true, People: 1}, false},
		"nobody behind, a delegate":    {"", Need{Self: true, People: 1, Delegates: []string{"user:bob"}}, true},
		"the user as reviewer":         {"user:alice", Need{Who: []string{"user:alice"}, People: 1}, false},
		"two of one":                   {"user:alice", Need{Who: []string{"user:bob", "user:bob"}, People: 2}, false},
		"two of two":                   {"user:alice", Need{Who: []string{"user:bob"}, Delegates: []string{"user:carol"}, People: 2}, true},
		"a group that may have people": {"user:alice", Need{Groups: []string{"finance"}, People: 2}, true},
	} {
		if got := (Question{Principal: c.principal, Needs: []Need{c.need}}).answerable(); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}

// An answer leaves the request as it was, or less, and of two answers what both leave.
func TestSEP27_AnAnswerNarrows(t *testing.T) {
	q := Question{Kind: ForCapability, Until: noon.Add(time.Hour), Matters: []issuer.Matter{{
		Grant: "g", Operations: []issuer.Operation{{Name: "a"}, {Name: "b"}}, Resources: []issuer.Resource{{ID: "1"}, {ID: "2"}},
	}}}
	chose := func(ops, on []string, until time.Duration) Answer {
		a := Answer{Approve: true, Chosen: issuer.Chosen{Operations: map[string][]string{"g": ops}, Resources: map[string][]string{"g": on}}}
		if until > 0 {
			a.Chosen.Until = noon.Add(until)
		}
		return a
	}
	left, err := narrowed(q, person("user:alice"), chose([]string{"a"}, []string{"1", "2"}, time.Minute), noon)
	if err != nil || len(left.Operations["g"]) != 1 || left.Resources != nil || !left.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("narrowed to %+v, %v", left, err)
	}
	q.Chosen = left
	for name, a := range map[string]Answer{
		"an operation that was not asked": chose([]string{"a", "c"}, []string{"1"}, 0),
		"a resource that was not asked":   chose([]string{"a"}, []string{"3"}, 0),
		"nothing":                         chose(nil, []string{"1"}, 0),
		"nothing to do it with":           chose([]string{"a"}, nil, 0),
		"only what another left out":      chose([]string{"b"}, []string{"1"}, 0),
		"a later end than another's":      chose([]string{"a"}, []string{"1"}, 2*time.Minute),
	} {
		if left, err := narrowed(q, person("user:bob"), a, noon); err == nil {
			t.Errorf("%s: %+v; want a refusal", name, left)
		}
	}
	both, err := narrowed(q, person("user:bob"), chose([]string{"a", "b"}, []string{"2"}, 0), noon)
	if err != nil || len(both.Operations["g"]) != 1 || both.Operations["g"][0] != "a" || both.Resources["g"][0] != "2" || !both.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("two answers leave %+v, %v; want a on 2 for a minute", both, err)
	}
	if _, err := narrowed(Question{Kind: ForCall, Matters: q.Matters}, person("user:bob"), chose([]string{"a"}, []string{"1"}, 0), noon); err == nil {
		t.Error("a call was narrowed; want all of it or nothing")
	}
}

// What only reads takes a login, and what writes a passkey, by the rest of a
// request.
func TestAAPA7_PresenceByWhatIsLeft(t *testing.T) {
	q := Question{Kind: ForCapability, Until: noon.Add(time.Hour), Matters: []issuer.Matter{{Grant: "g", Operations: []issuer.Operation{{Name: "read"}, {Name: "delete", Write: true}}}}}
	who := peopletest.Person(people.Claim{Principal: "user:alice", Fresh: true})
	for name, c := range map[string]struct {
		left    []string
		present bool
		want    bool
	}{
		"what reads":                {[]string{"read"}, false, true},
		"what writes":               {[]string{"delete"}, false, false},
		"both":                      {[]string{"read", "delete"}, false, false},
		"what writes, with passkey": {[]string{"delete"}, true, true},
	} {
		who.Present = c.present
		if _, err := narrowed(q, who, Answer{Approve: true, Chosen: issuer.Chosen{Operations: map[string][]string{"g": c.left}}}, noon); (err == nil) != c.want {
			t.Errorf("AAP-A7 %s: %v", name, err)
		}
	}
	who.Present = false
	if _, err := narrowed(q, who, Answer{Approve: true}, noon); err == nil {
		t.Error("AAP-A7 everything, by not naming anything, without a passkey")
	}
	who.Fresh, who.Present = false, true
	reads := Answer{Approve: true, Chosen: issuer.Chosen{Operations: map[string][]string{"g": {"read"}}}}
	if _, err := narrowed(q, who, reads, noon); err == nil {
		t.Error("AAP-A6 approved with a login that is not fresh")
	}
	if _, err := narrowed(q, who, Answer{}, noon); err != nil {
		t.Errorf("AAP-A6 denied with a login that is not fresh: %v", err)
	}
}

// What would have ended by now is not approved: it would serve no one. A
// denial is taken.
func TestAnAnswerToWhatHasEndedIsRefusedWithWords(t *testing.T) {
	q := Question{Kind: ForCapability, Until: noon.Add(time.Minute), Matters: []issuer.Matter{{Grant: "g", Operations: []issuer.Operation{{Name: "a"}}}}}
	for _, now := range []time.Time{noon.Add(time.Minute), noon.Add(time.Hour)} {
		if _, err := narrowed(q, person("user:alice"), Answer{Approve: true}, now); err == nil || !strings.Contains(err.Error(), "would have ended at") {
			t.Errorf("approved %s after it was asked: %v; want a refusal that says when it would have ended", now.Sub(noon), err)
		}
		if _, err := narrowed(q, person("user:alice"), Answer{}, now); err != nil {
			t.Errorf("denied: %v", err)
		}
	}
	passed := Answer{Approve: true, Chosen: issuer.Chosen{Until: noon.Add(-time.Second)}}
	if _, err := narrowed(q, person("user:alice"), passed, noon); err == nil {
		t.Error("approved until a moment that has passed")
	}
}

// TestATK85_NothingOfAnEndedPartIsApproved approves a request of two parts of which one
// would have ended: the other is left. With none left the answer is refused, and where
// someone chose an earlier end, the question is over at that end.
func TestATK85_NothingOfAnEndedPartIsApproved(t *testing.T) {
	part := func(grant string, until time.Time) issuer.Matter {
		return issuer.Matter{Grant: grant, Operations: []issuer.Operation{{Name: "read"}}, Until: until}
	}
	q := Question{Kind: ForCapability, State: issuer.StatePending, Expires: noon.Add(time.Hour), Until: noon.Add(time.Hour), Matters: []issuer.Matter{part("short", noon.Add(time.Minute)), part("long", noon.Add(time.Hour))}}
	later := noon.Add(2 * time.Minute)
	chosen, err := narrowed(q, person("user:alice"), Answer{Approve: true}, later)
	if given := q.approves(chosen); err != nil || len(given.Parts) != 1 || given.Parts[0].Grant != "long" {
		t.Errorf("ATK-85 after one part has ended: %+v, %v; want the other alone", given.Parts, err)
	}
	only := Answer{Approve: true, Chosen: issuer.Chosen{Operations: map[string][]string{"long": {}}}}
	if _, err := narrowed(q, person("user:alice"), only, later); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("ATK-85 the ended part alone: %v; want a refusal that says so", err)
	}
	q.Chosen.Until = noon.Add(time.Minute)
	if q.Open(later) || q.At(later) != issuer.StateExpired || !q.Open(noon) {
		t.Errorf("ATK-85 with an end that somebody chose and that has passed the question is %s; want expired", q.At(later))
	}
}
