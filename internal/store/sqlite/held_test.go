package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

func heldIDs(t *testing.T, s *Store, q issuer.HeldQuery) string {
	t.Helper()
	var ids []string
	err := s.View(t.Context(), func(r issuer.Reader) error {
		held, err := r.HeldBy(q)
		for _, c := range held {
			ids = append(ids, c.ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(ids, " ")
}

// Expired rows are not read: the index begins at the live ones.
func TestWhatIsHeldIsFoundByIndex(t *testing.T) {
	s := newStore(t)
	for query, args := range map[string][]any{rows.HeldBy: {"a", "h", "p", 1, 1}, rows.HeldByGrant: {"a", "h", "p", 1, "g", 1}} {
		plan := planOf(t, s, spelling.Of(query), args...)
		if !strings.Contains(plan, "USING COVERING INDEX capability_held (agent=? AND holder=? AND principal=? AND expires>?)") {
			t.Errorf("the plan of %s is\n%s", query, plan)
		}
	}
}

// Pages and previews read live entries of an index, however many capabilities there are.
func TestCapabilitiesOfPagesAreFoundByIndex(t *testing.T) {
	s := newStore(t)
	plans := map[string]string{}
	for index, q := range map[string]issuer.TreeQuery{
		"sqlite_autoindex_capability_1 (id=?)": {IDs: []string{"c"}}, "capability_agent (agent=? AND expires>?)": {Agents: []string{"a"}}, "capability_holder (holder=? AND expires>?)": {Holders: []string{"h"}},
		"capability_requester (requester=? AND expires>?)": {Requesters: []string{"r"}}, "capability_principal (principal=? AND expires>?)": {Principals: []string{"p"}}, "capability_once (expires>?)": {Once: true},
	} {
		q.Limit = 1
		query, args, err := rows.TreesStatement(q)
		if err != nil {
			t.Fatal(err)
		}
		plans["trees: "+index] = planOf(t, s, spelling.Of(query), args...)
		if plan := plans["trees: "+index]; !strings.Contains(plan, index) || !strings.Contains(plan, "capability_parent (parent=? AND expires>?)") {
			t.Errorf("the plan of %s is\n%s", query, plan)
		}
	}
	query, args, err := rows.TreesStatement(issuer.TreeQuery{Holders: []string{"h", "i"}, Once: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	plans["trees of holders"] = planOf(t, s, spelling.Of(query), args...)
	if plan := plans["trees of holders"]; !strings.Contains(plan, "capability_once (expires>?)") || !strings.Contains(plan, "CO-ROUTINE tree") {
		t.Errorf("the walk of a tree does not end at the limit:\n%s", plan)
	}
	for index, q := range map[string]issuer.LiveQuery{
		"capability_expires (expires>?)": {}, "capability_agent (agent=? AND expires>?)": {Agent: "a"}, "capability_holder (holder=? AND expires>?)": {Holder: "h"}, "capability_requester (requester=? AND expires>?)": {Requester: "r"},
		"capability_principal (principal=? AND expires>?)": {Principal: "p"}, "capability_root (root=? AND expires>?)": {Root: "c"}, "capability_parent (parent=? AND expires>?)": {Below: "c"},
	} {
		q.Limit = 1
		query, args := rows.LiveStatement(q, 9)
		plans["page: "+index] = planOf(t, s, spelling.Of(query), args...)
		if plan := plans["page: "+index]; !strings.Contains(plan, index) {
			t.Errorf("the plan of %s is\n%s", query, plan)
		}
	}
	query, args = rows.NewestStatement(issuer.LiveQuery{Agent: "a", Limit: 1}, 9)
	if plan := planOf(t, s, spelling.Of(query), args...); !strings.Contains(plan, "SEARCH capability USING INTEGER PRIMARY KEY (rowid<?)") {
		t.Errorf("the newest are not read from the newest on:\n%s", plan)
	}
	for what, plan := range plans {
		if strings.Contains(plan, "SCAN capability") {
			t.Errorf("%s reads every capability:\n%s", what, plan)
		}
	}
}

// A start reads the revocations in force, and not every revocation that ever was.
func TestWhatIsInForceIsFoundByIndex(t *testing.T) {
	s := newStore(t)
	if plan := planOf(t, s, spelling.Of(rows.RevokedStatement), 1, "", 9); !strings.Contains(plan, "USING COVERING INDEX revocation_until ((until,target)>(?,?))") || strings.Contains(plan, "TEMP") {
		t.Errorf("the plan of revocations is\n%s", plan)
	}
	if plan := planOf(t, s, spelling.Of(rows.RevokedUntilStatement), "cap_1", 1); !strings.Contains(plan, "USING COVERING INDEX revocation_target (target=? AND kind=? AND until>?)") {
		t.Errorf("the plan of one revocation is\n%s", plan)
	}
	if plan := planOf(t, s, spelling.Of(rows.StopsStatement)); !strings.Contains(plan, "revocation_other") {
		t.Errorf("the plan of other events is\n%s", plan)
	}
}

// A partial index is used for the truth values of the shared statements, too.
func TestPendingApprovalsAreFoundByIndex(t *testing.T) {
	s := newStore(t)
	if plan := planOf(t, s, spelling.Of("SELECT body FROM approval WHERE pending = true ORDER BY made DESC")); !strings.Contains(plan, "USING INDEX approval_pending") {
		t.Errorf("the plan is\n%s", plan)
	}
}

func planOf(t *testing.T, s *Store, query string, args ...any) (plan string) {
	t.Helper()
	found, err := s.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var step string
		if err := found.Scan(new(int), new(int), new(int), &step); err != nil {
			t.Fatal(err)
		}
		plan += step + "\n"
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}

// bodyOf is a capability as it is stored.
func bodyOf(t *testing.T, c issuer.Capability) (body []byte) {
	t.Helper()
	s := newStore(t)
	put(t, s, c)
	if err := s.reads.QueryRowContext(t.Context(), "SELECT body FROM capability").Scan(&body); err != nil {
		t.Fatal(err)
	}
	return body
}

func named(t *testing.T, s *Store, want map[string]bool) {
	t.Helper()
	err := s.View(t.Context(), func(r issuer.Reader) error {
		for task, want := range want {
			if got, err := r.TaskNamed("documents", "", task); err != nil || got != want {
				t.Errorf("%s is named: %t, %v", task, got, err)
			}
			if _, known, err := r.TaskOwner("documents", "", "named:task-1"); err != nil || known {
				t.Errorf("an owner of a name: %t, %v", known, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A file of the first schema continues with what it has.
func TestTheFirstSchemaIsBroughtUpToDate(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	db, err := sql.Open("sqlite", "file:"+f.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := newProvider(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	body := bodyOf(t, capability("cap_1"))
	for _, insert := range []struct {
		query string
		args  []any
	}{
		{
			"INSERT INTO capability (id, root, agent, holder, principal, revocation_id, expires, created, body) VALUES ('cap_1', 'cap_1', 'documents', 'key:abc', 'user:alice', 'rv_1', ?, 0, ?)",
			[]any{noon.Add(time.Hour).Unix(), body},
		},
		{"INSERT INTO capability (id, root, agent, holder, principal, revocation_id, expires, created, body) VALUES ('cap_2', '', '', '', '', 'rv_2', 0, 0, CAST('{' AS BLOB))", nil},
		{"INSERT INTO task (agent, task, root, principal, holder) VALUES ('documents', 'named:task-1', 'cap_1', '', ''), ('documents', 'named:task-2', '', 'user:eve', '')", nil},
	} {
		if _, err := db.ExecContext(t.Context(), insert.query, insert.args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, f.config)
	q := issuer.HeldQuery{Agent: "documents", Holder: "key:abc", Principal: "user:alice", Grant: "documents:read", After: noon, Limit: 1}
	if got := heldIDs(t, s, q); got != "cap_1" {
		t.Errorf("held is %q", got)
	}
	named(t, s, map[string]bool{"task-1": true, "task-2": false})
	if err := s.View(t.Context(), func(r issuer.Reader) error {
		o, known, err := r.TaskOwner("documents", "", "named:task-2")
		if !known || o.Principal != "user:eve" {
			t.Errorf("the task of an agent: %+v, %t", o, known)
		}
		// Records from before tenants belong to no tenant.
		if _, known, wrong := r.TaskOwner("documents", "t1", "named:task-2"); wrong != nil || known {
			t.Errorf("ATK-18 in a tenant: %t %v", known, wrong)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
