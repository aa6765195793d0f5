package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// What another store takes over, in an order in which nothing is named before it is
// there. made is the order in which rows were made.
var tables = []struct{ name, columns, query string }{
	{"record", "place, id, time, bytes", "SELECT place, id, time, bytes FROM record ORDER BY place"},
	{"tree", "place, hashes", "SELECT place, hashes FROM tree ORDER BY place"},
	{"body", "place, agent, principal, time, key, bytes", "SELECT place, agent, principal, time, key, bytes FROM body ORDER BY place"},
	{"period", "number, first, size, closed, archived, note", "SELECT number, first, size, closed, archived, note FROM period ORDER BY number"},
	{"recorder", "key, body, enrolled, closed", "SELECT key, body, enrolled, closed FROM recorder"},
	{
		"capability", "id, root, parent, agent, holder, requester, principal, grant_id, once, revocation_id, expires, created, made, body",
		"SELECT id, root, parent, agent, holder, requester, principal, grant_id, once, revocation_id, expires, created, rowid, body FROM capability ORDER BY rowid",
	},
	{"revocation", "sequence, kind, target, by_whom, reason, at, until", "SELECT sequence, kind, target, by, reason, at, until FROM revocation ORDER BY sequence"},
	{"task", "agent, tenant, task, root, principal, holder", "SELECT agent, tenant, task, root, principal, holder FROM task"},
	{"named_task", "agent, tenant, task", "SELECT agent, tenant, task FROM named_task"},
	{"mode", "agent, mode", "SELECT agent, mode FROM mode"},
	{"gateway_token", "hash, agent, expires, used", "SELECT hash, agent, expires, used FROM gateway_token"},
	{"gateway", "id, agent, body, enrolled, closed", "SELECT id, agent, body, enrolled, closed FROM gateway"},
	{"told", "chain, decision, record", "SELECT chain, decision, record FROM told"},
	{"link", "id, link, until", "SELECT id, link, until FROM link"},
	{"status_place", "agent, place, capability, expires", "SELECT agent, place, capability, expires FROM status_place"},
	{"agent_key", "agent, key, renewed, newest", "SELECT agent, key, renewed, newest FROM agent_key"},
	{"budget", "capability, budget, used", "SELECT capability, budget, used FROM budget"},
	{"reservation", "decision, capability, budget, amount", "SELECT decision, capability, budget, amount FROM reservation"},
	{"host", "id, thumbprint, keys_url, for_user, created, body", "SELECT id, thumbprint, keys_url, user, created, body FROM host"},
	{"host_agent", "id, host, thumbprint, made, body", "SELECT id, host, thumbprint, rowid, body FROM host_agent ORDER BY rowid"},
	{"agent_grant", "id, agent, made, body", "SELECT id, agent, rowid, body FROM agent_grant ORDER BY rowid"},
	{
		"approval", "id, code, agent, pending, expires, made, body",
		"SELECT id, code, agent, pending, CAST(strftime('%s', json_extract(CAST(body AS TEXT), '$.Expires')) AS INTEGER), rowid, body FROM approval ORDER BY rowid",
	},
	{
		"job", "id, agent, created, body",
		"SELECT id, json_extract(CAST(body AS TEXT), '$.Agent'), CAST(strftime('%s', json_extract(CAST(body AS TEXT), '$.Created')) AS INTEGER), body FROM job",
	},
	{"passkey", "id, principal, made, body", "SELECT id, principal, rowid, body FROM passkey ORDER BY rowid"},
	{"person", "principal, body", "SELECT principal, body FROM person"},
	{"consent", "agent, person, body", "SELECT agent, person, body FROM consent"},
	{"used_token", "id, until", "SELECT id, until FROM used_token"},
	{"invitation", "hash, until, body", "SELECT hash, until, body FROM invitation"},
	{"question", "id, key, holder, state, created, ended, made, body", "SELECT id, key, holder, state, created, ended, rowid, body FROM question ORDER BY rowid"},
	{"held_call", "question, agent, task, state, owner, made, body", "SELECT question, agent, task, state, owner, rowid, body FROM held_call ORDER BY rowid"},
	{"message", "id, hook, due, died, body", "SELECT id, hook, due, died, body FROM message"},
	{"data_label", "holder, principal, source, untrusted, confidential, since, until", "SELECT holder, principal, source, untrusted, confidential, since, until FROM data_label"},
	{"data_value", "holder, principal, task, digest, until", "SELECT holder, principal, task, digest, until FROM data_value"},
	{"listing", "id, body", "SELECT id, body FROM listing"},
}

// Tables gives everything that the store has to take, table by table, as rows of
// another store's columns: texts, numbers and bytes. No writer may run meanwhile.
func (s *Store) Tables(ctx context.Context, take func(name, columns string, rows iter.Seq2[[]any, error]) error) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	heads, err := s.heads(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := take(t.name, t.columns, s.rows(ctx, t.query)); err != nil {
			return fmt.Errorf("sqlite: table %s: %w", t.name, err)
		}
	}
	return take("chain", "agent, recorder, chain, sequence, hash", func(yield func([]any, error) bool) {
		for name, head := range heads {
			if !yield([]any{name.Agent, name.Recorder, head.ChainID[:], head.Sequence, head.Hash[:]}, nil) {
				return
			}
		}
	})
}

// heads is the end of every chain.
func (s *Store) heads(ctx context.Context) (map[rows.Chain]evidence.Head, error) {
	heads := map[rows.Chain]evidence.Head{}
	err := s.update(ctx, func(t *transaction) error {
		if err := t.enter(); err != nil {
			return err
		}
		names, err := t.chains()
		if err != nil {
			return err
		}
		for _, name := range names {
			if heads[name], err = t.head(name); err != nil {
				return err
			}
		}
		return nil
	})
	return heads, err
}

func (s *Store) rows(ctx context.Context, query string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := s.reads.QueryContext(ctx, query)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = rows.Close() }() // Err below tells what matters
		columns, err := rows.Columns()
		for err == nil && rows.Next() {
			row := make([]any, len(columns))
			if err = scanAll(rows, row); err == nil && !yield(row, nil) {
				return
			}
		}
		if err = errors.Join(err, rows.Err()); err != nil {
			yield(nil, err)
		}
	}
}

func scanAll(rows *sql.Rows, row []any) error {
	to := make([]any, len(row))
	for i := range row {
		to[i] = &row[i]
	}
	return rows.Scan(to...)
}
