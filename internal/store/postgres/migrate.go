package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrSchema is returned for a database whose schema is not the one that this program
// knows. The message says which, and what to do.
var ErrSchema = errors.New("postgres: the schema does not fit")

// Schema is how far a database is, and how far this program would bring it.
type Schema struct{ Has, Wants int64 }

// parse reads where the database is. Its password is in no error. What leaves the
// machine is encrypted, to a server that is known.
func parse(url string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: the URL of the database: %w", err)
	}
	bad := !local(c.ConnConfig.Host) && (c.ConnConfig.TLSConfig == nil || c.ConnConfig.TLSConfig.InsecureSkipVerify)
	for _, f := range c.ConnConfig.Fallbacks {
		bad = bad || !local(f.Host) && (f.TLSConfig == nil || f.TLSConfig.InsecureSkipVerify)
	}
	if bad {
		return nil, errors.New("postgres: the URL of the database names another machine without sslmode=verify-full; want it, with sslrootcert where the server's authority is your own")
	}
	return c, nil
}

// local reports whether a host is this machine: a socket's folder, or loopback.
func local(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

func withProvider(url string, do func(*goose.Provider) error) (err error) {
	c, err := parse(url)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*c.ConnConfig)
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return err
	}
	return do(provider)
}

// Status tells how far a database is. It changes nothing: one that no migration was
// made in has 0.
func Status(ctx context.Context, url string) (s Schema, err error) {
	err = withProvider(url, func(p *goose.Provider) error {
		for _, source := range p.ListSources() {
			s.Wants = max(s.Wants, source.Version)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	c, err := parse(url)
	if err != nil {
		return s, err
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return s, fmt.Errorf("postgres: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing was written
	var there bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'goose_db_version')").Scan(&there)
	if err == nil && there {
		err = conn.QueryRow(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&s.Has)
	}
	if err != nil {
		return s, fmt.Errorf("postgres: schema: %w", err)
	}
	return s, nil
}

// check refuses a schema that is not the one that this program knows, with
// [ErrSchema].
func check(ctx context.Context, url string) error {
	s, err := Status(ctx, url)
	switch {
	case err != nil:
		return err
	case s.Has > s.Wants:
		return fmt.Errorf("%w: version %d is newer than %d, the newest that this program knows; use a newer powerbox", ErrSchema, s.Has, s.Wants)
	case s.Has < s.Wants:
		return fmt.Errorf("%w: version %d is older than %d; run 'powerbox migrate up'", ErrSchema, s.Has, s.Wants)
	}
	return nil
}

// Migrate brings the schema up to date. Of several who do so at once one does it: the
// others find it done, or fail and change nothing.
func Migrate(ctx context.Context, url string) (Schema, error) {
	s, err := Status(ctx, url)
	if err != nil {
		return s, err
	}
	if s.Has > s.Wants {
		return s, check(ctx, url)
	}
	err = withProvider(url, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("postgres: migrating: %w", err)
	}
	return Status(ctx, url)
}

var _ *sql.DB // goose wants database/sql; the store itself does not
