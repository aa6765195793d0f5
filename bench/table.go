package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superfly/macaroon"
	"github.com/superfly/macaroon/resset"

	"github.com/powerbox-project/powerbox/token"
)

// The parts of the table.
const (
	partChains    = "chains"
	partGateway   = "gateway"
	partAgentAuth = "agentauth"
)

// field collects the trials of the table and the first thing that went wrong.
type field struct {
	now     time.Time
	dir     string
	trials  []trial
	err     error
	allocs  float64  // of one warm authorization
	only    string   // the part to run alone; "" for all
	why     string   // what people say of the numbers
	curve   string   // the section about latencies
	soak    string   // the section about the last soak
	console string   // the section about the console
	hostile string   // the section about hostile requests
	size    string   // the section about the size of the programs
	peers   []string // modules with versions that are not this program's
	// closers end the started processes and servers.
	closers []func() error
}

func newField(now time.Time, dir, only string) *field { return &field{now: now, dir: dir, only: only} }

// close runs the closers.
func (f *field) close() error {
	var err error
	for _, c := range f.closers {
		err = errors.Join(err, c())
	}
	return err
}

// keep leaves the trials with one of these parts, parted by commas, in their name.
func (f *field) keep(parts string) {
	f.trials = slices.DeleteFunc(f.trials, func(t trial) bool {
		return !slices.ContainsFunc(strings.Split(parts, ","), func(part string) bool { return strings.Contains(t.name, part) })
	})
}

func (f *field) add(name string, j job, err error) {
	if err != nil {
		f.err = errors.Join(f.err, errors.New(name+": "+err.Error()))
		return
	}
	f.trials = append(f.trials, cpuTrial(name, j))
}

// chain returns our contestant, or nil after something went wrong.
func (f *field) chain(links int) *product {
	p, err := newProduct(f.now, links)
	f.err = errors.Join(f.err, err)
	return p
}

// fill prepares every trial.
func (f *field) fill() error {
	if f.only == "" || f.only == partChains {
		f.chains()
	}
	if f.only == partGateway {
		f.primitives()
		f.trials = append(f.trials, fsyncTrial("fsync", f.dir))
	}
	if f.err == nil && (f.only == "" || f.only == partGateway) {
		f.err = f.gatewayRows(context.Background())
	}
	if f.err == nil && (f.only == "" || f.only == partAgentAuth) {
		f.err = f.agentAuthRows(context.Background())
	}
	return f.err
}

// chains prepares everything but the gateway.
func (f *field) chains() {
	macaroon.RegisterCaveatType(&files{})
	three := f.chain(3)
	if f.err != nil {
		return
	}
	f.cold(three)
	f.warm(three)
	f.known()
	f.primitives() // measured beside the rows that are compared with them
	f.attenuate(three)
	f.refusals(three)
	f.decisions(three)
	f.evidence()
}

func (f *field) primitives() {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	message := make([]byte, 600)
	signature := ed25519.Sign(private, message)
	f.add("one Ed25519 signature", repeat(func() error { ed25519.Sign(private, message); return nil }), err)
	f.add("one Ed25519 check", repeat(func() error {
		if !ed25519.Verify(public, message, signature) {
			return errDenied
		}
		return nil
	}), err)
}

func (f *field) cold(three *product) {
	f.add("cold", repeat(three.cold), nil)
	proven, err := three.coldWithProof()
	f.add("cold with proof", proven, err)
	f.renewed()
	b, err := newBiscuit(f.now, 3)
	if err != nil {
		f.add("biscuit-go", job{}, err)
		return
	}
	verify, err := b.verify("read")
	f.add("biscuit-go", verify, err)
	ucan, err := newUCAN(time.Now(), 3, "read") // it reads the clock itself
	f.add("go-ucan", ucanVerify(ucan), err)
	chain, err := newJWTChain(time.Now(), 3) // so does it
	f.add("golang-jwt chain", chain.verify("read"), err)
	f.add("biscuit-go attenuate", b.attenuate(), nil)
}

func (f *field) warm(three *product) {
	warm, err := three.warm()
	f.add("warm", warm, err)
	if err == nil {
		f.allocs = testing.AllocsPerRun(1000, func() { _ = warm.run() })
	}
	fly, err := newFly(f.now, 3)
	if err != nil {
		f.add("superfly/macaroon", job{}, err)
		return
	}
	f.add("superfly/macaroon", fly.verify(resset.ActionRead), nil)
	cached, err := fly.cached(resset.ActionRead)
	f.add("superfly's cache", cached, err)
}

// renewed is a new chain by holders that are known.
func (f *field) renewed() {
	for name, proven := range map[string]bool{"known holders": false, "known holders with proof": true} {
		if p := f.chain(3); f.err == nil {
			j, err := p.renewed(proven)
			f.add(name, j, err)
		}
	}
}

// known is a new leaf on a prefix of one link, and of seven.
func (f *field) known() {
	for name, links := range map[string]int{"new leaf, 2 links": 1, "new leaf, 8 links": 7} {
		if p := f.chain(links); f.err == nil {
			leaves, err := p.newLeaves()
			f.add(name, leaves, err)
		}
	}
	b, err := newBiscuit(f.now, 8)
	if err != nil {
		f.add("biscuit-go, 8 links", job{}, err)
		return
	}
	verify, err := b.verify("read")
	f.add("biscuit-go, 8 links", verify, err)
}

func (f *field) attenuate(three *product) {
	j, err := three.attenuate()
	f.add("attenuate", j, err)
}

func (f *field) refusals(three *product) {
	warm := token.NewMemo(1 << 20)
	err := three.authorize(warm, three.chain, three.read)
	known := func() *token.Memo { return warm }
	for what, chain := range three.garbage() {
		f.add("refuse garbage: "+what, three.refuse(known, three.read, chain), err)
	}
	f.add("refuse a wrong operation", three.refuse(known, three.write, three.chain), err)
	wide, err := three.tooWide()
	f.add("refuse an over-wide link, prefix known", three.refuse(known, three.read, wide), err)
	// Anything that is refused is not remembered, so that this memo stays as it is.
	empty := token.NewMemo(1 << 20)
	f.add("refuse an over-wide link, cold", three.refuse(func() *token.Memo { return empty }, three.read, wide), err)
	if four := f.chain(4); f.err == nil {
		f.add("cold, 4 links", repeat(four.cold), nil)
	}
}

func (f *field) decisions(three *product) {
	for i, suffix := range []string{", 10 policies", ", 1,000 policies", ", 10,000 policies"} {
		n := []int{10, 1000, 10_000}[i]
		j, err := ourPolicies(n, "read")
		f.add("decision"+suffix, three.decideAnd(j), err)
		j, err = cedarPolicies(n, "read")
		f.add("cedar-go"+suffix, j, err)
		j, err = opaPolicies(n, "read", false)
		f.add("OPA"+suffix, j, err)
		j, err = opaPolicies(n, "read", true)
		f.add("OPA, input ready"+suffix, j, err)
	}
}

func (f *field) evidence() {
	l, err := newLedger()
	if err != nil {
		f.err = errors.Join(f.err, err)
		return
	}
	const records = 2000
	bundle, err := l.bundle(f.dir, records, f.now)
	f.err = errors.Join(f.err, err)
	f.trials = append(f.trials,
		l.verifyTrial("offline verification", bundle, records),
		fsyncTrial("fsync", f.dir),
		storeTrial("append", f.dir, l.open),
		storeTrial("chain only", f.dir, l.openChainOnly),
	)
}

// goals are the rows of the table.
func (f *field) goals() []goal {
	switch f.only {
	case partChains:
		return chainGoals()
	case partGateway:
		return gatewayGoals()
	case partAgentAuth:
		return agentAuthGoals()
	}
	return slices.Concat(chainGoals(), gatewayGoals(), agentAuthGoals())
}

func chainGoals() []goal {
	return []goal{
		faster("cold, 3 links", "cold", "biscuit-go", 3),
		faster("cold with the holder's proof, 3 links", "cold with proof", "go-ucan", 4),
		faster("cold, 3 links", "cold", "golang-jwt chain", 2),
		faster("cold, 3 links, holders known", "known holders", "biscuit-go", 3),
		faster("cold with the holder's proof, 3 links, holders known", "known holders with proof", "go-ucan", 4),
		faster("cold, 3 links, holders known", "known holders", "golang-jwt chain", 2),
		within("new leaf on a known prefix, 8 links", "new leaf, 8 links", "new leaf, 2 links", 1.15),
		faster("new leaf on a known prefix, 8 links", "new leaf, 8 links", "biscuit-go, 8 links", 10),
		faster("warm, 3 links, revocation of each looked up", "warm", "biscuit-go", 500),
		faster("warm, 3 links, revocation of each looked up", "warm", "superfly/macaroon", 25),
		faster("warm, 3 links, revocation of each looked up", "warm", "superfly's cache", 12),
		within("attenuate", "attenuate", "one Ed25519 signature", 1.3),
		faster("attenuate", "attenuate", "biscuit-go attenuate", 3),
		refusal("refuse garbage: no token", "refuse garbage: no token"),
		refusal("refuse garbage: no header", "refuse garbage: no header"),
		refusal("refuse garbage: a token cut off", "refuse garbage: a token cut off"),
		refusal("refuse garbage: a part too many", "refuse garbage: a part too many"),
		refusal("refuse garbage: a link cut short", "refuse garbage: a link cut short"),
		refusal("refuse a wrong operation, warm", "refuse a wrong operation"),
		within("refuse an over-wide link, prefix known", "refuse an over-wide link, prefix known", "cold, 4 links", 0.1),
		within("refuse an over-wide link, cold", "refuse an over-wide link, cold", "cold, 4 links", 0.1),
		within("decision, 1,000 policies", "decision, 1,000 policies", "decision, 10 policies", 1.5),
		within("decision, 10,000 policies", "decision, 10,000 policies", "decision, 10 policies", 1.5),
		faster("decision, 1,000 policies", "decision, 1,000 policies", "OPA, 1,000 policies", 5),
		faster("decision, 10,000 policies", "decision, 10,000 policies", "OPA, 10,000 policies", 5),
		quicker("decision, 1,000 policies", "decision, 1,000 policies", "OPA, input ready, 1,000 policies"),
		quicker("decision, 10,000 policies", "decision, 10,000 policies", "OPA, input ready, 10,000 policies"),
		faster("decision, 1,000 policies", "decision, 1,000 policies", "cedar-go, 1,000 policies", 1),
		faster("decision, 10,000 policies", "decision, 10,000 policies", "cedar-go, 10,000 policies", 1),
		{row: "evidence append, 64 producers, records a second", against: "chain only", want: 1, unit: "x", value: ratio("append per second", "chain only per second")},
		{row: "evidence append, 64 producers, CPU a record", against: "chain only", want: 1, unit: "x", value: ratio("chain only", "append")},
		{row: "evidence append, 64 producers, p99", against: "-", want: 20, atMost: true, unit: " ms", value: func(r round) float64 { return r["append p99 ms"] }},
		{row: "evidence append, 64 producers", against: "tessera's published 518 entries/s", want: 5, unit: "x", value: func(r round) float64 { return r["append per second"] / 518 }},
		{row: "offline verification, records a second of CPU", against: "-", want: 20_000, value: func(r round) float64 { return 1e9 / r["offline verification"] }},
	}
}
