package postgres

import (
	"context"
	"errors"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// queryer is what a connection, a pool and a transaction have in common.
type queryer interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// database is a connection, a pool or a transaction as package rows asks it.
type database struct {
	ctx context.Context //nolint:containedctx // lives as long as one transaction
	db  queryer
}

// read returns a reader of a connection, a pool or a transaction.
func read(ctx context.Context, db queryer) rows.Reader { return rows.NewReader(database{ctx, db}) }

// spelling numbers the arguments, and looks for bytes in bytes with the function that has a type.
var spelling = func() *rows.Spelling {
	contains := regexp.MustCompile(`instr\((\w+), \?\)`)
	argument := regexp.MustCompile(`\?`)
	return rows.NewSpelling(func(statement string) string {
		n := 0
		return argument.ReplaceAllStringFunc(contains.ReplaceAllString(statement, "position(?::bytea IN $1)"), func(string) string {
			n++
			return "$" + strconv.Itoa(n)
		})
	})
}()

// bytewise makes every text of a query the bytes that its column has.
func bytewise(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if text, ok := a.(string); ok {
			a = []byte(text)
		}
		out[i] = a
	}
	return out
}

// Exec implements [rows.DB].
func (a database) Exec(statement string, args ...any) (int64, error) {
	tag, err := a.db.Exec(a.ctx, spelling.Of(statement), bytewise(args)...)
	return tag.RowsAffected(), err
}

// Query implements [rows.DB].
func (a database) Query(query string, args ...any) (rows.Rows, error) {
	found, err := a.db.Query(a.ctx, spelling.Of(query), bytewise(args)...)
	if err != nil {
		return nil, err
	}
	return rowSet{found}, nil
}

// QueryRow implements [rows.DB].
func (a database) QueryRow(query string, args ...any) rows.Row {
	return one{a.db.QueryRow(a.ctx, spelling.Of(query), bytewise(args)...)}
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

// one is a row whose bytes are scanned into texts, or none.
type one struct{ pgx.Row }

// Scan implements [rows.Row].
func (o one) Scan(to ...any) error {
	err := o.Row.Scan(texts(to)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return rows.ErrNone
	}
	return err
}

// rowSet are rows whose bytes are scanned into texts.
type rowSet struct{ pgx.Rows }

// Scan implements [rows.Row].
func (s rowSet) Scan(to ...any) error { return s.Rows.Scan(texts(to)...) }
