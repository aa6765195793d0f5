package issuer

import (
	"context"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// maxChanges bounds what one record says of a reload.
const maxChanges = 500

// Reloaded records that the configuration is about to be replaced: by whom, the digests
// before and after, and what changes by name. It returns the record's id.
func (i *Issuer) Reloaded(ctx context.Context, by, before, after string, changes []string) (string, error) {
	said := map[string]any{"before": before, "after": after, "changes": changes[:min(len(changes), maxChanges)], "changed": len(changes)}
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, action.ConfigReload, evidence.Intent{
		Operation: OperationCapability, Details: details(said),
	})
	if err != nil {
		return "", err
	}
	record.OutcomeStatus = evidence.Achieved
	return record.ID, i.config.Store.Update(ctx, func(tx Tx) error {
		_, err := tx.Append(record)
		return err
	})
}
