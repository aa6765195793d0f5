// Command trade is the first worked example of the authorization extension: a
// trade over two hops, with an audit from outside (EXT-31, docs/tutorials/worked-examples.md).
//
// Anna's portfolio agent may quote and order at an exchange. It passes that on to
// a broker, which passes orders alone on to its dealing desk, which places the
// order. No agent asks a server in between; the exchange checks the whole chain.
// Then each of them tries more than it was given.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/powerbox-project/powerbox/examples/premises"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func main() {
	premises.Main("trade", func(ctx context.Context) error {
		_, err := run(ctx, os.Stdout)
		return err
	})
}

// The scopes of the exchange, which are its grants and operations.
const (
	scopeQuote    = "trade.execute.quote"
	scopeOrder    = "trade.execute.order"
	scopeWithdraw = "trade.settle.withdraw"
)

const configuration = `offers:
  exchange:
    - {id: trade:execute, description: Quote and order, operations: [quote, order], maximum_depth: 2, maximum_lifetime: 30m}
    - {id: trade:settle, description: Move money out, operations: [withdraw]}
skills:
  exchange:
    - {skill: get_quote, grant: trade:execute, operation: quote, effect: read}
    - {skill: place_order, grant: trade:execute, operation: order}
    - {skill: withdraw, grant: trade:settle, operation: withdraw}
`

const policies = `@description("investors trade; money leaves by other ways")
permit(principal in Group::"investors", action in Action::"exchange/trade:execute", resource == Agent::"exchange");
`

// trade is one run.
type trade struct {
	*premises.Story
	audit                   premises.Audit
	place                   *premises.Premises
	orders                  premises.Effects
	portfolio, broker, desk *premises.Caller

	exchange, deskURL, brokerURL string
	held, brokers, desks         holder.Capability // of the portfolio, and as they are after each hop
}

func run(ctx context.Context, out io.Writer) (_ *trade, err error) {
	t := &trade{Story: premises.NewStory(out)}
	exchange := premises.Agent{Name: "Exchange", Skills: map[string]premises.Skill{
		"get_quote":   func(context.Context, premises.Incoming) (string, error) { return "ACME stands at 41.50", nil },
		"place_order": t.placeOrder,
		"withdraw":    t.placeOrder, // never reached: an effect where there must be none
	}}
	t.place, err = premises.Open(ctx, premises.Setting{
		Agents: map[string]premises.Agent{"exchange": exchange}, Configuration: configuration, Policies: policies, User: "anna", Group: "investors",
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.place.Close()) }()
	t.exchange = t.place.Agent("exchange")
	if err := t.hire(ctx); err != nil {
		return nil, err
	}
	if err := t.twoHops(ctx); err != nil {
		return nil, err
	}
	t.tooMuch(ctx)
	if err := t.takenBack(ctx); err != nil {
		return nil, err
	}
	t.audit = t.Audited(ctx, t.place)
	return t, t.Err()
}

func (t *trade) placeOrder(_ context.Context, in premises.Incoming) (string, error) {
	return fmt.Sprintf("order %d: %v %v bought at 41.50", t.orders.Add(), in.Arguments["quantity"], in.Arguments["symbol"]), nil
}

// hire makes the callers and starts broker and desk. They are other companies'
// agents: no gateway stands in front of them, and they have no session.
func (t *trade) hire(ctx context.Context) (err error) {
	for caller, session := range map[**premises.Caller]string{&t.portfolio: t.place.Session, &t.broker: "", &t.desk: ""} {
		if *caller, err = t.place.Caller(session); err != nil {
			return err
		}
	}
	if t.deskURL, err = t.place.Serve(ctx, premises.Agent{Name: "Dealing desk", Skills: map[string]premises.Skill{"deal": t.deal}}); err != nil {
		return err
	}
	t.brokerURL, err = t.place.Serve(ctx, premises.Agent{Name: "Broker", Skills: map[string]premises.Skill{"buy": t.buy}})
	return err
}

// buy is the broker's skill: it looks at the price, and has its desk deal.
func (t *trade) buy(ctx context.Context, in premises.Incoming) (string, error) {
	held, err := premises.Received(in)
	if err != nil {
		return "", err
	}
	t.brokers = held
	price, err := t.broker.Call(ctx, t.exchange, held, "get_quote", map[string]any{"symbol": in.Arguments["symbol"]})
	t.Allowed("hop 1: the broker asks for a quote, under the portfolio's token", price, err)
	if err != nil {
		return "", err
	}
	onward, err := t.broker.Link(held, holder.Link{To: t.desk.DID(), Scopes: []string{scopeOrder}, Expires: t.broker.Now().Add(time.Minute).UTC()})
	if err != nil {
		return "", err
	}
	return t.broker.Call(ctx, t.deskURL, onward, "deal", in.Arguments)
}

// deal is the desk's skill.
func (t *trade) deal(ctx context.Context, in premises.Incoming) (string, error) {
	held, err := premises.Received(in)
	if err != nil {
		return "", err
	}
	t.desks = held
	done, err := t.desk.Call(ctx, t.exchange, held, "place_order", in.Arguments)
	t.Allowed("hop 2: the desk places the order, under token and two links", done, err)
	return done, err
}

var purchase = map[string]any{"symbol": "ACME", "quantity": "100"}

// twoHops is the trade as it should go.
func (t *trade) twoHops(ctx context.Context) (err error) {
	t.held, err = t.portfolio.Ask(ctx, t.exchange, holder.RequestParams{Grants: []string{"trade:execute"}, Purpose: "Buy 100 ACME for Anna's portfolio"})
	if err != nil {
		return err
	}
	t.Say("The portfolio agent was issued %v at the exchange.", []string{scopeQuote, scopeOrder})
	handed, err := t.portfolio.Link(t.held, holder.Link{To: t.broker.DID(), Expires: t.portfolio.Now().Add(5 * time.Minute).UTC()})
	if err != nil {
		return err
	}
	if _, err := t.portfolio.Call(ctx, t.brokerURL, handed, "buy", purchase); err != nil {
		return errors.Join(err, t.Err())
	}
	return nil
}

// tooMuch has broker and desk try calls that they were not granted.
func (t *trade) tooMuch(ctx context.Context) {
	t.Say("Then each tries more than it was given:")
	order := func(c *premises.Caller, held holder.Capability) error {
		_, err := c.Call(ctx, t.exchange, held, "place_order", purchase)
		return err
	}
	forged := func(c *premises.Caller, held holder.Capability, claims token.LinkClaims) holder.Capability {
		out, err := c.Forge(held, claims)
		if err != nil {
			t.Fail("signing a link: %v", err)
		}
		return out
	}
	toDesk := func(scopes ...string) token.LinkClaims {
		return token.LinkClaims{Delegate: t.desk.DID(), Scopes: scopes}
	}
	if _, err := t.broker.Link(t.brokers, holder.Link{To: t.desk.DID(), Scopes: []string{scopeWithdraw}}); err == nil {
		t.Fail("the library passes on what is not held")
	}
	wider := forged(t.broker, t.brokers, toDesk(scopeOrder, scopeWithdraw))
	t.Refused("the broker's link to the desk adds a scope", "scope_escalation", order(t.desk, wider))
	long := toDesk(scopeOrder)
	long.ExpiresAt = t.held.Expires
	t.Refused("the broker's link outlives the one that it got", "temporal_exceeds_parent", order(t.desk, forged(t.broker, t.brokers, long)))
	_, err := t.desk.Call(ctx, t.exchange, t.desks, "withdraw", map[string]any{"amount": "5000"})
	t.Refused("the desk withdraws money", "operation_not_granted", err)
	_, err = t.desk.Call(ctx, t.exchange, t.desks, "get_quote", map[string]any{"symbol": "ACME"})
	t.Refused("the desk asks for a quote, which the broker kept to itself", "operation_not_granted", err)
	t.Refused("the broker orders under the desk's links", "delegate_not_caller", order(t.broker, t.desks))
	t.Refused("the broker orders under the portfolio's token alone", "subject_not_caller", order(t.broker, t.held))
	third := forged(t.desk, t.desks, token.LinkClaims{Delegate: t.broker.DID(), Scopes: []string{scopeOrder}, ExpiresAt: t.desk.Now().Add(30 * time.Second).UTC()})
	t.Refused("the desk passes the order on, a third hop", "exceeds_max_depth", order(t.broker, third))
}

// takenBack ends the mandate: what hangs from it is dead at once.
func (t *trade) takenBack(ctx context.Context) error {
	if err := t.portfolio.GiveBack(ctx, t.held); err != nil {
		return err
	}
	_, err := t.desk.Call(ctx, t.exchange, t.desks, "place_order", purchase)
	t.Refused("the desk orders again, after Anna's agent took its token back", "revoked", err)
	if n := t.orders.Count(); n != 1 {
		t.Fail("%d orders were placed; want 1", n)
	}
	t.Say("Orders at the exchange: %d.", t.orders.Count())
	return nil
}
