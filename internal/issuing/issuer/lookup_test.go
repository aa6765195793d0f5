package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// shelf is a source in memory: what each action returns, in pages of three.
type shelf struct {
	of    map[string][]catalogue.Item
	fails error
	asked []catalogue.Question
	held  bool // whether an answer is held; asked outside of this time, it fails
}

func (s *shelf) Page(_ context.Context, q catalogue.Question) (catalogue.Page, error) {
	s.asked = append(s.asked, q)
	if !s.held {
		return catalogue.Page{}, errors.New("asked outside of the time of a request")
	}
	if s.fails != nil {
		return catalogue.Page{}, s.fails
	}
	items, from := s.of[q.Action], 0
	if q.After != "" {
		if _, err := fmt.Sscan(q.After, &from); err != nil {
			return catalogue.Page{}, err
		}
	}
	if from+3 >= len(items) {
		return catalogue.Page{Items: items[from:]}, nil
	}
	return catalogue.Page{Items: items[from : from+3], Next: fmt.Sprint(from + 3)}, nil
}

// live has twenty files, n01 to n20, of which policy lets alice retrieve the even ones.
// settled counts the requests that were answered at their time.
func live(t *testing.T, w *town) (s *shelf, settled *int) {
	t.Helper()
	s, settled = &shelf{of: map[string][]catalogue.Item{}}, new(int)
	policy := w.rules("one")
	for n := range 20 {
		id := fmt.Sprintf("n%02d", n+1)
		s.of["viewer"] = append(s.of["viewer"], catalogue.Item{Agent: "documents", Collection: "files", ID: id, Name: "File " + id, Attributes: map[string]powerbox.Value{
			"kind": powerbox.String([]string{"even", "odd"}[n%2]),
		}})
		if n%2 == 1 {
			policy.allow["user:alice retrieve "+id] = issuer.Ruling{Allow: true}
		}
	}
	w.agent.Live = []issuer.Live{{
		Collection: catalogue.Collection{Agent: "documents", Name: "files", Attributes: map[string]catalogue.Attribute{"kind": {Type: catalogue.TypeText, Required: true}}},
		Source:     s, Action: "viewer", Limit: 4, Scan: 20,
		Hold: func(_ string, work func()) bool {
			s.held = true
			work()
			s.held = false
			*settled++
			return true
		},
	}}
	w.config.Policy = policy
	w.restart()
	return s, settled
}

// files is a query for files with further members, as JSON.
func files(t *testing.T, members string) *catalogue.Query {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(`{"collection":"files"` + members + `}`))
	if err != nil {
		t.Fatal(err)
	}
	q, err := catalogue.ParseQuery(v)
	if err != nil {
		t.Fatal(err)
	}
	return &q
}

func retrieving(q *catalogue.Query) issuer.Request {
	return issuer.Request{Grants: []string{"read"}, Operations: []string{"retrieve"}, Purpose: "p", Query: q}
}

func resources(c issuer.Capability) (ids []string) {
	for _, h := range c.Handles {
		ids = append(ids, h.Resource)
	}
	return ids
}

// Pages have every resource that policy allows once, also around those that it hides, and
// the last page has no cursor although hidden resources follow.
func TestLiveResourcesComeInPages(t *testing.T) {
	w := newTown(t)
	s, _ := live(t, w)
	s.of["viewer"] = append(s.of["viewer"], catalogue.Item{Agent: "documents", Collection: "files", ID: "n21", Attributes: map[string]powerbox.Value{"kind": powerbox.String("odd")}})
	for _, limit := range []int{1, 3, 4, 1000} {
		var got []string
		after := ""
		for range 30 {
			got1, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, fmt.Sprintf(`,"limit":%d%s`, limit, after))))
			if err != nil {
				t.Fatal(err)
			}
			if n := len(got1[0].Handles); n > min(limit, 4) {
				t.Errorf("limit %d: a page of %d", limit, n)
			}
			got = append(got, resources(got1[0])...)
			if got1[0].NextResources == "" {
				break
			}
			after = fmt.Sprintf(`,"after":%q`, got1[0].NextResources)
		}
		want := []string{"n02", "n04", "n06", "n08", "n10", "n12", "n14", "n16", "n18", "n20"}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %q", limit, got)
		}
	}
}

// SEP-5: resources that policy hides, that the source hides or that do not exist get one
// answer, at the time of a lookup.
func TestATK112_HiddenIsAsAbsent(t *testing.T) {
	w := newTown(t)
	_, settled := live(t, w)
	var said []string
	for _, kind := range []string{"even", "nowhere"} {
		_, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, `,"filter":{"kind":"`+kind+`"}`)))
		var r *issuer.Refusal
		if !errors.As(err, &r) || r.Code != issuer.CodeNothingGranted {
			t.Fatalf("%s: %v", kind, err)
		}
		said = append(said, r.Error())
	}
	if said[0] != said[1] || *settled != 2 {
		t.Errorf("said %q in %d lookups", said, *settled)
	}
}

// A lookup that policy hides nearly all of ends after a bounded number of pages, without a
// cursor, which would tell of hidden resources.
func TestALookupReadsBoundedPages(t *testing.T) {
	w := newTown(t)
	s, _ := live(t, w)
	w.agent.Live[0].Scan = 2
	got, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, "")))
	if err != nil || !slices.Equal(resources(got[0]), []string{"n02", "n04", "n06"}) || got[0].NextResources != "" || len(s.asked) != 2 {
		t.Errorf("got %v, %v after %d pages", got, err, len(s.asked))
	}
}

// ATK-112: a cursor of another user, agent's grant, query or server gets the answer of a
// made-up one, and the source is not asked.
func TestATK112_ACursorIsOneUsers(t *testing.T) {
	w := newTown(t)
	s, _ := live(t, w)
	first, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, "")))
	if err != nil || first[0].NextResources == "" {
		t.Fatal(first, err)
	}
	cursor := first[0].NextResources
	s.asked = nil
	bob, changed := caller(t, "user:alice"), retrieving(files(t, `,"after":"`+cursor+`"`))
	bob.Principal = "user:bob"
	other := changed
	other.Grants, other.Operations = []string{"write", "read"}, nil
	said := map[string]string{}
	for what, ask := range map[string]func() error{
		"made up": func() error {
			_, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, `,"after":"rc_AAAA"`)))
			return err
		},
		"a handle": func() error {
			_, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, `,"after":"`+first[0].Handles[0].Handle+`"`)))
			return err
		},
		"another user": func() error { _, err := w.issuer.Request(t.Context(), "documents", bob, changed); return err },
		"another grant": func() error {
			_, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), other)
			return err
		},
		"another query": func() error {
			_, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, `,"filter":{"kind":"odd"},"after":"`+cursor+`"`)))
			return err
		},
	} {
		err := ask()
		var r *issuer.Refusal
		if !errors.As(err, &r) || r.Code != issuer.CodeQueryInvalid {
			t.Errorf("%s: %v", what, err)
			continue
		}
		said[what] = r.Error()
	}
	for what, text := range said {
		if text != said["made up"] {
			t.Errorf("%s: %q; made up: %q", what, text, said["made up"])
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("the source was asked %+v", s.asked)
	}
	if strings.Contains(cursor, "n0") || len(cursor) < 600 {
		t.Errorf("the cursor is %q", cursor)
	}
}

// ATK-111: a failure gives no resources and one answer, which names no system.
func TestATK111_AFailureOfASourceRefuses(t *testing.T) {
	w := newTown(t)
	s, settled := live(t, w)
	s.fails = fmt.Errorf("%w: secret", issuer.ErrSource)
	_, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, "")))
	var r *issuer.Refusal
	if !errors.As(err, &r) || r.Code != issuer.CodeResourcesUnavailable || strings.Contains(r.Error(), "secret") || *settled != 1 {
		t.Errorf("got %v after %d lookups", err, *settled)
	}
}

// Operations with relations of their own are asked for by them, and share the limit.
func TestActionsOfOperations(t *testing.T) {
	w := newTown(t)
	s, _ := live(t, w)
	w.agent.Live[0].Actions = map[string]string{"search": "finder"}
	s.of["finder"] = s.of["viewer"][:2]
	policy, _ := w.config.Policy.(rules)
	policy.allow["user:alice search n02"] = issuer.Ruling{Allow: true}
	policy.allow["user:alice search n04"] = issuer.Ruling{Allow: true} // the source does not say so
	req := retrieving(files(t, ""))
	req.Operations = nil
	got, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), req)
	if err != nil || !slices.Equal(resources(got[0]), []string{"n02", "n04"}) || got[0].NextResources == "" {
		t.Fatalf("got %v, %v", got, err)
	}
	if s.asked[0].Action != "finder" || s.asked[len(s.asked)-1].Action != "viewer" {
		t.Errorf("asked %+v", s.asked)
	}
	req.Query = files(t, `,"after":"`+got[0].NextResources+`"`)
	if got, err = w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), req); err != nil || !slices.Equal(got[0].Operations(), []string{"retrieve"}) || !slices.Equal(resources(got[0]), []string{"n06", "n08"}) {
		t.Errorf("the next page: %v, %v", got, err)
	}
}

// When policies change, they are asked about a live resource as it was at issue, and one
// whose collection is gone is forbidden.
func TestPolicyIsAskedAgainAboutLiveResources(t *testing.T) {
	w := newTown(t)
	live(t, w)
	got, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, `,"limit":1`)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.issuer.OnRecord(t.Context(), got[0].ID)
	if err != nil || len(c.Handles) != 1 || c.Handles[0].Collection != "files" || string(c.Handles[0].Attributes["kind"]) != `"odd"` {
		t.Fatalf("on record is %+v, %v", c.Handles, err)
	}
	next, _ := w.config.Policy.(rules)
	next.digest = "two"
	w.config.Policy = next
	w.restart()
	if kept := w.issuer.Permitted(c); len(kept) != 1 {
		t.Error("a policy that still permits the resource takes it away")
	}
	delete(next.allow, "user:alice retrieve n02")
	if kept := w.issuer.Permitted(c); len(kept) != 0 {
		t.Error("a policy that forbids the resource leaves it")
	}
	next.allow["user:alice retrieve n02"] = issuer.Ruling{Allow: true}
	w.agent.Live = nil
	if kept := w.issuer.Permitted(c); len(kept) != 0 {
		t.Error("a resource of a collection that is gone is left")
	}
}

// A resource without a name is called by its collection and the end of its handle.
func TestAResourceWithoutANameShowsNoID(t *testing.T) {
	w := newTown(t)
	s, _ := live(t, w)
	s.of["viewer"][1].Name = ""
	got, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, `,"limit":1`)))
	if err != nil {
		t.Fatal(err)
	}
	h := got[0].Handles[0]
	if end, ok := strings.CutPrefix(h.Name, "files "); !ok || len(end) != 8 || !strings.HasSuffix(h.Handle, end) {
		t.Errorf("the name is %q", h.Name)
	}
}

// The record of a request is written within the time that is hidden, whether the request
// is granted or refused, and a caller that leaves does not end the work sooner.
func TestATK112_TheWholeAnswerIsHeld(t *testing.T) {
	for kind, granted := range map[string]bool{"odd": true, "even": false, "nowhere": false} {
		w := newTown(t)
		live(t, w)
		recorded := ""
		ctx, leave := context.WithCancel(t.Context())
		hold := w.agent.Live[0].Hold
		w.agent.Live[0].Hold = func(caller string, work func()) bool {
			leave()
			return hold(caller, func() {
				work()
				recorded = w.last().ID
			})
		}
		w.restart()
		_, err := w.issuer.Request(ctx, "documents", caller(t, "user:alice"), retrieving(files(t, `,"filter":{"kind":"`+kind+`"}`)))
		if (err == nil) != granted || recorded == "" || recorded != w.last().ID {
			t.Errorf("%s: got %v, and the record %q while the answer was held; want %q", kind, err, recorded, w.last().ID)
		}
	}
}

// A request above the number that can wait is refused without a lookup.
func TestATK112_ARequestWithoutAPlaceLooksNothingUp(t *testing.T) {
	w := newTown(t)
	s, _ := live(t, w)
	w.agent.Live[0].Hold = func(string, func()) bool { return false }
	w.restart()
	_, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), retrieving(files(t, "")))
	var r *issuer.Refusal
	if !errors.As(err, &r) || r.Code != issuer.CodeResourcesUnavailable || len(s.asked) > 0 {
		t.Errorf("got %v after %d calls of the source", err, len(s.asked))
	}
}

// Waiting answers are counted by user, who can have any number of keys, and by key where
// there is no user.
func TestATK112_APlaceIsAUsers(t *testing.T) {
	w := newTown(t)
	live(t, w)
	hold, held := w.agent.Live[0].Hold, []string{}
	w.agent.Live[0].Hold = func(caller string, work func()) bool {
		held = append(held, caller)
		return hold(caller, work)
	}
	w.restart()
	alone := caller(t, "")
	for _, c := range []identity.Caller{caller(t, "user:alice"), caller(t, "user:alice"), alone} {
		_, _ = w.issuer.Request(t.Context(), "documents", c, retrieving(files(t, "")))
	}
	if want := []string{"user:alice", "user:alice", alone.Holder.ID}; !slices.Equal(held, want) {
		t.Errorf("places are taken for %q; want %q", held, want)
	}
}
