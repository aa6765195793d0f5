package rows

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Question implements [approval.Reader].
func (r Reader) Question(id string) (approval.Question, error) {
	return first(bodies[approval.Question](r, "SELECT body FROM question WHERE id = ?", id))
}

// QuestionByKey implements [approval.Reader].
func (r Reader) QuestionByKey(key string) (approval.Question, error) {
	return first(bodies[approval.Question](r, "SELECT body FROM question WHERE key = ? AND key <> '' ORDER BY made DESC LIMIT 1", key))
}

// Questions implements [approval.Reader].
func (r Reader) Questions(state issuer.State) ([]approval.Question, error) {
	return bodies[approval.Question](r, "SELECT body FROM question WHERE state = ? ORDER BY made", string(state))
}

// QuestionsOf implements [approval.Reader].
func (r Reader) QuestionsOf(holder string, since time.Time) (made, denied int, err error) {
	err = r.db.QueryRow("SELECT count(*), count(*) FILTER (WHERE state = 'denied') FROM question WHERE holder = ? AND created > ?", holder, since.UnixMilli()).Scan(&made, &denied)
	if err != nil {
		return 0, 0, fmt.Errorf("store: questions of a holder: %w", err)
	}
	return made, denied, nil
}

// HeldCall implements [approval.Reader].
func (r Reader) HeldCall(question string) (approval.Call, error) {
	return first(bodies[approval.Call](r, "SELECT body FROM held_call WHERE question = ?", question))
}

// HeldCallByTask implements [approval.Reader].
func (r Reader) HeldCallByTask(agent, task string) (approval.Call, error) {
	return first(bodies[approval.Call](r, "SELECT body FROM held_call WHERE agent = ? AND task = ?", agent, task))
}

// HeldCalls implements [approval.Reader].
func (r Reader) HeldCalls(state approval.CallState) ([]approval.Call, error) {
	return bodies[approval.Call](r, "SELECT body FROM held_call WHERE state = ? ORDER BY made", string(state))
}

// HeldTasksOf implements [approval.Reader].
func (r Reader) HeldTasksOf(agent, tenant string, owner issuer.Owner, limit int) ([]string, error) {
	return list(r, "held calls of an owner", scanText, "SELECT task FROM held_call WHERE agent = ? AND owner = ? ORDER BY made DESC LIMIT ?",
		agent, approval.OwnerKey(tenant, owner), limit)
}

// PutQuestion implements [approval.Tx].
func (t Tx) PutQuestion(q approval.Question) error {
	ended := int64(0)
	if over := q.Over(); !over.IsZero() {
		ended = over.UnixMilli()
	}
	return t.Keep(q, `INSERT INTO question (id, key, holder, state, created, ended, made, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended = excluded.ended, body = excluded.body`,
		q.ID, q.Key, q.Asker(), string(q.State), q.Created.UnixMilli(), ended, t.made())
}

// PutHeldCall implements [approval.Tx].
func (t Tx) PutHeldCall(c approval.Call) error {
	return t.Keep(c, `INSERT INTO held_call (question, agent, task, state, owner, made, body) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (question) DO UPDATE SET state = excluded.state, body = excluded.body`, c.Question, c.Agent, c.Task, string(c.State), approval.OwnerKey(c.Tenant, c.Owner), t.made())
}

// ForgetQuestions implements [approval.Tx].
func (t Tx) ForgetQuestions(before time.Time) error {
	const over = "SELECT id FROM question WHERE ended <> 0 AND ended < ?"
	for _, statement := range []string{
		"DELETE FROM held_call WHERE state NOT IN ('approved', 'being_made') AND question IN (" + over + ")",
		"DELETE FROM question WHERE ended <> 0 AND ended < ? AND id NOT IN (SELECT question FROM held_call)",
	} {
		if err := t.exec("questions to forget", statement, before.UnixMilli()); err != nil {
			return err
		}
	}
	return nil
}
