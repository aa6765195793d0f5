package postgres

import (
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// queryer is what a connection, a pool and a transaction have in common.
type queryer interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// reader implements the readers of all consumers on a transaction.
type reader struct {
	ctx context.Context //nolint:containedctx // lives as long as one transaction
	db  queryer
}

// bytewise makes every text of a query the bytes that its column has.
func bytewise(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case string:
			out[i] = []byte(v)
		case []string:
			list := make([][]byte, len(v))
			for n, one := range v {
				list[n] = []byte(one)
			}
			out[i] = list
		default:
			out[i] = a
		}
	}
	return out
}

func (r reader) exec(query string, args ...any) (int64, error) {
	tag, err := r.db.Exec(r.ctx, query, bytewise(args)...)
	return tag.RowsAffected(), err
}

func (r reader) query(query string, args ...any) (rows, error) {
	found, err := r.db.Query(r.ctx, query, bytewise(args)...)
	return rows{found}, err
}

func (r reader) row(query string, args ...any) row {
	return row{r.db.QueryRow(r.ctx, query, bytewise(args)...)}
}

// into is a text that is scanned from its bytes.
type into struct{ text *string }

// ScanBytes implements pgtype.BytesScanner.
func (i into) ScanBytes(b []byte) error {
	*i.text = string(b)
	return nil
}

func texts(to []any) []any {
	out := make([]any, len(to))
	for i, t := range to {
		out[i] = t
		if s, ok := t.(*string); ok {
			out[i] = into{s}
		}
	}
	return out
}

// row is a row whose bytes are scanned into texts.
type row struct{ pgx.Row }

func (r row) Scan(to ...any) error { return r.Row.Scan(texts(to)...) }

// rows are rows whose bytes are scanned into texts.
type rows struct{ pgx.Rows }

func (r rows) Scan(to ...any) error { return r.Rows.Scan(texts(to)...) }

// page is how many rows are read at once where there can be many: a connection does
// nothing else while rows are on their way.
const page = 512

// inOrder yields the bytes that a query selects in the order of its last column,
// which is above after; more is its condition. The query has $1 and $2 for the bound
// and the count, and further arguments behind.
func (r reader) inOrder(query string, after int64, args ...any) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			found, err := r.onePage(query, &after, args)
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

func (r reader) onePage(query string, after *int64, args []any) ([][]byte, error) {
	found, err := r.query(query, append([]any{*after, page}, args...)...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var out [][]byte
	for found.Next() {
		var b []byte
		if err := found.Scan(&b, after); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, found.Err()
}

func noRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
