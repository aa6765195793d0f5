package postgres

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
	return s.View(ctx, func(r issuer.Reader) error { return read(r.(reader)) })
}

// Question implements [approval.Reader].
func (r reader) Question(id string) (approval.Question, error) {
	return first(bodies[approval.Question](r, "SELECT body FROM question WHERE id = $1", id))
}

// QuestionByKey implements [approval.Reader].
func (r reader) QuestionByKey(key string) (approval.Question, error) {
	return first(bodies[approval.Question](r, "SELECT body FROM question WHERE key = $1 AND key <> '' ORDER BY made DESC LIMIT 1", key))
}

// Questions implements [approval.Reader].
func (r reader) Questions(state issuer.State) ([]approval.Question, error) {
	return bodies[approval.Question](r, "SELECT body FROM question WHERE state = $1 ORDER BY made", string(state))
}

// QuestionsOf implements [approval.Reader].
func (r reader) QuestionsOf(holder string, since time.Time) (made, denied int, err error) {
	err = r.row("SELECT count(*), count(*) FILTER (WHERE state = 'denied') FROM question WHERE holder = $1 AND created > $2", holder, since.UnixMilli()).Scan(&made, &denied)
	if err != nil {
		return 0, 0, fmt.Errorf("postgres: questions of a holder: %w", err)
	}
	return made, denied, nil
}

// HeldCall implements [approval.Reader].
func (r reader) HeldCall(question string) (approval.Call, error) {
	return first(bodies[approval.Call](r, "SELECT body FROM held_call WHERE question = $1", question))
}

// HeldCallByTask implements [approval.Reader].
func (r reader) HeldCallByTask(agent, task string) (approval.Call, error) {
	return first(bodies[approval.Call](r, "SELECT body FROM held_call WHERE agent = $1 AND task = $2", agent, task))
}

// HeldCalls implements [approval.Reader].
func (r reader) HeldCalls(state approval.CallState) ([]approval.Call, error) {
	return bodies[approval.Call](r, "SELECT body FROM held_call WHERE state = $1 ORDER BY made", string(state))
}

// HeldTasksOf implements [approval.Reader].
func (r reader) HeldTasksOf(agent, tenant string, owner issuer.Owner, limit int) ([]string, error) {
	rows, err := r.query("SELECT task FROM held_call WHERE agent = $1 AND owner = $2 ORDER BY made DESC LIMIT $3", agent, approval.OwnerKey(tenant, owner), limit)
	if err != nil {
		return nil, fmt.Errorf("postgres: held calls of an owner: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var task string
		if err := rows.Scan(&task); err != nil {
			return nil, fmt.Errorf("postgres: held calls of an owner: %w", err)
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
	return t.keep(q, `INSERT INTO question (id, key, holder, state, created, ended, made, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended = excluded.ended, body = excluded.body`,
		q.ID, q.Key, q.Holder, string(q.State), q.Created.UnixMilli(), ended, t.next())
}

// PutHeldCall implements [approval.Tx].
func (t *transaction) PutHeldCall(c approval.Call) error {
	return t.keep(c, `INSERT INTO held_call (question, agent, task, state, owner, made, body) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (question) DO UPDATE SET state = excluded.state, body = excluded.body`, c.Question, c.Agent, c.Task, string(c.State), approval.OwnerKey(c.Tenant, c.Owner), t.next())
}

// ForgetQuestions implements [approval.Tx].
func (t *transaction) ForgetQuestions(before time.Time) error {
	const over = "SELECT id FROM question WHERE ended <> 0 AND ended < $1"
	for _, statement := range []string{
		"DELETE FROM held_call WHERE state NOT IN ('approved', 'being_made') AND question IN (" + over + ")",
		"DELETE FROM question WHERE ended <> 0 AND ended < $1 AND id NOT IN (SELECT question FROM held_call)",
	} {
		if _, err := t.exec(statement, before.UnixMilli()); err != nil {
			return fmt.Errorf("postgres: questions to forget: %w", err)
		}
	}
	return nil
}
