package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/trust"
)

// shelf is a log in memory, read a few records at a time.
type shelf struct {
	all    []evidence.Sealed
	gone   error
	begins int64 // records before it were archived
}

func (s *shelf) Begins(context.Context) (int64, error) { return s.begins, s.gone }

func (s *shelf) From(_ context.Context, place int64) ([]evidence.Sealed, error) {
	return s.all[place:min(place+3, int64(len(s.all)))], s.gone
}

// work adds decisions of an agent that ended in a status.
func (s *shelf) work(t *testing.T, agent string, status evidence.OutcomeStatus, times int) {
	t.Helper()
	id := evidence.ChainID{}
	copy(id[:], agent)
	head := evidence.Genesis(id)
	for _, one := range slices.Backward(s.all) {
		if one.Record().AgentID == agent {
			head = one.Head()
			break
		}
	}
	for range times {
		r := evidence.Record{
			ID: fmt.Sprint("rec_", len(s.all)), AgentID: agent, ActionType: "a2a.SendMessage", Intent: evidence.Intent{Operation: "mail/send"},
			Decision: evidence.Allow, OutcomeStatus: evidence.Pending, Time: noon, Details: evidence.Details{Recorder: "serve"},
		}
		outcome, err := evidence.Outcome(r, r.ID+"_outcome", noon, status, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range []evidence.Record{r, outcome} {
			sealed, err := evidence.SealUnsafeUnsigned(head, one)
			if err != nil {
				t.Fatal(err)
			}
			s.all, head = append(s.all, sealed), sealed.Head()
		}
	}
}

func newScores(log RecordLog, now *time.Time) *Scores {
	return &Scores{Log: log, Agents: func() []string { return []string{"mail", "documents"} }, Now: func() time.Time { return *now }, Slog: slog.New(slog.DiscardHandler)}
}

// Records that were archived before the ledger read them are not counted, and are no
// broken chain. A record that is missing behind them is one.
func TestEXT20_ScoresBeginBehindAnArchive(t *testing.T) {
	now, log := noon, &shelf{begins: 4}
	log.work(t, "mail", evidence.Failed, 2)
	log.work(t, "mail", evidence.Achieved, 3)
	log.work(t, "documents", evidence.Achieved, 1)
	s := newScores(log, &now)
	got, err := s.Of(t.Context(), "mail", time.Time{})
	if err != nil || got.Broken || got.Counts.Achieved != 3 || got.Counts.Failed != 0 {
		t.Errorf("%v %+v", err, got)
	}
	log.begins = 8 // and earlier records are forgotten only where the ledger skips them
	if got, err = s.Of(t.Context(), "mail", time.Time{}); err != nil || got.Counts.Achieved != 3 {
		t.Errorf("%v %+v", err, got)
	}
	log.work(t, "mail", evidence.Achieved, 1)
	log.all = append(log.all[:len(log.all)-2:len(log.all)-2], log.all[len(log.all)-1])
	if got, err := newScores(log, &now).Of(t.Context(), "mail", time.Time{}); err != nil || !got.Broken {
		t.Errorf("a record is missing: %v %+v", err, got)
	}
}

// TestEXT18_ScoresFollowTheLog: new records change scores, from any place that they are
// read at. A score that cannot be read for a while is the lowest level.
func TestEXT18_ScoresFollowTheLog(t *testing.T) {
	now, log := noon, &shelf{}
	s := newScores(log, &now)
	if got := s.Level("mail"); got != trust.None {
		t.Errorf("before anything was read: %s", got)
	}
	update := func() {
		t.Helper()
		if err := s.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	update()
	log.work(t, "mail", evidence.Achieved, 4)
	log.work(t, "mail", evidence.Failed, 4)
	log.work(t, "stranger", evidence.Achieved, 1)
	if got := s.Level("mail"); got != trust.High {
		t.Errorf("without history and of an unknown key: %s", got)
	}
	update()
	for agent, want := range map[string]trust.Level{"mail": trust.Moderate, "documents": trust.High, "stranger": trust.None, "": trust.None} {
		if got := s.Level(agent); got != want {
			t.Errorf("EXT-18 %s: %s; want %s", agent, got, want)
		}
	}
	again := newScores(log, &now)
	one, err := s.Of(t.Context(), "mail", time.Time{})
	other, errAgain := again.Of(t.Context(), "mail", noon)
	if err != nil || errAgain != nil || one.Score != other.Score || one.Score.String() != "0.7000" {
		t.Errorf("EXT-20 followed %s, read again %s: %v %v", one.Score, other.Score, err, errAgain)
	}
	if _, err := s.Of(t.Context(), "stranger", time.Time{}); err == nil {
		t.Error("who is not protected here has a score")
	}

	log.gone = errors.New("the disk is gone")
	if err := s.Update(t.Context()); err == nil {
		t.Error("what cannot be read is no error")
	}
	now = now.Add(scoresLife)
	if got := s.Level("documents"); got != trust.High {
		t.Errorf("EXT-18 not yet stale: %s", got)
	}
	if now = now.Add(1); s.Level("documents") != trust.None || s.Levels() != nil {
		t.Errorf("EXT-18 stale: %s", s.Level("documents"))
	}
}

// TestEXT18_AChainThatDoesNotHold costs the agent whose it is, once.
func TestEXT18_AChainThatDoesNotHold(t *testing.T) {
	for name, spoil := range map[string]func(all []evidence.Sealed) []evidence.Sealed{
		"one is missing":     func(all []evidence.Sealed) []evidence.Sealed { return slices.Delete(all, 4, 5) },
		"two are swapped":    func(all []evidence.Sealed) []evidence.Sealed { all[2], all[3] = all[3], all[2]; return all },
		"the head is gone":   func(all []evidence.Sealed) []evidence.Sealed { return all[2:] },
		"one is there twice": func(all []evidence.Sealed) []evidence.Sealed { return slices.Insert(all, 2, all[1]) },
		"one was changed": func(all []evidence.Sealed) []evidence.Sealed {
			last := len(all) - 1
			changed, err := evidence.ParseSealed(bytes.Replace(all[last].Bytes(), []byte("mail/send"), []byte("mail/sent"), 1))
			if err != nil {
				t.Fatal(err)
			}
			all[last] = changed
			return all
		},
	} {
		now, log := noon, &shelf{}
		log.work(t, "mail", evidence.Achieved, 6)
		log.all = spoil(log.all)
		log.work(t, "documents", evidence.Achieved, 2)
		s := newScores(log, &now)
		mail, err := s.Of(t.Context(), "mail", time.Time{})
		documents, errOther := s.Of(t.Context(), "documents", time.Time{})
		if err != nil || errOther != nil || !mail.Broken || documents.Broken || mail.Parts[0].Off.String() != "0.5000" {
			t.Errorf("EXT-18 %s: %+v, the other %+v: %v %v", name, mail, documents, err, errOther)
		}
	}
}
