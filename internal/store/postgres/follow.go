package postgres

import (
	"context"

	"github.com/powerbox-project/powerbox/evidence"
)

// followed is how many records are read at once by who follows the log.
const followed = 1 << 10

// From returns the records of the log from a place on, in its order and not too
// many; none at its end.
func (s *Store) From(ctx context.Context, place int64) (out []evidence.Sealed, err error) {
	err = s.view(ctx, func(r reader) (err error) {
		out, err = r.sealed("SELECT bytes FROM record WHERE place >= $1 ORDER BY place LIMIT $2", place, followed)
		return err
	})
	return out, err
}
