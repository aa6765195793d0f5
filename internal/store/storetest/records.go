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

// liveCapabilities expects a parent before its children, and no expired capability.
func liveCapabilities(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	for i, expires := range []time.Duration{2, 1, 3} {
		c := capability(fmt.Sprint("cap_", i))
		c.RevocationID, c.Expires = fmt.Sprint("rv_", i), noon.Add(expires*time.Hour)
		if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.PutCapability(c) }); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := s.View(t.Context(), func(r issuer.Reader) error {
		for c, err := range r.Live(noon.Add(time.Hour)) {
			if err != nil {
				return err
			}
			got = append(got, c.ID)
		}
		return nil
	})
	if want := []string{"cap_0", "cap_2"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %v; want %v", got, err, want)
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
		"of some agents":   {issuer.LiveQuery{Agents: []string{"mail", "calendar"}}, []string{"cap_1"}},
		"of no agent":      {issuer.LiveQuery{Agents: []string{}}, nil},
		"nothing":          {issuer.LiveQuery{Agent: "calendar"}, nil},
	} {
		for _, limit := range []int{1, 2, 10} {
			var got []string
			q := c.query
			for q.Limit = limit; ; {
				var page []issuer.Capability
				err := s.View(t.Context(), func(r issuer.Reader) error {
					var err error
					page, err = r.LiveBefore(q)
					return err
				})
				if err != nil || len(page) > limit {
					t.Fatalf("%s, %d at a time: %d, %v", name, limit, len(page), err)
				}
				if len(page) == 0 {
					break
				}
				for _, one := range page {
					got = append(got, one.ID)
				}
				q.Before = got[len(got)-1]
			}
			if !cmp.Equal(got, c.want) {
				t.Errorf("%s, %d at a time:\n%s", name, limit, cmp.Diff(c.want, got))
			}
		}
	}
	err := s.View(t.Context(), func(r issuer.Reader) error {
		_, err := r.LiveBefore(issuer.LiveQuery{Limit: 1, Before: "cap_9"})
		return err
	})
	if !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("before a capability that is not there: %v; want ErrNotFound", err)
	}
}
