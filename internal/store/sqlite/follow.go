package sqlite

import (
	"context"

	"github.com/powerbox-project/powerbox/evidence"
)

// followed is how many records are read at once by who follows the log.
const followed = 1 << 10

// From returns the records of the log from a place on, in its order and not too
// many; none at its end.
func (s *Store) From(ctx context.Context, place int64) ([]evidence.Sealed, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	return (reader{ctx, s.reads}).sealed("SELECT bytes FROM record WHERE place >= ? ORDER BY place LIMIT ?", place, followed)
}
