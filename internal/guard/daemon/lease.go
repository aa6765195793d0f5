package daemon

import (
	"io"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/guard/shell"
	"github.com/powerbox-project/powerbox/token"
)

// issuer is the iss of a session's root token.
const issuer = "urn:powerbox:guard"

// sessionLife is how long a session's lease is good. A session that is used longer gets a
// further one from the same grant.
const sessionLife = 24 * time.Hour

// Mint makes and derives the tokens of leases.
type Mint struct {
	key    *token.PrivateKey
	anchor token.KeySet
	memo   *token.Memo
	random io.Reader
}

// NewMint returns a mint with a key of its own. Leases live no longer than the process that
// decides by them: after a restart they are made anew from the grant.
func NewMint(random io.Reader) (*Mint, error) {
	key, err := token.GenerateKey(token.Ed25519, random)
	if err != nil {
		return nil, err
	}
	return &Mint{key: key, anchor: token.NewKeySet(key.Public()).Of(issuer), memo: token.NewMemo(4 << 20), random: random}, nil
}

// Lease is a token with the key of its holder.
type Lease struct {
	key   *token.PrivateKey
	chain string // "" permits nothing
	id    string // by which it is revoked with all that descends from it
	name  string // for records
}

// Root makes the lease of a session.
func (m *Mint) Root(a powerbox.Authority, now time.Time) (Lease, error) {
	tools, err := tools(a)
	if err != nil || len(tools) == 0 {
		return Lease{}, err
	}
	key, name, err := m.holder()
	if err != nil {
		return Lease{}, err
	}
	chain, err := token.Mint(m.key, token.Root{ID: name, Issuer: issuer, IssuedAt: now, Expires: now.Add(sessionLife), MaxDepth: a.Depth(), Holder: key.Public(), Tools: tools})
	if err != nil {
		return Lease{}, err
	}
	return m.lease(key, chain, name, now)
}

// holder makes the key of a new lease, and its name.
func (m *Mint) holder() (*token.PrivateKey, string, error) {
	key, err := token.GenerateKey(token.Ed25519, m.random)
	if err != nil {
		return nil, "", err
	}
	name, err := newID("lease_", m.random)
	return key, name, err
}

func (m *Mint) lease(key *token.PrivateKey, chain, name string, now time.Time) (Lease, error) {
	v, err := m.memo.Verify(chain, m.anchor, token.Options{Now: now, Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		return Lease{}, err
	}
	ids := v.IDs()
	return Lease{key: key, chain: chain, id: ids[len(ids)-1], name: name}, nil
}

// Authority verifies a lease and returns what it permits now. A revoked link permits nothing.
func (m *Mint) Authority(l Lease, revoked func(string) bool, now time.Time) (powerbox.Authority, error) {
	if l.chain == "" {
		return powerbox.Authority{}, nil
	}
	v, err := m.memo.Verify(l.chain, m.anchor, token.Options{Now: now, Revoked: revoked})
	if err != nil {
		return powerbox.Authority{}, err
	}
	return v.Authority(), nil
}

// Derive makes a narrower lease for another holder, offline: by its parent's key, and never
// wider than its parent, which the token library checks. The bounds that leave nothing give a
// lease that permits nothing.
func (m *Mint) Derive(parent Lease, bounds []powerbox.Authority, life time.Duration, now time.Time) (Lease, error) {
	if parent.chain == "" {
		return Lease{}, nil
	}
	v, err := m.memo.Verify(parent.chain, m.anchor, token.Options{Now: now, Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		return Lease{}, err
	}
	a := v.Authority()
	depth := a.Depth()
	if depth == 0 {
		return Lease{}, nil
	}
	for _, b := range bounds {
		a = a.Meet(b)
	}
	tools, err := tools(a)
	if err != nil || len(tools) == 0 {
		return Lease{}, err
	}
	key, name, err := m.holder()
	if err != nil {
		return Lease{}, err
	}
	n := token.Narrowing{ID: name, Now: now, Tools: tools, MaxDepth: depth - 1, Holder: key.Public()}
	if until := now.Add(life); life > 0 && until.Before(v.Authority().Window().Until) {
		n.Expires = until
	}
	child, err := token.Derive(v, parent.key, n)
	if err != nil {
		return Lease{}, err
	}
	return m.lease(key, token.JoinChain(append(append([]string{}, v.Tokens()...), child)), name, now)
}

// tools returns an authority as tools of a token. Every argument is a list of alternatives, one
// path, name or host each: the draft's table compares lists with lists alone, and a list that
// lost some of its alternatives is narrower.
func tools(a powerbox.Authority) ([]powerbox.Clause, error) {
	clauses, err := token.Tools(a)
	if err != nil {
		return nil, err
	}
	var out []powerbox.Clause
	for _, c := range clauses {
		var fields []powerbox.Field
		for _, f := range c.Shape.Fields() {
			f.Constraint = powerbox.AnyOf{Constraints: alternatives(f.Constraint)}
			fields = append(fields, f)
		}
		shape, err := powerbox.NewShape(c.Shape.Rest(), fields...)
		if err != nil {
			return nil, err
		}
		if shape.Empty() {
			continue
		}
		out = append(out, powerbox.Clause{Pattern: c.Pattern, Shape: shape})
	}
	return out, nil
}

// alternatives returns the parts of a constraint of which one suffices. It leaves out
// everything except single paths, names and hosts, which permits less.
func alternatives(c powerbox.Constraint) []powerbox.Constraint {
	var out []powerbox.Constraint
	switch c := c.(type) {
	case powerbox.AnyOf:
		for _, one := range c.Constraints {
			out = append(out, alternatives(one)...)
		}
	case powerbox.OneOf:
		for _, v := range c.Values {
			out = append(out, powerbox.ExactValue{Value: v})
		}
	case powerbox.All:
		for i, one := range c.Constraints {
			if i == 0 {
				out = alternatives(one)
				continue
			}
			out = common(out, alternatives(one))
		}
	case powerbox.ExactValue, powerbox.PathUnder, powerbox.URLMatch, powerbox.Glob:
		out = append(out, c)
	case powerbox.CIDR, powerbox.Contains, powerbox.NotOneOf, powerbox.Range, powerbox.Subset, powerbox.Wildcard: // no grant has them
	}
	return out
}

// common returns what two lists of alternatives have in common: of every pair the narrower
// one, where one lies within the other.
func common(a, b []powerbox.Constraint) []powerbox.Constraint {
	var out []powerbox.Constraint
	for _, x := range a {
		for _, y := range b {
			switch {
			case powerbox.ConstraintCovers(x, y):
				out = append(out, y)
			case powerbox.ConstraintCovers(y, x):
				out = append(out, x)
			}
		}
	}
	return out
}

// window is the time for which authority of sections is made. Leases end by their tokens.
func window(now time.Time) powerbox.Window {
	return powerbox.Window{From: now.Add(-time.Hour), Until: now.Add(2 * sessionLife)}
}

// bounds returns what a sub-agent of a type may have of its parent's lease: the section of its
// type, or of all others, or else reading alone.
func bounds(g guard.Grant, kind string, at shell.Place, parent powerbox.Authority, now time.Time) (powerbox.Authority, time.Duration, error) {
	section, ok := g.Agents[kind]
	if !ok {
		section, ok = g.Agents["*"]
	}
	if ok {
		a, err := section.Authority(at, window(now))
		return a, time.Duration(section.Minutes) * time.Minute, err
	}
	var reading []powerbox.Clause
	for _, c := range parent.Clauses() {
		if c.Pattern.Name() == guard.OpRead {
			reading = append(reading, c)
		}
	}
	a, err := powerbox.NewAuthority(window(now), 0, reading...)
	return a, 0, err
}
