package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/store/pgtest"
)

// invoices are a live collection of the documents agent, in PostgreSQL.
const invoices = `    live:
      - collection: invoices
        prefix: invoices/
        attributes: {year: integer, customer: text, tags: texts}
        optional: [tags]
        limit: 4
        timeout: 1s
        cache: 1ms
        source:
          sql:
            url_file: invoices.url
            statement: |
              SELECT i.number, i.title, i.year, i.customer, i.tags, i.number AS id
              FROM invoices i JOIN readers r ON r.invoice = i.number
              WHERE r.reader = $1 -- the user
            id: number
            name: title
            page: 3
`

const livePolicies = defaultPolicies + `
permit(principal, action in Action::"documents/documents:read", resource in Collection::"documents/invoices") unless { resource.attributes.customer == "sealed" };
`

// invoiceRows make ten invoices that alice may read, of which policy hides one, and one
// that bob may read.
var invoiceRows = []string{
	`CREATE TABLE invoices (number text PRIMARY KEY, title text, year int, customer text, tags text[])`,
	`CREATE TABLE readers (reader text, invoice text, PRIMARY KEY (reader, invoice))`,
	`INSERT INTO invoices SELECT 'n' || n, 'Invoice ' || n, 2020 + n % 3, 'acme', ARRAY['t' || n] FROM generate_series(1, 9) n`,
	`INSERT INTO invoices VALUES ('n0', 'The sealed one', 2020, 'sealed', NULL), ('b1', 'Of bob', 2021, 'globex', NULL)`,
	`INSERT INTO readers SELECT 'user:alice', number FROM invoices WHERE number LIKE 'n%'`,
	`INSERT INTO readers VALUES ('user:bob', 'b1')`,
}

// TestATK112_ResourceQueryOverPostgreSQL has the command line page through a table, and the
// answers tell nothing of rows that the user may not see.
func TestATK112_ResourceQueryOverPostgreSQL(t *testing.T) {
	cluster, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	if err := cluster.Exec(t.Context(), "postgres", invoiceRows...); err != nil {
		t.Fatal(err)
	}
	w := start(t, options{live: invoices, policies: livePolicies, files: map[string]string{"invoices.url": cluster.URL("postgres") + "\n"}})
	w.write("alice.session", aliceToken)
	alice, bob := w.caller(aliceToken), w.caller(bobToken)

	t.Run("the command line pages", func(t *testing.T) {
		var names []string
		after := []string{}
		for range 5 {
			out := w.must(append([]string{
				"request", w.agentURL("documents"), "--grant", "documents:read", "--purpose", "p", "--collection", "invoices",
				"--by-reference", "--session-file", filepath.Join(w.dir, "alice.session"),
			}, after...)...)
			for _, m := range regexp.MustCompile(`resource   "(.*)" as (rh_\S+)`).FindAllStringSubmatch(out, -1) {
				names = append(names, m[1])
			}
			more := regexp.MustCompile(`more       (--after) (\S+)`).FindStringSubmatch(out)
			if more == nil {
				break
			}
			after = more[1:]
		}
		want := []string{}
		for n := range 9 {
			want = append(want, fmt.Sprintf("Invoice %d", n+1))
		}
		if !slices.Equal(names, want) {
			t.Errorf("the pages have %q; want %q", names, want)
		}
	})
	t.Run("hidden is as absent", func(t *testing.T) {
		said := map[string]string{}
		for what, filter := range map[string]map[string]any{
			"absent": {"customer": "initech"}, "of another user": {"customer": "globex"}, "hidden by policy": {"customer": "sealed"},
			"an injection": {"customer": "x' OR '1'='1"}, "a statement": {"customer": `"; DROP TABLE invoices; --`}, "NUL": {"customer": "a\x00b"},
		} {
			a := alice.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "invoices", "filter": filter}))
			w.refused(t, a, "nothing_granted")
			said[what] = regexp.MustCompile(`rec_[0-9a-z]+`).ReplaceAllString(string(a.Raw), "rec")
		}
		for what := range said {
			if said[what] != said["absent"] {
				t.Errorf("%s: %s\nabsent: %s", what, said[what], said["absent"])
			}
		}
	})
	t.Run("a handle is used", func(t *testing.T) {
		c := capabilities(t, alice.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "invoices", "filter": map[string]any{
			"year": map[string]any{"min": 2021, "max": 2021}, "tags": "t4",
		}})))[0]
		if len(c.ResourceHandles) != 1 || c.ResourceHandles[0].DisplayName != "Invoice 4" {
			t.Fatalf("the query selects %+v", c.ResourceHandles)
		}
		allowed(t, alice.send("documents", invoke("retrieve_document", map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}, c.ID)))
	})
	t.Run("a cursor is one user's", func(t *testing.T) {
		first := alice.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "invoices"}))
		var got struct {
			Result struct {
				Capabilities []struct{ NextResources string }
			}
		}
		if err := json.Unmarshal(first.Raw, &got); err != nil || len(got.Result.Capabilities) != 1 || got.Result.Capabilities[0].NextResources == "" {
			t.Fatalf("%v: %s", err, first.Raw)
		}
		cursor := got.Result.Capabilities[0].NextResources
		for what, q := range map[string]map[string]any{
			"a billion":       {"collection": "invoices", "limit": 1_000_000_000},
			"a fraction":      {"collection": "invoices", "limit": 1.5},
			"another query":   {"collection": "invoices", "filter": map[string]any{"year": 2021}, "after": cursor},
			"a changed one":   {"collection": "invoices", "after": cursor[:len(cursor)-2] + "AA"},
			"of no live list": {"collection": "reports", "after": cursor},
			"no attribute":    {"collection": "invoices", "filter": map[string]any{"owner": "x"}},
			"another type":    {"collection": "invoices", "filter": map[string]any{"year": "2021"}},
		} {
			if a := alice.call("documents", "a2a/capabilities/request", wanting(q)); a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("%s: %s", what, a.Raw)
			}
		}
		if a := bob.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "invoices", "after": cursor})); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("bob continues with the cursor of alice: %s", a.Raw)
		}
		next := capabilities(t, alice.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "invoices", "after": cursor})))[0]
		if next.ResourceHandles[0].DisplayName != "Invoice 5" {
			t.Errorf("the next page begins with %q", next.ResourceHandles[0].DisplayName)
		}
	})
	t.Run("without the database", func(t *testing.T) {
		cluster.Stop()
		a := alice.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "invoices"}))
		denied(t, a, "resources_unavailable")
		if said := string(a.Raw); !strings.Contains(said, `"retryable":"true"`) || strings.Contains(strings.ToLower(said), "postgres") || strings.Contains(said, cluster.Folder()) {
			t.Errorf("the answer is %s", said)
		}
		alice.reports() // the catalogue needs no database
	})
}

func wanting(query map[string]any) map[string]any {
	return map[string]any{"grants": []string{"documents:read"}, "operations": []string{"retrieve"}, "purpose": "p", "resourceQuery": query}
}
