package rows

import (
	"encoding/json"
	"fmt"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutRecorder implements [issuer.Tx].
func (t Tx) PutRecorder(r issuer.Recorder) error {
	body, err := json.Marshal(r.Key)
	if err != nil {
		return err
	}
	return t.exec("recorder "+r.Key.ID, `INSERT INTO recorder (key, body, enrolled, closed) VALUES (?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET closed = excluded.closed`, r.Key.ID, body, unix(r.Enrolled), unix(r.Closed))
}

// Recorders implements [issuer.Reader].
func (r Reader) Recorders() ([]issuer.Recorder, error) {
	return list(r, "recorders", func(row Row) (one issuer.Recorder, err error) {
		var body []byte
		var enrolled, closed int64
		if err := row.Scan(&body, &enrolled, &closed); err != nil {
			return one, err
		}
		one = issuer.Recorder{Enrolled: moment(enrolled), Closed: moment(closed)}
		if err := json.Unmarshal(body, &one.Key); err != nil {
			return one, fmt.Errorf("a stored recorder is damaged: %w", err)
		}
		return one, nil
	}, "SELECT body, enrolled, closed FROM recorder ORDER BY enrolled, key")
}

// Chains implements [issuer.Reader].
func (r Reader) Chains(agent string) ([]evidence.ListedChain, error) {
	return list(r, "chains", func(row Row) (evidence.ListedChain, error) {
		one := evidence.ListedChain{AgentID: agent}
		var id []byte
		if err := row.Scan(&one.Recorder, &id); err != nil {
			return one, err
		}
		if len(id) != len(one.Chain) {
			return one, fmt.Errorf("the chain of agent %s by %s is damaged: its id has %d bytes", agent, one.Recorder, len(id))
		}
		one.Chain = evidence.ChainID(id)
		return one, nil
	}, "SELECT recorder, chain FROM chain WHERE agent = ? ORDER BY recorder", agent)
}
