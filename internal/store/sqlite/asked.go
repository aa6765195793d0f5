package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"regexp"

	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// queryer is what a connection and a transaction have in common.
type queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// connection is a connection or a transaction as package rows asks it.
type connection struct {
	ctx context.Context //nolint:containedctx // lives as long as one transaction
	db  queryer
}

// read returns a reader of a connection or a transaction.
func read(ctx context.Context, db queryer) rows.Reader { return rows.NewReader(connection{ctx, db}) }

// words are spelled in another way here. Rows are numbered by SQLite, in the order in which they
// were made, and truth values are numbers.
var words = map[string]string{"made": "rowid", "by_whom": "by", "for_user": "user", "true": "1", "false": "0"}

var spelling = func() *rows.Spelling {
	word := regexp.MustCompile(`\b(made|by_whom|for_user|true|false)\b`)
	return rows.NewSpelling(func(statement string) string {
		return word.ReplaceAllStringFunc(statement, func(w string) string { return words[w] })
	})
}()

// Exec implements [rows.DB].
func (a connection) Exec(statement string, args ...any) (int64, error) {
	done, err := a.db.ExecContext(a.ctx, spelling.Of(statement), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// Query implements [rows.DB].
func (a connection) Query(query string, args ...any) (rows.Rows, error) {
	//nolint:rowserrcheck // the caller closes them and looks at their error
	found, err := a.db.QueryContext(a.ctx, spelling.Of(query), args...)
	if err != nil {
		return nil, err
	}
	return closed{found}, nil
}

// QueryRow implements [rows.DB].
func (a connection) QueryRow(query string, args ...any) rows.Row {
	return one{a.db.QueryRowContext(a.ctx, spelling.Of(query), args...)}
}

// closed are rows whose Close returns nothing: Err tells what matters.
type closed struct{ *sql.Rows }

// Close implements [rows.Rows].
func (c closed) Close() { _ = c.Rows.Close() }

// one is a row, or none.
type one struct{ *sql.Row }

// Scan implements [rows.Row].
func (o one) Scan(to ...any) error {
	err := o.Row.Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return rows.ErrNone
	}
	return err
}
