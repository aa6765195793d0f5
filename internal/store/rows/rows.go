// Package rows keeps the issuer's state in SQL. It has every statement that SQLite and PostgreSQL
// share, and reads the rows into values.
//
// In a statement, ? stands for an argument, and names are those of the PostgreSQL schema: made
// orders rows as they were written, and by_whom and for_user have longer names because by and for
// are SQL keywords. Each store gives its database as a [DB], which adapts a statement to its own
// dialect ([Spelling]). Where a store works differently, its method hides the one here.
//
// This package imports no database driver.
package rows

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// DB is a transaction, or a snapshot, that statements run in.
type DB interface {
	// Exec runs a statement and returns how many rows it changed.
	Exec(statement string, args ...any) (changed int64, err error)
	Query(query string, args ...any) (Rows, error)
	// QueryRow returns a row whose Scan returns [ErrNone] where there is none.
	QueryRow(query string, args ...any) Row
}

// Row is scanned into texts, bytes, whole numbers and truth values.
type Row interface {
	Scan(to ...any) error
}

// Rows are closed by the end of Next, too.
type Rows interface {
	Row
	Next() bool
	Err() error
	Close()
}

// ErrNone is returned for a row that is not there.
var ErrNone = errors.New("no row")

// Spelling is how one database spells statements. Each is spelled once, however often it runs.
// It can be used by many goroutines.
type Spelling struct {
	spell func(statement string) string
	known sync.Map // spelled, by statement
	count atomic.Int32
}

// maxSpelled bounds the statements that are remembered: lists of any length make a text each.
const maxSpelled = 1 << 10

// NewSpelling returns what spells statements with spell.
func NewSpelling(spell func(statement string) string) *Spelling { return &Spelling{spell: spell} }

// Of returns a statement as in the database.
func (s *Spelling) Of(statement string) string {
	if known, ok := s.known.Load(statement); ok {
		return known.(string) //nolint:forcetypeassert // nothing else is stored
	}
	spelled := s.spell(statement)
	if s.count.Add(1) <= maxSpelled {
		s.known.Store(statement, spelled)
	}
	return spelled
}

// Reader implements the readers of issuer, provider, approval and registry.
type Reader struct{ db DB }

// NewReader returns a reader of one transaction or snapshot.
func NewReader(db DB) Reader { return Reader{db} }

// Tx implements the transactions of issuer, provider, approval and registry except what
// appends records and archives them.
type Tx struct {
	Reader
	counts *issuer.Versions
	made   func() any
}

// NewTx returns a transaction. It counts in counts what it changes, and made is the number of
// the next row that has an order, nil for a database that numbers rows itself.
func NewTx(db DB, counts *issuer.Versions, made func() any) Tx { return Tx{Reader{db}, counts, made} }

// each calls take for every row that a query selects.
func (r Reader) each(what string, take func(Row) error, query string, args ...any) error {
	found, err := r.db.Query(query, args...)
	if err != nil {
		return fmt.Errorf("store: %s: %w", what, err)
	}
	defer found.Close()
	for found.Next() {
		if err := take(found); err != nil {
			return fmt.Errorf("store: %s: %w", what, err)
		}
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("store: %s: %w", what, err)
	}
	return nil
}

// list returns what scan makes of every row that a query selects.
func list[T any](r Reader, what string, scan func(Row) (T, error), query string, args ...any) (out []T, err error) {
	err = r.each(what, func(row Row) error {
		one, err := scan(row)
		out = append(out, one)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func scanText(row Row) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// raw yields the bytes that a query selects. What reads them one by one may be slow, and has
// the database to itself meanwhile.
func (r Reader) raw(query string, args ...any) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		found, err := r.db.Query(query, args...)
		if err != nil {
			yield(nil, fmt.Errorf("store: records: %w", err))
			return
		}
		defer found.Close()
		for found.Next() {
			var b []byte
			if err := found.Scan(&b); err != nil {
				yield(nil, fmt.Errorf("store: records: %w", err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := found.Err(); err != nil {
			yield(nil, fmt.Errorf("store: records: %w", err))
		}
	}
}

// bodies reads what a query selects the bodies of.
func bodies[T any](r Reader, query string, args ...any) ([]T, error) {
	var out []T
	for data, err := range r.raw(query, args...) {
		if err != nil {
			return nil, err
		}
		var one T
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, fmt.Errorf("store: a stored %T is damaged: %w", one, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// first returns the first of a list, and [issuer.ErrNotFound] for an empty one.
func first[T any](list []T, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if len(list) == 0 {
		return zero, issuer.ErrNotFound
	}
	return list[0], nil
}

// exec runs a statement about what.
func (t Tx) exec(what, statement string, args ...any) error {
	if _, err := t.db.Exec(statement, args...); err != nil {
		return fmt.Errorf("store: %s: %w", what, err)
	}
	return nil
}

// Keep stores a thing, whose columns come before its body.
func (t Tx) Keep(thing any, statement string, columns ...any) error {
	body, err := json.Marshal(thing)
	if err != nil {
		return err
	}
	return t.exec(fmt.Sprintf("%T", thing), statement, append(columns, body)...)
}

// unix is 0 for the zero time, which stands for no end.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// moment is the zero time for 0.
func moment(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
