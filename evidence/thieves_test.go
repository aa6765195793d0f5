package evidence

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// These mutations are made with stolen keys. A thief with the key of a recorder and the
// key of the log can write bundles that verify. The tests show the limits of such a
// thief, and the changes that a kept checkpoint reveals.

// forged is what a thief makes of a log.
type forged struct {
	name  string
	pages []page
	shows []Kind
}

// forge writes the bundle of a thief who has the log's key, or of one who leaves what
// is signed as it was.
func (m *mutator) forge(f forged, log bool) mutation {
	one := mutation{name: f.name, of: m.world, trust: m.trust, seen: m.n(3) == 0}
	logged := leavesOf(m.pages)
	if !log {
		one.name += ", without the log's key"
		one.bundles = [][]byte{m.bundle(m.t, f.pages, logged, 0, m.signed)}
		return one // it is open: the records are others
	}
	now := leavesOf(f.pages)
	one.bundles = [][]byte{m.bundle(m.t, f.pages, now, 0, m.sign(m.t, now))}
	one.expect, one.shows = thief, f.shows
	switch {
	case !one.seen:
	case len(now) < len(logged):
		one.shows = append(one.shows, MissingTail)
	case !slices.Equal(now[:len(logged)], logged):
		one.shows = append(one.shows, Fork)
	}
	return one
}

// word is one that no other mutation has.
func (m *mutator) word() string { return fmt.Sprintf("w%08x", m.random.Uint32()) }

// theft is the key that is stolen, and where its records are.
func (m *mutator) theft() (id string, at []int) {
	id = oneOf(m, slices.Sorted(maps.Keys(m.signers))...)
	for n, p := range m.pages {
		if bytes.Contains(p.record, []byte(`"signing_key_id":"`+id+`"`)) {
			at = append(at, n)
		}
	}
	return id, at
}

// edit is a record of a page with a change.
func (m *mutator) edit(p page, change func(record, own map[string]any)) page {
	record := members(m.t, p.record)
	own, _ := record["powerbox"].(map[string]any)
	change(record, own)
	text, err := canonicalValue(record)
	must(m.t, err)
	return page{text, p.body}
}

func purpose(word string) func(record, own map[string]any) {
	return func(record, _ map[string]any) {
		intent, _ := record["intent"].(map[string]any)
		intent["purpose"] = word
	}
}

// stolen are records that a thief has changed, added, left out or claimed for others.
func (m *mutator) stolen() mutation {
	id, own := m.theft()
	if len(own) == 0 {
		return mutation{}
	}
	f := forged{pages: slices.Clone(m.pages)}
	at, word := oneOf(m, own...), m.word()
	switch m.n(4) {
	case 0:
		f.name = "another record"
		f.pages[at] = m.edit(f.pages[at], purpose(word))
	case 1:
		f.name = "one record more"
		more := m.edit(f.pages[own[0]], func(record, own map[string]any) {
			record["record_id"] = word
			delete(own, "outcome_of")
			delete(own, "body_commitment")
		})
		more.body = nil
		f.pages = slices.Insert(f.pages, own[0]+1+m.n(len(f.pages)-own[0]), more)
		if m.world.name == "batches" && id == m.keys[1].ID {
			f.name = "one record more than the end of the gateway says"
		}
	case 2:
		f.name = "one record less"
		if m.world.name == "batches" {
			return mutation{} // the remaining lines show that one is missing or unsigned
		}
		f.pages[own[len(own)-1]] = m.edit(f.pages[own[len(own)-1]], purpose(word))
		f.pages = slices.Delete(f.pages, own[0], own[0]+1)
	case 3:
		f.name, f.shows = "claimed for another agent or recorder", []Kind{KeyNotAllowed}
		if id == m.keys[0].ID {
			return mutation{} // pinned for every agent
		}
		name := oneOf(m, "agent_id", "recorder")
		for _, n := range own {
			f.pages[n] = m.edit(f.pages[n], func(record, own map[string]any) {
				if name == "agent_id" {
					record[name] = word
					return
				}
				own[name] = word
			})
		}
	}
	f.pages = m.reseal(m.t, f.pages, map[string]Signer{id: m.signers[id]})
	return m.forge(f, m.n(3) > 0)
}

// foreign are records of another log, or under a key that is not pinned, among those
// that were logged.
func (m *mutator) foreign() mutation {
	word := m.word()
	issuer := map[string]Signer{m.keys[0].ID: m.signers[m.keys[0].ID]}
	from, keys := m.alien, issuer
	f := forged{name: "another log's chain"}
	kind := m.n(5)
	if kind == 0 {
		from, keys = m.unknown, m.strangers
	}
	chain := slices.Clone(from)
	chain[len(chain)-1] = m.edit(chain[len(chain)-1], purpose(word))
	if kind == 1 {
		f.name, f.shows = "a chain under the id of another", []Kind{Fork}
		first := members(m.t, m.pages[0].record)
		of, _ := first["powerbox"].(map[string]any)
		for n := range chain {
			chain[n] = m.edit(chain[n], func(record, own map[string]any) {
				own["chain_id"], record["agent_id"] = of["chain_id"], first["agent_id"]
			})
		}
	}
	chain = m.reseal(m.t, chain, keys)
	switch kind {
	case 0:
		f.name, f.shows = "a chain under a key that is not pinned", []Kind{UnknownKey}
	case 2:
		f.name, f.shows = "another log's chain without its beginning", []Kind{MissingHead}
		chain = chain[1:]
	case 3:
		f.name, f.shows = "another log's chain with a gap", []Kind{MissingMiddle}
		chain = slices.Delete(chain, 1, 2)
	}
	f.pages = slices.Clone(m.pages)
	at := 0
	for _, p := range chain {
		at += m.n(len(f.pages) - at + 1)
		f.pages = slices.Insert(f.pages, at, p)
		at++
	}
	return m.forge(f, m.n(3) > 0)
}

// logged changes the signed parts of the log: leaves and checkpoints.
func (m *mutator) logged() mutation {
	one := m.begin("leaves")
	at := m.n(len(one.bundles))
	parts := lines(bytes.Clone(one.bundles[at]))
	n := len(parts) - 2
	var leaves leavesLine
	must(m.t, decodeLine(bytes.TrimSpace(parts[n]), &leaves))
	hashes, err := base64.StdEncoding.DecodeString(leaves.Leaves)
	must(m.t, err)
	write := func(hashes []byte) []byte {
		return []byte(`{"leaves":"` + base64.StdEncoding.EncodeToString(hashes) + "\"}\n")
	}
	cut := tlog.HashSize * m.n(len(hashes)/tlog.HashSize+1)
	switch m.n(9) {
	case 0:
		one.name, one.expect = "leaves in several lines", holds
		parts = slices.Replace(parts, n, n+1, write(hashes[:cut]), write(hashes[cut:]))
		if m.n(2) == 0 {
			parts = slices.Insert(parts, n+m.n(3), write(nil))
		}
		parts = m.cosigned(parts)
	case 1:
		one.name, one.expect = "cosignatures of keys that are not pinned", holds
		parts = m.cosigned(parts)
	case 2:
		hashes[m.n(len(hashes))] ^= 1 << m.n(8)
		parts[n] = write(hashes)
	case 3:
		parts[n] = write(slices.Delete(hashes, max(0, cut-tlog.HashSize), cut))
	case 4:
		parts[n] = write(slices.Insert(hashes, cut, bytes.Repeat([]byte{byte(m.n(256))}, tlog.HashSize-m.n(2))...))
	case 5:
		text := leaves.Leaves
		place := m.n(len(text))
		parts[n] = []byte(`{"leaves":"` + text[:place] + oneOf(m, `\n`, "=", "", "A", " ", `\u0041`, "-", `\r\n`) + text[place:] + "\"}\n")
	case 6: // elsewhere, whole or in part
		parts[n] = write(hashes[cut:])
		parts = slices.Insert(parts, m.n(len(parts)+1), write(hashes[:cut]))
	default:
		parts = m.otherCheckpoint(parts)
	}
	before := one.bundles[at]
	if one.bundles[at] = join(parts...); bytes.Equal(before, one.bundles[at]) {
		return mutation{}
	}
	return one
}

// cosigned adds lines to the checkpoint by keys that are not pinned; verifiers
// ignore them.
func (m *mutator) cosigned(parts [][]byte) [][]byte {
	var last checkpointLine
	must(m.t, decodeLine(bytes.TrimSpace(parts[len(parts)-1]), &last))
	text := last.Checkpoint
	for range 1 + m.n(3) {
		var noise [12]byte
		for n := range noise {
			noise[n] = byte(m.n(256))
		}
		text += "\u2014 witness.example/" + m.word() + " " + base64.StdEncoding.EncodeToString(noise[:]) + "\n"
	}
	line, err := canonicalValue(checkpointLine{text})
	must(m.t, err)
	parts[len(parts)-1] = append(line, '\n')
	return parts
}

// otherCheckpoint changes the text of a checkpoint, or its signature.
func (m *mutator) otherCheckpoint(parts [][]byte) [][]byte {
	var last checkpointLine
	must(m.t, decodeLine(bytes.TrimSpace(parts[len(parts)-1]), &last))
	text := last.Checkpoint
	rows := strings.SplitAfter(text, "\n")
	row := m.n(len(rows))
	place := m.n(len(text))
	switch m.n(7) {
	case 0:
		rows[1] = strconv.Itoa(m.n(20)) + "\n"
	case 1:
		rows = slices.Insert(rows, row, rows[m.n(len(rows))])
	case 2:
		rows = slices.Delete(rows, row, row+1)
	case 3:
		rows[1] = oneOf(m, "0", "+", "", " ", "1e0") + rows[1]
	case 4: // one that was signed before, of fewer entries
		rows = strings.SplitAfter(string(m.sign(m.t, leavesOf(m.pages[:m.n(len(m.pages))]))), "\n")
	case 5:
		rows = []string{text[:place], oneOf(m, "A", "\n", "\t", "\u00a0", "=", m.word()), text[place+m.n(2):]}
		if !strings.HasPrefix(text[place:], "\u2014") && text[place] >= 0x80 {
			return parts // half a character
		}
	case 6:
		rows = append(rows, "\u2014 "+testOrigin+" "+base64.StdEncoding.EncodeToString([]byte(m.word()))+"\n")
	}
	line, err := canonicalValue(checkpointLine{strings.ToValidUTF8(strings.Join(rows, ""), "")})
	must(m.t, err)
	parts[len(parts)-1] = append(line, '\n')
	return parts
}

// stories are outcomes and erasures: told by anyone who must not tell them, by thieves who
// have everything else right, and bodies that are others.
func (m *mutator) stories() mutation {
	if m.world.name == "bodies" && m.n(2) == 0 {
		return m.bodies()
	}
	gateway := 1 + m.n(2)
	id := m.keys[gateway].ID
	agent := fmt.Sprintf("agent-%d", gateway)
	word := m.word()
	tells := func(id, of, status string, more func(record, own map[string]any)) page {
		p := m.edit(m.pages[0], func(record, own map[string]any) {
			maps.DeleteFunc(own, func(name string, _ any) bool {
				return name == "body_commitment" || name == "arguments" || name == "outcome_of"
			})
			maps.DeleteFunc(record, func(name string, _ any) bool {
				return name == "outcome" || name == "outcome_status" || name == "task_id"
			})
			record["record_id"], record["agent_id"] = id, agent
			own["recorder"], own["signing_key_id"], own["chain_id"] = m.keys[gateway].Recorder, m.keys[gateway].ID, fmt.Sprintf("0%d", 1+gateway)+strings.Repeat("0", 30)
			record["signature_algorithm"], record["signature"] = m.keys[gateway].Algorithm, "AA"
			if of != "" {
				own["outcome_of"] = of
			}
			if status != "" {
				record["outcome_status"] = status
			}
			if more != nil {
				more(record, own)
			}
		})
		p.body = nil
		return p
	}
	f := forged{pages: slices.Clone(m.pages)}
	status := oneOf(m, "ACHIEVED", "FAILED", "PARTIAL")
	first := fmt.Sprint(members(m.t, m.pages[0].record)["record_id"])
	switch m.n(8) {
	case 0:
		f.name, f.shows = "the outcome of another chain's decision", []Kind{BadOutcome}
		f.pages = append(f.pages, tells(word, first, status, nil))
	case 1:
		f.name, f.shows = "two outcomes that contradict each other", []Kind{TwoOutcomes}
		f.pages = append(f.pages, tells(word, "", "PENDING", nil), tells(word+"o", word, "ACHIEVED", nil), tells(word+"p", word, oneOf(m, "FAILED", "PARTIAL"), nil))
	case 2:
		f.name, f.shows = "two outcomes of one status that say different things", []Kind{TwoOutcomes}
		f.pages = append(f.pages, tells(word, "", "PENDING", nil), tells(word+"o", word, status, nil),
			tells(word+"p", word, status, func(record, _ map[string]any) { record["outcome"] = map[string]any{"cause": word} }))
	case 3:
		f.name, f.shows = "an outcome before its decision", []Kind{BadOutcome}
		f.pages = append(f.pages, tells(word+"o", word, status, nil), tells(word, "", "PENDING", nil))
	case 4:
		f.name, f.shows = "the outcome of what awaits none", []Kind{BadOutcome}
		f.pages = append(f.pages, tells(word, "", oneOf(m, "", "ACHIEVED"), nil), tells(word+"o", word, status, nil))
	case 5:
		f.name, f.shows = "an outcome that is none", []Kind{BadOutcome}
		f.pages = append(f.pages, tells(word, oneOf(m, first, "elsewhere"), oneOf(m, "", "PENDING"), nil))
	case 6:
		f.name, f.shows = "bodies erased by a gateway", []Kind{BadErasure}
		f.pages = append(f.pages, tells(word, "", "", func(_, own map[string]any) { own["erased"] = []any{first, word} }))
	case 7:
		f.name = "an outcome told twice, and one of nothing that is here"
		f.pages = append(f.pages, tells(word, "", "PENDING", nil), tells(word+"o", word, status, nil), tells(word+"p", word, status, nil), tells(word+"q", word+"x", status, nil))
	}
	f.pages = m.reseal(m.t, f.pages, map[string]Signer{id: m.signers[id]})
	return m.forge(f, m.n(4) > 0)
}

// bodies are changed without any key: they are not in the log.
func (m *mutator) bodies() mutation {
	one := m.begin("bodies")
	return m.change(one, func(parts [][]byte) [][]byte {
		var bodies []int
		for n, line := range parts {
			if bytes.HasPrefix(line, []byte(bodyMark)) {
				bodies = append(bodies, n)
			}
		}
		if len(bodies) == 0 {
			return parts
		}
		at := oneOf(m, bodies...)
		switch m.n(4) {
		case 0:
			return slices.Delete(parts, at, at+1)
		case 1:
			line := parts[at]
			return slices.Insert(slices.Delete(parts, at, at+1), m.n(len(parts)-1), line)
		case 2:
			parts[at] = parts[oneOf(m, bodies...)]
			return parts
		}
		place := 1 + m.n(len(parts[at])-2)
		parts[at][place] ^= 1 << m.n(7)
		return parts
	})
}
