package sqlite

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// A process that ends while it keeps a ledger leaves the one before, after each of its
// transactions, and the next one that is kept has no parts of it.
func TestALedgerThatWasCutIsNotRead(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	before, after := []byte("before"), bytes.Repeat([]byte("after"), 150_000)
	if err := s.KeepLedger(t.Context(), 1, before); err != nil {
		t.Fatal(err)
	}
	cut, transactions := errors.New("the process ended"), 0
	for at := 0; ; at++ {
		transactions = 0
		err := rows.KeepLedger(2, after, func(change func(rows.Tx) error) error {
			if transactions == at {
				return cut
			}
			transactions++
			return s.update(t.Context(), func(tr *transaction) error { return change(tr.Tx) })
		})
		if err == nil {
			break
		}
		if got, errRead := s.Ledger(t.Context()); !errors.Is(err, cut) || errRead != nil || !bytes.Equal(got, before) {
			t.Fatalf("cut after %d transactions: %d bytes are read: %v %v", at, len(got), err, errRead)
		}
	}
	if got, err := s.Ledger(t.Context()); transactions != 4 || err != nil || !bytes.Equal(got, after) {
		t.Errorf("%d transactions, %d bytes: %v", transactions, len(got), err)
	}
	var parts int
	if err := s.reads.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM ledger_part").Scan(&parts); err != nil || parts != 3 {
		t.Errorf("%d parts are left; want 3: %v", parts, err)
	}

	// Another process keeps one meanwhile, and removes the parts of this one.
	transactions = 0
	err := rows.KeepLedger(9, after, func(change func(rows.Tx) error) error {
		if transactions++; transactions == 3 {
			if err := s.KeepLedger(t.Context(), 3, before); err != nil {
				t.Fatal(err)
			}
		}
		return s.update(t.Context(), func(tr *transaction) error { return change(tr.Tx) })
	})
	if got, errRead := s.Ledger(t.Context()); err != nil || errRead != nil || !bytes.Equal(got, before) {
		t.Errorf("two at once: %d bytes: %v %v", len(got), err, errRead)
	}
}
