package rows

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// The index of the log says which records name an agent, a caller or a user. It has a posting
// list for each name and segment of the log. A commit writes nothing for it: the server adds
// segments behind the log, and a search reads the records after the last segment directly.
//
// The index only proposes places. The bytes of a record say whether a query selects it. So a
// wrong list can hide a record from a search, as a removed record is hidden, and never adds one.

const (
	// segmentSize is how many records a segment has. A search reads up to as many records
	// without the index.
	segmentSize = 2048
	// listsAtOnce is how many lists one transaction writes. Calls wait for no more.
	listsAtOnce = 256
	// listsInStatement is how many lists one statement writes, at the most.
	listsInStatement = 64
	// listsRead is how many lists of a name are read at once, placesRead how many records of
	// the lists, and listsSwept how many lists are swept at once.
	listsRead, placesRead, listsSwept = 64, 64, 1024
)

// indexed are the members that the index knows, the most selective first.
var indexed = [...]string{"principal", "requester", "agent_id"}

// name is a member with its value: a hash of both as they are in canonical JSON.
type name [16]byte

func nameOf(member []byte) name {
	sum := sha256.Sum256(member)
	return name(sum[:])
}

// segment is a part of the log on its way into the index.
type segment struct {
	mark  int64 // where the index ends before
	first int64
	due   bool // the log has all of its records
	more  bool // the log has those of the next one, too
	lists []postings
	begin int64 // of the records that are here
	swept int64 // up to where archived records were removed from the index
}

// postings are the places of a name in a segment.
type postings struct {
	name   name
	places []byte // each as its distance from the one before, the first from the segment's
	last   int64
}

// Index adds the next segment of the log to the index, if the log has all of it, and reports
// whether there are more. It removes what the index has of archived records. Several processes
// may do so at once: they write the same.
func Index(view func(func(Reader) error) error, update func(func(Tx) error) error) (more bool, err error) {
	var s segment
	if err := view(func(r Reader) (err error) {
		s, err = r.segment()
		return err
	}); err != nil {
		return false, err
	}
	if s.swept < s.begin {
		if err := sweep(s.begin, view, update); err != nil {
			return false, err
		}
	}
	if !s.due {
		return false, nil
	}
	for part := range slices.Chunk(s.lists, listsAtOnce) {
		if err := update(func(t Tx) error { return t.putLists(s.first, part) }); err != nil {
			return false, err
		}
	}
	return s.more, update(func(t Tx) error {
		return t.exec("index", "UPDATE posted SET place = ? WHERE place = ?", s.first+segmentSize, s.mark)
	})
}

// segment reads the next segment.
func (r Reader) segment() (s segment, err error) {
	var end int64
	if err := r.db.QueryRow("SELECT place, swept, (SELECT COALESCE(MAX(place) + 1, 0) FROM record) FROM posted").Scan(&s.mark, &s.swept, &end); err != nil {
		return s, fmt.Errorf("store: index: %w", err)
	}
	if s.begin, err = r.Begins(); err != nil {
		return s, err
	}
	s.first = max(s.mark, s.begin)
	s.due, s.more = end-s.first >= segmentSize, end-s.first >= 2*segmentSize
	if !s.due {
		return s, nil
	}
	lists := map[string]*postings{} // by member
	err = r.each("index", func(row Row) error {
		var place int64
		var record []byte
		if err := row.Scan(&place, &record); err != nil {
			return err
		}
		for _, member := range named(record) {
			l := lists[string(member)]
			if l == nil {
				l = &postings{name: nameOf(member), last: s.first}
				lists[string(member)] = l
			}
			l.places, l.last = binary.AppendUvarint(l.places, uint64(place-l.last)), place
		}
		return nil
	}, "SELECT place, bytes FROM record WHERE place >= ? AND place < ? ORDER BY place", s.first, s.first+segmentSize)
	for l := range maps.Values(lists) {
		s.lists = append(s.lists, *l)
	}
	sorting.Sort(s.lists, func(a, b postings) int { return bytes.Compare(a.name[:], b.name[:]) })
	return s, err
}

// named returns the indexed members of a record, as they are in its bytes. It parses none of
// which each member occurs once: canonical JSON has one spelling, in which no string has these
// bytes. A member of an argument may be among them, and does no harm.
func named(record []byte) (out [][]byte) {
	for _, member := range indexed {
		begins := []byte(`"` + member + `":"`)
		at := bytes.Index(record, begins)
		if at < 0 {
			continue
		}
		text := quoted(record[at:], len(begins))
		if bytes.Contains(record[at+len(begins):], begins) || text == nil {
			return ownMembers(record)
		}
		out = append(out, text)
	}
	return out
}

// quoted returns the beginning of a text up to the end of the string that begins at a place in
// it, nil where it does not end.
func quoted(text []byte, at int) []byte {
	for ; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return text[:at+1]
		}
	}
	return nil
}

// ownMembers returns the indexed members of a record that has others of their names in its
// arguments: none of a damaged record, which no search selects.
func ownMembers(record []byte) (out [][]byte) {
	sealed, err := evidence.ParseSealed(record)
	if err != nil {
		return nil
	}
	for _, m := range members(issuer.RecordQuery{}, sealed.Record()) {
		if m.wanted = m.has; m.has == "" || !slices.Contains(indexed[:], m.name) {
			continue
		}
		if text, err := m.text(); err == nil {
			out = append(out, text)
		}
	}
	return out
}

// putLists writes lists of a segment. Those that are there already are of the same records.
func (t Tx) putLists(first int64, lists []postings) error {
	for len(lists) > 0 {
		n := min(listsInStatement, 1<<(bits.Len(uint(len(lists)))-1)) // few statements to compile
		args := make([]any, 0, 3*n)
		for _, l := range lists[:n] {
			args = append(args, l.name[:], first, l.places)
		}
		if err := t.exec("index", "INSERT INTO posting (name, first, places) VALUES (?, ?, ?)"+strings.Repeat(", (?, ?, ?)", n-1)+
			" ON CONFLICT (name, first) DO UPDATE SET places = excluded.places", args...); err != nil {
			return err
		}
		lists = lists[n:]
	}
	return nil
}

// sweep removes the lists of segments whose records were all archived, some at a time.
func sweep(begin int64, view func(func(Reader) error) error, update func(func(Tx) error) error) error {
	type key struct {
		name  []byte
		first int64
	}
	after := key{name: []byte{}, first: math.MinInt64}
	for {
		var keys []key
		if err := view(func(r Reader) (err error) {
			keys, err = list(r, "index of archived records", func(row Row) (k key, err error) {
				err = row.Scan(&k.name, &k.first)
				return k, err
			}, "SELECT name, first FROM posting WHERE (name, first) > (?, ?) ORDER BY name, first LIMIT ?", after.name, after.first, listsSwept)
			return err
		}); err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		last := keys[len(keys)-1]
		if slices.ContainsFunc(keys, func(k key) bool { return k.first+segmentSize <= begin }) {
			if err := update(func(t Tx) error {
				return t.exec("index of archived records", "DELETE FROM posting WHERE (name, first) > (?, ?) AND (name, first) <= (?, ?) AND first <= ?",
					after.name, after.first, last.name, last.first, begin-segmentSize)
			}); err != nil {
				return err
			}
		}
		after = last
	}
	return update(func(t Tx) error {
		return t.exec("index of archived records", "UPDATE posted SET swept = ? WHERE swept < ?", begin, begin)
	})
}

// posted is where the index ends.
func (r Reader) posted() (place int64, err error) {
	if err = r.db.QueryRow("SELECT place FROM posted").Scan(&place); err != nil {
		err = fmt.Errorf("store: index: %w", err)
	}
	return place, err
}

// placesOf yields the places that the index has for a name, from the last one before to down to
// floor.
func (r Reader) placesOf(n name, floor, to int64) iter.Seq2[int64, error] {
	type read struct {
		first  int64
		places []byte
	}
	return func(yield func(int64, error) bool) {
		for before, to := to, to; ; {
			found, err := list(r, "index", func(row Row) (l read, err error) {
				err = row.Scan(&l.first, &l.places)
				return l, err
			}, "SELECT first, places FROM posting WHERE name = ? AND first < ? AND first > ? ORDER BY first DESC LIMIT ?", n[:], before, floor-segmentSize, listsRead)
			if err != nil {
				yield(0, err)
				return
			}
			for _, l := range found {
				places, err := unpack(l.first, l.places)
				if err != nil {
					yield(0, err)
					return
				}
				for _, place := range slices.Backward(places) {
					if place < floor || place >= to {
						continue
					}
					if to = place; !yield(place, nil) {
						return
					}
				}
				before = l.first
			}
			if len(found) < listsRead {
				return
			}
		}
	}
}

// placesOfAny yields the places that the index has for any of some names, as [Reader.placesOf] does.
func (r Reader) placesOfAny(names []name, floor, to int64) iter.Seq2[int64, error] {
	if len(names) == 1 {
		return r.placesOf(names[0], floor, to)
	}
	return func(yield func(int64, error) bool) {
		next := make([]func() (int64, error, bool), 0, len(names)) // of each name
		heads := make([]int64, 0, len(names))
		for _, n := range names {
			pull, stop := iter.Pull2(r.placesOf(n, floor, to))
			defer stop()
			place, err, more := pull()
			if err != nil {
				yield(0, err)
				return
			}
			if more {
				next, heads = append(next, pull), append(heads, place)
			}
		}
		for len(heads) > 0 {
			last := 0 // of the log
			for n := range heads {
				if heads[n] > heads[last] {
					last = n
				}
			}
			if !yield(heads[last], nil) {
				return
			}
			place, err, more := next[last]()
			switch {
			case err != nil:
				yield(0, err)
				return
			case more:
				heads[last] = place
			default:
				next, heads = slices.Delete(next, last, last+1), slices.Delete(heads, last, last+1)
			}
		}
	}
}

// unpack reads the places of a list.
func unpack(first int64, places []byte) (out []int64, err error) {
	for at := first; len(places) > 0; {
		distance, n := binary.Uvarint(places)
		if n <= 0 || distance > segmentSize {
			return nil, errors.New("store: index: a list is damaged")
		}
		at += int64(distance)
		out, places = append(out, at), places[n:]
	}
	return out, nil
}
