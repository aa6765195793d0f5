package evidence

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// IssuerID is the agent_id of the chain that the issuer keeps about itself, in
// which recorders are enrolled and closed (EXT-33).
const IssuerID = "powerbox"

// recordersForm is the format of a list of recorders.
const recordersForm = "powerbox-recorders/v1"

// Recorders are the recorders that may sign for one agent, as its key endpoint
// lists them (EXT-33): by which keys, when, and in which chains. A verifier that
// has kept a list knows which chains a bundle of a later time must have.
// Its keys are for information: trusted keys are pinned in [Trust].
type Recorders struct {
	Format string        `json:"format"`
	Agent  string        `json:"agent"`
	Keys   []PinnedKey   `json:"keys"`
	Chains []ListedChain `json:"chains"` // those that have begun
}

// ListedChain is a chain that someone knows of.
type ListedChain struct {
	AgentID  string  `json:"agent_id"`
	Recorder string  `json:"recorder"`
	Chain    ChainID `json:"chain_id"`
	Records  int64   `json:"records,omitempty"` // how many it has at least; 0 says nothing
}

// NewRecorders returns the list of an agent.
func NewRecorders(agent string, keys []PinnedKey, chains []ListedChain) Recorders {
	return Recorders{Format: recordersForm, Agent: agent, Keys: append([]PinnedKey{}, keys...), Chains: append([]ListedChain{}, chains...)}
}

// ParseRecorders reads a list. Unknown members are refused.
func ParseRecorders(data []byte) (Recorders, error) {
	var list Recorders
	if err := decodeExact(data, &list); err != nil {
		return Recorders{}, fmt.Errorf("list of recorders: %w", err)
	}
	if list.Format != recordersForm {
		return Recorders{}, fmt.Errorf("evidence: list of recorders: format %q; want %q", list.Format, recordersForm)
	}
	for _, key := range list.Keys {
		if _, err := key.public(); err != nil {
			return Recorders{}, err
		}
	}
	return list, nil
}

// ParseKey reads a [Key] and refuses one that is none.
func ParseKey(data []byte) (Key, error) {
	var key Key
	if err := decodeExact(data, &key); err != nil {
		return Key{}, err
	}
	_, err := key.public()
	return key, err
}

// For returns the key with the name of its recorder.
func (k Key) For(recorder string) Key {
	k.Recorder = recorder
	return k
}

// Pin returns the key as what may sign for agents from one moment to another;
// zero is no bound.
func (k Key) Pin(from, to time.Time, agents ...string) PinnedKey {
	return PinnedKey{Key: k, Agents: agents, NotBefore: from, NotAfter: to}
}

// expected is a chain that the bundle must have, and the line that says so.
type expected struct {
	ListedChain
	line int // of the record that says so, 0 for a list
}

// expectClosed takes what the record of a gateway's end says of its chains. What
// is not in the one form says nothing: the record itself was logged as it is.
func (v *verifier) expectClosed(record Record, e *entry) {
	if record.ActionType != ActionGatewayClose || record.AgentID != IssuerID || !e.vouched {
		return
	}
	// A map, since names of members are exact.
	var said map[string]json.RawMessage
	if json.Unmarshal(record.Intent.Details, &said) != nil || said["chains"] == nil {
		return
	}
	var chains []ListedChain
	if decodeExact(said["chains"], &chains) != nil {
		return
	}
	for _, c := range chains {
		v.expected = append(v.expected, expected{c, e.line})
	}
}

// checkExpected names the chains that are left out of the bundle, or cut short,
// and tells which recorders that may sign have nothing in it (EXT-33). Behind what
// the series begins behind, a chain that is not here may have ended.
func (v *verifier) checkExpected() {
	type name struct{ agent, recorder, chain string }
	found := map[name]int64{}
	var recorders []string
	for i, c := range v.report.Chains {
		found[name{c.AgentID, c.Recorder, c.Chain}] = v.lengths[i]
		recorders = append(recorders, c.Recorder)
	}
	all := slices.Clone(v.expected)
	for _, list := range v.recorders {
		for _, c := range list.Chains {
			all = append(all, expected{c, 0})
		}
		for _, key := range list.Keys {
			if key.NotAfter.IsZero() && !slices.Contains(recorders, key.Recorder) && !slices.Contains(v.report.Silent, key.Recorder) {
				v.report.Silent = append(v.report.Silent, key.Recorder)
			}
		}
	}
	for _, c := range all {
		has, ok := found[name{c.AgentID, c.Recorder, c.Chain.String()}]
		switch {
		case !ok && v.midway:
			if id := c.Chain.String(); !slices.Contains(v.report.Earlier, id) {
				v.report.Earlier = append(v.report.Earlier, id)
			}
		case !ok:
			v.absent(MissingChain, c, "chain %s of agent %q by recorder %q is left out", c.Chain, c.AgentID, c.Recorder)
		case has < c.Records:
			v.absent(MissingTail, c, "chain %s of agent %q by recorder %q has %d records, and had %d", c.Chain, c.AgentID, c.Recorder, has, c.Records)
		}
	}
}

// absent notes the problems of a chain, once for each: several can miss at one
// line.
func (v *verifier) absent(kind Kind, c expected, format string, arguments ...any) {
	line := c.line
	if line == 0 {
		if line = v.this().ended; line == 0 {
			line = v.line
		}
	}
	for _, p := range v.report.Problems {
		if p.Kind == kind && p.Chain == c.Chain.String() && p.RecordID == "" {
			return
		}
	}
	problem := Problem{Kind: kind, Chain: c.Chain.String(), Message: fmt.Sprintf(format, arguments...)}
	problem.Bundle, problem.Line = v.place(line)
	v.report.Problems = append(v.report.Problems, problem)
}
