package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Book keeps the calls that a gateway holds back, on its disk: a call is
// durable when Put returns. Its methods can be called by many goroutines.
//
// The order of writes is its design. Bytes are in the book before people are
// asked, so that what they approve is there. A call is marked as being made
// before it is forwarded, so that after a crash it is never made twice. What came
// of it is in the book before the server is told, so that it is told.
type Book struct{ db *bolt.DB }

// HeldState is what a gateway does with a call that it holds.
type HeldState string

// The states of a call in the book.
const (
	HeldAsking      HeldState = "asking"      // people are being asked; the caller knows nothing yet
	HeldWaits       HeldState = "waits"       // the caller has a task for it
	HeldWithdrawing HeldState = "withdrawing" // the caller was told that it is not held
	HeldMaking      HeldState = "making"      // it may have been forwarded
	HeldDone        HeldState = "done"        // the server has yet to be told what came of it
)

// HeldEntry is a call in the book. Request is what it is made from; it is as
// secret as the gateway's disk is, and gone once the call is made.
type HeldEntry struct {
	Task    string      `json:"task"`
	State   HeldState   `json:"state"`
	Owner   Owner       `json:"owner"`
	User    string      `json:"user,omitempty"`
	Request []byte      `json:"request,omitempty"`
	Result  *HeldResult `json:"result,omitempty"`
	Since   time.Time   `json:"since"`
}

// The bounds of a book.
const (
	maxHeld     = 1024
	bookTimeout = 2 * time.Second
)

// ErrBookFull says that a gateway holds back as many calls as it can.
var ErrBookFull = errors.New("this gateway holds back too many calls already; wait for the answers")

var heldBucket = []byte("held")

// OpenBook opens the book in a file, which is one process's.
func OpenBook(name string) (*Book, error) {
	db, err := bolt.Open(name, 0o600, &bolt.Options{Timeout: bookTimeout})
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(heldBucket)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("the book of held calls %s: %w", name, err)
	}
	return &Book{db}, nil
}

// Close closes the file.
func (b *Book) Close() error { return b.db.Close() }

// Put stores a call, or what has become of it. A new one is refused with
// [ErrBookFull] where there are too many.
func (b *Book) Put(e HeldEntry) error {
	data, err := encode(e)
	if err != nil {
		return err
	}
	return b.db.Update(func(tx *bolt.Tx) error {
		held := tx.Bucket(heldBucket)
		if e.State == HeldAsking && held.Get([]byte(e.Task)) == nil && held.Stats().KeyN >= maxHeld {
			return ErrBookFull
		}
		return held.Put([]byte(e.Task), data)
	})
}

// Get returns a call, and false where there is none.
func (b *Book) Get(task string) (e HeldEntry, ok bool, err error) {
	err = b.db.View(func(tx *bolt.Tx) error {
		data := tx.Bucket(heldBucket).Get([]byte(task))
		if ok = data != nil; !ok {
			return nil
		}
		return json.Unmarshal(data, &e)
	})
	return e, ok, err
}

// Delete forgets a call.
func (b *Book) Delete(task string) error {
	return b.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(heldBucket).Delete([]byte(task)) })
}

// All returns the calls without their bytes, oldest id first.
func (b *Book) All() ([]HeldEntry, error) {
	var out []HeldEntry
	err := b.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(heldBucket).ForEach(func(task, data []byte) error {
			var e HeldEntry
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("the held call %s is damaged: %w", task, err)
			}
			e.Request = nil
			out = append(out, e)
			return nil
		})
	})
	return out, err
}

// Begin settles, at a start, what an earlier process left: a call whose caller was
// never told of it is withdrawn, and the outcome of a forwarded one is
// unknown, so that it is not repeated.
func (b *Book) Begin() error {
	all, err := b.All()
	for _, e := range all {
		if err != nil {
			return err
		}
		switch e.State {
		case HeldAsking:
			e.State = HeldWithdrawing
		case HeldMaking:
			e.State = HeldDone
			e.Result = &HeldResult{Failed: true, Text: "the gateway ended while the call was made, so its outcome is unknown; find out what became of it before it is repeated"}
		case HeldWaits, HeldWithdrawing, HeldDone:
			continue
		}
		err = b.Put(e)
	}
	return err
}
