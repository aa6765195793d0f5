package approval

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
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
			_, err := (questions{emptyDesk(t, &c.random), &c.tx}).Ask(issuer.Question{Key: "k", Agent: "documents", Until: noon.Add(time.Hour)})
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

// emptyDesk is a desk with an issuer over an empty store.
func emptyDesk(t *testing.T, random io.Reader) *Desk {
	t.Helper()
	sealer, err := catalogue.NewSealer(make([]byte, catalogue.SealKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return noon }
	made, err := issuer.New(t.Context(), issuer.Config{
		Store: emptyStore{}, Agents: []*issuer.Agent{{ID: "documents"}}, Policy: anyPolicy{}, Sealer: sealer, Recorder: "serve", Pairwise: make([]byte, 32), MaximumLifetime: time.Hour,
		Now: now, Random: random, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Desk{config: Config{Issuer: made, Now: now, URL: "https://example.org", Timeout: time.Hour}}
}

// elsewhere is a store in which another node has written revocations.
type elsewhere struct {
	Tx
	question Question
	events   []issuer.Revocation
	used     bool
}

func (e *elsewhere) Question(string) (Question, error) { return e.question, nil }
func (e *elsewhere) PutQuestion(Question) error        { e.used = true; return nil }
func (e *elsewhere) Revocations(after int64) ([]issuer.Revocation, error) {
	return slices.DeleteFunc(slices.Clone(e.events), func(r issuer.Revocation) bool { return r.Sequence <= after }), nil
}

// TestATK146_ARevocationOfAnotherNodeOvertakesAnApproval that is collected here: it is read in the
// transaction that collects.
func TestATK146_ARevocationOfAnotherNodeOvertakesAnApproval(t *testing.T) {
	for target, want := range map[string]error{"principal:user:alice": issuer.ErrUsed, "holder:key:k": issuer.ErrUsed, "issuer:documents": issuer.ErrUsed, "holder:key:other": nil} {
		e := &elsewhere{
			question: Question{ID: "ask_1", Agent: "documents", Principal: "user:alice", Holder: "key:k", State: issuer.StateApproved, Ended: noon, Revoking: Revoking{Revocations: 6}},
			events:   []issuer.Revocation{{Sequence: 7, Kind: issuer.KindEpoch, Target: target, At: noon.Add(-time.Minute), Until: noon.Add(time.Hour)}},
		}
		err := questions{emptyDesk(t, &failsFirst{}), e}.Use("ask_1", []string{"cap_1"})
		if !errors.Is(err, want) || e.used != (want == nil) {
			t.Errorf("%s: %v, used: %t; want %v", target, err, e.used, want)
		}
		e.question.Revocations, e.used = 7, false // approved after it
		if err := (questions{emptyDesk(t, &failsFirst{}), e}).Use("ask_1", []string{"cap_1"}); err != nil || !e.used {
			t.Errorf("%s, approved after it: %v, used: %t", target, err, e.used)
		}
	}
}
