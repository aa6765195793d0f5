package sources_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/sources"
)

func item(id, name string, attributes map[string]powerbox.Value) catalogue.Item {
	return catalogue.Item{ID: id, Name: name, Attributes: attributes}
}

// ATK-111: resources that are not as declared are left out, and the log names the rule
// and not the value.
func TestATK111_ResourcesOtherThanDeclaredAreLeftOut(t *testing.T) {
	bad := map[string]catalogue.Item{
		"control characters in the id":   item("a\x1b[2Jsecret", "A", nil),
		"control characters in the name": item("b", "secret\u202eB", nil),
		"no UTF-8":                       item("c\xffsecret", "C", nil),
		"no id":                          item("", "D", nil),
		"a long id":                      item(strings.Repeat("secret", 50), "E", nil),
		"an attribute of another type":   item("f", "F", map[string]powerbox.Value{"year": powerbox.String("2025")}),
		"an undeclared attribute":        item("g", "G", map[string]powerbox.Value{"owner": powerbox.String("secret")}),
		"a fraction":                     item("h", "H", map[string]powerbox.Value{"year": decimal(t, "2025.5")}),
		"an object":                      item("i", "I", map[string]powerbox.Value{"quarter": powerbox.Object()}),
		"a long text":                    item("j", "J", map[string]powerbox.Value{"quarter": powerbox.String(strings.Repeat("secret", 100))}),
	}
	for what, one := range bad {
		var log bytes.Buffer
		s := fixed(func(context.Context, catalogue.Question) (catalogue.Page, error) {
			return catalogue.Page{Items: []catalogue.Item{item("good", "Good", nil), one, item("good", "Again", nil), item("other", "", nil)}}, nil
		})
		p, err := guarded(s, &log).Page(t.Context(), question(t, "user:alice", "{}"))
		if err != nil || !slices.Equal(ids(p.Items), []string{"good", "other"}) {
			t.Errorf("%s: got %v, %v", what, ids(p.Items), err)
		}
		if !strings.Contains(log.String(), "count=1") || strings.Contains(log.String(), "secret") {
			t.Errorf("%s: the log has %s", what, log.String())
		}
	}
}

func decimal(t *testing.T, s string) powerbox.Value {
	t.Helper()
	d, err := powerbox.ParseDecimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return powerbox.Number(d)
}

// ATK-111: a source that exceeds a bound has failed.
func TestATK111_ASourceWithoutBoundsFails(t *testing.T) {
	for what, p := range map[string]catalogue.Page{
		"too many resources": {Items: make([]catalogue.Item, catalogue.MaxPage+1)},
		"a long cursor":      {Next: strings.Repeat("secret", 1000)},
		"no text":            {Next: "secret\xff"},
	} {
		t.Run(what, func(t *testing.T) {
			failsClosed(t, fixed(func(context.Context, catalogue.Question) (catalogue.Page, error) { return p, nil }), question(t, "user:alice", "{}"), "secret")
		})
	}
	t.Run("a page that is its own next", func(t *testing.T) {
		q := question(t, "user:alice", "{}")
		q.After = "secret"
		failsClosed(t, fixed(func(context.Context, catalogue.Question) (catalogue.Page, error) {
			return catalogue.Page{Next: "secret"}, nil
		}), q, "secret")
	})
	t.Run("a slow source", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := now()
			failsClosed(t, fixed(func(ctx context.Context, _ catalogue.Question) (catalogue.Page, error) {
				<-ctx.Done()
				return catalogue.Page{Items: []catalogue.Item{item("late", "Late", nil)}}, nil
			}), question(t, "user:alice", "{}"))
			if took := now().Sub(began); took != time.Minute {
				t.Errorf("it took %s; want the time limit", took)
			}
		})
	})
}

// Calls for the same page at the same time are one call, and a page is kept for its time
// and for its principal alone.
func TestPagesAreSharedAndKeptPerPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		s := fixed(func(_ context.Context, q catalogue.Question) (catalogue.Page, error) {
			mu.Lock()
			asked[q.Principal]++
			mu.Unlock()
			wait(time.Second)
			return catalogue.Page{Items: []catalogue.Item{item("of "+q.Principal, "x", nil)}}, nil
		})
		g := sources.Guard(s, sources.Settings{Timeout: time.Minute, Fresh: 10 * time.Second, Calls: 4, Now: now})
		ask := func(principal, filter string) {
			p, err := g.Page(t.Context(), question(t, principal, filter))
			if err != nil || len(p.Items) != 1 || p.Items[0].ID != "of "+principal {
				t.Errorf("%s gets %+v, %v", principal, p, err)
			}
		}
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() { ask([]string{"user:alice", "user:bob"}[n%2], "{}") })
		}
		all.Wait()
		ask("user:alice", "{}")
		if asked["user:alice"] != 1 || asked["user:bob"] != 1 {
			t.Errorf("asked %v; want each principal once", asked)
		}
		ask("user:alice", `{"year":2025}`)
		wait(11 * time.Second)
		ask("user:alice", "{}")
		if asked["user:alice"] != 3 {
			t.Errorf("asked %v; want another query and a page that has ended asked again", asked)
		}
	})
}

// Kept pages take a bounded memory.
func TestKeptPagesAreBounded(t *testing.T) {
	calls := 0
	long := strings.Repeat("x", catalogue.MaxIDBytes-8)
	s := fixed(func(context.Context, catalogue.Question) (catalogue.Page, error) {
		calls++
		var p catalogue.Page
		for n := range 1000 {
			p.Items = append(p.Items, item(fmt.Sprintf("%s%04d", long, n), long, nil))
		}
		return p, nil
	})
	g := sources.Guard(s, sources.Settings{Timeout: time.Minute, Fresh: time.Hour, Calls: 4, Now: now})
	for n := range 40 {
		if _, err := g.Page(t.Context(), question(t, fmt.Sprintf("user:%d", n), "{}")); err != nil {
			t.Fatal(err)
		}
	}
	if kept := g.KeptBytes(); kept > 8<<20 || kept < 1<<20 || calls != 40 {
		t.Errorf("%d bytes are kept after %d calls", kept, calls)
	}
}

// One caller that leaves ends the call for no other, and calls above the limit wait.
func TestACallerThatLeavesEndsNoCallOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixed(func(ctx context.Context, _ catalogue.Question) (catalogue.Page, error) {
			select {
			case <-time.After(time.Second):
				return catalogue.Page{Items: []catalogue.Item{item("a", "A", nil)}}, nil
			case <-ctx.Done():
				return catalogue.Page{}, ctx.Err()
			}
		})
		g := sources.Guard(s, sources.Settings{Timeout: time.Minute, Calls: 1, Now: now})
		leaving, leave := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := g.Page(leaving, question(t, "user:alice", "{}")); !errors.Is(err, issuer.ErrSource) {
				t.Errorf("the caller that leaves gets %v", err)
			}
		})
		synctest.Wait()
		both.Go(func() {
			if p, err := g.Page(t.Context(), question(t, "user:alice", "{}")); err != nil || len(p.Items) != 1 {
				t.Errorf("the other gets %v, %v", p, err)
			}
		})
		synctest.Wait()
		leave()
		both.Wait()
	})
}
