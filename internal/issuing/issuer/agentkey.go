package issuer

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// AgentKey is an issuing key of an agent as in evidence: by its thumbprint.
type AgentKey struct {
	Agent   string
	Key     string    // RFC 7638 thumbprint
	Renewed time.Time // when it was made
	Before  string    // key in whose place it is, "" for none
	Until   time.Time // what that one signed is accepted before this
}

// UsesKeys records the keys that agents sign with, each once: when an agent begins to, or
// when someone put another file in its key's place. So anyone who has the evidence
// knows how old every agent's key is (EXT-20).
func (i *Issuer) UsesKeys(ctx context.Context, keys []AgentKey) error {
	var known map[string]string
	err := i.config.Store.View(ctx, func(r Reader) (err error) {
		known, err = r.NewestKeys()
		return err
	})
	if err != nil {
		return err
	}
	var fresh []AgentKey
	for n := range keys {
		if known[keys[n].Agent] != keys[n].Key {
			fresh = append(fresh, keys[n])
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return i.putKeys(ctx, issuerItself, action.KeyUse, fresh)
}

// RotatesKey records that an operator has an agent sign with another key from
// now on (EXT-34).
func (i *Issuer) RotatesKey(ctx context.Context, operator string, k AgentKey) error {
	return i.putKeys(ctx, operator, action.KeyRotate, []AgentKey{k})
}

func (i *Issuer) putKeys(ctx context.Context, by string, of action.Type, keys []AgentKey) error {
	records := make([]evidence.Record, len(keys))
	for n := range keys {
		var err error
		if records[n], err = i.keyRecord(by, of, &keys[n]); err != nil {
			return err
		}
	}
	return i.config.Store.Update(ctx, func(tx Tx) error {
		for n := range keys {
			k := &keys[n]
			if err := tx.PutAgentKey(k.Agent, k.Key, k.Renewed); err != nil {
				return err
			}
			if _, err := tx.Append(records[n]); err != nil {
				return err
			}
		}
		return nil
	})
}

// keyRecord says that an agent signs with a key.
func (i *Issuer) keyRecord(by string, of action.Type, k *AgentKey) (evidence.Record, error) {
	said := map[string]any{"agent": k.Agent, "key": k.Key, "renewed": k.Renewed.UTC().Format(time.RFC3339)}
	if k.Before != "" {
		said["before"], said["accepted_until"] = k.Before, k.Until.UTC().Format(time.RFC3339)
	}
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, of, evidence.Intent{Operation: OperationCapability, Details: details(said)})
	record.OutcomeStatus = evidence.Achieved
	return record, err
}
