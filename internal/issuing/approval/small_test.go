package approval

import (
	"context"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// fewThings is a store with one question and one held call. Everything else is not asked for.
type fewThings struct {
	Tx
	question Question
	call     Call
	put      []Call
}

func (f *fewThings) QuestionByKey(string) (Question, error)      { return f.question, nil }
func (f *fewThings) HeldCall(string) (Call, error)               { return f.call, nil }
func (f *fewThings) HeldCallByTask(string, string) (Call, error) { return f.call, nil }
func (f *fewThings) PutHeldCall(c Call) error                    { f.put = append(f.put, c); return nil }

func (f *fewThings) ViewApprovals(context.Context, func(Reader) error) error {
	panic("the store is asked")
}

func (f *fewThings) UpdateApprovals(_ context.Context, change func(Tx) error) error {
	return change(f)
}

func deskOver(f *fewThings) *Desk {
	return &Desk{config: Config{Store: f, Now: func() time.Time { return noon }, URL: "https://example.org"}}
}

// TestCallThatIsNotApprovedIsNotBegun: a gateway that asks to make a call which still waits for a
// person, or was denied, gets no yes, and nothing of the call changes: the next one that asks
// would take it for a call that is being made.
func TestCallThatIsNotApprovedIsNotBegun(t *testing.T) {
	for state, want := range map[CallState]bool{CallWaits: false, CallCancelled: false, CallApproved: true, CallBeingMade: true} {
		f := &fewThings{call: Call{State: state, Gateway: "gw_1"}}
		_, ok, err := deskOver(f).BeginCall(t.Context(), "gw_1", "documents", "task")
		if ok != want || err != nil || (len(f.put) == 1) != want {
			t.Errorf("%s: %t %v, changed %+v", state, ok, err, f.put)
		}
		if _, ok, err := deskOver(f).BeginCall(t.Context(), "gw_2", "documents", "task"); ok || err != nil {
			t.Errorf("%s, another gateway's: %t %v", state, ok, err)
		}
	}
}

// TestOnlyWhoApprovedCanTakeBack: of an approval that is another person's, and of a question that
// was denied, the store is not even asked.
func TestOnlyWhoApprovedCanTakeBack(t *testing.T) {
	d := deskOver(&fewThings{})
	for name, q := range map[string]Question{
		"another's":        {State: issuer.StateApproved, Principal: "user:alice"},
		"another's, open":  {State: issuer.StatePending, Principal: "user:alice", Expires: noon.Add(time.Hour)},
		"one's own denied": {State: issuer.StateDenied, Answers: []Given{{By: "user:bob", Approve: true}}},
	} {
		if can, err := d.Revocable(t.Context(), person("user:bob"), q); can || err != nil {
			t.Errorf("%s: %t %v", name, can, err)
		}
	}
}

// TestApprovalThatIsTakenBackCancelsItsCall: the call is not made, and its stored bytes are gone.
func TestApprovalThatIsTakenBackCancelsItsCall(t *testing.T) {
	f := &fewThings{call: Call{State: CallApproved, Request: []byte("{}")}}
	if err := deskOver(f).cancelled(f, Question{Kind: ForCall, ID: "ask_1"}, noon); err != nil || len(f.put) != 1 || f.put[0].State != CallCancelled || f.put[0].Request != nil {
		t.Errorf("%v %+v", err, f.put)
	}
}

// TestSameRequestAsksOnce: a request that was asked about already gets that question.
func TestSameRequestAsksOnce(t *testing.T) {
	f := &fewThings{question: Question{ID: "ask_1", State: issuer.StatePending, Expires: noon.Add(time.Hour)}}
	if asked, err := (questions{deskOver(f), f}).Ask(issuer.Question{Key: "k"}); err != nil || asked.ID != "ask_1" {
		t.Errorf("%+v %v", asked, err)
	}
}
