package token

import (
	"fmt"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Link describes one token of a chain for people and records.
type Link struct {
	Draft    Draft
	ID       string // jti; a holder chooses that of a derived token
	Hash     string // base64url SHA-256 of the signing input
	Issuer   string
	Holder   string // thumbprint URI of the holder key
	IssuedAt time.Time
	Expires  time.Time
	Depth    int
	MaxDepth int
	Audience []string          // aud; nil where the token may be presented everywhere
	Tools    []powerbox.Clause // as written; not to be changed
	Narrowed []string          // what it has less than its parent, as sentences; empty for the root
}

// Describe returns the tokens, root first. What it says is not verified.
func (u Unverified) Describe() []Link {
	out := make([]Link, len(u.links))
	for i, l := range u.links {
		out[i] = Link{
			ID: l.id, Hash: l.hash, Issuer: l.issuer, Holder: l.holder.URI(),
			IssuedAt: time.Unix(l.issuedAt, 0).UTC(), Expires: time.Unix(l.expires, 0).UTC(),
			Depth: l.depth, MaxDepth: l.maxDepth, Tools: l.tools, Audience: l.audience, Draft: l.draft,
		}
		if i > 0 {
			out[i].Narrowed = l.narrowed(u.links[i-1])
		}
	}
	return out
}

// Draft returns the draft of the chain, which its root says.
func (u Unverified) Draft() Draft {
	if len(u.links) == 0 {
		return Draft02
	}
	return u.links[0].draft
}

// Audiences returns the audiences of all tokens, for programs that are no enforcement
// point and take a chain for any of them.
func (v Verified) Audiences() []string {
	if v.chain == nil {
		return nil
	}
	var out []string
	for _, l := range v.chain.links {
		out = append(out, l.audience...)
	}
	return out
}

// Draft returns the draft of the chain.
func (v Verified) Draft() Draft {
	if v.chain == nil {
		return Draft02
	}
	return v.chain.links[0].draft
}

// Links returns the tokens, root first.
func (v Verified) Links() []Link {
	if v.chain == nil {
		return nil
	}
	return Unverified{v.chain.links}.Describe()
}

// narrowed says what l has less than its parent.
func (l *link) narrowed(parent *link) []string {
	var out []string
	for _, p := range parent.tools {
		name := p.Pattern.Name()
		shape, ok := toolOf(l.tools, name)
		if !ok {
			out = append(out, fmt.Sprintf("without %s", name))
			continue
		}
		if arguments := changed(p.Shape, shape); len(arguments) > 0 {
			out = append(out, fmt.Sprintf("%s with narrower %s", name, strings.Join(arguments, ", ")))
		}
	}
	if d := parent.expires - l.expires; d > 0 {
		out = append(out, fmt.Sprintf("expires %s earlier", time.Duration(d)*time.Second))
	}
	if l.maxDepth < parent.maxDepth {
		out = append(out, fmt.Sprintf("can be delegated %d times, not %d", l.maxDepth-l.depth, parent.maxDepth-l.depth))
	}
	if l.hasAud {
		out = append(out, fmt.Sprintf("for %q alone", l.audience))
	}
	if l.holder != parent.holder {
		out = append(out, "for another holder")
	}
	return out
}

func toolOf(tools []powerbox.Clause, name string) (powerbox.Shape, bool) {
	for _, c := range tools {
		if c.Pattern.Name() == name {
			return c.Shape, true
		}
	}
	return powerbox.Shape{}, false
}

// changed returns the arguments whose constraints differ.
func changed(parent, child powerbox.Shape) []string {
	var names []string
	for _, f := range child.Fields() {
		p, ok := parent.Field(f.Name)
		if !ok || p.Required != f.Required || !p.Constraint.JSON().Equal(f.Constraint.JSON()) {
			names = append(names, f.Name)
		}
	}
	for _, p := range parent.Fields() {
		if _, ok := child.Field(p.Name); !ok {
			names = append(names, p.Name)
		}
	}
	return names
}
