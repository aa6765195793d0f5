package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// segment is how many records the index takes in at once.
const segment = 2048

// spelled is a name that JSON does not have as it is.
const spelled = `agent:"ü\`

// among makes the record of a number: some name what few others do, and some have arguments that
// look like members of a record.
func among(n int) evidence.Record {
	r := madeAt(noon.Add(time.Duration(n)*time.Second), byte(n), "documents")
	r.Details.Requester, r.Details.Principal = "planner", "pair:"+strconv.Itoa(n%3)
	switch n % 500 {
	case 1:
		r.AgentID = "mail"
	case 2:
		r.Details.Requester = spelled
	case 3:
		r.Details.Principal = "pair:rare"
	case 4:
		r.Details.Principal, r.Decision = "pair:rare", evidence.Deny
	case 5: // its own member comes after that of its arguments
		r.Details.Principal, r.Details.Arguments = "pair:rare", []byte(`{"principal":"pair:0"}`)
	case 6:
		r.Details.Principal, r.Details.Arguments = "", []byte(`{"agent_id":"mail","principal":"pair:rare"}`)
	}
	return r
}

// indexSearches are searches of the records of [among]. A rare one finds few records among many.
var indexSearches = map[string]struct {
	query issuer.RecordQuery
	rare  bool
}{
	"a user":                   {issuer.RecordQuery{Principals: []string{"pair:rare"}, Scan: 200}, true},
	"a user of many records":   {issuer.RecordQuery{Principals: []string{"pair:0"}, Scan: 1000, Limit: 300}, false},
	"a user, some at a time":   {issuer.RecordQuery{Principals: []string{"pair:rare"}, Scan: 103, Limit: 5}, false},
	"a user, one at a time":    {issuer.RecordQuery{Principals: []string{"pair:rare"}, Scan: 1}, false},
	"a user, not limited":      {issuer.RecordQuery{Principals: []string{"pair:rare"}}, false},
	"a user's denied calls":    {issuer.RecordQuery{Principals: []string{"pair:rare"}, Decision: evidence.Deny, Scan: 200}, true},
	"a user at an agent":       {issuer.RecordQuery{Principals: []string{"pair:1"}, Agent: "mail", Scan: 2000}, false},
	"a caller":                 {issuer.RecordQuery{Requester: spelled, Scan: 200}, true},
	"a caller of all":          {issuer.RecordQuery{Requester: "planner", Scan: 2000, Limit: 1000}, false},
	"an agent":                 {issuer.RecordQuery{Agent: "mail", Scan: 200}, true},
	"an agent among some":      {issuer.RecordQuery{Agent: "mail", Agents: []string{"mail", "calendar"}, Scan: 200}, true},
	"an agent that is not":     {issuer.RecordQuery{Agent: "mail", Agents: []string{"calendar"}, Scan: 200}, false},
	"some agents":              {issuer.RecordQuery{Agents: []string{"calendar", "mail"}, Scan: 200}, true},
	"a caller at some agents":  {issuer.RecordQuery{Requester: "planner", Agents: []string{"mail"}, Scan: 200}, true},
	"all agents by name":       {issuer.RecordQuery{Requester: spelled, Agents: []string{"mail", "documents"}, Scan: 2000}, false},
	"all agents, by pages":     {issuer.RecordQuery{Requester: "planner", Agents: []string{"mail", "documents"}, Scan: 700, Limit: 300}, false},
	"no agent":                 {issuer.RecordQuery{Principals: []string{"pair:rare"}, Agents: []string{}, Scan: 200}, false},
	"a user by two names":      {issuer.RecordQuery{Principals: []string{"pair:rare", "pair:nobody"}, Scan: 200}, true},
	"two users":                {issuer.RecordQuery{Principals: []string{"pair:rare", "pair:2"}, Scan: 2000, Limit: 300}, false},
	"two users at some agents": {issuer.RecordQuery{Principals: []string{"pair:rare", "pair:2"}, Agents: []string{"documents"}, Scan: 2000}, false},
	"two users at one agent":   {issuer.RecordQuery{Principals: []string{"pair:1", "pair:2"}, Agent: "mail", Scan: 2000}, false},
	"no user":                  {issuer.RecordQuery{Principals: []string{}, Scan: 200}, false},
	"nobody by two names":      {issuer.RecordQuery{Principals: []string{"pair:nobody", "pair:none"}, Scan: 200}, true},
	"nobody":                   {issuer.RecordQuery{Principals: []string{"pair:nobody"}, Scan: 200}, true},
	"a time":                   {issuer.RecordQuery{Principals: []string{"pair:rare"}, Since: noon.Add(600 * time.Second), Until: noon.Add(3000 * time.Second), Scan: 200}, false},
	"since the first segment":  {issuer.RecordQuery{Principals: []string{"pair:rare"}, Since: noon.Add(segment * time.Second), Scan: 200}, true},
}

// Searches find the same with and without an index, and with an index they find rare records
// without a look at what others did.
func searchesWithAnIndexFindTheSame(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	ids := map[string]int{}
	add := func(from, to int) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx issuer.Tx) error {
			for n := from; n < to; n++ {
				sealed, err := tx.Append(among(n))
				if err != nil {
					return err
				}
				ids[sealed.Record().ID] = n
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	const half, all = segment + 50, 2*segment + 100
	add(0, half)
	p, _ := f.closed(t, s)
	add(half, all)
	before := map[string][]string{}
	for name, one := range indexSearches {
		var pages int
		if before[name], pages = walk(t, s, one.query); one.rare && pages < 10 {
			t.Errorf("%s: %d pages without an index; want 10, so that the test can fail", name, pages)
		}
		if len(before[name]) == 0 && one.query.Agents == nil && slices.ContainsFunc(one.query.Principals, func(p string) bool { return p != "pair:nobody" && p != "pair:none" }) {
			t.Errorf("%s: the test has no such record", name)
		}
	}
	compare := func(what string, from int) {
		t.Helper()
		for name, one := range indexSearches {
			want := slices.DeleteFunc(slices.Clone(before[name]), func(id string) bool { return ids[id] < from })
			got, pages := walk(t, s, one.query)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: without an index (-), with it (+):\n%s", what, name, diff)
			}
			if one.rare && pages != 1 {
				t.Errorf("%s, %s: %d pages; want 1", what, name, pages)
			}
		}
	}
	index(t, s, 2)
	compare("indexed", 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = f.open(t)
	compare("after a start", 0)
	archived(t, s, p)
	compare("behind an archive", half)
	index(t, s, 0)
	compare("without what was archived", half)
}

// index adds everything to the index, and expects so many segments.
func index(t *testing.T, s Store, segments int) {
	t.Helper()
	n := 0
	for more := true; more; n++ {
		var err error
		if more, err = s.Index(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n != max(1, segments) {
		t.Errorf("%d steps for %d segments", n, segments)
	}
}

// The index begins where the records begin that are here, and a log that is too short for a
// segment is searched without one.
func anIndexBehindAnArchive(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	add := func(from, to int) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx issuer.Tx) error {
			for n := from; n < to; n++ {
				if _, err := tx.Append(among(n)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 100)
	p, _ := f.closed(t, s)
	archived(t, s, p)
	add(100, 600)
	index(t, s, 0)
	want := issuer.RecordQuery{Principals: []string{"pair:rare"}}
	first, _ := walk(t, s, want)
	add(600, 100+segment)
	index(t, s, 1)
	got, _ := walk(t, s, want)
	if len(first) != 3 || len(got) != 12 || fmt.Sprint(got[9:]) != fmt.Sprint(first) {
		t.Errorf("%d, and then %d records are found; want 3 and 12", len(first), len(got))
	}
}
