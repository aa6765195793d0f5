// Command procurement is the third worked example of the authorization extension:
// several vendors, quoting apart from ordering, and one vendor that is shut out at
// once (EXT-31, docs/examples.md). Which vendor may do what by its trust is not in
// it yet.
//
// Bo's procurement agent may read, quote and order at the company's purchasing
// agent. It lets three vendors quote, and the cheapest confirm an order. Then that
// vendor is taken out, and the others go on.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/examples/premises"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	_, err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "procurement:", err)
		os.Exit(1)
	}
}

// The scopes of the purchasing agent that vendors are given.
const (
	scopeQuote = "supply.offer.quote"
	scopeOrder = "supply.deliver.order"
)

const configuration = `offers:
  purchasing:
    - {id: supply:offer, description: Quote for a tender, operations: [quote], maximum_depth: 2, maximum_lifetime: 30m}
    - {id: supply:deliver, description: Confirm an order, operations: [order], maximum_depth: 1, maximum_lifetime: 30m}
skills:
  purchasing:
    - {skill: submit_quote, grant: supply:offer, operation: quote}
    - {skill: confirm_order, grant: supply:deliver, operation: order}
`

const policies = `@description("buyers have tenders answered and orders confirmed")
permit(principal in Group::"buyers", action in [Action::"purchasing/supply:offer", Action::"purchasing/supply:deliver"], resource == Agent::"purchasing");
`

// prices are what the vendors ask for a pallet.
var prices = map[string]string{"anvil": "410", "borealis": "385", "cobalt": "455"}

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

	purchasing     string            // the agent's public URL
	offer, deliver holder.Capability // of the buyer's agent
}

func run(ctx context.Context, out io.Writer) (_ *procurement, err error) {
	p := &procurement{Story: premises.NewStory(out), vendors: map[string]*vendor{}}
	purchasing := premises.Agent{Name: "Purchasing", Skills: map[string]premises.Skill{
		"submit_quote": func(_ context.Context, in premises.Incoming) (string, error) {
			return fmt.Sprintf("quote %d: %v EUR", p.quotes.Add(), in.Arguments["price"]), nil
		},
		"confirm_order": func(context.Context, premises.Incoming) (string, error) {
			return fmt.Sprintf("order %d confirmed", p.orders.Add()), nil
		},
	}}
	p.place, err = premises.Open(ctx, premises.Setting{
		Agents: map[string]premises.Agent{"purchasing": purchasing}, Configuration: configuration, Policies: policies, User: "bo", Group: "buyers",
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.place.Close()) }()
	p.purchasing = p.place.Agent("purchasing")
	for _, act := range []func(context.Context) error{p.hire, p.tender, p.award, p.tooMuch, p.shutOut} {
		if err := act(ctx); err != nil {
			return nil, errors.Join(err, p.Err())
		}
	}
	p.audit = p.Audited(ctx, p.place)
	return p, p.Err()
}

// hire starts the vendors' agents, and has the buyer's agent ask for its tokens:
// one to have quotes given, one to have orders confirmed.
func (p *procurement) hire(ctx context.Context) (err error) {
	for name := range prices {
		v := &vendor{name: name}
		if v.Caller, err = p.place.Caller(""); err != nil {
			return err
		}
		v.url, err = p.place.Serve(ctx, premises.Agent{Name: name, Skills: map[string]premises.Skill{
			"quote": func(ctx context.Context, in premises.Incoming) (string, error) { return p.quote(ctx, v, in) },
			"order": func(ctx context.Context, in premises.Incoming) (string, error) { return p.order(ctx, v, in) },
		}})
		if err != nil {
			return err
		}
		p.vendors[name] = v
	}
	if p.buyer, err = p.place.Caller(p.place.Session); err != nil {
		return err
	}
	for grant, held := range map[string]*holder.Capability{"supply:offer": &p.offer, "supply:deliver": &p.deliver} {
		if *held, err = p.buyer.Ask(ctx, p.purchasing, holder.RequestParams{Grants: []string{grant}, Purpose: "A pallet of fasteners"}); err != nil {
			return err
		}
	}
	p.Say("The procurement agent was issued %s and %s, in two tokens.", scopeQuote, scopeOrder)
	return nil
}

// quote is a vendor's skill: it answers the tender with what it was handed.
func (p *procurement) quote(ctx context.Context, v *vendor, in premises.Incoming) (answer string, err error) {
	if v.offer, err = premises.Received(in); err != nil {
		return "", err
	}
	answer, err = p.submit(ctx, v)
	p.Allowed(v.name+" quotes", answer, err)
	return answer, err
}

// order is a vendor's skill: it confirms with what it was handed.
func (p *procurement) order(ctx context.Context, v *vendor, in premises.Incoming) (answer string, err error) {
	if v.supply, err = premises.Received(in); err != nil {
		return "", err
	}
	answer, err = p.confirm(ctx, v, v.supply)
	p.Allowed(v.name+" confirms the order", answer, err)
	return answer, err
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

// tender has all vendors quote. None of them may order.
func (p *procurement) tender(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(p.vendors)) {
		if err := p.hand(ctx, p.vendors[name], p.offer, "quote"); err != nil {
			return err
		}
	}
	return nil
}

// award lets the cheapest order.
func (p *procurement) award(ctx context.Context) error {
	return p.hand(ctx, p.vendors["borealis"], p.deliver, "order")
}

// tooMuch has vendors try what they were not given.
func (p *procurement) tooMuch(ctx context.Context) error {
	anvil, borealis, cobalt := p.vendors["anvil"], p.vendors["borealis"], p.vendors["cobalt"]
	_, err := p.confirm(ctx, anvil, anvil.offer)
	p.Refused("anvil, who may quote, confirms an order", "operation_not_granted", err)
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
	if q, o := p.quotes.Count(), p.orders.Count(); q != 4 || o != 1 {
		p.Fail("%d quotes and %d orders; want 4 and 1", q, o)
	}
	return nil
}
