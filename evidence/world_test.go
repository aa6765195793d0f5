package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// page is a record as it was logged, and the body that is shown with it.
type page struct {
	record, body []byte // without line feeds; body is nil for none
}

// world is a log as a corpus of mutations knows it, with every key.
type world struct {
	name    string
	pages   []page
	split   int // how many records the first bundle of its series has
	keys    []Key
	signers map[string]Signer // by key id
	log     note.Signer
	signed  []byte // the checkpoint at its end
	trust   Trust
	alien   []page // a chain of another log, whole, by the same keys
	unknown []page // the same by a key that is not pinned
	// strangers are the signers of unknown.
	strangers map[string]Signer
}

// tree is the leaf hashes of pages. A record that cannot be read has the hash of its
// bytes, which is that of no record.
func leavesOf(pages []page) []tlog.Hash {
	var out []tlog.Hash
	for _, p := range pages {
		sealed, err := ParseSealed(p.record)
		if err != nil {
			out = append(out, tlog.RecordHash(p.record))
			continue
		}
		out = append(out, tlog.RecordHash(Leaf(sealed)))
	}
	return out
}

func growHashes(t testing.TB, leaves []tlog.Hash) Hashes {
	t.Helper()
	var stored Hashes
	for n, leaf := range leaves {
		more, err := tlog.StoredHashesForRecordHash(int64(n), leaf, stored)
		must(t, err)
		stored = append(stored, more...)
	}
	return stored
}

// sign is the checkpoint over leaves, by the log's key.
func (w *world) sign(t testing.TB, leaves []tlog.Hash) []byte {
	t.Helper()
	root := tlog.Hash{}
	if len(leaves) > 0 {
		var err error
		root, err = tlog.TreeHash(int64(len(leaves)), growHashes(t, leaves))
		must(t, err)
	}
	signed, err := SignCheckpoint(Checkpoint{Origin: testOrigin, Size: int64(len(leaves)), Root: root}, w.log)
	must(t, err)
	return signed
}

// bundle writes pages with the given leaves and checkpoint, whatever they are. Behind
// from entries it has their edge in its header.
func (w *world) bundle(t testing.TB, pages []page, all []tlog.Hash, from int, signed []byte) []byte {
	t.Helper()
	header := headerLine{Format: bundleForm, Keys: w.keys, Origin: testOrigin}
	if from > 0 {
		var err error
		header.From, err = readFrom(int64(from), growHashes(t, all[:from]))
		must(t, err)
	}
	var out bytes.Buffer
	put := func(value any) {
		line, err := canonicalValue(value)
		must(t, err)
		out.Write(append(line, '\n'))
	}
	put(header)
	for _, p := range pages {
		out.Write(append(slices.Clone(p.record), '\n'))
		if p.body != nil {
			out.Write(append(slices.Clone(p.body), '\n'))
		}
	}
	var leaves []byte
	for _, leaf := range all[from:] {
		leaves = append(leaves, leaf[:]...)
	}
	put(leavesLine{base64.StdEncoding.EncodeToString(leaves)})
	put(checkpointLine{string(signed)})
	return out.Bytes()
}

// whole is the log in one bundle; series is the same in two.
func (w *world) whole(t testing.TB) [][]byte {
	t.Helper()
	return [][]byte{w.bundle(t, w.pages, leavesOf(w.pages), 0, w.signed)}
}

func (w *world) series(t testing.TB) [][]byte {
	t.Helper()
	all := leavesOf(w.pages)
	return [][]byte{
		w.bundle(t, w.pages[:w.split], all[:w.split], 0, w.sign(t, all[:w.split])),
		w.bundle(t, w.pages[w.split:], all, w.split, w.signed),
	}
}

// members is a record as any JSON, to be changed in ways that no Record allows.
func members(t testing.TB, record []byte) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(record))
	decoder.UseNumber()
	var out map[string]any
	must(t, decoder.Decode(&out))
	return out
}

// restate gives a record the hash that it has, and with a signer a signature.
func restate(t testing.TB, record map[string]any, signer Signer) []byte {
	t.Helper()
	body := map[string]any{}
	for name, value := range record {
		if name != "record_hash" && name != "prev_record_hash" && name != "signature" {
			body[name] = value
		}
	}
	text, err := canonicalValue(body)
	must(t, err)
	var prev Hash
	_, err = hex.Decode(prev[:], []byte(fmt.Sprint(record["prev_record_hash"])))
	must(t, err)
	hash := digest(prev, text)
	record["record_hash"] = hash.String()
	if signer != nil {
		signature, err := signer.Sign(hash[:])
		must(t, err)
		record["signature"] = base64.RawURLEncoding.EncodeToString(signature)
	}
	out, err := canonicalValue(record)
	must(t, err)
	return out
}

// reseal makes every chain of pages whole again with the keys of a thief: sequences,
// hashes and signatures. A record whose key the thief lacks keeps its signature.
func (w *world) reseal(t testing.TB, pages []page, stolen map[string]Signer) []page {
	t.Helper()
	heads, next := map[string]string{}, map[string]int{}
	out := slices.Clone(pages)
	for i, p := range out {
		record := members(t, p.record)
		own, _ := record["powerbox"].(map[string]any)
		chain := fmt.Sprint(own["chain_id"])
		if heads[chain] == "" {
			heads[chain] = Hash{}.String()
		}
		own["sequence"], record["prev_record_hash"] = json.Number(strconv.Itoa(next[chain])), heads[chain]
		var signer Signer
		if _, signs := record["signature"]; signs {
			signer = stolen[fmt.Sprint(own["signing_key_id"])]
		}
		out[i].record = restate(t, record, signer)
		heads[chain] = fmt.Sprint(record["record_hash"])
		next[chain]++
	}
	return out
}

// newWorlds are three small logs that together have of everything: two algorithms,
// batches, gateways' chains, bodies of which one was erased, outcomes told and not.
func newWorlds(t testing.TB) []*world {
	t.Helper()
	told := func(b *worldBuilder) {
		b.add(1, "agent-1", b.issuer, "d1", func(r *Record) { r.OutcomeStatus, r.Details.Arguments = Pending, object(`{"amount":10.5,"n":3}`) })
		b.add(2, "agent-1", b.gateway, "d2", func(r *Record) { r.OutcomeStatus = Pending })
		b.add(1, "agent-1", b.issuer, "o1", func(r *Record) {
			r.OutcomeStatus, r.Details.OutcomeOf, r.Outcome = Achieved, "d1", object(`{"tries":2}`)
		})
		b.add(2, "agent-1", b.gateway, "o2", func(r *Record) { r.OutcomeStatus, r.Details.OutcomeOf = Failed, "d2" })
		b.add(3, "agent-2", b.other, "d3", func(r *Record) { r.OutcomeStatus = Pending })
	}
	bodies := func(b *worldBuilder) {
		b.add(1, "agent-1", b.issuer, "b1", func(r *Record) { r.Detach(bodyOf(t, 0)) })
		b.add(3, "agent-2", b.other, "b2", func(r *Record) { r.Detach(bodyOf(t, 1)) })
		b.add(1, "agent-1", b.issuer, "b3", func(r *Record) { r.Detach(bodyOf(t, 2)) })
		b.add(7, IssuerID, b.issuer, "e1", func(r *Record) { r.Details.Erased = []string{"b2"} })
		b.pages[1].body = nil
	}
	batches := func(b *worldBuilder) {
		b.add(4, "agent-4", b.issuer, "c1", func(r *Record) { r.TaskID, r.Intent.Purpose = "task-1", "say <it>" })
		b.covered(4, "agent-4", "c2", false)
		b.covered(4, "agent-4", "c3", true)
		b.add(2, "agent-1", b.gateway, "g1", func(r *Record) { r.Details.RevocationSequence = 12 })
		b.add(7, IssuerID, b.issuer, "x1", func(r *Record) {
			r.ActionType, r.Intent.Details = ActionGatewayClose, object(`{"chains":[{"agent_id":"agent-1","chain_id":"02000000000000000000000000000000","recorder":"gw","records":1}]}`)
		})
	}
	return []*world{newWorld(t, "outcomes", 2, told), newWorld(t, "bodies", 3, bodies), newWorld(t, "batches", 3, batches)}
}

// worldBuilder adds records to a world.
type worldBuilder struct {
	t                      testing.TB
	issuer, gateway, other recorder
	heads                  map[byte]Head
	pages                  []page
}

type recorder struct {
	name   string
	signer Signer
}

func (b *worldBuilder) record(agent, recorder, id string, changes ...func(*Record)) Record {
	r := testRecord(id, agent)
	r.Details.Recorder = recorder
	for _, change := range changes {
		change(&r)
	}
	return r
}

func (b *worldBuilder) log(chain byte, r Record, seal func(Head, Record) (Sealed, error)) {
	b.t.Helper()
	head, known := b.heads[chain]
	if !known {
		head = Genesis(ChainID{chain})
	}
	sealed, err := seal(head, r)
	must(b.t, err)
	b.heads[chain] = sealed.Head()
	p := page{record: sealed.Bytes()}
	if r.Detached != nil {
		p.body, err = canonicalValue(r.Detached.line())
		must(b.t, err)
	}
	b.pages = append(b.pages, p)
}

func (b *worldBuilder) add(chain byte, agent string, by recorder, id string, changes ...func(*Record)) {
	b.t.Helper()
	b.log(chain, b.record(agent, by.name, id, changes...), func(h Head, r Record) (Sealed, error) { return Seal(h, r, by.signer) })
}

// covered adds a record of a batch; the last one of it is signed.
func (b *worldBuilder) covered(chain byte, agent, id string, last bool) {
	b.t.Helper()
	b.log(chain, b.record(agent, b.issuer.name, id), func(h Head, r Record) (Sealed, error) {
		sealed, err := SealCovered(h, r, b.issuer.signer)
		if err == nil && last {
			sealed, err = sealed.Sign(b.issuer.signer)
		}
		return sealed, err
	})
}

func newWorld(t testing.TB, name string, split int, fill func(*worldBuilder)) *world {
	t.Helper()
	w := &world{name: name, split: split, signers: map[string]Signer{}}
	var vkey string
	var err error
	w.log, vkey, err = NewLogSigner(testOrigin, ed25519Key(2))
	must(t, err)
	w.trust = Trust{CheckpointKeys: []string{vkey}, Batches: true}
	pin := func(key Key, signer Signer, agent string) recorder {
		w.keys, w.signers[key.ID] = append(w.keys, key), signer
		w.trust.RecordKeys = append(w.trust.RecordKeys, PinnedKey{Key: key, Agents: []string{agent}})
		return recorder{key.Recorder, signer}
	}
	ed := func(fill byte, name, agent string) recorder {
		signer, err := NewEd25519Signer(ed25519Key(fill))
		must(t, err)
		key, err := NewKey(ed25519Key(fill).Public(), name)
		must(t, err)
		return pin(key, signer, agent)
	}
	ec := p256Key(t, 3)
	signer, err := NewES256Signer(ec)
	must(t, err)
	key, err := NewKey(ec.Public(), "gw")
	must(t, err)
	new1 := func() *worldBuilder { return &worldBuilder{t: t, heads: map[byte]Head{}} }
	b := new1()
	b.issuer, b.gateway, b.other = ed(1, "issuer", "*"), pin(key, signer, "agent-1"), ed(6, "gw2", "agent-2")
	fill(b)
	w.pages = b.pages
	w.signed = w.sign(t, leavesOf(w.pages))
	alien := new1()
	for n := range 3 {
		alien.add(9, "agent-9", b.issuer, fmt.Sprintf("a%d", n))
	}
	stranger, err := NewEd25519Signer(ed25519Key(8))
	must(t, err)
	unknown := new1()
	for n := range 3 {
		unknown.add(9, "agent-9", recorder{"issuer", stranger}, fmt.Sprintf("a%d", n))
	}
	w.alien, w.unknown, w.strangers = alien.pages, unknown.pages, map[string]Signer{stranger.KeyID(): stranger}
	return w
}
