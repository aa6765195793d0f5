package rows

import (
	"fmt"
	"iter"

	"github.com/powerbox-project/powerbox/evidence"
)

// Record implements [issuer.Reader].
func (r Reader) Record(id string) (evidence.Sealed, error) {
	return first(r.sealed("SELECT bytes FROM record WHERE id = ?", id))
}

// RecordAt returns the record of a place in the log, or [issuer.ErrNotFound].
func (r Reader) RecordAt(place int64) (evidence.Sealed, error) {
	return first(r.sealed("SELECT bytes FROM record WHERE place = ?", place))
}

// RecordsFrom returns the records of the log from a place on.
func (r Reader) RecordsFrom(place int64) ([]evidence.Sealed, error) {
	return r.sealed("SELECT bytes FROM record WHERE place >= ? ORDER BY place", place)
}

func (r Reader) eachSealed(query string, args ...any) iter.Seq2[evidence.Sealed, error] {
	return func(yield func(evidence.Sealed, error) bool) {
		for b, err := range r.raw(query, args...) {
			var s evidence.Sealed
			if err == nil {
				if s, err = evidence.ParseSealed(b); err != nil {
					err = fmt.Errorf("store: a stored record is damaged: %w", err)
				}
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func (r Reader) sealed(query string, args ...any) ([]evidence.Sealed, error) {
	var out []evidence.Sealed
	for s, err := range r.eachSealed(query, args...) {
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// page is how many rows are read at once where there can be many: a connection does
// nothing else while rows are on their way.
const page = 512

// inOrder yields the bytes that a query selects in the order of its last column,
// which is above after. The first argument of the query is that column's, the last one
// limits the rows, and args are those between.
func (r Reader) inOrder(query string, after int64, args ...any) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			found, err := list(r, "records", func(row Row) (b []byte, err error) {
				err = row.Scan(&b, &after)
				return b, err
			}, query, append(append([]any{after}, args...), page)...)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, b := range found {
				if !yield(b, nil) {
					return
				}
			}
			if len(found) < page {
				return
			}
		}
	}
}
