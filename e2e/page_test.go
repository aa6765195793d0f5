package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// listed is a page of tasks.
type listed struct {
	Tasks []struct {
		ID string `json:"id"`
	} `json:"tasks"`
	Next string `json:"nextPageToken"`
}

// TestATK18_PagesOfTasks lists tasks page by page where those of others stand in
// between: each caller gets its own, no empty page but the last, and only its
// caller can use the token of a page.
func TestATK18_PagesOfTasks(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		if on == (wire{"JSON-RPC", "0.3"}) {
			return // in which the agent behind has no such method
		}
		w := start(t, options{on: on, agent: "    enforces: context"})
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		holds := map[*caller]granted{alice: alice.reports(), bob: bob.reports()}
		mine := map[*caller][]string{}
		for n := range 12 {
			c := alice
			if n%5 == 0 {
				c = bob
			}
			task, _ := c.open(holds[c])
			mine[c] = append(mine[c], task)
		}
		list := func(c *caller, params map[string]any) (listed, answer) {
			a := c.present("documents", rpc("ListTasks", params), proven{chain: []string{holds[c].Token}, operation: "a2a.task.read"})
			var page listed
			_ = json.Unmarshal(a.Result, &page)
			return page, a
		}
		var token string
		for _, c := range []*caller{alice, bob} {
			var got []string
			params := map[string]any{"pageSize": 2}
			for pages := 0; ; pages++ {
				page, a := list(c, params)
				if a.Error != nil || pages > 12 || len(page.Tasks) == 0 && page.Next != "" {
					t.Fatalf("ATK-18 page %d: %s", pages, a.Raw)
				}
				for _, task := range page.Tasks {
					got = append(got, task.ID)
				}
				if page.Next == "" {
					break
				}
				token = page.Next
				params = map[string]any{"pageSize": 2, "pageToken": token}
			}
			want := slices.Sorted(slices.Values(mine[c]))
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("ATK-18 listed %v; want %v", got, want)
			}
			if token == "" {
				t.Fatal("ATK-18 there was one page alone")
			}
			other := map[*caller]*caller{alice: bob, bob: alice}[c]
			for name, tried := range map[string]string{"another's": token, "a guessed one": "AAAA", "the agent's own": "MjAyNi0wMS0wMQ"} {
				if page, a := list(other, map[string]any{"pageSize": 2, "pageToken": tried}); a.reason() != "page_token" || len(page.Tasks) > 0 {
					t.Errorf("ATK-18 %s token: %s", name, a.Raw)
				}
			}
			token = ""
		}
	})
}

// TestATK18_AListThatSpeaksOfErrors: what tasks say is no sign that the list of
// them is none. Someone wrote it.
func TestATK18_AListThatSpeaksOfErrors(t *testing.T) {
	a := newRawAgent(t)
	a.card = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/tasks") {
			fmt.Fprint(w, `{"tasks":[{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"error"},{"data":{"error":1}}]}}},
{"id":"t-2","contextId":"c-2","status":{"state":"TASK_STATE_WORKING"}}],"nextPageToken":"","pageSize":2,"totalSize":2}`)
			return
		}
		fmt.Fprint(w, strings.Replace(a.cardText(""), `"JSONRPC"`, `"HTTP+JSON"`, 1))
	}
	w := start(t, options{mode: "prefer"})
	w.rewrite("powerbox.yaml", w.documents.url, a.url)
	w.again(func() {})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.agentURL("documents")+"/tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("A2A-Version", "1.0")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || strings.Contains(string(body), `"t-1"`) || strings.Contains(string(body), `"t-2"`) || strings.Contains(string(body), `"raw"`) {
		t.Errorf("ATK-18 %d %s", res.StatusCode, body)
	}
}
