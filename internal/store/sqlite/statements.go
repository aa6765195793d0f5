package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// statements is a connection with every statement compiled once, instead of each
// time that it runs. There are about as many as the package has texts. It is for one
// goroutine at a time.
type statements struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

// maxPrepared bounds the statements that a connection keeps compiled: lists of any
// length make a text each.
const maxPrepared = 256

func (s *statements) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if known, ok := s.prepared[query]; ok {
		return known, nil
	}
	if len(s.prepared) >= maxPrepared {
		for text, statement := range s.prepared { // any one; those in use come again
			if err := statement.Close(); err != nil {
				return nil, err
			}
			delete(s.prepared, text)
			break
		}
	}
	made, err := s.conn.PrepareContext(ctx, query)
	if err == nil {
		s.prepared[query] = made
	}
	return made, err
}

// ExecContext implements queryer.
func (s *statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	statement, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.ExecContext(ctx, args...)
}

// QueryContext implements queryer.
func (s *statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	statement, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(ctx, args...)
}

// QueryRowContext implements queryer. What cannot be compiled is left to the
// connection, whose row carries the error.
func (s *statements) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	statement, err := s.prepare(ctx, query)
	if err != nil {
		return s.conn.QueryRowContext(ctx, query, args...)
	}
	return statement.QueryRowContext(ctx, args...)
}

// close also gives the connection back. It does nothing for a nil s.
func (s *statements) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, statement := range s.prepared {
		errs = append(errs, statement.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}
