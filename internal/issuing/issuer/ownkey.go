package issuer

import (
	"context"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// Itself is the agent of records about the server itself.
const Itself = issuerItself

// ownKeys stands before the name of a key of the server itself, where agents have
// their ids. No id of an agent has a slash.
const ownKeys = issuerItself + "/"

// ownKey is the name under which the store keeps the id of a key of the server, by
// the file of the key.
func ownKey(file string) string { return ownKeys + file }

// SplitOwnKey returns the file of a key of the server.
func SplitOwnKey(name string) (file string, ok bool) { return strings.CutPrefix(name, ownKeys) }

// KeepsKey remembers the id of a key of the server itself, so that a start without
// this key is noticed.
func (i *Issuer) KeepsKey(ctx context.Context, file, id string) error {
	return i.config.Store.Update(ctx, func(tx Tx) error {
		return tx.PutAgentKey(ownKey(file), id, i.config.Now())
	})
}

// ReplacedKey is a key that was lost, and the one that an operator put in its place.
type ReplacedKey struct {
	File   string
	Before string // id of the lost key, "" where it is not known
	Key    string
	Reason string
}

// ReplacesKey records that an operator replaced a key. Verifiers find both ids in
// the record.
func (i *Issuer) ReplacesKey(ctx context.Context, operator string, k ReplacedKey) error {
	said := map[string]any{"file": k.File, "key": k.Key, "before": k.Before, "reason": k.Reason}
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: operator}, action.KeyReplace, evidence.Intent{Operation: OperationCapability, Details: details(said)})
	if err != nil {
		return err
	}
	record.OutcomeStatus = evidence.Achieved
	return i.config.Store.Update(ctx, func(tx Tx) error {
		_, err := tx.Append(record)
		return err
	})
}
