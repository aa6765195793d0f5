package postgres

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
	_, err = t.exec(`INSERT INTO recorder (key, body, enrolled, closed) VALUES ($1, $2, $3, $4)
		ON CONFLICT (key) DO UPDATE SET closed = excluded.closed`, r.Key.ID, body, unix(r.Enrolled), unix(r.Closed))
	if err != nil {
		return fmt.Errorf("postgres: recorder %s: %w", r.Key.ID, err)
	}
	return nil
}

// Recorders implements [issuer.Reader].
func (r reader) Recorders() ([]issuer.Recorder, error) {
	rows, err := r.query("SELECT body, enrolled, closed FROM recorder ORDER BY enrolled, key")
	if err != nil {
		return nil, fmt.Errorf("postgres: recorders: %w", err)
	}
	defer rows.Close()
	var out []issuer.Recorder
	for rows.Next() {
		var body []byte
		var enrolled, closed int64
		if err := rows.Scan(&body, &enrolled, &closed); err != nil {
			return nil, fmt.Errorf("postgres: recorders: %w", err)
		}
		one := issuer.Recorder{Enrolled: moment(enrolled), Closed: moment(closed)}
		if err := json.Unmarshal(body, &one.Key); err != nil {
			return nil, fmt.Errorf("postgres: a stored recorder is damaged: %w", err)
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("postgres: recorders: %w", err)
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
	rows, err := r.query("SELECT recorder, chain FROM chain WHERE agent = $1 ORDER BY recorder", agent)
	if err != nil {
		return nil, fmt.Errorf("postgres: chains: %w", err)
	}
	defer rows.Close()
	var out []evidence.ListedChain
	for rows.Next() {
		one := evidence.ListedChain{AgentID: agent}
		var id []byte
		if err := rows.Scan(&one.Recorder, &id); err != nil {
			return nil, fmt.Errorf("postgres: chains: %w", err)
		}
		if len(id) != len(one.Chain) {
			return nil, fmt.Errorf("postgres: the chain of agent %s by %s is damaged: its id has %d bytes", agent, one.Recorder, len(id))
		}
		one.Chain = evidence.ChainID(id)
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("postgres: chains: %w", err)
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
			return t.headOf(chainName{agent, recorder})
		}
	}
	return evidence.Head{}, issuer.ErrNotFound
}
