package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// UpdateApprovals implements [approval.Store].
func (s *Store) UpdateApprovals(ctx context.Context, change func(approval.Tx) error) error {
	return s.Update(ctx, func(tx issuer.Tx) error { return change(tx.(*transaction)) })
}

// ViewApprovals implements [approval.Store].
func (s *Store) ViewApprovals(ctx context.Context, read func(approval.Reader) error) error {
	return s.View(ctx, func(r issuer.Reader) error { return read(r.(settled)) })
}

// Question implements [approval.Reader].
func (r reader) Question(id string) (approval.Question, error) {
	return first(bodies[approval.Question](r, "SELECT body FROM question WHERE id = ?", id))
}

// QuestionByKey implements [approval.Reader].
func (r reader) QuestionByKey(key string) (approval.Question, error) {
	return first(bodies[approval.Question](r, "SELECT body FROM question WHERE key = ? AND key <> '' ORDER BY rowid DESC LIMIT 1", key))
}

// Questions implements [approval.Reader].
func (r reader) Questions(state issuer.State) ([]approval.Question, error) {
	return bodies[approval.Question](r, "SELECT body FROM question WHERE state = ? ORDER BY rowid", string(state))
}

// QuestionsOf implements [approval.Reader].
func (r reader) QuestionsOf(holder string, since time.Time) (made, denied int, err error) {
	err = r.db.QueryRowContext(r.ctx, "SELECT count(*), coalesce(sum(state = 'denied'), 0) FROM question WHERE holder = ? AND created > ?", holder, since.UnixMilli()).Scan(&made, &denied)
	if err != nil {
		return 0, 0, fmt.Errorf("sqlite: questions of a holder: %w", err)
	}
	return made, denied, nil
}

// HeldCall implements [approval.Reader].
func (r reader) HeldCall(question string) (approval.Call, error) {
	return first(bodies[approval.Call](r, "SELECT body FROM held_call WHERE question = ?", question))
}

// HeldCallByTask implements [approval.Reader].
func (r reader) HeldCallByTask(agent, task string) (approval.Call, error) {
	return first(bodies[approval.Call](r, "SELECT body FROM held_call WHERE agent = ? AND task = ?", agent, task))
}

// HeldCalls implements [approval.Reader].
func (r reader) HeldCalls(state approval.CallState) ([]approval.Call, error) {
	return bodies[approval.Call](r, "SELECT body FROM held_call WHERE state = ? ORDER BY rowid", string(state))
}

// HeldTasksOf implements [approval.Reader].
func (r reader) HeldTasksOf(agent, tenant string, owner issuer.Owner, limit int) ([]string, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT task FROM held_call WHERE agent = ? AND owner = ? ORDER BY rowid DESC LIMIT ?", agent, approval.OwnerKey(tenant, owner), limit)
	if err != nil {
		return nil, fmt.Errorf("sqlite: held calls of an owner: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []string
	for rows.Next() {
		var task string
		if err := rows.Scan(&task); err != nil {
			return nil, fmt.Errorf("sqlite: held calls of an owner: %w", err)
		}
		out = append(out, task)
	}
	return out, rows.Err()
}

// PutQuestion implements [approval.Tx].
func (t *transaction) PutQuestion(q approval.Question) error {
	ended := int64(0)
	if over := q.Over(); !over.IsZero() {
		ended = over.UnixMilli()
	}
	return t.keep(q, `INSERT INTO question (id, key, holder, state, created, ended, body) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended = excluded.ended, body = excluded.body`,
		q.ID, q.Key, q.Holder, string(q.State), q.Created.UnixMilli(), ended)
}

// PutHeldCall implements [approval.Tx].
func (t *transaction) PutHeldCall(c approval.Call) error {
	return t.keep(c, `INSERT INTO held_call (question, agent, task, state, owner, body) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (question) DO UPDATE SET state = excluded.state, body = excluded.body`, c.Question, c.Agent, c.Task, string(c.State), approval.OwnerKey(c.Tenant, c.Owner))
}

// ForgetQuestions implements [approval.Tx].
func (t *transaction) ForgetQuestions(before time.Time) error {
	const over = "SELECT id FROM question WHERE ended <> 0 AND ended < ?"
	for _, statement := range []string{
		"DELETE FROM held_call WHERE state NOT IN ('approved', 'being_made') AND question IN (" + over + ")",
		"DELETE FROM question WHERE ended <> 0 AND ended < ? AND id NOT IN (SELECT question FROM held_call)",
	} {
		if _, err := t.db.ExecContext(t.ctx, statement, before.UnixMilli()); err != nil {
			return fmt.Errorf("sqlite: questions to forget: %w", err)
		}
	}
	return nil
}
