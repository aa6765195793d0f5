package sources

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// SQLSettings are those of a statement in PostgreSQL.
type SQLSettings struct {
	// URL returns the URL of the database with its password. It is read for every new
	// connection, so that the password can be replaced.
	URL         func() (string, error)
	Statement   string // a SELECT, in which $1 is the principal
	ID          string // its column with the id, by which pages are ordered
	Name        string // its column with the name, "" for none
	Page        int    // rows of a page
	Connections int
	Timeout     time.Duration
}

// idle is how long a connection stays that no query uses.
const idle = time.Minute

// SQL asks a statement of the operator. It implements [Source].
type SQL struct {
	pool *pgxpool.Pool
	set  SQLSettings
}

// NewSQL returns the source. The database need not be there yet. The caller closes it.
func NewSQL(ctx context.Context, set SQLSettings) (*SQL, error) {
	c, err := set.connect()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, errors.New("the URL of the database cannot be used")
	}
	return &SQL{pool, set}, nil
}

func (set SQLSettings) connect() (*pgxpool.Config, error) {
	text, err := set.URL()
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(strings.TrimSpace(text))
	if err != nil {
		// The error of the parser may have the password.
		return nil, errors.New("no URL of a PostgreSQL database; want postgres://user:password@host/name?sslmode=verify-full")
	}
	c.MaxConns, c.MinConns, c.MaxConnIdleTime = int32(min(set.Connections, 1000)), 0, idle
	limit := strconv.FormatInt(max(1, set.Timeout.Milliseconds()), 10)
	for name, value := range map[string]string{
		"application_name": "powerbox", "default_transaction_read_only": "on", "statement_timeout": limit, "lock_timeout": limit,
		"idle_in_transaction_session_timeout": limit, "standard_conforming_strings": "on",
	} {
		c.ConnConfig.RuntimeParams[name] = value
	}
	c.BeforeConnect = func(_ context.Context, own *pgx.ConnConfig) error {
		text, err := set.URL()
		if err != nil {
			return err
		}
		next, err := pgx.ParseConfig(strings.TrimSpace(text))
		if err != nil {
			return errors.New("no URL of a PostgreSQL database")
		}
		own.User, own.Password = next.User, next.Password
		return nil
	}
	return c, nil
}

// Close ends the connections.
func (s *SQL) Close() { s.pool.Close() }

// Page implements [Source].
func (s *SQL) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	if strings.ContainsRune(q.Principal, 0) {
		return catalogue.Page{}, errors.New("the name of the principal has a character that no text of PostgreSQL has")
	}
	columns := slices.Sorted(maps.Keys(q.Collection.Attributes))
	text, args := s.set.compose(q, columns)
	if text == "" {
		return catalogue.Page{}, nil
	}
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return catalogue.Page{}, sqlError(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return catalogue.Page{}, sqlError(err)
	}
	defer rows.Close()
	var p catalogue.Page
	for rows.Next() {
		item, err := scan(rows, q.Collection, columns)
		if err != nil {
			return catalogue.Page{}, err
		}
		if len(p.Items) == s.set.Page {
			p.Next = p.Items[len(p.Items)-1].ID
			break
		}
		p.Items = append(p.Items, item)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return catalogue.Page{}, sqlError(err)
	}
	return p, nil
}

// compose writes the statement of one page. Names in it are those of the configuration,
// quoted; every value is a parameter. It returns "" if no row can match.
func (set SQLSettings) compose(q catalogue.Question, columns []string) (text string, args []any) {
	column := func(name string) string { return "s." + pgx.Identifier{name}.Sanitize() }
	args = []any{q.Principal}
	bind := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	id := column(set.ID)
	// A text that is cut at one more character than is admitted is left out later, and
	// large values stay in the database.
	selected := []string{id + "::text", "''"}
	if set.Name != "" {
		selected[1] = "left(" + column(set.Name) + "::text, 257)"
	}
	for _, name := range columns {
		selected = append(selected, output(column(name), q.Collection.Attributes[name].Type))
	}
	where := []string{"octet_length(" + id + "::text) <= " + strconv.Itoa(catalogue.MaxIDBytes)}
	if q.After != "" {
		where = append(where, id+" > "+bind(q.After))
	}
	for _, c := range q.Query.Conditions() {
		more, possible := condition(c, column(c.Attribute), q.Collection.Attributes[c.Attribute].Type, bind)
		if !possible {
			return "", nil
		}
		where = append(where, more...)
	}
	// The statement ends with a line break, so that a comment at its end is only that.
	return fmt.Sprintf("SELECT %s FROM (\n%s\n) AS s WHERE %s ORDER BY %s LIMIT %d",
		strings.Join(selected, ", "), set.Statement, strings.Join(where, " AND "), id, set.Page+1), args
}

// output is how a column leaves the database.
func output(column string, t catalogue.Type) string {
	switch t {
	case catalogue.TypeInteger:
		return column + "::bigint"
	case catalogue.TypeBoolean:
		return column + "::boolean"
	case catalogue.TypeTexts:
		// An array that is too large leaves as one that has too many elements.
		part := fmt.Sprintf("(%s)[1:%d]", column, catalogue.MaxSetElements+1)
		return fmt.Sprintf("CASE WHEN %s IS NULL THEN NULL WHEN octet_length((%s)::text) <= %d THEN (%s)::text[] ELSE array_fill(''::text, ARRAY[%d]) END",
			column, part, catalogue.MaxSetElements*(2*catalogue.MaxTextBytes+3), part, catalogue.MaxSetElements+1)
	default:
		return fmt.Sprintf("left(%s::text, %d)", column, catalogue.MaxTextBytes+1)
	}
}

// condition leaves rows out that cannot match. It may let more pass: the issuer checks
// every condition again.
func condition(c catalogue.Condition, column string, t catalogue.Type, bind func(any) string) (where []string, possible bool) {
	if c.Member {
		switch t {
		case catalogue.TypeInteger:
			where = append(where, column+" = ANY("+bind(integers(c.Values))+"::bigint[])")
		case catalogue.TypeBoolean:
			where = append(where, column+" = ANY("+bind(booleans(c.Values))+"::boolean[])")
		default:
			given := texts(c.Values)
			if len(given) == 0 {
				return nil, false // none of the values can be in a database
			}
			if t == catalogue.TypeTexts {
				where = append(where, column+"::text[] && "+bind(given)+"::text[]")
			} else {
				where = append(where, column+" = ANY("+bind(given)+"::text[])")
			}
		}
	}
	for _, limit := range []struct {
		at       *powerbox.Decimal
		operator string
	}{{c.Min, " >= "}, {c.Max, " <= "}} {
		if limit.at == nil {
			continue
		}
		if n, whole := limit.at.Int64(); whole {
			where = append(where, column+limit.operator+bind(n)+"::bigint")
		}
	}
	return where, true
}

// texts are the values that PostgreSQL can have: texts without NUL.
func texts(values []powerbox.Value) (out []string) {
	for _, v := range values {
		if s, ok := v.Text(); ok && !strings.ContainsRune(s, 0) {
			out = append(out, s)
		}
	}
	return out
}

func integers(values []powerbox.Value) (out []int64) {
	for _, v := range values {
		d, _ := v.Decimal()
		if n, ok := d.Int64(); ok {
			out = append(out, n)
		}
	}
	return out
}

func booleans(values []powerbox.Value) (out []bool) {
	for _, v := range values {
		if b, ok := v.Truth(); ok {
			out = append(out, b)
		}
	}
	return out
}

// scan reads one row. A column that is NULL is an attribute that the resource has not.
func scan(rows pgx.Rows, c catalogue.Collection, columns []string) (catalogue.Item, error) {
	item := catalogue.Item{Attributes: map[string]powerbox.Value{}}
	var name pgtype.Text
	into := []any{&item.ID, &name}
	for _, column := range columns {
		switch c.Attributes[column].Type {
		case catalogue.TypeInteger:
			into = append(into, new(pgtype.Int8))
		case catalogue.TypeBoolean:
			into = append(into, new(pgtype.Bool))
		case catalogue.TypeTexts:
			into = append(into, new([]*string))
		default:
			into = append(into, new(pgtype.Text))
		}
	}
	if err := rows.Scan(into...); err != nil {
		return item, errors.New("a row has columns of other types than the declared ones")
	}
	item.Name = name.String
	for n, column := range columns {
		if v, ok := valueOf(into[n+2]); ok {
			item.Attributes[column] = v
		}
	}
	return item, nil
}

func valueOf(scanned any) (powerbox.Value, bool) {
	switch v := scanned.(type) {
	case *pgtype.Int8:
		return powerbox.Number(powerbox.Int(v.Int64)), v.Valid
	case *pgtype.Bool:
		return powerbox.Bool(v.Bool), v.Valid
	case *pgtype.Text:
		return powerbox.String(v.String), v.Valid
	case *[]*string:
		var elements []powerbox.Value
		for _, e := range *v {
			if e == nil {
				return powerbox.Object(), true // no attribute: the resource is left out
			}
			elements = append(elements, powerbox.String(*e))
		}
		return powerbox.List(elements...), *v != nil
	}
	return powerbox.Value{}, false
}

// sqlError keeps the code of an error: its text can have values of the query.
func sqlError(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Errorf("PostgreSQL answers with the error %s", e.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return errors.New("PostgreSQL cannot be reached or refuses the login")
	}
	return errors.New("the connection to PostgreSQL failed")
}
