package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutator makes the mutations of one family, one world after the other. Each method
// returns the zero mutation where what it chose changes nothing.
type mutator struct {
	*world
	t      *testing.T
	random *rand.Rand
}

func (m *mutator) n(bound int) int { return m.random.IntN(bound) }

func oneOf[T any](m *mutator, all ...T) T { return all[m.n(len(all))] }

// begin returns the unchanged log: in one bundle or two, at times with a checkpoint
// that was kept.
func (m *mutator) begin(name string) mutation {
	one := mutation{name: name, of: m.world, trust: m.trust, seen: m.n(4) == 0}
	if one.bundles = m.whole(m.t); m.n(4) == 0 {
		one.bundles = m.series(m.t)
	}
	return one
}

// change has one bundle changed as lines.
func (m *mutator) change(one mutation, change func(parts [][]byte) [][]byte) mutation {
	at := m.n(len(one.bundles))
	before := one.bundles[at]
	one.bundles = slices.Clone(one.bundles)
	one.bundles[at] = join(change(lines(bytes.Clone(before)))...)
	if bytes.Equal(before, one.bundles[at]) {
		return mutation{}
	}
	return one
}

func (m *mutator) truncate() mutation {
	one := m.begin("truncate")
	if len(one.bundles) == 2 && m.n(30) == 0 {
		one.bundles = one.bundles[:1]
		return one
	}
	return m.change(one, func(parts [][]byte) [][]byte {
		switch m.n(6) {
		case 0:
			return parts[:m.n(len(parts))]
		case 1:
			return parts[m.n(len(parts)):]
		case 2:
			at := m.n(len(parts))
			return slices.Delete(parts, at, at+1)
		case 3: // within a line, whose end stays
			at := m.n(len(parts))
			parts[at] = append(bytes.Clone(parts[at][:m.n(len(parts[at]))]), '\n')
			return parts
		case 4: // a part of a line
			at := m.n(len(parts))
			from := m.n(len(parts[at]))
			parts[at] = slices.Delete(parts[at], from, from+1+m.n(len(parts[at])-from))
			return parts
		}
		whole := join(parts...)
		return [][]byte{whole[:m.n(len(whole))]}
	})
}

func (m *mutator) reorder() mutation {
	one := m.begin("reorder")
	if len(one.bundles) == 2 && m.n(30) == 0 {
		slices.Reverse(one.bundles)
		return one
	}
	return m.change(one, func(parts [][]byte) [][]byte {
		for range 1 + m.n(3) {
			a, b := m.n(len(parts)), m.n(len(parts))
			switch m.n(4) {
			case 0:
				parts[a], parts[b] = parts[b], parts[a]
			case 1:
				line := parts[a]
				parts = slices.Insert(slices.Delete(parts, a, a+1), min(b, len(parts)-1), line)
			case 2:
				slices.Reverse(parts[min(a, b):max(a, b)])
			case 3: // of a line's members
				parts[a] = m.swapMembers(parts[a])
			}
		}
		return parts
	})
}

var textMember = regexp.MustCompile(`"[a-z_]+":"[^"\\]*"`)

func (m *mutator) swapMembers(line []byte) []byte {
	all := textMember.FindAllIndex(line, -1)
	if len(all) < 2 {
		return line
	}
	at := m.n(len(all) - 1)
	a, b := all[at], all[at+1]
	return join(line[:a[0]], line[b[0]:b[1]], line[a[1]:b[0]], line[a[0]:a[1]], line[b[1]:])
}

func (m *mutator) duplicate() mutation {
	one := m.begin("duplicate")
	if len(one.bundles) == 2 && m.n(30) == 0 {
		at := m.n(2)
		one.bundles = slices.Insert(one.bundles, m.n(3), one.bundles[at])
		return one
	}
	return m.change(one, func(parts [][]byte) [][]byte {
		for range 1 + m.n(2) {
			from := m.n(len(parts))
			switch m.n(3) {
			case 0:
				parts = slices.Insert(parts, m.n(len(parts)+1), parts[from])
			case 1:
				block := slices.Clone(parts[from : from+1+m.n(len(parts)-from)])
				parts = slices.Insert(parts, m.n(len(parts)+1), block...)
			case 2: // of a member
				all := textMember.FindAllIndex(parts[from], -1)
				if len(all) == 0 {
					continue
				}
				a, b := all[m.n(len(all))], all[m.n(len(all))]
				parts[from] = join(parts[from][:b[1]], []byte(","), parts[from][a[0]:a[1]], parts[from][b[1]:])
			}
		}
		return parts
	})
}

// value is any JSON.
func (m *mutator) value() any {
	return oneOf[any](m, "", "x", "agent-1", "agent-2", IssuerID, "issuer", "gw", "d1", "PENDING", "ALLOW", nil, true, json.Number("0"), json.Number("-1"),
		json.Number(fmt.Sprint(m.n(1000))), json.Number("1.5"), json.Number("9007199254740993"), []any{}, []any{"x"}, []any{json.Number("1")}, map[string]any{},
		map[string]any{"x": "y"}, strings.Repeat("0", 64), strings.Repeat("0", 32), "2026-03-04T12:01:15.000Z", "2026-03-04T12:01:15Z", strings.Repeat("a", 4097), "\u00e9")
}

// alter changes one member somewhere in a JSON object.
func (m *mutator) alter(object map[string]any) {
	names := slices.Sorted(maps.Keys(object))
	name := "x"
	if len(names) > 0 {
		name = oneOf(m, names...)
	}
	if inner, ok := object[name].(map[string]any); ok && m.n(5) > 0 {
		m.alter(inner)
		return
	}
	switch m.n(6) {
	case 0:
		delete(object, name)
	case 1:
		object[oneOf(m, "x", "Decision", "task_id", "erased", "outcome", "outcome_of", "gate", "signatures", "tenant", "link")] = m.value()
	case 2:
		object[strings.ToUpper(name)] = object[name]
		delete(object, name)
	case 3:
		if text, ok := object[name].(string); ok && text != "" {
			at := m.n(len(text))
			object[name] = text[:at] + oneOf(m, "a", "0", "", "f", "\u0000", "\u2028") + text[at+1:]
		}
	default:
		object[name] = m.value()
	}
}

// atLine has a line of a bundle changed that is a record, or at times another one.
func (m *mutator) atLine(parts [][]byte, change func(line []byte) []byte) [][]byte {
	var records []int
	for n, line := range parts {
		if bytes.HasPrefix(line, []byte(`{"action_type"`)) {
			records = append(records, n)
		}
	}
	at := m.n(len(parts))
	if len(records) > 0 && m.n(5) > 0 {
		at = oneOf(m, records...)
	}
	parts[at] = append(change(bytes.TrimSuffix(parts[at], []byte("\n"))), '\n')
	return parts
}

func (m *mutator) changeMember() mutation {
	return m.change(m.begin("change a member"), func(parts [][]byte) [][]byte {
		return m.atLine(parts, func(line []byte) []byte {
			object := members(m.t, line)
			m.alter(object)
			if _, hashed := object["prev_record_hash"].(string); hashed && m.n(2) == 0 {
				return m.stated(object, line)
			}
			return m.written(object, line)
		})
	})
}

// stated is a record with the hash that it has now, and the signature of before.
func (m *mutator) stated(object map[string]any, line []byte) []byte {
	if previous, _ := object["prev_record_hash"].(string); len(previous) != 64 || strings.Trim(previous, "0123456789abcdef") != "" {
		return m.written(object, line)
	}
	if _, err := canonicalValue(object); err != nil {
		return m.written(object, line)
	}
	return restate(m.t, object, nil)
}

// written is JSON in its one form, or where there is none as it comes.
func (m *mutator) written(object map[string]any, line []byte) []byte {
	text, err := canonicalValue(object)
	if err == nil {
		return text
	}
	if text, err = json.Marshal(object); err != nil {
		return line
	}
	return text
}

var number = regexp.MustCompile(`[:\[,]-?[0-9][0-9.]*`)

// spelling writes numbers and texts in other ways, of which most readers say that they
// are the same.
func (m *mutator) spelling() mutation {
	return m.change(m.begin("spell otherwise"), func(parts [][]byte) [][]byte {
		return m.atLine(parts, func(line []byte) []byte {
			all := number.FindAllIndex(line, -1)
			if len(all) == 0 || m.n(3) == 0 {
				return m.respelt(line)
			}
			at := oneOf(m, all...)
			text := string(line[at[0]+1 : at[1]])
			other := oneOf(m, text+".0", text+"e0", text+"E+0", text+"0e-1", "-"+text, "0"+text, "+"+text, text+".", "."+text, "0x"+text, text+"e400", text+"e-400",
				text+strings.Repeat("0", 20), text+".00000000000000001", "-0", "null", `"`+text+`"`, text+"_0", fmt.Sprint(m.n(100)), text+" ", "\t"+text, "NaN", "1e3", text+"0")
			return join(line[:at[0]+1], []byte(other), line[at[1]:])
		})
	})
}

func (m *mutator) respelt(line []byte) []byte {
	at := 1 + m.n(len(line)-1)
	escape := func(c byte) string { return fmt.Sprintf(oneOf(m, `\u%04x`, `\u%04X`), c) }
	return join(line[:at], []byte(oneOf(m, " ", "\t", "\r", "\ufeff", "\n", escape(line[at]), `\/`, "\u00a0", strings.ToUpper(string(line[at])))), line[at+m.n(2):])
}

var signatureMember = regexp.MustCompile(`"signature":"([^"]*)"`)

// signature changes signatures of records, also in the ways in which a curve has more
// than one of them.
func (m *mutator) signature() mutation {
	return m.change(m.begin("change a signature"), func(parts [][]byte) [][]byte {
		return m.atLine(parts, func(line []byte) []byte {
			at := signatureMember.FindSubmatchIndex(line)
			if at == nil {
				return m.respelt(line)
			}
			text := string(line[at[2]:at[3]])
			return join(line[:at[2]], []byte(m.otherSignature(text, parts)), line[at[3]:])
		})
	})
}

func (m *mutator) otherSignature(text string, parts [][]byte) string {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	must(m.t, err)
	order := oneOf(m, "7237005577332262213973186563042994240857116359379907606001950938285454250989", "115792089210356248762697446949407573529996955224135760342422259061068512044369")
	half := func(change func(s, order *big.Int) *big.Int, backwards bool) string {
		s := slices.Clone(raw[32:64])
		if backwards {
			slices.Reverse(s)
		}
		n, _ := new(big.Int).SetString(order, 10)
		sum := change(new(big.Int).SetBytes(s), n)
		if sum.Sign() < 0 || sum.BitLen() > 256 {
			return text
		}
		if sum.FillBytes(s); backwards {
			slices.Reverse(s)
		}
		return base64.RawURLEncoding.EncodeToString(join(raw[:32], s))
	}
	plus := func(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
	minus := func(a, b *big.Int) *big.Int { return new(big.Int).Sub(b, a) }
	flipped := slices.Clone(raw)
	flipped[m.n(len(flipped))] ^= 1 << m.n(8)
	switch m.n(9) {
	case 0:
		return half(plus, true)
	case 1:
		return half(minus, false)
	case 2:
		return text + oneOf(m, "=", "==", "A", "AA", "\\n", " ")
	case 3:
		return text[:len(text)-1] + oneOf(m, "A", "B", "C", "R", "w", "x", "_")
	case 4:
		return text[:m.n(len(text))]
	case 5:
		if others := signatureMember.FindAllSubmatch(join(parts...), -1); len(others) > 0 {
			return string(oneOf(m, others...)[1])
		}
	case 6:
		return oneOf(m, "", base64.RawURLEncoding.EncodeToString(make([]byte, 64)), strings.NewReplacer("-", "+", "_", "/").Replace(text))
	}
	return base64.RawURLEncoding.EncodeToString(flipped)
}

// keys changes who is said to sign: in the trust file, in the header and in records.
func (m *mutator) otherKeys() mutation {
	one := m.begin("swap keys")
	one.trust.RecordKeys = slices.Clone(one.trust.RecordKeys)
	at, other := m.n(len(one.trust.RecordKeys)), m.n(len(one.trust.RecordKeys))
	pinned := &one.trust.RecordKeys[at]
	moment := testTime.Add(time.Duration(m.n(2_000_000)-1_000_000) * time.Millisecond)
	switch m.n(9) {
	case 0:
		one.trust.RecordKeys = slices.Delete(one.trust.RecordKeys, at, at+1)
	case 1:
		pinned.Agents = oneOf(m, []string{"*"}, []string{"agent-1"}, []string{"agent-2"}, []string{IssuerID, "agent-1"}, []string{"agent-9"})
	case 2:
		pinned.Recorder = oneOf(m, "issuer", "gw", "gw2", "x")
	case 3:
		pinned.NotBefore = moment
	case 4:
		pinned.NotAfter = moment
	case 5:
		pinned.X = one.trust.RecordKeys[other].X
	case 6:
		one.trust.Batches = false
	case 7:
		one.trust.CheckpointKeys = []string{oneOf(m, m.trust.CheckpointKeys[0]+"A", "other.example+00000000+AQ", strings.Replace(m.trust.CheckpointKeys[0], "log+", "lag+", 1))}
		one.seen = false
	}
	if m.n(3) == 0 {
		return one
	}
	return m.change(one, func(parts [][]byte) [][]byte {
		a, b := m.world.keys[at], m.world.keys[other]
		return m.atLine(parts, func(line []byte) []byte {
			swap := oneOf(m, [2]string{a.ID, b.ID}, [2]string{a.X, b.X}, [2]string{`"alg":"` + a.Algorithm, `"alg":"` + b.Algorithm},
				[2]string{`"recorder":"` + a.Recorder, `"recorder":"` + b.Recorder}, [2]string{`"signature_algorithm":"` + a.Algorithm, `"signature_algorithm":"` + b.Algorithm},
				[2]string{a.ID, "x"}, [2]string{`,"signing_key_id":"` + a.ID + `"`, ""})
			changed := []byte(strings.Replace(string(line), swap[0], swap[1], 1+m.n(2)))
			if bytes.HasPrefix(changed, []byte(`{"action_type"`)) && m.n(2) == 0 {
				return m.stated(members(m.t, changed), changed)
			}
			return changed
		})
	})
}
