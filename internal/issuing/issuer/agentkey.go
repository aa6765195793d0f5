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

// UsesKey records the key that an agent signs with, once: when it begins to, or
// when someone put another file in the key's place. So anyone who has the evidence
// knows how old every agent's key is (EXT-20).
func (i *Issuer) UsesKey(ctx context.Context, k AgentKey) error {
	var known string
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		known, _, err = r.AgentKey(k.Agent)
		return err
	})
	if err != nil || known == k.Key {
		return err
	}
	return i.putKey(ctx, issuerItself, action.KeyUse, k)
}

// RotatesKey records that an operator has an agent sign with another key from
// now on (EXT-34).
func (i *Issuer) RotatesKey(ctx context.Context, operator string, k AgentKey) error {
	return i.putKey(ctx, operator, action.KeyRotate, k)
}

func (i *Issuer) putKey(ctx context.Context, by string, of action.Type, k AgentKey) error {
	said := map[string]any{"agent": k.Agent, "key": k.Key, "renewed": k.Renewed.UTC().Format(time.RFC3339)}
	if k.Before != "" {
		said["before"], said["accepted_until"] = k.Before, k.Until.UTC().Format(time.RFC3339)
	}
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, of, evidence.Intent{Operation: OperationCapability, Details: details(said)})
	if err != nil {
		return err
	}
	record.OutcomeStatus = evidence.Achieved
	return i.config.Store.Update(ctx, func(tx Tx) error {
		if err := tx.PutAgentKey(k.Agent, k.Key, k.Renewed); err != nil {
			return err
		}
		_, err := tx.Append(record)
		return err
	})
}
