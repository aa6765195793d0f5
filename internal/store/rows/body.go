package rows

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Body implements [issuer.Reader].
func (r Reader) Body(record string) (*evidence.Body, error) {
	var b evidence.Body
	err := r.db.QueryRow("SELECT key, bytes FROM body WHERE place = (SELECT place FROM record WHERE id = ?)", record).Scan(&b.Key, &b.Bytes)
	if errors.Is(err, ErrNone) {
		return nil, issuer.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("store: body of record %q: %w", record, err)
	}
	return &b, nil
}

// Bodies implements [issuer.Reader].
func (r Reader) Bodies(q issuer.BodyQuery) ([]issuer.Body, error) {
	where, args := "true", []any{}
	among := func(column string, values ...string) {
		if len(values) > 0 {
			where += " AND " + column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")"
			for _, v := range values {
				args = append(args, v)
			}
		}
	}
	among("record.id", q.Records...)
	among("body.principal", q.Principals...)
	if q.Agent != "" {
		among("body.agent", q.Agent)
	}
	if !q.Until.IsZero() {
		where, args = where+" AND body.time <= ?", append(args, q.Until.UnixMilli())
	}
	limit := q.Limit
	if limit == 0 {
		limit = math.MaxInt32
	}
	return list(r, "bodies", func(row Row) (b issuer.Body, err error) {
		var milli int64
		err = row.Scan(&b.Record, &b.Agent, &b.Principal, &milli, &b.Size)
		b.Time = time.UnixMilli(milli).UTC()
		return b, err
	}, "SELECT record.id, body.agent, body.principal, body.time, length(body.bytes) FROM body JOIN record ON record.place = body.place WHERE "+
		where+" ORDER BY body.place LIMIT ?", append(args, limit)...)
}

// BodyAgents implements [issuer.Reader].
func (r Reader) BodyAgents() ([]string, error) {
	return list(r, "bodies", scanText, "SELECT DISTINCT agent FROM body")
}

// EraseBody implements [issuer.Tx]. The key is deleted with it. SQLite overwrites both in its
// pages (secure_delete). What PostgreSQL leaves in pages, in its log and in backups says nothing
// once the key is gone there, too.
func (t Tx) EraseBody(record string) error {
	return t.exec("erasing the body of record "+strconv.Quote(record), "DELETE FROM body WHERE place = (SELECT place FROM record WHERE id = ?)", record)
}
