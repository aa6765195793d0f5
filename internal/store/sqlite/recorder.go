package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutRecorder implements [issuer.Tx].
func (t *transaction) PutRecorder(r issuer.Recorder) error {
	body, err := json.Marshal(r.Key)
	if err != nil {
		return err
	}
	_, err = t.db.ExecContext(t.ctx, `INSERT INTO recorder (key, body, enrolled, closed) VALUES (?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET closed = excluded.closed`, r.Key.ID, body, unix(r.Enrolled), unix(r.Closed))
	if err != nil {
		return fmt.Errorf("sqlite: recorder %s: %w", r.Key.ID, err)
	}
	return nil
}

// Recorders implements [issuer.Reader].
func (r reader) Recorders() ([]issuer.Recorder, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT body, enrolled, closed FROM recorder ORDER BY enrolled, key")
	if err != nil {
		return nil, fmt.Errorf("sqlite: recorders: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []issuer.Recorder
	for rows.Next() {
		var body []byte
		var enrolled, closed int64
		if err := rows.Scan(&body, &enrolled, &closed); err != nil {
			return nil, fmt.Errorf("sqlite: recorders: %w", err)
		}
		one := issuer.Recorder{Enrolled: moment(enrolled), Closed: moment(closed)}
		if err := json.Unmarshal(body, &one.Key); err != nil {
			return nil, fmt.Errorf("sqlite: a stored recorder is damaged: %w", err)
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: recorders: %w", err)
	}
	return out, nil
}

// moment is the zero time for 0.
func moment(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// Chains implements [issuer.Reader].
func (r reader) Chains(agent string) ([]evidence.ListedChain, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT recorder, chain FROM chain WHERE agent = ? ORDER BY recorder", agent)
	if err != nil {
		return nil, fmt.Errorf("sqlite: chains: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []evidence.ListedChain
	for rows.Next() {
		one := evidence.ListedChain{AgentID: agent}
		var id []byte
		if err := rows.Scan(&one.Recorder, &id); err != nil {
			return nil, fmt.Errorf("sqlite: chains: %w", err)
		}
		if len(id) != len(one.Chain) {
			return nil, fmt.Errorf("sqlite: the chain of agent %s by %s is damaged: its id has %d bytes", agent, one.Recorder, len(id))
		}
		one.Chain = evidence.ChainID(id)
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: chains: %w", err)
	}
	return out, nil
}

// ChainEnd implements [issuer.Tx].
func (t *transaction) ChainEnd(agent, recorder string) (evidence.Head, error) {
	rows, err := t.Chains(agent)
	if err != nil {
		return evidence.Head{}, err
	}
	for _, c := range rows {
		if c.Recorder == recorder {
			return t.head(chainName{agent, recorder})
		}
	}
	return evidence.Head{}, issuer.ErrNotFound
}
