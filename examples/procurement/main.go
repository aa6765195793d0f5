// Command procurement is the third worked example of the authorization extension:
// several vendors, each trusted as far as its own deliveries speak for it, quoting
// apart from ordering, and one vendor that is shut out at once (EXT-31,
// docs/tutorials/worked-examples.md).
//
// Bo's procurement agent may have tenders read, quoted and ordered at the company's
// purchasing agent. It passes the same on to five vendors. What each of them may do
// with it, its level says: of HIGH trust all of it, of MODERATE no order, of LOW
// reading alone, and of NONE nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/examples/premises"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func main() {
	premises.Main("procurement", func(ctx context.Context) error {
		_, err := run(ctx, os.Stdout)
		return err
	})
}

// The scopes of the purchasing agent that vendors are given.
const (
	scopeRead  = "supply.offer.read"
	scopeQuote = "supply.offer.quote"
	scopeOrder = "supply.deliver.order"
)

const configuration = `offers:
  purchasing:
    - {id: supply:offer, description: Read a tender and quote for it, operations: [read, quote], maximum_depth: 2, maximum_lifetime: 30m}
    - {id: supply:deliver, description: Confirm an order, operations: [order], maximum_depth: 1, maximum_lifetime: 30m}
  anvil:
    - {id: shop:goods, description: Have goods delivered, operations: [deliver], maximum_lifetime: 30m}
  borealis:
    - {id: shop:goods, description: Have goods delivered, operations: [deliver], maximum_lifetime: 30m}
  cobalt:
    - {id: shop:goods, description: Have goods delivered, operations: [deliver], maximum_lifetime: 30m}
  dorado:
    - {id: shop:goods, description: Have goods delivered, operations: [deliver], maximum_lifetime: 30m}
skills:
  purchasing:
    - {skill: read_tender, grant: supply:offer, operation: read, effect: read}
    - {skill: submit_quote, grant: supply:offer, operation: quote, trust: MODERATE}
    - {skill: confirm_order, grant: supply:deliver, operation: order, trust: HIGH}
  anvil:
    - {skill: deliver, grant: shop:goods, operation: deliver}
  borealis:
    - {skill: deliver, grant: shop:goods, operation: deliver}
  cobalt:
    - {skill: deliver, grant: shop:goods, operation: deliver}
  dorado:
    - {skill: deliver, grant: shop:goods, operation: deliver}
`

const policies = `@description("buyers have tenders answered, orders confirmed and goods delivered")
permit(principal in Group::"buyers", action, resource);
`

// prices are what the vendors ask for a pallet.
var prices = map[string]string{"anvil": "410", "borealis": "385", "cobalt": "455", "dorado": "370", "elm": "350"}

// known are the vendors that were dealt with before: their agents are behind
// Powerbox too. unreliable are those that fail every other delivery.
var (
	known      = []string{"anvil", "borealis", "cobalt", "dorado"}
	unreliable = map[string]bool{"cobalt": true, "dorado": true}
)

// vendor is another company's agent: a key, a URL, and what it was handed last.
type vendor struct {
	*premises.Caller
	name, url     string
	offer, supply holder.Capability // for quoting, and for ordering
}

// procurement is one run.
type procurement struct {
	*premises.Story
	audit          premises.Audit
	place          *premises.Premises
	quotes, orders premises.Effects
	buyer          *premises.Caller
	vendors        map[string]*vendor
	restore        func(context.Context) error // undoes the falsification
	trusted        map[string]premises.Score   // as the vendors stood when the tender began
	recomputed     map[string]premises.Score   // by a stranger, at the end

	purchasing     string            // the agent's public URL
	offer, deliver holder.Capability // of the buyer's agent
}

func run(ctx context.Context, out io.Writer) (_ *procurement, err error) {
	p := &procurement{Story: premises.NewStory(out), vendors: map[string]*vendor{}}
	p.place, err = premises.Open(ctx, premises.Setting{
		Agents: p.agents(), Configuration: configuration, Policies: policies, User: "bo", Group: "buyers", Callers: known,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.place.Close()) }()
	p.purchasing = p.place.Agent("purchasing")
	for _, act := range []func(context.Context) error{p.before, p.falsified, p.hire, p.tender, p.levels, p.tooMuch, p.shutOut, p.restored} {
		if err := act(ctx); err != nil {
			return nil, errors.Join(err, p.Err())
		}
	}
	p.audit = p.Audited(ctx, p.place)
	return p, p.Err()
}

// agents are those behind Powerbox: the purchasing agent, whose callers must be
// trusted a little at least, and those of the vendors that are known.
func (p *procurement) agents() map[string]premises.Agent {
	all := map[string]premises.Agent{"purchasing": {Name: "Purchasing", Trust: "LOW", Skills: map[string]premises.Skill{
		"read_tender": func(context.Context, premises.Incoming) (string, error) { return "a pallet of fasteners", nil },
		"submit_quote": func(_ context.Context, in premises.Incoming) (string, error) {
			return fmt.Sprintf("quote %d: %v EUR", p.quotes.Add(), in.Arguments["price"]), nil
		},
		"confirm_order": func(context.Context, premises.Incoming) (string, error) {
			return fmt.Sprintf("order %d confirmed", p.orders.Add()), nil
		},
	}}}
	for _, name := range known {
		var asked premises.Effects
		all[name] = premises.Agent{Name: name, Skills: map[string]premises.Skill{
			"deliver": func(context.Context, premises.Incoming) (string, error) {
				if asked.Add()%2 == 1 && unreliable[name] {
					return "", fmt.Errorf("the truck: %w", premises.ErrBroken)
				}
				return "delivered", nil
			},
		}}
	}
	return all
}

// before is what went before the tender: every known vendor's agent is asked for
// four deliveries, and what became of them is its score.
func (p *procurement) before(ctx context.Context) (err error) {
	if p.buyer, err = p.place.Caller(p.place.Session); err != nil {
		return err
	}
	p.Say("Before the tender, the vendors' agents were asked for four deliveries each:")
	for _, name := range known {
		shop := p.place.Agent(name)
		held, err := p.buyer.Ask(ctx, shop, holder.RequestParams{Grants: []string{"shop:goods"}, Purpose: "Fasteners"})
		if err != nil {
			return err
		}
		for n := range 4 {
			_, err := p.buyer.Call(ctx, shop, held, "deliver", map[string]any{"pallets": "1"})
			if fails := unreliable[name] && n%2 == 0; (err != nil) != fails {
				return fmt.Errorf("delivery %d of %s: %w", n+1, name, errors.Join(err, errors.New("not as the story has it")))
			}
		}
		if err := p.stands(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// stands tells the score of a vendor, as the server has it now.
func (p *procurement) stands(ctx context.Context, name string) error {
	score, err := p.place.Score(ctx, name)
	p.Say("  %-66s %v", name, score)
	return err
}

// falsified changes the store as an accomplice of dorado would who can write
// to it: a failed delivery becomes a good one. It costs more than it gains.
func (p *procurement) falsified(ctx context.Context) (err error) {
	p.restore, err = p.place.Falsify(ctx, "dorado", `"outcome_status":"FAILED"`, `"outcome_status":"ACHIEVED"`)
	if err != nil {
		return err
	}
	p.Say("Somebody makes a failed delivery of dorado a good one, in the store. Its chain does not hold:")
	if err := p.stands(ctx, "dorado"); err != nil {
		return err
	}
	p.trusted = map[string]premises.Score{}
	for _, name := range known {
		if p.trusted[name], err = p.place.Score(ctx, name); err != nil {
			return err
		}
	}
	return p.sameForAll(ctx, p.trusted, false)
}

// sameForAll has a stranger compute scores again, from an export
// that holds or does not.
func (p *procurement) sameForAll(ctx context.Context, want map[string]premises.Score, holds bool) (err error) {
	var held bool
	if p.recomputed, held, err = p.place.Recomputed(ctx, known...); err != nil {
		return err
	}
	if !maps.Equal(p.recomputed, want) || held != holds {
		p.Fail("from the export, which holds: %t, the scores are %v; the server has %v", held, p.recomputed, want)
	}
	return nil
}

// hire starts the vendors' agents that answer tenders, and has the buyer's agent
// ask for its tokens: one to have quotes given, one to have orders confirmed.
func (p *procurement) hire(ctx context.Context) (err error) {
	for name := range prices {
		v := &vendor{name: name, Caller: p.place.Callers[name]}
		if v.Caller == nil { // elm is unknown
			if v.Caller, err = p.place.Caller(""); err != nil {
				return err
			}
		}
		v.url, err = p.place.Serve(ctx, premises.Agent{Name: name, Skills: map[string]premises.Skill{
			"quote": take(&v.offer), "order": take(&v.supply),
		}})
		if err != nil {
			return err
		}
		p.vendors[name] = v
	}
	for grant, held := range map[string]*holder.Capability{"supply:offer": &p.offer, "supply:deliver": &p.deliver} {
		if *held, err = p.buyer.Ask(ctx, p.purchasing, holder.RequestParams{Grants: []string{grant}, Purpose: "A pallet of fasteners"}); err != nil {
			return err
		}
	}
	p.Say("The tender: %s and %s in one token, %s in another, passed on to all.", scopeRead, scopeQuote, scopeOrder)
	return nil
}

// take is a vendor's skill: it keeps what it was handed.
func take(into *holder.Capability) premises.Skill {
	return func(_ context.Context, in premises.Incoming) (_ string, err error) {
		*into, err = premises.Received(in)
		return "thank you", err
	}
}

func (p *procurement) read(ctx context.Context, v *vendor) (string, error) {
	return v.Call(ctx, p.purchasing, v.offer, "read_tender", map[string]any{"tender": "T-9"})
}

func (p *procurement) submit(ctx context.Context, v *vendor) (string, error) {
	return v.Call(ctx, p.purchasing, v.offer, "submit_quote", map[string]any{"price": prices[v.name]})
}

func (p *procurement) confirm(ctx context.Context, v *vendor, held holder.Capability) (string, error) {
	return v.Call(ctx, p.purchasing, held, "confirm_order", map[string]any{"tender": "T-9"})
}

// hand passes one of the buyer's tokens on to a vendor, and asks it for a skill.
func (p *procurement) hand(ctx context.Context, v *vendor, held holder.Capability, skill string) error {
	linked, err := p.buyer.Link(held, holder.Link{To: v.DID(), Expires: p.buyer.Now().Add(10 * time.Minute).UTC()})
	if err != nil {
		return err
	}
	_, err = p.buyer.Call(ctx, v.url, linked, skill, map[string]any{"tender": "T-9"})
	return err
}

// tender hands every vendor the same.
func (p *procurement) tender(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(p.vendors)) {
		v := p.vendors[name]
		if err := errors.Join(p.hand(ctx, v, p.offer, "quote"), p.hand(ctx, v, p.deliver, "order")); err != nil {
			return err
		}
	}
	return nil
}

// levels is what the vendors may do by their trust.
func (p *procurement) levels(ctx context.Context) error {
	const refusal = "insufficient_trust"
	for name, level := range map[string]string{"anvil": "HIGH", "borealis": "HIGH", "cobalt": "MODERATE", "dorado": "LOW"} {
		if got := p.trusted[name].Level; got != level {
			p.Fail("%s is of level %s; want %s", name, got, level)
		}
	}
	anvil, borealis, cobalt, dorado, elm := p.vendors["anvil"], p.vendors["borealis"], p.vendors["cobalt"], p.vendors["dorado"], p.vendors["elm"]
	for _, try := range []struct {
		what, reason string
		v            *vendor
		do           func(context.Context, *vendor) (string, error)
	}{
		{"anvil, HIGH, quotes", "", anvil, p.submit},
		{"borealis, HIGH, quotes", "", borealis, p.submit},
		{"borealis, HIGH, confirms the order", "", borealis, p.supplies},
		{"cobalt, MODERATE, quotes", "", cobalt, p.submit},
		{"cobalt, MODERATE, confirms an order", refusal, cobalt, p.supplies},
		{"dorado, LOW, reads the tender", "", dorado, p.read},
		{"dorado, LOW, quotes", refusal, dorado, p.submit},
		{"elm, of whom nothing is known, NONE, reads the tender", refusal, elm, p.read},
	} {
		answer, err := try.do(ctx, try.v)
		if try.reason == "" {
			p.Allowed(try.what, answer, err)
		} else {
			p.Refused(try.what, try.reason, err)
		}
	}
	return nil
}

// supplies has a vendor confirm under what it was handed for that.
func (p *procurement) supplies(ctx context.Context, v *vendor) (string, error) {
	return p.confirm(ctx, v, v.supply)
}

// tooMuch has vendors try what they were not given.
func (p *procurement) tooMuch(ctx context.Context) error {
	anvil, borealis, cobalt := p.vendors["anvil"], p.vendors["borealis"], p.vendors["cobalt"]
	_, err := p.confirm(ctx, anvil, anvil.offer)
	p.Refused("anvil confirms an order under what it was given for quotes", "operation_not_granted", err)
	_, err = p.confirm(ctx, cobalt, borealis.supply)
	p.Refused("cobalt confirms under what borealis was given", "delegate_not_caller", err)
	wider, err := cobalt.Forge(cobalt.offer, token.LinkClaims{Delegate: cobalt.DID(), Scopes: []string{scopeOrder}})
	if err != nil {
		return err
	}
	_, err = p.confirm(ctx, cobalt, wider)
	p.Refused("cobalt passes ordering on to itself, which it does not hold", "scope_escalation", err)
	sub, err := borealis.Forge(borealis.supply, token.LinkClaims{Delegate: anvil.DID(), Scopes: []string{scopeOrder}})
	if err != nil {
		return err
	}
	_, err = p.confirm(ctx, anvil, sub)
	p.Refused("borealis has anvil deliver in its place", "exceeds_max_depth", err)
	return nil
}

// shutOut revokes what one vendor was given, by an operator's word. The tokens
// that it came from live on, and so do the other vendors.
func (p *procurement) shutOut(ctx context.Context) error {
	borealis, anvil := p.vendors["borealis"], p.vendors["anvil"]
	for _, held := range []holder.Capability{borealis.offer, borealis.supply} {
		id, err := premises.LinkID(held)
		if err != nil {
			return err
		}
		if _, err := p.place.Operate(ctx, "revoke", id); err != nil {
			return err
		}
	}
	p.Say("The operator revokes the two links of borealis:")
	_, err := p.confirm(ctx, borealis, borealis.supply)
	p.Refused("borealis confirms another order", "revoked", err)
	_, err = p.submit(ctx, borealis)
	p.Refused("borealis quotes again", "revoked", err)
	answer, err := p.submit(ctx, anvil)
	p.Allowed("anvil quotes again", answer, err)
	return nil
}

// restored puts dorado's record back, and has a stranger compute all scores again.
func (p *procurement) restored(ctx context.Context) error {
	if err := p.restore(ctx); err != nil {
		return err
	}
	p.Say("The operator puts dorado's record back as a copy has it:")
	now := maps.Clone(p.trusted)
	var err error
	if now["dorado"], err = p.place.Score(ctx, "dorado"); err != nil {
		return err
	}
	answer, err := p.submit(ctx, p.vendors["dorado"])
	p.Allowed("dorado, "+now["dorado"].Level+", quotes", answer, err)
	if q, o := p.quotes.Count(), p.orders.Count(); q != 5 || o != 1 {
		p.Fail("%d quotes and %d orders; want 5 and 1", q, o)
	}
	if err := p.sameForAll(ctx, now, true); err != nil {
		return err
	}
	p.Say("Computed again from the export: anvil %s, borealis %s, cobalt %s, dorado %s.",
		p.recomputed["anvil"].Score, p.recomputed["borealis"].Score, p.recomputed["cobalt"].Score, p.recomputed["dorado"].Score)
	return nil
}
