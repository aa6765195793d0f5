package api

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
)

// keptShelf is a shelf with its tree, which keeps a ledger.
type keptShelf struct {
	*shelf
	place int64
	body  []byte
	read  int64 // the first place that was read
}

func (k *keptShelf) Ledger(context.Context) ([]byte, error) { return k.body, k.gone }

func (k *keptShelf) KeepLedger(_ context.Context, place int64, body []byte) error {
	if place > k.place || body == nil {
		k.place, k.body = place, body
	}
	return k.gone
}

func (k *keptShelf) Records(context.Context) (int64, error) { return int64(len(k.all)), k.gone }

func (k *keptShelf) From(ctx context.Context, place int64) ([]evidence.Sealed, error) {
	k.read = min(k.read, place)
	return k.shelf.From(ctx, place)
}

func (k *keptShelf) Tree(context.Context) tlog.HashReader {
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(at []int64) (out []tlog.Hash, err error) {
		for _, n := range at {
			out = append(out, hashes[n])
		}
		return out, nil
	})
	for n, s := range k.all {
		more, err := tlog.StoredHashes(int64(n), evidence.Leaf(s), reader)
		if err != nil {
			panic(err)
		}
		hashes = append(hashes, more...)
	}
	return reader
}

// scoresOf are the scores of a process that begins with this log.
func scoresOf(k *keptShelf) *Scores {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	k.read = int64(len(k.all)) + 1
	return &Scores{
		Log: k, Kept: k, Seal: seal, Agents: func() []string { return []string{"mail", "documents"} }, Now: func() time.Time { return noon }, Slog: slog.New(slog.DiscardHandler),
		Named: func(origin string) bool { return origin == "desk" },
	}
}

// told is everything that scores tell.
type told struct {
	Tried  Tried
	Drifts []Drift
	Scores []Score
}

func tell(t interface {
	Context() context.Context
	Fatal(args ...any)
}, s *Scores,
) (out told) {
	var err error
	if out.Tried, err = s.Pairs(t.Context(), time.Time{}, everyAgent); err != nil {
		t.Fatal(err)
	}
	half, err := s.Pairs(t.Context(), noon.Add(20*time.Minute), everyAgent)
	if err != nil {
		t.Fatal(err)
	}
	out.Tried.Pairs = append(out.Tried.Pairs, half.Pairs...)
	if out.Drifts, _, err = s.Drifts(t.Context(), "mail"); err != nil {
		t.Fatal(err)
	}
	for _, agent := range s.Agents() {
		one, err := s.Of(t.Context(), agent, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		out.Scores = append(out.Scores, one)
	}
	return out
}

// any makes one more record of some kind.
func (s *shelf) any(t *rapid.T, heads map[string]evidence.Head) {
	agent := rapid.SampledFrom([]string{"mail", "documents", evidence.IssuerID}).Draw(t, "agent")
	head, known := heads[agent]
	if !known {
		id := evidence.ChainID{}
		copy(id[:], agent)
		head = evidence.Genesis(id)
	}
	n := len(s.all)
	r := evidence.Record{
		ID: fmt.Sprint("rec_", n), AgentID: agent, ActionType: "a2a.SendMessage", Intent: evidence.Intent{Operation: "mail/send"}, OutcomeStatus: evidence.Pending,
		Decision: rapid.SampledFrom([]evidence.Decision{evidence.Allow, evidence.Deny}).Draw(t, "decision"), Time: noon.Add(time.Duration(n) * time.Minute),
		Details: evidence.Details{Recorder: "serve", Requester: rapid.SampledFrom([]string{"desk", "stranger"}).Draw(t, "requester")},
	}
	switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
	case agent == evidence.IssuerID:
		r.ActionType = evidence.ActionKeyUse
		r.Intent.Details = json.RawMessage(fmt.Sprintf(`{"agent":"mail","key":"key%d","renewed":%q}`, kind, r.Time.Add(-time.Hour).Format(time.RFC3339)))
	case kind == 0:
		r.ActionType = action.CapabilityRequest.String()
	case kind == 1 && n > 0:
		of := s.all[rapid.IntRange(0, n-1).Draw(t, "of")].Record()
		if of.AgentID == agent && of.Details.OutcomeOf == "" && of.Decision == evidence.Allow && of.OutcomeStatus == evidence.Pending {
			outcome, err := evidence.Outcome(of, r.ID, r.Time, rapid.SampledFrom([]evidence.OutcomeStatus{evidence.Achieved, evidence.Failed}).Draw(t, "status"), []byte(`{"drift":["artifact"]}`))
			if err != nil {
				t.Fatal(err)
			}
			r = outcome
		}
	default:
		r.Details.Gate = &evidence.Gate{Origin: r.Details.Requester, Target: agent, Required: []string{fmt.Sprint("mail/send", kind)}}
	}
	if r.Decision == evidence.Deny {
		r.OutcomeStatus = ""
	}
	sealed, err := evidence.SealUnsafeUnsigned(head, r)
	if err != nil {
		t.Fatal(err)
	}
	s.all = append(s.all, sealed)
	if !rapid.SampledFrom([]bool{false, false, false, false, false, false, true}).Draw(t, "fork") {
		heads[agent] = sealed.Head() // otherwise the chain breaks with the next record
	}
}

// However often a process starts again, with or without having kept its ledger, the scores and
// the graph are those of a fold over the log.
func TestEXT20_AKeptLedgerIsAFoldOverTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, heads := &keptShelf{shelf: &shelf{}}, map[string]evidence.Head{}
		s := scoresOf(k)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			for range rapid.IntRange(0, 9).Draw(t, "records") {
				k.any(t, heads)
			}
			switch rapid.SampledFrom([]string{"look", "keep", "end", "crash"}).Draw(t, "step") {
			case "look":
				tell(t, s)
			case "keep":
				s.Keep(t.Context())
			case "end":
				tell(t, s)
				s.Keep(t.Context())
				s = scoresOf(k)
				if tell(t, s); k.read < k.place {
					t.Fatalf("a start reads from %d; want from %d", k.read, k.place)
				}
			case "crash":
				s = scoresOf(k)
			}
		}
		got := tell(t, s)
		plain := scoresOf(k)
		plain.Kept = nil
		if diff := cmp.Diff(tell(t, plain), got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Pair{})); diff != "" {
			t.Fatalf("EXT-20 a fold (-), and what was kept (+):\n%s", diff)
		}
	})
}

// A ledger that is not of exactly the records of this log is not continued: one of another log,
// of more records than there are, of another key, or one that was changed.
func TestEXT20_AnotherLedgerIsNotCounted(t *testing.T) {
	log := func(times int, agent string) *keptShelf {
		k := &keptShelf{shelf: &shelf{}}
		k.work(t, "documents", evidence.Achieved, 1)
		k.work(t, agent, evidence.Failed, times)
		return k
	}
	for name, spoil := range map[string]func(k *keptShelf, s *Scores){
		"of another log":  func(k *keptShelf, _ *Scores) { k.all = slices.Concat(log(3, "stranger").all, k.all) },
		"of more records": func(k *keptShelf, _ *Scores) { k.all = k.all[:4] },
		"changed":         func(k *keptShelf, _ *Scores) { k.body[len(k.body)/2] ^= 1 },
		"cut":             func(k *keptShelf, _ *Scores) { k.body = k.body[:5] },
		"not sealed":      func(k *keptShelf, _ *Scores) { k.body = []byte(`{}`) },
		"of no record": func(k *keptShelf, s *Scores) {
			k.body = s.Seal.Seal(nil, nil, []byte(`{"place":0,"edge":[],"book":{"mail":{"counts":{"achieved":9}}}}`), []byte(ledgerForm))
		},
		"of another form": func(k *keptShelf, s *Scores) {
			body, err := s.Seal.Open(nil, nil, k.body, []byte(ledgerForm))
			if err != nil {
				t.Fatal(err)
			}
			k.body = s.Seal.Seal(nil, nil, body, []byte("powerbox ledger 0"))
		},
	} {
		k := log(3, "mail")
		before := scoresOf(k)
		tell(t, before)
		if before.Keep(t.Context()); k.place != 8 {
			t.Fatalf("%d records are kept", k.place)
		}
		spoil(k, before)
		s := scoresOf(k)
		got := tell(t, s)
		plain := scoresOf(k)
		plain.Kept = nil
		if diff := cmp.Diff(tell(t, plain), got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Pair{})); diff != "" {
			t.Errorf("EXT-20 %s: a fold (-), and what was read (+):\n%s", name, diff)
		}
		s.Keep(t.Context())
		if again := scoresOf(k); k.place != int64(len(k.all)) || !cmp.Equal(tell(t, again), got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Pair{})) || k.read != k.place {
			t.Errorf("EXT-20 %s: %d of %d records are kept anew, and read from %d", name, k.place, len(k.all), k.read)
		}
	}
}

// Records of a database that was lost are not counted on: a process whose log went back reads it
// anew, and keeps nothing of the lost ones.
func TestEXT20_ALedgerOfLostRecordsIsNotKept(t *testing.T) {
	k := &keptShelf{shelf: &shelf{}}
	k.work(t, "mail", evidence.Failed, 2)
	shared := len(k.all)
	k.work(t, "mail", evidence.Failed, 2)
	s := scoresOf(k)
	tell(t, s)
	k.all = k.all[:shared:shared] // as of a standby that had not received the newest
	k.work(t, "documents", evidence.Achieved, 5)
	s.Keep(t.Context())
	if k.body != nil {
		t.Error("EXT-20 a ledger of lost records was kept")
	}
	if got := tell(t, s).Scores[0].Counts.Failed; got != 2 {
		t.Errorf("EXT-20 %d failures are counted of 2", got)
	}
}

// Behind an archive the ledger is kept too, with the tree of the records that are gone.
func TestEXT20_ALedgerBehindAnArchiveIsKept(t *testing.T) {
	k := &keptShelf{shelf: &shelf{begins: 5}}
	k.work(t, "mail", evidence.Failed, 3)
	k.work(t, "documents", evidence.Achieved, 2)
	s := scoresOf(k)
	want := tell(t, s)
	s.Keep(t.Context())
	again := scoresOf(k)
	if got := tell(t, again); k.place != 10 || k.read != 10 || want.Scores[1].Counts.Achieved != 2 || !cmp.Equal(got, want, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Pair{})) {
		t.Errorf("%d records are kept, read from %d: %+v; want %+v", k.place, k.read, got, want)
	}
}

// A server without readers of scores and the graph counts behind the log, in bounded steps,
// and learns no levels by that. So the first page has few records to read.
func TestEXT20_TheLedgerFollowsUnwatched(t *testing.T) {
	k := &keptShelf{shelf: &shelf{}}
	k.work(t, "mail", evidence.Achieved, 1500)
	s := scoresOf(k)
	for _, want := range []int64{2004, 3000, 3000} { // the log gives three records at a time
		if all, err := s.CatchUp(t.Context()); err != nil || all != (want == 3000) || s.ledger.place != want || s.Levels() != nil {
			t.Errorf("%d records are counted, all %t, levels %v: %v; want %d and no level", s.ledger.place, all, s.Levels(), err, want)
		}
	}
	k.read = int64(len(k.all))
	if _, err := s.Pairs(t.Context(), time.Time{}, everyAgent); err != nil || k.read != 3000 {
		t.Errorf("a page reads from %d: %v; want from 3000", k.read, err)
	}
}
