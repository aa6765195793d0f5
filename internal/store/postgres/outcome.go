package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/powerbox-project/powerbox/evidence"
)

// errUnknown is what a look at a commit ends with that the database did not acknowledge.
var errUnknown = errors.New("the database did not say whether it is durable")

// unknown is what a batch ends with whose commit was sent, and of which it could not be
// found out in time what became of it.
type unknown struct {
	token [16]byte // of its transaction
	err   error
}

// Error implements error.
func (u *unknown) Error() string { return errUnknown.Error() + ": " + u.err.Error() }

// errMoved is what a commit ends with that was not made under the epoch it began with.
var errMoved = errors.New("another node has written meanwhile")

// again reports whether a transaction that ended with err, and did not commit, can
// be tried again: the connection was lost, the database is away or only reads, or
// another transaction was in the way.
func again(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		var network net.Error
		return errors.As(err, &network) || pgconn.SafeToRetry(err) || errors.Is(err, errMoved) || errors.Is(err, net.ErrClosed) || lost(err)
	}
	switch refused.Code {
	case "40001", "40P01", // serialization_failure, deadlock_detected
		"25P03",                            // this node stood still within it for too long
		"57P01", "57P02", "57P03", "57014", // shutdown, crash, starting up, cancelled
		"25006",          // read only: it is a standby now
		"53300", "55P03": // too many connections, a lock that was not had in time
		return true
	}
	return strings.HasPrefix(refused.Code, "08")
}

// lost reports whether a connection ended in the middle.
func lost(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "unexpected EOF") || strings.Contains(text, "conn closed") || strings.Contains(text, "closed pool")
}

// usedTwice tells whether the id of a record is in the database already.
func usedTwice(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23505" && refused.TableName == "record"
}

// aborted reports whether a statement was refused because one before it had failed.
func aborted(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "25P02" || refused.Code == "3B001")
}

// repair drops connections that lead where nothing can be written.
func (s *Store) repair(err error) {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "25006" {
		s.pool.Reset()
	}
}

// settle commits, and returns nil when the transaction is durable. An error that can
// be tried again means that it did not happen.
func (s *Store) settle(ctx context.Context, t *transaction) error {
	clean, err := s.commitOn(ctx, t.pooled)
	if clean {
		return nil
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "40001" || refused.Code == "40P01") {
		return err // it was rolled back, and the database says so
	}
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		found, err := s.look(ctx, t.token)
		switch {
		case err == nil && found:
			return nil
		case err == nil:
			return fmt.Errorf("%w: the connection was lost at its commit", errMoved)
		}
		s.repair(err)
		if !pause(ctx, wait) {
			return &unknown{t.token, err}
		}
	}
}

// find waits until it is known what became of a commit, and returns nil if it happened. It
// gives up when the store is closed.
func (s *Store) find(token [16]byte) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		ctx, cancel := context.WithTimeout(s.life, s.config.Patience)
		found, err := s.look(ctx, token)
		cancel()
		switch {
		case err == nil && found:
			return nil
		case err == nil:
			return fmt.Errorf("postgres: %w: the connection was lost at its commit", evidence.ErrNotWritten)
		}
		s.repair(err)
		if !pause(s.life, wait) {
			return errClosed
		}
	}
}

// answerLate answers the changes of a batch whose outcome is unknown. Changes without an
// error of their own may still happen, and their callers can wait for that.
func (s *Store) answerLate(u *unknown, batch []*change, results []error) {
	late := make([]chan error, 0, len(batch))
	for i, c := range batch {
		if results[i] != nil {
			c.answer(results[i])
			continue
		}
		result := make(chan error, 1) // its reader may be gone
		late = append(late, result)
		c.answer(&evidence.LateError{Result: result})
	}
	s.finding.Go(func() {
		err := s.find(u.token)
		for _, result := range late {
			result <- err
		}
	})
}

// commitOn commits, and returns true when the database acknowledged that without a
// warning: a commit whose wait for the standby was cancelled succeeds with one.
// When ctx ends, the connection is left to its commit until that is answered: to close
// it would send a request to cancel, which ends the wait, and others would see what only
// one machine has.
func (s *Store) commitOn(ctx context.Context, pooled *pgxpool.Conn) (clean bool, err error) {
	conn := pooled.Conn()
	s.warned.Delete(conn.PgConn())
	var answers []*pgconn.Result
	var failed error
	done := make(chan struct{})
	go func() {
		answers, failed = conn.PgConn().Exec(context.WithoutCancel(ctx), "COMMIT").ReadAll()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		left := pooled.Hijack()
		go func() {
			<-done
			_ = left.Close(context.WithoutCancel(ctx)) // no caller waits for it
		}()
		return false, ctx.Err()
	}
	if failed != nil {
		_ = conn.PgConn().Conn().Close()
		return false, failed
	}
	if len(answers) != 1 || answers[0].CommandTag.String() != "COMMIT" {
		return false, &pgconn.PgError{Code: "40001", Message: "the database did not answer COMMIT with COMMIT"}
	}
	if code, warned := s.warned.LoadAndDelete(conn.PgConn()); warned {
		return false, fmt.Errorf("the commit succeeded with warning %v: it may be on one machine only", code)
	}
	return true, nil
}

// look finds out whether a commit happened, and if so makes another one behind it:
// where that is acknowledged, all before it is durable, too. It waits for the row that
// a commit under way holds, so that "no" stays no.
func (s *Store) look(ctx context.Context, token [16]byte) (found bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	found, err = touch(ctx, conn, token)
	if err != nil || !found {
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, failed := conn.Exec(rollback, "ROLLBACK"); failed != nil {
			_ = conn.Conn().Close(rollback)
		}
		return found, err
	}
	if s.config.Strict {
		if err := durable(ctx, conn); err != nil {
			return true, err
		}
	}
	clean, err := s.commitOn(ctx, conn)
	if !clean && err == nil {
		err = errUnknown
	}
	return true, err
}

func touch(ctx context.Context, conn *pgxpool.Conn, token [16]byte) (found bool, err error) {
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED"); err != nil {
		return false, err
	}
	var epoch int64
	if err := conn.QueryRow(ctx, "SELECT epoch FROM log WHERE only_row = 0 FOR UPDATE").Scan(&epoch); err != nil {
		return false, err
	}
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM committed WHERE token = $1)", token[:]).Scan(&found); err != nil || !found {
		return false, err
	}
	_, err = conn.Exec(ctx, "UPDATE log SET epoch = epoch + 1 WHERE only_row = 0")
	return found, err
}

// unsent reports whether nothing of a statement can have happened.
func unsent(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return again(err) && refused.Code != "57014"
	}
	return pgconn.SafeToRetry(err)
}
