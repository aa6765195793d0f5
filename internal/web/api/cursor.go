package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// placePrefix begins a cursor that is a place in the log.
const placePrefix = "place_"

// recordAt returns the id of the record that a page or a stream begins at. A caller with some
// agents alone can name records of these, and places: a record of another agent is unknown, as
// one that there is not.
func (a *Admin) recordAt(r *http.Request, cursor string) (id string, err error) {
	if cursor == "" || everywhere(r) {
		return cursor, nil
	}
	if text, ok := strings.CutPrefix(cursor, placePrefix); ok {
		return a.atPlace(r.Context(), text)
	}
	err = a.Store.View(r.Context(), func(rd issuer.Reader) error {
		_, err := ownRecord(r, rd, cursor)
		return err
	})
	return cursor, err
}

// atPlace returns the id of the record at a place, "" behind the end of the log.
func (a *Admin) atPlace(ctx context.Context, text string) (id string, err error) {
	place, err := strconv.ParseInt(text, 10, 64)
	if err != nil || place < 0 {
		return "", issuer.ErrNotFound
	}
	sealed, err := a.Live.Log.From(ctx, place)
	if err != nil || len(sealed) == 0 {
		return "", err
	}
	return sealed[0].Record().ID, nil
}

// cursorOf returns the cursor of a page that continues before a record. A page can end at a record
// of another agent. A caller with some agents alone gets its place, since the length of the log
// is public (ADR 28), and ids are not.
func (a *Admin) cursorOf(r *http.Request, id string) (string, error) {
	if id == "" || everywhere(r) {
		return id, nil
	}
	place, err := a.Live.Place(r.Context(), id)
	return placePrefix + strconv.FormatInt(place, 10), err
}
