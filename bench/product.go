package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// The request that every product gets.
const (
	requestPath  = "/docs/reports/q1.pdf"
	rootPrefix   = "/docs/"
	narrowPrefix = "/docs/reports/"
)

var errDenied = errors.New("denied")

const (
	rootTools   = `{"read":{"path":{"constraint_type":"path","root":"/docs"}},"write":{"path":{"constraint_type":"path","root":"/docs"}}}`
	narrowTools = `{"read":{"path":{"constraint_type":"path","root":"/docs/reports"}}}`
)

// revocations is a set of the issuer's kind: replaced as a whole, read without
// a lock.
type revocations struct {
	ids atomic.Pointer[map[string]time.Time]
}

func newRevocations(n int, until time.Time) *revocations {
	ids := map[string]time.Time{}
	for i := range n {
		ids[fmt.Sprintf("revoked-%035d", i)] = until
	}
	r := &revocations{}
	r.ids.Store(&ids)
	return r
}

func (r *revocations) revoked(id string) bool {
	_, ok := (*r.ids.Load())[id]
	return ok
}

// product is our own contestant: an issuer, holders and a chain between them.
type product struct {
	now     time.Time
	issuer  *token.PrivateKey
	holders []*token.PrivateKey // the last one holds the chain
	anchors token.KeySet
	options token.Options
	chain   string
	parsed  token.Verified
	read    powerbox.Attempt
	write   powerbox.Attempt
}

// newProduct makes a chain of links tokens, each narrower than the one before.
func newProduct(now time.Time, links int) (*product, error) {
	p := &product{now: now, options: token.Options{Now: now, Revoked: newRevocations(10_000, now.Add(time.Hour)).revoked}}
	var err error
	if p.read, err = attempt("read"); err != nil {
		return nil, err
	}
	if p.write, err = attempt("write"); err != nil {
		return nil, err
	}
	if p.issuer, err = token.GenerateKey(token.Ed25519, rand.Reader); err != nil {
		return nil, err
	}
	p.anchors = token.NewKeySet(p.issuer.Public())
	keys := make([]*token.PrivateKey, links)
	for i := range keys {
		if keys[i], err = token.GenerateKey(token.Ed25519, rand.Reader); err != nil {
			return nil, err
		}
	}
	return p, p.issue(keys)
}

// issue gives p a new chain by the issuer, a token for each of these holders.
func (p *product) issue(holders []*token.PrivateKey) error {
	p.chain, p.holders = "", nil
	for i, next := range holders {
		if i == 0 {
			if err := p.mint(next); err != nil {
				return err
			}
			continue
		}
		child, err := p.deriveFor(next, narrowTools)
		if err != nil {
			return err
		}
		if err := p.hold(token.JoinChain([]string{p.chain, child}), next); err != nil {
			return err
		}
	}
	return nil
}

func attempt(operation string) (powerbox.Attempt, error) {
	op, err := powerbox.ParseOperation(operation)
	if err != nil {
		return powerbox.Attempt{}, err
	}
	args, err := powerbox.ParseValue([]byte(`{"path":"` + requestPath + `"}`))
	if err != nil {
		return powerbox.Attempt{}, err
	}
	return powerbox.Invocation(op, args)
}

// mint makes the root token.
func (p *product) mint(holder *token.PrivateKey) error {
	tools, err := token.ParseTools([]byte(rootTools))
	if err != nil {
		return err
	}
	root, err := token.Mint(p.issuer, token.Root{
		ID: "cap_" + rand.Text(), Issuer: "https://documents.example", IssuedAt: p.now.Add(-time.Minute), Expires: p.now.Add(time.Hour),
		MaxDepth: token.MaxDepth, Holder: holder.Public(), Tools: tools,
		Private: &token.Private{Capability: "cap_1", Grant: "documents:read", Principal: "user:1"},
	})
	if err != nil {
		return err
	}
	return p.hold(root, holder)
}

// hold makes chain the one that is held, by holder.
func (p *product) hold(chain string, holder *token.PrivateKey) error {
	v, err := token.NewMemo(1<<20).Verify(chain, p.anchors, p.options)
	p.chain, p.parsed, p.holders = chain, v, append(p.holders, holder)
	return err
}

func (p *product) holder() *token.PrivateKey { return p.holders[len(p.holders)-1] }

// derive returns a child of the chain for a new key.
func (p *product) derive(tools string) (string, error) {
	next, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		return "", err
	}
	return p.deriveFor(next, tools)
}

// deriveFor returns a child of the chain for that key.
func (p *product) deriveFor(next *token.PrivateKey, tools string) (string, error) {
	clauses, err := token.ParseTools([]byte(tools))
	if err != nil {
		return "", err
	}
	return token.Derive(p.parsed, p.holder(), p.narrowing(clauses, next.Public()))
}

func (p *product) narrowing(tools []powerbox.Clause, holder token.PublicKey) token.Narrowing {
	return token.Narrowing{
		ID: rand.Text(), Now: p.now, Tools: tools, Holder: holder,
		Expires: p.now.Add(time.Hour), MaxDepth: p.parsed.Authority().Depth() - 1,
	}
}

// authorize is what a gate does with a chain: verify, then decide.
func (p *product) authorize(memo *token.Memo, chain string, attempt powerbox.Attempt) error {
	v, err := memo.Verify(chain, p.anchors, p.options)
	if err != nil {
		return err
	}
	if !powerbox.Decide(attempt, v.Authority(), p.now).Allowed {
		return errDenied
	}
	return nil
}

// cold sees the chain for the first time, and remembers it.
func (p *product) cold() error {
	return p.authorize(token.NewMemo(1<<20), p.chain, p.read)
}

// coldWithProof is cold with the holder's proof for the call.
func (p *product) coldWithProof() (job, error) {
	proof, err := p.proof()
	return repeat(func() error { return p.authorizeProof(token.NewMemo(1<<20), p.chain, proof) }), err
}

// proof returns the holder's proof for the call under the chain.
func (p *product) proof() (string, error) {
	return p.parsed.SignProof(p.holder(), token.Proof{
		ID: rand.Text(), IssuedAt: p.now, Operation: p.read.Operation().String(), Arguments: p.read.Arguments(), Audience: "https://documents.example",
	})
}

// authorizeProof is authorize with a proof of the call.
func (p *product) authorizeProof(memo *token.Memo, chain, proof string) error {
	v, err := memo.Verify(chain, p.anchors, p.options)
	if err != nil {
		return err
	}
	want := token.Expected{Now: p.now, Operation: p.read.Operation(), Arguments: p.read.Arguments(), Audience: "https://documents.example"}
	if _, err := v.CheckProof(proof, want); err != nil {
		return err
	}
	if !powerbox.Decide(p.read, v.Authority(), p.now).Allowed {
		return errDenied
	}
	return nil
}

// renewed sees one new chain after another, issued to holders whose earlier chains are
// remembered. With a proof, each call has one.
func (p *product) renewed(proven bool) (job, error) {
	chains, proofs := make([]string, 512), make([]string, 512)
	for i := range chains {
		err := p.issue(p.holders)
		if err == nil && proven {
			proofs[i], err = p.proof()
		}
		if err != nil {
			return job{}, err
		}
		chains[i] = p.chain
	}
	var memo *token.Memo
	next := 0
	run := func() error {
		next++
		if proven {
			return p.authorizeProof(memo, chains[next-1], proofs[next-1])
		}
		return p.authorize(memo, chains[next-1], p.read)
	}
	const before = 256 // chains by the same holders, seen before the measured ones
	return job{
		batch: len(chains) - before,
		fresh: func() error {
			memo, next = token.NewMemo(64<<20), 0
			for range before {
				if err := run(); err != nil {
					return err
				}
			}
			return nil
		},
		run: run,
	}, nil
}

// warm sees the chain again.
func (p *product) warm() (job, error) {
	memo := token.NewMemo(1 << 20)
	j := repeat(func() error { return p.authorize(memo, p.chain, p.read) })
	return j, j.run()
}

// newLeaves sees chains of one more link for the first time, on a prefix that
// it knows.
func (p *product) newLeaves() (job, error) {
	chains := make([]string, 256)
	for i := range chains {
		child, err := p.derive(narrowTools)
		if err != nil {
			return job{}, err
		}
		chains[i] = token.JoinChain([]string{p.chain, child})
	}
	var memo *token.Memo
	next := 0
	return job{
		batch: len(chains),
		fresh: func() error {
			memo, next = token.NewMemo(16<<20), 0
			return p.authorize(memo, p.chain, p.read)
		},
		run: func() error {
			next++
			return p.authorize(memo, chains[next-1], p.read)
		},
	}, nil
}

// attenuate takes the chain as bytes from a holder that has it, and writes it
// with one link more into the holder's buffer, as for a request.
func (p *product) attenuate() (job, error) {
	memo := token.NewMemo(1 << 20)
	tools, err := token.ParseTools([]byte(narrowTools))
	if err != nil {
		return job{}, err
	}
	narrowing := p.narrowing(tools, p.holders[0].Public())
	var request []byte
	return repeat(func() error {
		v, err := memo.Verify(p.chain, p.anchors, p.options)
		if err != nil {
			return err
		}
		child, err := token.Derive(v, p.holder(), narrowing)
		if err != nil {
			return err
		}
		request = append(append(append(request[:0], p.chain...), ','), child...)
		if len(request) < len(p.chain)+len(child) {
			return errors.New("nothing was derived")
		}
		return nil
	}), nil
}

// refuse presents chains that must be refused, one after the other.
func (p *product) refuse(memo func() *token.Memo, attempt powerbox.Attempt, chains ...string) job {
	next := 0
	return repeat(func() error {
		next++
		if p.authorize(memo(), chains[next%len(chains)], attempt) == nil {
			return errors.New("was not refused")
		}
		return nil
	})
}

// garbage returns texts that are no chain, by their defect.
func (p *product) garbage() map[string]string {
	return map[string]string{
		"no token":         strings.Repeat("x", 900),
		"no header":        "eyJhbGciOiJFZERTQSJ9." + strings.Repeat("x", 800) + "." + strings.Repeat("A", 86),
		"a token cut off":  p.chain[:len(p.chain)/4],
		"a part too many":  strings.Replace(p.chain, ".", "..", 1),
		"a link cut short": p.chain[:len(p.chain)-1],
	}
}

// tooWide returns the chain with a last link that is wider than its parent, as
// a holder with other software could sign it.
func (p *product) tooWide() (string, error) {
	child, err := p.derive(narrowTools)
	if err != nil {
		return "", err
	}
	wide, err := forge(child, p.holder(), `"root":"/docs/reports"`, `"root":"/docs"`)
	return token.JoinChain([]string{p.chain, wide}), err
}
