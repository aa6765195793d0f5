package rows

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
)

// ledgerPart is how many bytes of a ledger one transaction writes. Calls wait for no more.
const ledgerPart = 256 << 10

// Ledger returns the ledger of scores that was kept last, nil for none.
func (r Reader) Ledger() ([]byte, error) {
	var draft string
	var parts int
	err := r.db.QueryRow("SELECT draft, parts FROM ledger").Scan(&draft, &parts)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: ledger: %w", err)
	}
	var all [][]byte
	for part, err := range r.raw("SELECT body FROM ledger_part WHERE draft = ? ORDER BY part", draft) {
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	if len(all) != parts {
		return nil, fmt.Errorf("store: ledger: %d of its %d parts are there", len(all), parts)
	}
	return bytes.Join(all, nil), nil
}

// KeepLedger keeps a ledger of the records before a place: first its parts, in a transaction each,
// and then, in one, the row that names them. Until then the one before counts. A ledger of as many
// records or more stays, and so does what another process keeps meanwhile. No body removes all.
func KeepLedger(place int64, body []byte, update func(func(Tx) error) error) error {
	if len(body) == 0 {
		return update(Tx.forgetLedger)
	}
	draft, parts := rand.Text(), 0
	for part := range slices.Chunk(body, ledgerPart) {
		if err := update(func(t Tx) error {
			return t.exec("ledger", "INSERT INTO ledger_part (draft, part, body) VALUES (?, ?, ?)", draft, parts, part)
		}); err != nil {
			return err
		}
		parts++
	}
	return update(func(t Tx) error { return t.turnLedger(draft, parts, place) })
}

func (t Tx) forgetLedger() error {
	return errors.Join(t.exec("ledger", "DELETE FROM ledger"), t.exec("ledger", "DELETE FROM ledger_part"))
}

// turnLedger has a draft in place of the ledger before.
func (t Tx) turnLedger(draft string, parts int, place int64) error {
	var there int
	if err := t.db.QueryRow("SELECT COUNT(*) FROM ledger_part WHERE draft = ?", draft).Scan(&there); err != nil {
		return fmt.Errorf("store: ledger: %w", err)
	}
	var turned int64
	if there == parts {
		var err error
		turned, err = t.db.Exec(`INSERT INTO ledger (only_row, place, draft, parts) VALUES (0, ?, ?, ?)
			ON CONFLICT (only_row) DO UPDATE SET place = excluded.place, draft = excluded.draft, parts = excluded.parts WHERE ledger.place < excluded.place`, place, draft, parts)
		if err != nil {
			return fmt.Errorf("store: ledger: %w", err)
		}
	}
	if turned == 0 {
		return t.exec("ledger", "DELETE FROM ledger_part WHERE draft = ?", draft)
	}
	return t.exec("ledger", "DELETE FROM ledger_part WHERE draft <> ?", draft)
}
