package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// tells is a gateway that seals what it likes, and ships it.
type tells struct {
	falseGateway
	id     string
	agent  string
	signer evidence.Signer
	head   evidence.Head
}

// teller enrols a gateway of an agent that is never started, and takes its keys.
func (w *town) teller(agent string) *tells {
	w.t.Helper()
	state := w.enrolled(agent)
	_, list := w.recorders(agent)
	var newest evidence.PinnedKey
	for _, k := range list.Keys {
		if strings.HasPrefix(k.Recorder, "gw_") && k.Recorder > newest.Recorder {
			newest = k
		}
	}
	signer, err := evidence.NewEd25519Signer(w.privateKey(state, "evidence"))
	if err != nil || newest.ID != signer.KeyID() {
		w.t.Fatalf("the key of %s: %v", newest.Recorder, err)
	}
	id := sha256.Sum256([]byte(newest.Recorder))
	return &tells{w.falselyAs(state), newest.Recorder, agent, signer, evidence.Genesis(evidence.ChainID(id[:16]))}
}

func (w *town) privateKey(state, name string) ed25519.PrivateKey {
	w.t.Helper()
	seed, err := os.ReadFile(filepath.Join(state, "keys", name+".secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(raw(w.t, strings.TrimSpace(string(seed))))
}

// record is one of the gateway's own, of the chain's next place.
func (g *tells) record(id, of string, status evidence.OutcomeStatus) evidence.Record {
	return evidence.Record{
		ID: id, AgentID: g.agent, ActionType: "a2a.SendMessage", Intent: evidence.Intent{Operation: opSearch}, Decision: evidence.Allow,
		OutcomeStatus: status, Time: time.Now(), Details: evidence.Details{Recorder: g.id, OutcomeOf: of},
	}
}

// ships sends records in one shipment. What the server does not take is taken back.
func (g *tells) ships(records ...evidence.Record) (status int) {
	g.w.t.Helper()
	before := g.head
	var shipment link.Shipment
	for _, r := range records {
		shipment.Records = append(shipment.Records, g.seals(r))
	}
	if status, _, _ = g.says(link.PathShip, shipment); status != http.StatusOK {
		g.head = before
	}
	return status
}

func (g *tells) seals(r evidence.Record) []byte {
	g.w.t.Helper()
	sealed, err := evidence.Seal(g.head, r, g.signer)
	if err != nil {
		g.w.t.Fatal(err)
	}
	g.head = sealed.Head()
	return sealed.Bytes()
}

// TestATK71_OutcomesOfAnotherRecorder: anyone who has the key of a gateway tells no
// outcome of what others decided, and not two of its own decisions. The server takes
// no such record, and both verifiers name one that got into the log without it.
func TestATK71_OutcomesOfAnotherRecorder(t *testing.T) {
	onStores(t, tryATK71OutcomesOfAnotherRecorder)
}

func tryATK71OutcomesOfAnotherRecorder(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	decided := w.decided(alice.searches(alice.reports()))
	if got := w.outcomes(decided.ID); len(got) != 1 || got[0].Status != "ACHIEVED" {
		t.Fatalf("%+v", got)
	}
	same, other, mail := w.teller("documents"), w.teller("documents"), w.teller("mail")
	for name, g := range map[string]*tells{"a gateway of the same agent": same, "a gateway of another agent": mail} {
		if status := g.ships(g.record("rec_lie_"+g.id, decided.ID, evidence.Failed)); status == http.StatusOK {
			t.Errorf("ATK-71 %s told the outcome of what the server decided", name)
		}
	}
	if status := same.ships(same.record("rec_d", "", evidence.Pending), same.record("rec_o", "rec_d", evidence.Achieved)); status != http.StatusOK {
		t.Fatalf("ATK-71 a true outcome: HTTP %d", status)
	}
	if status := other.ships(other.record("rec_foreign", "rec_d", evidence.Failed)); status == http.StatusOK {
		t.Error("ATK-71 one gateway told the outcome of what another one decided")
	}
	if status := same.ships(same.record("rec_second", "rec_d", evidence.Failed)); status == http.StatusOK {
		t.Error("ATK-71 a second outcome that contradicts the first")
	}
	if status := same.ships(same.record("rec_again", "rec_d", evidence.Achieved)); status != http.StatusOK {
		t.Errorf("ATK-71 the same outcome again: HTTP %d", status)
	}
	if status := same.ships(same.record("rec_late", "rec_not_here", evidence.Achieved)); status != http.StatusOK {
		t.Errorf("ATK-71 an outcome of a decision that is not here: HTTP %d", status)
	}
	if got := w.outcomes(decided.ID); len(got) != 1 || got[0].Status != "ACHIEVED" {
		t.Errorf("ATK-71 on record: %+v", got)
	}
	disguised := w.teller("documents")
	if err := disguised.head.ChainID.UnmarshalText([]byte(decided.Powerbox.ChainID)); err != nil {
		t.Fatal(err)
	}
	if status := disguised.ships(disguised.record("rec_disguised", "", evidence.Pending)); status == http.StatusOK {
		t.Error("ATK-71 a gateway began its chain under the id of the server's")
	}
	a := w.handed()
	if got := a.audits(); got.Verdict != "ok" {
		t.Fatalf("ATK-71 %v", got.caught())
	}
	whole := a.bundle()
	for name, c := range map[string]struct {
		by   *tells
		lie  evidence.Record
		want string
	}{
		"another agent's chain": {mail, mail.record("rec_lie", decided.ID, evidence.Failed), "bad_outcome rec_lie"},
		"two of one chain":      {same, same.record("rec_lie", "rec_d", evidence.Failed), "two_outcomes rec_lie"},
	} {
		a.has("bundle.jsonl", w.alsoLogged(whole, c.by.seals(c.lie)))
		if got := a.audits(); !slices.Equal(got.caught(), []string{"tampered", c.want}) {
			t.Errorf("ATK-71 %s: %v", name, got.caught())
		}
	}
}

// alsoLogged is the bundle of a log into which someone with the log's key has put
// another record.
func (w *town) alsoLogged(bundle, record []byte) []byte {
	w.t.Helper()
	parts := slices.Collect(bytes.Lines(bytes.Clone(bundle)))
	n := len(parts) - 2
	var leaves struct{ Leaves []byte }
	var last struct{ Checkpoint string }
	sealed, err := evidence.ParseSealed(record)
	for at, into := range map[int]any{n: &leaves, n + 1: &last} {
		if wrong := json.Unmarshal(parts[at], into); wrong != nil || err != nil {
			w.t.Fatal(wrong, err)
		}
	}
	origin, _, _ := strings.Cut(last.Checkpoint, "\n")
	leaf := tlog.RecordHash(evidence.Leaf(sealed))
	leaves.Leaves = append(leaves.Leaves, leaf[:]...)
	var hashes evidence.Hashes
	for hash := range slices.Chunk(leaves.Leaves, tlog.HashSize) {
		// As a record whose leaf has that hash would grow the tree.
		stored, err := tlog.StoredHashesForRecordHash(hashesOf(hashes), tlog.Hash(hash), hashes)
		if err != nil {
			w.t.Fatal(err)
		}
		hashes = append(hashes, stored...)
	}
	size := int64(len(leaves.Leaves) / tlog.HashSize)
	root, err := tlog.TreeHash(size, hashes)
	if err != nil {
		w.t.Fatal(err)
	}
	signer, _, err := evidence.NewLogSigner(origin, w.privateKey(filepath.Join(w.dir, "powerbox-data"), "checkpoint"))
	if err != nil {
		w.t.Fatal(err)
	}
	signed, err := evidence.SignCheckpoint(evidence.Checkpoint{Origin: origin, Size: size, Root: root}, signer)
	if err != nil {
		w.t.Fatal(err)
	}
	parts[n] = []byte(`{"leaves":"` + base64.StdEncoding.EncodeToString(leaves.Leaves) + "\"}\n")
	text, _ := json.Marshal(string(signed))
	parts[n+1] = append(append([]byte(`{"checkpoint":`), text...), "}\n"...)
	return bytes.Join(slices.Insert(parts, n, append(bytes.Clone(record), '\n')), nil)
}

// hashesOf is how many entries a tree has of which these are the stored hashes.
func hashesOf(stored evidence.Hashes) (entries int64) {
	for tlog.StoredHashCount(entries) < int64(len(stored)) {
		entries++
	}
	return entries
}
