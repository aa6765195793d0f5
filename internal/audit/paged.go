package audit

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/powerbox-project/powerbox/evidence"
)

// RecordPage is how many records are asked for at a time, and so how many are in
// memory.
const RecordPage = 500

// Pages asks a server for one page of records.
type Pages interface {
	// Page returns a page, and the id that the next one begins before, "" for none. With an
	// error it returns the records before the one that it is about.
	Page(ctx context.Context, query url.Values) (records []evidence.Record, next string, err error)
}

// EachOf yields the records that a query selects. It asks for one page after the other, as
// they are wanted.
func EachOf(ctx context.Context, from Pages, q Query) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		v, left := q.Values(), q.Limit
		for next := q.Before; ; {
			want := RecordPage
			if q.Limit > 0 {
				want = min(want, left)
			}
			v.Set("limit", strconv.Itoa(want))
			if next != "" {
				v.Set("before", next)
			}
			records, more, err := from.Page(ctx, v)
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
			if err != nil {
				yield(evidence.Record{}, err)
				return
			}
			if left -= len(records); more == "" || q.Limit > 0 && left <= 0 {
				return
			}
			next = more
		}
	}
}
