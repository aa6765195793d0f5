package approval

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// failsFirst is a source of random bytes that fails as often as it says, and then works.
type failsFirst struct{ times int }

func (f *failsFirst) Read(b []byte) (int, error) {
	if f.times > 0 {
		f.times--
		return 0, io.ErrUnexpectedEOF
	}
	return len(b), nil
}

// emptyStore is a store of an issuer without anything in it.
type emptyStore struct{ issuer.Store }

func (emptyStore) View(context.Context, func(issuer.Reader) error) error { return nil }

type anyPolicy struct{ issuer.Policy }

func (anyPolicy) Digest() string { return "" }

// asking is a transaction in which a holder has asked before. It counts the writes.
type asking struct {
	Tx
	made, denied    int
	records, stored []string
}

var errUnreadable = errors.New("unreadable")

func (a *asking) QuestionByKey(string) (Question, error) { return Question{}, errUnreadable }
func (a *asking) Questions(issuer.State) ([]Question, error) {
	return nil, nil
}

func (a *asking) QuestionsOf(string, time.Time) (made, denied int, err error) {
	if a.made < 0 {
		return 0, 0, errUnreadable
	}
	return a.made, a.denied, nil
}

func (a *asking) Append(r evidence.Record) (evidence.Sealed, error) {
	a.records = append(a.records, r.ID)
	return evidence.Sealed{}, nil
}

func (a *asking) PutQuestion(q Question) error {
	a.stored = append(a.stored, q.ID)
	return nil
}

// TestQuestionThatCannotBeAskedLeavesNothing: a question without an id, of a holder that has
// asked too often, or while the store cannot say how often, is neither recorded nor stored.
func TestQuestionThatCannotBeAskedLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		tx     asking
		random failsFirst
		want   error
	}{
		"asked":              {},
		"without an id":      {random: failsFirst{1}, want: io.ErrUnexpectedEOF},
		"made too many":      {tx: asking{made: maxMade}, want: issuer.ErrTooMany},
		"denied too often":   {tx: asking{denied: maxDenied}, want: issuer.ErrTooMany},
		"not known how many": {tx: asking{made: -1}, want: errUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			sealer, err := catalogue.NewSealer(make([]byte, catalogue.SealKeyBytes))
			if err != nil {
				t.Fatal(err)
			}
			now := func() time.Time { return noon }
			made, err := issuer.New(t.Context(), issuer.Config{
				Store: emptyStore{}, Policy: anyPolicy{}, Sealer: sealer, Recorder: "serve", Pairwise: make([]byte, 32), MaximumLifetime: time.Hour,
				Now: now, Random: &c.random, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			d := &Desk{config: Config{Issuer: made, Now: now, URL: "https://example.org", Timeout: time.Hour}}
			_, err = (questions{d, &c.tx}).Ask(issuer.Question{Key: "k", Agent: "documents", Until: noon.Add(time.Hour)})
			n := 0
			if c.want == nil {
				n = 1
			}
			if !errors.Is(err, c.want) || len(c.tx.records) != n || len(c.tx.stored) != n {
				t.Errorf("%v, want %v; records %q, questions %q", err, c.want, c.tx.records, c.tx.stored)
			}
		})
	}
}
