package sources_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/sources"
	"github.com/powerbox-project/powerbox/internal/store/pgtest"
)

var databases pgtest.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := databases.Close(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const everyReport = `SELECT r.* FROM reports r JOIN readers USING (id) WHERE reader = $1 -- the user`

// library is a database of 300 reports that alice may read and one that bob may read, and
// the settings of a source over it.
func library(t *testing.T, more ...string) (*pgx.Conn, sources.SQLSettings) {
	t.Helper()
	url := databases.Database(t)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	for _, statement := range append([]string{
		`CREATE TABLE reports (id text PRIMARY KEY, title text, quarter text, year int, final boolean, tags varchar[])`,
		`CREATE TABLE readers (reader text, id text, PRIMARY KEY (reader, id))`,
		`INSERT INTO reports SELECT to_char(n, 'FM000'), 'Report ' || n, '2025-Q' || n % 4 + 1, 2000 + n % 30, n % 2 = 0, ARRAY['t' || n % 5, 'all'] FROM generate_series(1, 300) n`,
		`INSERT INTO reports VALUES ('bob', 'Of bob', '2025-Q1', 2025, true, ARRAY['all'])`,
		`INSERT INTO readers SELECT 'user:alice', id FROM reports WHERE id <> 'bob'`,
		`INSERT INTO readers VALUES ('user:bob', 'bob')`,
	}, more...) {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return db, sources.SQLSettings{
		URL: func() (string, error) { return url + "\n", nil }, Statement: everyReport, ID: "id", Name: "title", Page: 100, Connections: 4, Timeout: 10 * time.Second,
	}
}

func sqlSource(t *testing.T, set sources.SQLSettings) *sources.SQL {
	t.Helper()
	s, err := sources.NewSQL(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Every operator of a query selects in PostgreSQL what it selects in a catalogue.
func TestSQLSelectsAsACatalogueDoes(t *testing.T) {
	_, set := library(t)
	s := guarded(sqlSource(t, set), t.Output())
	whole := question(t, "user:alice", "{}")
	var items []catalogue.Item
	for {
		p, err := s.Page(t.Context(), whole)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, p.Items...)
		if whole.After = p.Next; p.Next == "" {
			break
		}
	}
	if len(items) != 300 || items[0].Name != "Report 1" {
		t.Fatalf("alice sees %d reports", len(items))
	}
	for _, filter := range []string{
		`{}`, `{"quarter":"2025-Q1"}`, `{"quarter":{"in":["2025-Q1","2025-Q3","none"]}}`, `{"year":2007}`, `{"year":{"min":2007,"max":2009}}`,
		`{"year":{"min":2006.5,"max":2008.5}}`, `{"year":{"max":-99999999999999999999}}`, `{"year":{"in":[2001,2002],"min":2002}}`, `{"final":true}`, `{"final":{"in":[true,false]}}`,
		`{"tags":"t3"}`, `{"tags":{"in":["t1","t2"]},"final":false}`, `{"quarter":"2025-q1"}`, `{"quarter":{"in":["\u0000","2025-Q2"]}}`,
	} {
		q := question(t, "user:alice", filter)
		selected, err := q.Query.Select(items)
		if err != nil {
			t.Fatal(err)
		}
		if got := all(t, s, q); !slices.Equal(got, ids(selected)) {
			t.Errorf("%s: got %d, want %d", filter, len(got), len(selected))
		}
	}
}

// ATK-110: neither a user name nor a filter, nor a cursor is part of a statement.
func TestATK110_NothingOfACallerIsPartOfAStatement(t *testing.T) {
	db, set := library(t)
	s := guarded(sqlSource(t, set), t.Output())
	evil := []string{
		`' OR '1'='1`, `user:alice' --`, `'; DROP TABLE reports; --`, `\'; DROP TABLE reports; --`, `$1`, `$2`, `user:alice"`, `%`, `user:%`, `{user:alice}`, `user:alice/**/`,
		`E'\\x'`, "user:alice\n", `1); DROP TABLE reports; --`, `' UNION SELECT * FROM reports --`, `{"user:alice","x"}`, `NULL`,
	}
	for _, text := range evil {
		if got := all(t, s, question(t, text, "{}")); len(got) > 0 {
			t.Errorf("the user %q sees %d reports", text, len(got))
		}
		value := fmt.Sprintf("%q", text)
		for _, filter := range []string{`{"quarter":` + value + `}`, `{"tags":` + value + `}`, `{"quarter":{"in":["a",` + value + `]}}`} {
			if got := all(t, s, question(t, "user:alice", filter)); len(got) > 0 {
				t.Errorf("the filter %s selects %d reports", filter, len(got))
			}
		}
		q := question(t, "user:bob", "{}")
		q.After = text
		// A cursor is only a text to compare with: a part of the statement would be an error.
		if p, err := s.Page(t.Context(), q); err != nil || len(p.Items) > 1 {
			t.Errorf("bob sees %d reports after %q, %v", len(p.Items), text, err)
		}
	}
	failsClosed(t, sqlSource(t, set), question(t, "user:secret\x00", "{}"), "secret")
	var left int
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM reports").Scan(&left); err != nil || left != 301 {
		t.Errorf("%d reports are left, %v", left, err)
	}
}

// ATK-110: a statement cannot write, and cannot take longer than its time.
func TestATK110_AStatementOnlyReadsAndEnds(t *testing.T) {
	db, set := library(t, `CREATE TABLE hits (n int)`, `CREATE FUNCTION hit(text) RETURNS text LANGUAGE sql AS $$ INSERT INTO hits VALUES (1) RETURNING $1 $$`)
	for what, statement := range map[string]string{
		"a function that writes": `SELECT hit(id) AS id, title, quarter, year, final, tags FROM reports WHERE $1::text IS NOT NULL`,
		"two statements":         `SELECT * FROM reports) s; DROP TABLE reports; SELECT * FROM (SELECT $1::text`,
		"a write":                `DELETE FROM reports WHERE id = $1 RETURNING *`,
		"a switch":               `SELECT set_config('transaction_read_only', 'off', true) AS id, hit(id) AS title, quarter, year, final, tags FROM reports WHERE $1::text IS NOT NULL`,
		"a wait":                 `SELECT r.* FROM reports r, pg_sleep(300) WHERE $1::text IS NOT NULL`,
	} {
		own := set
		own.Statement, own.Timeout = statement, 300*time.Millisecond
		t.Run(what, func(t *testing.T) {
			failsClosed(t, sqlSource(t, own), question(t, "user:alice", "{}"), "DROP", "user:alice")
		})
	}
	var reports, hits int
	if err := db.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM reports), (SELECT count(*) FROM hits)").Scan(&reports, &hits); err != nil || reports != 301 || hits != 0 {
		t.Errorf("%d reports and %d writes, %v", reports, hits, err)
	}
}

// ATK-111: values of 100 MB and control characters in a row stay in the database, and the
// other rows are there.
func TestATK111_ARowThatIsTooLargeIsLeftOut(t *testing.T) {
	_, set := library(t,
		`INSERT INTO reports VALUES ('big1', repeat('x', 100000000), 'q', 1, true, '{}'), ('big2', 'b', repeat('y', 3000000), 1, true, '{}'),
		 ('big3', 'c', 'q', 1, true, ARRAY[repeat('z', 3000000)]), ('big4', 'd', 'q', 1, true, array_fill('x'::varchar, ARRAY[100000])),
		 ('ctl', E'\x1b[2Jname', 'q', 1, true, '{}'), ('nulls', 'n', 'q', 1, true, ARRAY[NULL]::varchar[]), (repeat('k', 2000), 'long', 'q', 1, true, '{}'), ('zz', 'The last', NULL, NULL, NULL, NULL)`,
		`INSERT INTO readers SELECT 'user:carol', id FROM reports WHERE id > 'b' AND id <> 'bob'`)
	set.Page = 3
	s := guarded(sqlSource(t, set), t.Output())
	if got := all(t, s, question(t, "user:carol", "{}")); !slices.Equal(got, []string{"zz"}) {
		t.Errorf("carol sees %q", got)
	}
}

// ATK-111: the URL of the database, which has the password, is in no error and no log.
func TestATK111_TheURLOfADatabaseIsInNoError(t *testing.T) {
	_, set := library(t)
	for what, url := range map[string]string{
		"unreachable": "postgres://secret:secret-word@127.0.0.1:1/secret", "no such database": mustURL(t, set) + "&database=secret",
	} {
		own := set
		own.URL = func() (string, error) { return url, nil }
		t.Run(what, func(t *testing.T) {
			failsClosed(t, sqlSource(t, own), question(t, "user:alice", "{}"), "secret", "127.0.0.1")
		})
	}
	set.URL = func() (string, error) { return "postgres://secret:secret-word@:x:y/z", nil }
	if _, err := sources.NewSQL(t.Context(), set); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}

func mustURL(t *testing.T, set sources.SQLSettings) string {
	t.Helper()
	url, err := set.URL()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// Numbers and UUIDs are ids, too, and pages follow their own order.
func TestSQLPagesByNumbersAndUUIDs(t *testing.T) {
	_, set := library(t, `CREATE TABLE numbered AS SELECT n AS number, md5(n::text)::uuid AS key, 'x' AS quarter, n AS year, true AS final, '{}'::text[] AS tags FROM generate_series(1, 250) n`)
	set.Statement, set.Name = "SELECT * FROM numbered WHERE $1::text = 'user:alice'", ""
	for _, column := range []string{"number", "key"} {
		set.ID = column
		got := all(t, guarded(sqlSource(t, set), t.Output()), question(t, "user:alice", "{}"))
		if slices.Sort(got); len(slices.Compact(got)) != 250 {
			t.Errorf("%s: %d rows", column, len(got))
		}
	}
}
