package agentcard

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
)

// Contract is a version of the list of capabilities that agents can declare,
// which is what stability is promised about (CARD-11). It is a document of the
// specification, not of one agent.
type Contract struct {
	Contract     Version      `json:"contract"` // its version, Major.Minor
	Capabilities []Capability `json:"capabilities"`
}

// Capability is one entry of a contract.
type Capability struct {
	Name        string            `json:"name"`
	Tier        Tier              `json:"tier"`
	Introduced  Version           `json:"introduced"`
	Deprecated  Version           `json:"deprecated,omitzero"`
	Removed     Version           `json:"removed,omitzero"` // kept as a tombstone
	Replacement string            `json:"replacement,omitempty"`
	Meaning     string            `json:"meaning"`
	Fields      []CapabilityField `json:"fields,omitempty"`
}

// CapabilityField is a member that a capability brings into messages or cards.
type CapabilityField struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required,omitempty"`
}

// majorsToRemove is how many major versions lie at least between introduction and
// removal: introduced in 1.0, deprecated in 2.0, removable in 3.0, which is the
// proposal's own example.
const majorsToRemove = 2

//go:embed contract.json
var current []byte

// CurrentContract is the contract of this package, as a document.
func CurrentContract() []byte { return slices.Clone(current) }

// IsContract reports whether a document is a contract and no card.
func IsContract(raw []byte) bool {
	n, err := readTree(raw)
	return err == nil && n.is('{') && n.get("contract") != nil && n.get("capabilities").is('[')
}

// ParseContract reads a contract. Its error lists all problems of the contract
// alone.
func ParseContract(raw []byte) (Contract, error) {
	var c Contract
	if err := DecodeStrict(raw, &c); err != nil {
		return Contract{}, fmt.Errorf("contract: %w", err)
	}
	return c, c.check()
}

func (c Contract) check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Contract.IsZero() {
		fail("contract: it has no version; want contract: Major.Minor")
	}
	seen := map[string]bool{}
	for i, k := range c.Capabilities {
		where := fmt.Sprintf("contract: capabilities[%d] (%s)", i, clip(k.Name))
		if k.Name == "" || seen[k.Name] {
			fail("%s has no name of its own", where)
		}
		seen[k.Name] = true
		if !slices.Contains([]Tier{Implicit, Declared, Deprecated}, k.Tier) {
			fail("%s is of tier %q; want implicit, declared or deprecated", where, k.Tier)
		}
		if k.Introduced.IsZero() || k.Introduced.compare(c.Contract) > 0 {
			fail("%s was introduced in %q; want a version up to the contract's own", where, k.Introduced)
		}
		if k.Tier == Deprecated && k.Deprecated.IsZero() {
			fail("%s is deprecated and does not say since which version", where)
		}
		if !k.Deprecated.IsZero() && (k.Deprecated.compare(k.Introduced) < 0 || k.Deprecated.compare(c.Contract) > 0) {
			fail("%s is deprecated since %s; want a version from its introduction to the contract's own", where, k.Deprecated)
		}
		if err := k.removable(c.Contract); !k.Removed.IsZero() && err != nil {
			fail("%s: %w", where, err)
		}
		if k.Meaning == "" {
			fail("%s does not say what it means", where)
		}
		names := map[string]bool{}
		for _, f := range k.Fields {
			if f.Name == "" || f.Type == "" || names[f.Name] {
				fail("%s has a field %q without name, without type, or there twice", where, f.Name)
			}
			names[f.Name] = true
		}
	}
	return errors.Join(errs...)
}

// removable says why a capability may not be gone in a version.
func (k Capability) removable(in Version) error {
	switch {
	case k.Deprecated.IsZero():
		return fmt.Errorf("removed in %s without having been deprecated in an earlier major version", in)
	case k.Deprecated.major >= in.major:
		return fmt.Errorf("removed in %s and deprecated in %s; want the deprecation in an earlier major version", in, k.Deprecated)
	case in.major-k.Introduced.major < majorsToRemove:
		return fmt.Errorf("removed in %s and introduced in %s; want at least %d major versions between", in, k.Introduced, majorsToRemove)
	}
	return nil
}

// DiffContracts reports every breach of the promise of stability from one version
// of the contract to a later one, and what else changed (CARD-11): a capability
// is never removed within a major version; removal needs a deprecation in an
// earlier major version and two major versions since the introduction; fields
// are only added.
func DiffContracts(before, after Contract) []Change {
	var cs changes
	order := after.Contract.compare(before.Contract)
	if order < 0 {
		cs.add(Breach, "contract", "the second one, %s, is older than the first, %s", after.Contract, before.Contract)
	}
	later := map[string]Capability{}
	for _, k := range after.Capabilities {
		later[k.Name] = k
	}
	earlier := map[string]bool{}
	for _, was := range before.Capabilities {
		earlier[was.Name] = true
		is, there := later[was.Name]
		switch {
		case !was.Removed.IsZero():
			if there && is.Removed.IsZero() {
				cs.add(Breach, was.Name, "was removed in %s and is there again; a name is not used twice", was.Removed)
			}
		case !there || !is.Removed.IsZero():
			cs.removed(was, is, there, after.Contract)
		default:
			cs.capability(was, is, before.Contract, after.Contract)
		}
	}
	for _, is := range after.Capabilities {
		if earlier[is.Name] {
			continue
		}
		cs.add(Note, is.Name, "is new, in tier %s", is.Tier)
		if is.Introduced.compare(before.Contract) <= 0 {
			cs.add(Breach, is.Name, "says that it was introduced in %s, and the contract %s does not have it", is.Introduced, before.Contract)
		}
		if is.Tier == Implicit && is.Introduced.major == before.Contract.major {
			cs.add(Breach, is.Name, "is new and implicit: agents that complied with %s no longer do", before.Contract)
		}
	}
	if order == 0 && len(cs) > 0 {
		cs.add(Breach, "contract", "both are version %s and differ", after.Contract)
	}
	return cs
}

// removed judges a removal by what the earlier contract knew of the capability. A
// tombstone can add a deprecation that lies between the two.
func (cs *changes) removed(was, is Capability, tombstone bool, in Version) {
	known := was
	if tombstone {
		in = is.Removed
		if known.Deprecated.IsZero() {
			known.Deprecated = is.Deprecated
		}
	}
	if err := known.removable(in); err != nil {
		cs.add(Breach, was.Name, "%v", err)
		return
	}
	cs.add(Note, was.Name, "is removed in %s: introduced in %s, deprecated in %s", in, known.Introduced, known.Deprecated)
}

func (cs *changes) capability(was, is Capability, from, to Version) {
	if was.Introduced != is.Introduced {
		cs.add(Breach, was.Name, "was introduced in %s and now says %s", was.Introduced, is.Introduced)
	}
	switch {
	case was.Deprecated == is.Deprecated:
	case was.Deprecated.IsZero() && is.Deprecated.compare(from) > 0:
		cs.add(Note, was.Name, "is deprecated since %s", is.Deprecated)
	case was.Deprecated.IsZero():
		cs.add(Breach, was.Name, "is deprecated since %s, which %s did not say", is.Deprecated, from)
	case is.Deprecated.IsZero():
		cs.add(Note, was.Name, "is no longer deprecated")
	default:
		cs.add(Breach, was.Name, "was deprecated in %s and now says %s", was.Deprecated, is.Deprecated)
	}
	if was.Tier != is.Tier && is.Tier != Deprecated && was.Tier != Deprecated {
		cs.add(Breach, was.Name, "was %s and is %s", was.Tier, is.Tier)
	}
	if was.Tier == Implicit && is.Tier == Deprecated && from.major == to.major {
		cs.add(Breach, was.Name, "was implicit and is deprecated within major version %d", to.major)
	}
	if was.Meaning != is.Meaning {
		cs.add(Note, was.Name, "is described differently")
	}
	cs.fields(was, is)
}

func (cs *changes) fields(was, is Capability) {
	later := map[string]CapabilityField{}
	for _, f := range is.Fields {
		later[f.Name] = f
	}
	earlier := map[string]bool{}
	for _, f := range was.Fields {
		earlier[f.Name] = true
		now, there := later[f.Name]
		switch {
		case !there:
			cs.add(Breach, was.Name, "its field %s is removed; fields are only added", f.Name)
		case now.Type != f.Type:
			cs.add(Breach, was.Name, "its field %s was of type %s and is of type %s", f.Name, f.Type, now.Type)
		case now.Required != f.Required:
			cs.add(Breach, was.Name, "its field %s was required: %t, and is required: %t", f.Name, f.Required, now.Required)
		}
	}
	for _, f := range is.Fields {
		if earlier[f.Name] {
			continue
		}
		if f.Required {
			cs.add(Breach, was.Name, "its field %s is new and required: who complied before does not", f.Name)
			continue
		}
		cs.add(Note, was.Name, "has a new field %s", f.Name)
	}
}
