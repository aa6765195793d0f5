package operations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// many serves agents in pages. Every 7th of them is frozen.
func many(n int) http.HandlerFunc {
	all := make([]api.AgentStatus, n)
	for i := range all {
		all[i] = api.AgentStatus{ID: fmt.Sprintf("agent-%04d", i), Kind: "a2a", Frozen: i%7 == 0}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/summary" {
			_ = json.NewEncoder(w).Encode(api.ActivityReport{Served: api.AgentCounts{All: n}, Agents: []api.AgentActivity{{Agent: all[n-1].ID, Allowed: 3, Callers: []string{"desk"}}}})
			return
		}
		from := 1 + slices.IndexFunc(all, func(a api.AgentStatus) bool { return a.ID == r.URL.Query().Get("after") })
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		to := min(n, from+limit)
		if to < n {
			w.Header().Set(operators.NextHeader, all[to-1].ID)
		}
		_ = json.NewEncoder(w).Encode(all[from:to])
	}
}

// Every agent is on one page of the table, and every agent that matches on one page of a search.
func TestAgentsComeInPages(t *testing.T) {
	for name, c := range map[string]struct {
		all  int
		text string
		want []int // agents of each page
	}{
		"none":                     {1, "nothing", []int{0}},
		"one page":                 {50, "", []int{50}},
		"one page and one more":    {51, "", []int{50, 1}},
		"many pages":               {1020, "", append(slices.Repeat([]int{50}, 20), 20)},
		"a search with few":        {1020, "frozen 9", []int{39}},
		"a search with many":       {1020, "frozen", []int{50, 50, 46}},
		"a search with whole ones": {700, "frozen", []int{50, 50}},
		"a search of a caller":     {1020, "desk", []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(Config{V1: func(string, people.Rights) http.Handler { return many(c.all) }, Now: func() time.Time { return noon }})
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			var seen []string
			first := "/admin/agents?after=&text=" + strings.ReplaceAll(c.text, " ", "+")
			for at := first; at != ""; {
				answer, err := p.agents(p.Visit(httptest.NewRequest(http.MethodGet, at, nil), "user:carol", people.AllRights(), lang.English))
				if err != nil {
					t.Fatal(err)
				}
				page := answer.Body.(*agentsPage)
				if back := at != first; back != (page.First != "") || back && page.First != first || page.All != c.all {
					t.Errorf("at %s the first page is %q, of %d agents", at, page.First, page.All)
				}
				got, at = append(got, len(page.Agents)), page.Next
				for _, a := range page.Agents {
					seen = append(seen, a.ID)
				}
			}
			if !slices.Equal(got, c.want) || !slices.IsSorted(seen) || len(slices.Compact(seen)) != len(seen) {
				t.Errorf("pages of %v agents; want %v", got, c.want)
			}
		})
	}
}
