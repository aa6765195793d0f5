package agentcard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Card is a card that was read, with what it declares. The zero Card declares
// nothing.
type Card struct {
	raw      []byte
	root     *node
	dialects dialects
	declared []Declaration
	ranged   Range
	explicit bool
	faces    []Interface
	problems []Problem
}

// Interface is one place where an agent takes calls.
type Interface struct {
	URL      string    `json:"url"`
	Binding  string    `json:"binding"` // JSONRPC, GRPC, HTTP+JSON, MCP or a URI
	Tenant   string    `json:"tenant,omitempty"`
	Version  Version   `json:"protocol_version"`            // the one that the card gives it
	Versions []Version `json:"protocol_versions,omitempty"` // those of protocol_versions; nil where it has none
	Revision string    `json:"mcp_revision,omitempty"`      // of MCP, which has dates; Version is zero then
	within   Range     // of the card, where it says one
}

// Parse reads a card that can be relied on: of 1.0, of 0.3, or of both in one. Its
// error lists every problem for which it cannot ([Relied]). A missing recommended
// member is no such problem; [Lint] names it.
func Parse(raw []byte) (Card, error) {
	c, problems := Lint(raw, false)
	if Relied(problems) {
		return c, nil
	}
	var texts []string
	for _, p := range problems {
		if p.Severity == Error && slices.Contains(misread, p.Code) {
			texts = append(texts, p.String())
		}
	}
	return Card{}, fmt.Errorf("the card cannot be relied on:\n  %s", strings.Join(texts, "\n  "))
}

// Problems are what [Lint] found.
func (c Card) Problems() []Problem { return slices.Clone(c.problems) }

// Name is what the agent calls itself.
func (c Card) Name() string { return c.root.get("name").str() }

// Description is what the agent says that it does.
func (c Card) Description() string { return c.root.get("description").str() }

// AgentVersion is the agent's own version, in its own words.
func (c Card) AgentVersion() string { return c.root.get("version").str() }

// Dialects are the protocol versions that the card has the form of: 0.3, 1.0 or
// both.
func (c Card) Dialects() []string {
	var out []string
	if c.dialects&in03 != 0 {
		out = append(out, "0.3")
	}
	if c.dialects&in10 != 0 {
		out = append(out, "1.0")
	}
	return out
}

// Skill is one skill of a card.
type Skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	InputModes  []string `json:"input_modes,omitempty"`
	OutputModes []string `json:"output_modes,omitempty"`
}

// Skills returns what the agent can be asked for.
func (c Card) Skills() []Skill {
	var out []Skill
	for _, s := range c.root.get("skills").elements() {
		out = append(out, Skill{
			ID: s.get("id").str(), Name: s.get("name").str(), Description: s.get("description").str(), Tags: s.get("tags").strings(),
			InputModes: s.get("inputModes", "input_modes").strings(), OutputModes: s.get("outputModes", "output_modes").strings(),
		})
	}
	return out
}

// Interfaces returns where the agent takes calls, in its order of preference.
func (c Card) Interfaces() []Interface { return slices.Clone(c.faces) }

// Declared returns what the card says about every feature that has a name, and
// about those of vendors.
func (c Card) Declared() []Declaration { return slices.Clone(c.declared) }

// Supports reports whether a feature is declared and so may be relied on. An
// undeclared feature must not be (CARD-2).
func (c Card) Supports(feature string) bool {
	d, ok := c.declaration(feature)
	return ok && d.Supported
}

func (c Card) declaration(feature string) (Declaration, bool) {
	i := slices.IndexFunc(c.declared, func(d Declaration) bool { return d.Name == feature })
	if i < 0 {
		return Declaration{}, false
	}
	return c.declared[i], true
}

// Range is the range of protocol versions: what the card says, or, where it says
// nothing, from the oldest to the newest of its interfaces. Explicit tells which.
// What lies between two interfaces is not spoken for all that: ask
// [Interface.Speaks].
func (c Card) Range() (r Range, explicit bool) { return c.ranged, c.explicit }

// Speaks reports whether calls of a version can be made to the interface: it is
// its own version, one that it lists, or one of the same major version, from 1
// on, within the range that the card declares.
func (i Interface) Speaks(v Version) bool {
	if i.Versions != nil {
		return slices.ContainsFunc(i.Versions, func(w Version) bool { return w.line() == v.line() }) && i.within.contains(v)
	}
	if !i.within.contains(v) || i.Version.IsZero() {
		return false
	}
	return i.Version.line() == v.line() || !i.within.IsZero() && v.major == i.Version.major && v.major > 0
}

// SpokenVersions are the versions of an interface in words.
func (i Interface) SpokenVersions() string {
	if i.Versions == nil {
		return i.Version.String()
	}
	texts := make([]string, len(i.Versions))
	for n, v := range i.Versions {
		texts[n] = v.String()
	}
	return strings.Join(texts, ", ")
}

// RequiredExtensions are the URIs of the extensions without which the agent takes
// no call.
func (c Card) RequiredExtensions() []string {
	var out []string
	for _, e := range c.root.get("capabilities").get("extensions").elements() {
		if uri := e.get("uri").str(); e.get("required").is('t') && !slices.Contains(out, uri) {
			out = append(out, uri)
		}
	}
	return out
}

// SecuritySchemes are the names of the schemes that the card defines.
func (c Card) SecuritySchemes() []string {
	var out []string
	for _, m := range c.root.get("securitySchemes", "security_schemes").object() {
		out = append(out, m.name)
	}
	slices.Sort(out)
	return out
}

// Signed reports whether the card has signatures. Nothing says yet that they are
// good: see [Verify].
func (c Card) Signed() bool { return len(c.root.get("signatures").elements()) > 0 }

// Digest names exactly what the card says: SHA-256, in hexadecimal behind
// "sha256:", of the card in the form of RFC 8785 without its signatures. Anyone who
// agreed to something on the ground of a card can pin it (CARD-13).
func (c Card) Digest() string {
	if !c.root.is('{') {
		return ""
	}
	rest := &node{kind: '{'}
	for _, m := range c.root.members {
		if m.name != "signatures" {
			rest.members = append(rest.members, m)
		}
	}
	form, err := canonicalJSON(rest)
	if err != nil { // two members of one name: there is no canonical form
		return ""
	}
	sum := sha256.Sum256(form)
	return "sha256:" + hex.EncodeToString(sum[:])
}
