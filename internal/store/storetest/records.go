package storetest

import (
	std "cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// madeAt is a record with an id as [issuer.Issuer.NewID] makes it.
func madeAt(at time.Time, n byte, agent string) evidence.Record {
	var id ulid.ULID
	if err := id.SetTime(uint64(at.UnixMilli())); err != nil {
		panic(err)
	}
	id[15] = n
	r := record("rec_" + strings.ToLower(id.String()))
	r.Time, r.AgentID = at, agent
	return r
}

// ask returns one page.
func ask(t *testing.T, s Store, q issuer.RecordQuery) (page issuer.RecordPage, err error) {
	t.Helper()
	err = s.View(t.Context(), func(r issuer.Reader) error {
		page, err = r.Records(q)
		return err
	})
	return page, err
}

// walk follows the pages to the end, and returns what they have and how many they
// are.
func walk(t *testing.T, s Store, q issuer.RecordQuery) (ids []string, pages int) {
	t.Helper()
	for {
		page, err := ask(t, s, q)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, r := range page.Records {
			ids = append(ids, r.Record().ID)
		}
		if page.Next == "" {
			return ids, pages
		}
		q.Before = page.Next
	}
}

// Every page looks at so many records and has so many; together they are the
// selection, in the order of the log, with nothing twice.
func recordsInPages(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	var all, rare []string
	for i := range 50 {
		agent := "documents"
		if i%20 == 3 {
			agent = "mail"
		}
		r := madeAt(noon.Add(time.Duration(i)*time.Second), byte(i), agent)
		if err := appendOne(t, s, r); err != nil {
			t.Fatal(err)
		}
		all = append([]string{r.ID}, all...)
		if agent == "mail" {
			rare = append([]string{r.ID}, rare...)
		}
	}
	for name, c := range map[string]struct {
		query issuer.RecordQuery
		want  []string
		pages int
	}{
		"all at once":                                 {issuer.RecordQuery{}, all, 1},
		"ten at a time":                               {issuer.RecordQuery{Limit: 10}, all, 6},
		"looking at ten":                              {issuer.RecordQuery{Scan: 10}, all, 5},
		"rare, looking at ten":                        {issuer.RecordQuery{Agent: "mail", Scan: 10}, rare, 5},
		"rare, one, looking at ten":                   {issuer.RecordQuery{Agent: "mail", Limit: 1, Scan: 10}, rare, 6},
		"of some agents, looking at ten":              {issuer.RecordQuery{Agents: []string{"mail", "calendar"}, Scan: 10}, rare, 5},
		"of all agents":                               {issuer.RecordQuery{Agents: []string{"mail", "documents"}}, all, 1},
		"of no agent":                                 {issuer.RecordQuery{Agents: []string{}}, nil, 1},
		"of one that is not among some":               {issuer.RecordQuery{Agent: "mail", Agents: []string{"documents"}}, nil, 1},
		"none, looking at ten":                        {issuer.RecordQuery{Agent: "nobody", Scan: 10}, nil, 5},
		"what others are older than is not looked at": {issuer.RecordQuery{Agent: "nobody", Scan: 10, Since: noon.Add(45*time.Second + time.Minute)}, nil, 1},
	} {
		if got, pages := walk(t, s, c.query); !cmp.Equal(got, c.want) || pages != c.pages {
			t.Errorf("%s: %d pages, want %d\n%s", name, pages, c.pages, cmp.Diff(c.want, got))
		}
	}
	if _, err := ask(t, s, issuer.RecordQuery{Before: "rec_none"}); !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("before a record that is not there: %v", err)
	}
}

// What a gateway sends long after its time is found by its time, and does not hide
// what came before it.
func recordsThatCameLateAreFoundByTheirTime(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	hour := func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
	var ids []string
	// In the order of the log: of 12, 15, 11 (late), 16 and 10 (very late) o'clock.
	for i, h := range []int{0, 3, -1, 4, -2} {
		r := madeAt(hour(h), byte(i), "documents")
		if err := appendOne(t, s, r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for name, c := range map[string]struct {
		query issuer.RecordQuery
		want  []string
	}{
		"since 15":         {issuer.RecordQuery{Since: hour(3)}, []string{ids[3], ids[1]}},
		"since 11":         {issuer.RecordQuery{Since: hour(-1)}, []string{ids[3], ids[2], ids[1], ids[0]}},
		"until 11":         {issuer.RecordQuery{Until: hour(-1)}, []string{ids[4], ids[2]}},
		"from 11 to 12":    {issuer.RecordQuery{Since: hour(-1), Until: hour(0)}, []string{ids[2], ids[0]}},
		"after all":        {issuer.RecordQuery{Since: hour(9)}, nil},
		"long before 1970": {issuer.RecordQuery{Since: time.Unix(-1e9, 0)}, []string{ids[4], ids[3], ids[2], ids[1], ids[0]}},
	} {
		for _, scan := range []int{0, 1, 2} {
			c.query.Scan = scan
			if got, _ := walk(t, s, c.query); !cmp.Equal(got, c.want) {
				t.Errorf("%s, %d at a time:\n%s", name, scan, cmp.Diff(c.want, got))
			}
		}
	}
}

// treesOfCapabilities: every member of a query selects, with all that descends and in the order
// of issue, a parent before its children; expired ones and other trees are left out. A limit leaves out those
// that are farther from the selected ones.
func treesOfCapabilities(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	put(t, s, treeOf(t)...)
	for name, c := range map[string]struct {
		query issuer.TreeQuery
		want  []string
	}{
		"of a root":             {issuer.TreeQuery{IDs: []string{"cap_0"}}, []string{"cap_0", "cap_1", "cap_2", "cap_3"}},
		"of a child":            {issuer.TreeQuery{IDs: []string{"cap_1"}}, []string{"cap_1", "cap_2"}},
		"of a leaf":             {issuer.TreeQuery{IDs: []string{"cap_3"}}, []string{"cap_3"}},
		"of two":                {issuer.TreeQuery{IDs: []string{"cap_3", "cap_1"}}, []string{"cap_1", "cap_2", "cap_3"}},
		"of an unknown one":     {issuer.TreeQuery{IDs: []string{"cap_9"}}, nil},
		"of no value":           {issuer.TreeQuery{IDs: []string{""}}, nil},
		"of a holder":           {issuer.TreeQuery{Holders: []string{"key:b"}}, []string{"cap_1", "cap_2"}},
		"of a name":             {issuer.TreeQuery{Requesters: []string{"clerk"}}, []string{"cap_4"}},
		"of a user":             {issuer.TreeQuery{Principals: []string{"user:bob"}}, []string{"cap_4", "cap_5"}},
		"of an agent":           {issuer.TreeQuery{Agents: []string{"mail"}}, []string{"cap_5"}},
		"for one call":          {issuer.TreeQuery{Once: true}, []string{"cap_2"}},
		"one call and a holder": {issuer.TreeQuery{Once: true, Holders: []string{"key:z", "key:d"}}, []string{"cap_2", "cap_4", "cap_5"}},
		"in force later":        {issuer.TreeQuery{IDs: []string{"cap_0"}, After: noon.Add(90 * time.Minute)}, []string{"cap_0", "cap_1"}},
		"as many":               {issuer.TreeQuery{IDs: []string{"cap_0"}, Limit: 1}, []string{"cap_0"}},
		"of nothing":            {issuer.TreeQuery{}, nil},
	} {
		if c.query.Limit == 0 {
			c.query.Limit = 100
		}
		if c.query.After.IsZero() {
			c.query.After = noon
		}
		var got []string
		err := s.View(t.Context(), func(r issuer.Reader) error {
			for c, err := range r.Trees(c.query) {
				if err != nil {
					return err
				}
				if c.Authority.Depth() != 2 {
					t.Errorf("%s: %s has lost its authority", name, c.ID)
				}
				got = append(got, c.ID)
			}
			return nil
		})
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
	holders := []string{}
	err := s.View(t.Context(), func(r issuer.Reader) (err error) {
		for _, err := range r.Trees(issuer.TreeQuery{IDs: []string{"cap_0"}}) {
			if err == nil {
				t.Error("without a limit it answers")
			}
		}
		holders, err = r.Holders()
		return err
	})
	if want := []string{"key:a", "key:b", "key:c", "key:d"}; err != nil || !cmp.Equal(holders, want) {
		t.Errorf("holders: %v, %v; want %v", holders, err, want)
	}
}

// MigratedTrees expects the trees of capabilities that an older schema stored. again takes the
// closed store back to that schema, and brings it up to date.
func MigratedTrees(t *testing.T, place Place, again func(t *testing.T)) {
	f := newFixture(t, place)
	s := f.open(t)
	put(t, s, treeOf(t)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again(t)
	s = f.open(t)
	for want, q := range map[string]issuer.TreeQuery{
		"cap_0 cap_1 cap_2 cap_3": {IDs: []string{"cap_0"}}, "cap_4": {Requesters: []string{"clerk"}}, "cap_2": {Once: true},
	} {
		q.After, q.Limit = noon, 9
		var got []string
		err := s.View(t.Context(), func(r issuer.Reader) error {
			for c, err := range r.Trees(q) {
				if err != nil {
					return err
				}
				got = append(got, c.ID)
			}
			return nil
		})
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%+v finds %v, %v; want %s", q, got, err, want)
		}
	}
}

// treeOf is a tree of four with one that has expired, and two roots of others.
func treeOf(t *testing.T) []issuer.Capability {
	t.Helper()
	var all []issuer.Capability
	for i, c := range []issuer.Capability{
		{Holder: "key:a", Requester: "desk", Expires: noon.Add(3 * time.Hour)},
		{Ancestors: []string{"cap_0"}, Holder: "key:b", Requester: "desk", Expires: noon.Add(2 * time.Hour)},
		{Ancestors: []string{"cap_0", "cap_1"}, Holder: "key:c", Once: true, Expires: noon.Add(time.Hour)},
		{Ancestors: []string{"cap_0"}, Holder: "key:c", Expires: noon.Add(time.Hour)},
		{Holder: "key:d", Requester: "clerk", Principal: "user:bob", Expires: noon.Add(3 * time.Hour)},
		{Holder: "key:d", Principal: "user:bob", Agent: "mail", Expires: noon.Add(3 * time.Hour)},
		{Ancestors: []string{"cap_0"}, Holder: "key:c", Expires: noon},
	} {
		one := capability(fmt.Sprint("cap_", i))
		one.RevocationID, one.Ancestors, one.Holder, one.Requester, one.Once, one.Expires = fmt.Sprint("rv_", i), c.Ancestors, c.Holder, c.Requester, c.Once, c.Expires
		one.Principal, one.Agent = std.Or(c.Principal, one.Principal), std.Or(c.Agent, one.Agent)
		if len(c.Ancestors) > 0 {
			one.Root = c.Ancestors[0]
		}
		all = append(all, one)
	}
	return all
}

// issuedAfter: the newest of the roots counts that match and were issued after a time.
func issuedAfter(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	for n, c := range treeOf(t)[:6] {
		c.Created = noon.Add(time.Duration(n) * time.Minute)
		put(t, s, c)
	}
	for _, c := range []struct {
		q    issuer.IssuedQuery
		at   time.Time
		want time.Time
	}{
		{q: issuer.IssuedQuery{}, at: noon, want: noon.Add(5 * time.Minute)},
		{q: issuer.IssuedQuery{Agent: "documents"}, at: noon, want: noon.Add(4 * time.Minute)},
		{q: issuer.IssuedQuery{Principal: "user:alice"}, at: noon.Add(-time.Minute), want: noon},
		{q: issuer.IssuedQuery{Agent: "mail", Principal: "user:alice"}, at: noon},
		{q: issuer.IssuedQuery{Principal: "user:alice"}, at: noon},
	} {
		var got time.Time
		err := s.View(t.Context(), func(r issuer.Reader) (err error) {
			got, err = r.IssuedAfter(c.at, c.q)
			return err
		})
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%+v after %s: %s %v; want %s", c.q, c.at, got, err, c.want)
		}
	}
}

// livePages: every member of a query selects, the last that was issued comes first, and a
// page begins behind the one before.
func livePages(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	for i, c := range []issuer.Capability{
		{Agent: "documents", Holder: "key:a", Principal: "user:alice"},
		{Agent: "mail", Holder: "key:a", Principal: "user:bob"},
		{Agent: "documents", Holder: "key:b", Principal: "user:alice", Root: "cap_0"},
		{Agent: "documents", Holder: "key:a", Principal: "user:bob"},
	} {
		one := capability(fmt.Sprint("cap_", i))
		one.RevocationID, one.Agent, one.Holder, one.Principal = fmt.Sprint("rv_", i), c.Agent, c.Holder, c.Principal
		one.Root, one.Expires = std.Or(c.Root, one.ID), noon.Add(time.Duration(i+1)*time.Hour)
		one.Requester = "at " + one.Agent
		if c.Root != "" {
			one.Ancestors = []string{c.Root}
		}
		if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.PutCapability(one) }); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		query issuer.LiveQuery
		want  []string
	}{
		"all":              {issuer.LiveQuery{}, []string{"cap_3", "cap_2", "cap_1", "cap_0"}},
		"in force at 14":   {issuer.LiveQuery{After: noon.Add(2 * time.Hour)}, []string{"cap_3", "cap_2"}},
		"of an agent":      {issuer.LiveQuery{Agent: "documents"}, []string{"cap_3", "cap_2", "cap_0"}},
		"of a holder":      {issuer.LiveQuery{Holder: "key:a"}, []string{"cap_3", "cap_1", "cap_0"}},
		"for a user":       {issuer.LiveQuery{Principal: "user:alice"}, []string{"cap_2", "cap_0"}},
		"of a tree":        {issuer.LiveQuery{Root: "cap_0"}, []string{"cap_2", "cap_0"}},
		"holder and agent": {issuer.LiveQuery{Holder: "key:a", Agent: "mail"}, []string{"cap_1"}},
		"of a name":        {issuer.LiveQuery{Requester: "at mail"}, []string{"cap_1"}},
		"below one":        {issuer.LiveQuery{Below: "cap_0"}, []string{"cap_2"}},
		"below a leaf":     {issuer.LiveQuery{Below: "cap_2"}, nil},
		"of some agents":   {issuer.LiveQuery{Agents: []string{"mail", "calendar"}}, []string{"cap_1"}},
		"of no agent":      {issuer.LiveQuery{Agents: []string{}}, nil},
		"nothing":          {issuer.LiveQuery{Agent: "calendar"}, nil},
	} {
		for _, limit := range []int{1, 2, 10} {
			if got := allPages(t, s, c.query, limit); !cmp.Equal(got, c.want) {
				t.Errorf("%s, %d at a time:\n%s", name, limit, cmp.Diff(c.want, got))
			}
		}
	}
	behindNewer(t, s)
	err := s.View(t.Context(), func(r issuer.Reader) error {
		_, err := r.LiveBefore(issuer.LiveQuery{Limit: 1, Before: "cap_9"})
		return err
	})
	if !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("before a capability that is not there: %v; want ErrNotFound", err)
	}
}

// behindNewer finds capabilities behind so many newer ones that a look at the newest alone
// misses them.
func behindNewer(t *testing.T, s Store) {
	t.Helper()
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		for i := range rows.Recent + 1 {
			one := capability(fmt.Sprint("cap_new_", i))
			one.RevocationID, one.Agent, one.Expires = fmt.Sprint("rv_new_", i), "newer", noon.Add(-time.Hour)
			if i == rows.Recent {
				one.Expires = noon.Add(time.Hour)
			}
			if err := tx.PutCapability(one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := noon.Add(-time.Minute)
	for _, limit := range []int{1, 3} {
		if got, want := allPages(t, s, issuer.LiveQuery{After: after}, limit), []string{fmt.Sprint("cap_new_", rows.Recent), "cap_3", "cap_2", "cap_1", "cap_0"}; !cmp.Equal(got, want) {
			t.Errorf("behind %d newer ones, %d at a time:\n%s", rows.Recent, limit, cmp.Diff(want, got))
		}
		if got, want := allPages(t, s, issuer.LiveQuery{After: after, Agent: "mail"}, limit), []string{"cap_1"}; !cmp.Equal(got, want) {
			t.Errorf("of an agent, behind %d newer ones: %q; want %q", rows.Recent, got, want)
		}
	}
}

// allPages reads page after page.
func allPages(t *testing.T, s issuer.Store, q issuer.LiveQuery, limit int) (ids []string) {
	t.Helper()
	for q.Limit = limit; ; {
		var page []issuer.Capability
		err := s.View(t.Context(), func(r issuer.Reader) error {
			var err error
			page, err = r.LiveBefore(q)
			return err
		})
		if err != nil || len(page) > limit {
			t.Fatalf("%+v: %d, %v", q, len(page), err)
		}
		if len(page) == 0 {
			return ids
		}
		for _, one := range page {
			ids = append(ids, one.ID)
		}
		q.Before = ids[len(ids)-1]
	}
}
