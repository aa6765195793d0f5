package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"time"

	"github.com/biscuit-auth/biscuit-go/v2"
	"github.com/biscuit-auth/biscuit-go/v2/datalog"
	"github.com/biscuit-auth/biscuit-go/v2/parser"
)

// biscuitToken is biscuit-go's contestant.
type biscuitToken struct {
	root  ed25519.PublicKey
	raw   []byte
	block biscuit.ParsedBlock
	now   time.Time
}

func newBiscuit(now time.Time, links int) (*biscuitToken, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	b := &biscuitToken{root: public, now: now}
	params := map[string]biscuit.Term{
		"read": biscuit.String("read"), "exp": biscuit.Date(now.Add(time.Hour)),
		"pfx": biscuit.String(narrowPrefix), "rootpfx": biscuit.String(rootPrefix),
	}
	if b.block, err = parser.FromStringBlockWithParams(`
		check if operation($o), [{read}].contains($o);
		check if resource($r), $r.starts_with({pfx});
		check if time($t), $t < {exp};`, params); err != nil {
		return nil, err
	}
	authority, err := parser.FromStringBlockWithParams(`
		right({rootpfx}, "read"); right({rootpfx}, "write");
		check if time($t), $t < {exp};`, params)
	if err != nil {
		return nil, err
	}
	builder := biscuit.NewBuilder(private)
	if err := builder.AddBlock(authority); err != nil {
		return nil, err
	}
	t, err := builder.Build()
	if err != nil {
		return nil, err
	}
	if b.raw, err = t.Serialize(); err != nil {
		return nil, err
	}
	for range links - 1 {
		if b.raw, err = b.narrowed(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// narrowed returns the token with one block more.
func (b *biscuitToken) narrowed() ([]byte, error) {
	t, err := biscuit.Unmarshal(b.raw)
	if err != nil {
		return nil, err
	}
	block := t.CreateBlock()
	if err := block.AddBlock(b.block); err != nil {
		return nil, err
	}
	if t, err = t.Append(rand.Reader, block.Build()); err != nil {
		return nil, err
	}
	return t.Serialize()
}

// authorizer is parsed once, in the peer's favour.
func (b *biscuitToken) authorizer(operation string) (biscuit.ParsedAuthorizer, error) {
	return parser.FromStringAuthorizerWithParams(`
		resource({res}); operation({op}); time({now});
		allow if right($p, {op}), resource($r), $r.starts_with($p);`,
		map[string]biscuit.Term{"res": biscuit.String(requestPath), "op": biscuit.String(operation), "now": biscuit.Date(b.now)})
}

func (b *biscuitToken) verify(operation string) (job, error) {
	authorizer, err := b.authorizer(operation)
	return repeat(func() error {
		t, err := biscuit.Unmarshal(b.raw)
		if err != nil {
			return err
		}
		// The default limit is 2 ms of wall clock, which a busy machine trips.
		v, err := t.Authorizer(b.root, biscuit.WithWorldOptions(datalog.WithMaxDuration(10*time.Second)))
		if err != nil {
			return err
		}
		v.AddAuthorizer(authorizer)
		return v.Authorize()
	}), err
}

func (b *biscuitToken) attenuate() job {
	return repeat(func() error { _, err := b.narrowed(); return err })
}
