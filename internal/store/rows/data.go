package rows

import (
	"fmt"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// DataLabels implements [issuer.DataReader].
func (r Reader) DataLabels(holders []string, principal string, now time.Time) ([]issuer.DataLabel, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	args, of := []any{now.Unix()}, ""
	if principal != "" {
		args, of = append(args, principal), "AND (principal = ? OR principal = '') "
	}
	marks, args := among(holders, args)
	found, err := r.db.Query("SELECT source, untrusted, confidential, MIN(since), MAX(until) FROM data_label "+
		"WHERE until >= ? "+of+"AND holder IN ("+marks+") "+
		"GROUP BY source, untrusted, confidential ORDER BY source, untrusted, confidential", args...)
	if err != nil {
		return nil, fmt.Errorf("store: labels of data: %w", err)
	}
	defer found.Close()
	var out []issuer.DataLabel
	for found.Next() {
		var l issuer.DataLabel
		var untrusted, confidential, since, until int64
		if err := found.Scan(&l.Source, &untrusted, &confidential, &since, &until); err != nil {
			return nil, fmt.Errorf("store: labels of data: %w", err)
		}
		l.Untrusted, l.Confidential = untrusted != 0, confidential != 0
		l.Since, l.Until = time.UnixMilli(since).UTC(), time.Unix(until, 0).UTC()
		out = append(out, l)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("store: labels of data: %w", err)
	}
	return out, nil
}

// among returns placeholders for values, and the arguments with them behind.
func among[T any](values []T, args []any) (string, []any) {
	for _, v := range values {
		args = append(args, v)
	}
	return strings.TrimSuffix(strings.Repeat("?,", len(values)), ","), args
}

// maxAmong is how many values one statement asks about.
const maxAmong = 200

// DataValues implements [issuer.DataReader].
func (r Reader) DataValues(holders []string, principal, task string, digests [][]byte, now time.Time) (map[string]bool, error) {
	out := map[string]bool{}
	for len(holders) > 0 && len(digests) > 0 {
		some := digests[:min(len(digests), maxAmong)]
		digests = digests[len(some):]
		ofHolders, args := among(holders, []any{now.Unix(), principal, task})
		ofDigests, args := among(some, args)
		err := r.digests(out, "SELECT digest FROM data_value WHERE until >= ? AND principal = ? AND task = ? AND holder IN ("+ofHolders+") AND digest IN ("+ofDigests+")", args)
		if err != nil {
			return nil, fmt.Errorf("store: values that were read: %w", err)
		}
	}
	return out, nil
}

func (r Reader) digests(into map[string]bool, query string, args []any) error {
	found, err := r.db.Query(query, args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var digest []byte
		if err := found.Scan(&digest); err != nil {
			return err
		}
		into[string(digest)] = true
	}
	return found.Err()
}

// PutDataLabel implements [issuer.DataTx].
func (t Tx) PutDataLabel(holder, principal string, l issuer.DataLabel) error {
	return t.exec("label of data", "INSERT INTO data_label (holder, principal, source, untrusted, confidential, since, until) VALUES (?, ?, ?, ?, ?, ?, ?) "+
		"ON CONFLICT (holder, principal, source, untrusted, confidential) DO UPDATE SET until = excluded.until WHERE excluded.until > data_label.until",
		holder, principal, l.Source, number(l.Untrusted), number(l.Confidential), l.Since.UnixMilli(), l.Until.Unix())
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// PutDataValues implements [issuer.DataTx].
func (t Tx) PutDataValues(holder, principal, task string, digests [][]byte, until time.Time, limit int) error {
	for _, digest := range digests {
		err := t.exec("value that was read", "INSERT INTO data_value (holder, principal, task, digest, until) VALUES (?, ?, ?, ?, ?) "+
			"ON CONFLICT (holder, principal, task, digest) DO UPDATE SET until = excluded.until WHERE excluded.until > data_value.until",
			holder, principal, task, digest, until.Unix())
		if err != nil {
			return err
		}
	}
	var has int64
	if err := t.db.QueryRow("SELECT COUNT(*) FROM data_value WHERE holder = ?", holder).Scan(&has); err != nil {
		return fmt.Errorf("store: values that were read: %w", err)
	}
	if has <= int64(limit) {
		return nil
	}
	// Older values are forgotten, which can only refuse more.
	return t.exec("values to forget", "DELETE FROM data_value WHERE holder = ? AND until < (SELECT MIN(until) FROM (SELECT until FROM data_value WHERE holder = ? ORDER BY until DESC LIMIT ?) AS newest)",
		holder, holder, limit)
}

// ForgetData implements [issuer.DataTx].
func (t Tx) ForgetData(before time.Time) error {
	if err := t.exec("labels to forget", "DELETE FROM data_label WHERE until < ?", before.Unix()); err != nil {
		return err
	}
	return t.exec("values to forget", "DELETE FROM data_value WHERE until < ?", before.Unix())
}
