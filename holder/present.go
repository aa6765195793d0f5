package holder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// HeaderDelegation carries capabilities of other agents that are handed over
// with a call: chains joined by semicolons, each compact tokens joined by
// commas, root first. They are bound to the recipient's key. It is for calls
// whose body must not be touched; where it may, [Delegations] goes in the
// request's metadata.
const HeaderDelegation = "Powerbox-Delegation"

// HeaderBudget is how many bytes a capability and its proof may have together
// in headers, and delegated capabilities beside them (design, section 2). Servers
// and proxies on the way refuse longer ones, without saying why.
const HeaderBudget = 8 << 10

// ErrHeaderBudget says that a capability is too long to go in headers. The
// caller narrows it less often, or hands it over in the request's metadata.
var ErrHeaderBudget = fmt.Errorf("holder: too long for headers, whose budget is %d bytes", HeaderBudget)

// Attempt is one call, as its proof must name it.
type Attempt struct {
	Operation powerbox.Operation
	Arguments powerbox.Value
	Method    string // of HTTP
	URL       string // the agent's, with what the binding has below it
	Digest    string // [token.DigestOf] the bytes that go out; in gRPC of the message without its frame
}

// Present puts a capability and the proof for one call of the agent on its
// headers, in place of what stands there. One by reference only cannot be
// presented so, and one beyond the budget is [ErrHeaderBudget].
func (c *Client) Present(h http.Header, agent Agent, held Capability, a Attempt) error {
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case len(held.Chain) == 0:
		return errors.New("holder: the capability is by reference only; headers carry chains")
	case held.Agent != agent.Issuer:
		return fmt.Errorf("holder: the capability is of %s; it is not presented to %s", held.Agent, agent.Issuer)
	}
	if err := agent.checkTarget(a.URL); err != nil {
		return err
	}
	signed := http.Header{}
	err := c.present(signed, agent, held.Chain, proven{a.Operation.String(), a.Arguments}, token.Request{Method: a.Method, URL: a.URL, Digest: a.Digest})
	if err != nil {
		return err
	}
	if n := len(signed.Get(HeaderCapability)) + len(signed.Get(HeaderProof)); n > HeaderBudget {
		return fmt.Errorf("%w: capability and proof have %d", ErrHeaderBudget, n)
	}
	for name, values := range signed {
		h[name] = values
	}
	return nil
}

// checkTarget refuses a URL that is neither the agent's public one nor below it.
func (a Agent) checkTarget(target string) error {
	issuer := strings.TrimRight(a.Issuer, "/")
	rest, ok := strings.CutPrefix(target, issuer)
	if !ok || issuer == "" || rest != "" && rest[0] != '/' && rest[0] != '?' {
		return fmt.Errorf("holder: %s is not a URL of %s, for which the proof would be", target, a.Issuer)
	}
	return nil
}

// Identify puts on the headers of a call who makes it: the user's session
// where the client has one, and otherwise a proof of the key alone, which an
// agent can know its caller by.
func (c *Client) Identify(ctx context.Context, h http.Header, agent Agent, method, target string) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := agent.checkTarget(target); err != nil {
		return err
	}
	signed := http.Header{}
	if err := c.authorize(ctx, signed, agent, method, target); err != nil {
		return err
	}
	if len(signed) == 0 {
		if err := c.proveKey(signed, method, target); err != nil {
			return err
		}
	}
	for name, values := range signed {
		h[name] = values
	}
	return nil
}

// proveKey adds a proof of the holder's key that is bound to no token.
func (c *Client) proveKey(h http.Header, method, target string) error {
	if err := c.check(); err != nil {
		return err
	}
	id, err := c.newID()
	if err != nil {
		return err
	}
	proof, err := token.SignDPoP(c.Key, token.DPoPRequest{Method: method, URL: target, Now: c.Now()}, id)
	if err != nil {
		return err
	}
	h.Set("DPoP", proof)
	return nil
}

// Claim takes up a capability that was handed over by reference (SEP-13): the
// agent that issued it mints a token of it for the key of the client, which is
// its holder. No session is needed.
func (c *Client) Claim(ctx context.Context, agent Agent, id string) (Capability, error) {
	operations := agent.operations()
	held, err := c.claim(ctx, agent, id, operations)
	// Its operations are not known here; a refusal names the missing ones (SEP-12).
	if denied := (*Denied)(nil); errors.As(err, &denied) && denied.Code == codeWider {
		operations = slices.DeleteFunc(operations, func(o string) bool { return strings.Contains(denied.Message, strconv.Quote(o)) })
		held, err = c.claim(ctx, agent, id, operations)
	}
	return held, err
}

// codeWider is the reason of an attenuation that is wider than its parent.
const codeWider = "attenuation_wider"

func (c *Client) claim(ctx context.Context, agent Agent, id string, operations []string) (Capability, error) {
	const method = "a2a/capabilities/attenuate"
	raw, err := c.withKey(ctx, agent, method, powerbox.Object(text("capabilityId", id),
		powerbox.Member{Name: "constraints", Value: powerbox.Object(powerbox.Member{Name: "operations", Value: texts(operations)})}))
	if err != nil {
		return Capability{}, err
	}
	got, err := c.readCapabilities(agent, method, raw)
	if err != nil {
		return Capability{}, err
	}
	if len(got) != 1 || len(got[0].Chain) == 0 {
		return Capability{}, fmt.Errorf("holder: %s mints no token of capability %q; it stays by reference", agent.Issuer, id)
	}
	return got[0], nil
}

// operations are the names that the agent's skills map to, without agent and
// grant.
func (a Agent) operations() []string {
	var names []string
	for _, s := range a.Skills {
		if _, name, ok := a.grantOf(s.Operation); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// JoinDelegations returns capabilities as the value of [HeaderDelegation].
// Those by reference are left out. Beyond the budget is [ErrHeaderBudget].
func JoinDelegations(capabilities ...Capability) (string, error) {
	var chains []string
	for _, c := range capabilities {
		if len(c.Chain) > 0 {
			chains = append(chains, token.JoinChain(c.Chain))
		}
	}
	value := strings.Join(chains, ";")
	if len(value) > HeaderBudget {
		return "", fmt.Errorf("%w: what is handed over has %d", ErrHeaderBudget, len(value))
	}
	return value, nil
}

// ReceiveHeader takes in the value of [HeaderDelegation], as [Wallet.Receive]
// takes in metadata: one token that is not bound to the holder's key refuses all.
// An empty value is no error.
func (w *Wallet) ReceiveHeader(value string, now time.Time) error {
	if value == "" {
		return nil
	}
	if len(value) > HeaderBudget {
		return ErrHeaderBudget
	}
	chains := strings.Split(value, ";")
	if len(chains) > maxHeld {
		return errFull
	}
	all := make([]Capability, 0, len(chains))
	for i, joined := range chains {
		chain := token.SplitChain(joined)
		c, err := w.received(issuerOf(chain), chain, now)
		if err != nil {
			return fmt.Errorf("holder: %s, chain %d: %w", HeaderDelegation, i+1, err)
		}
		all = append(all, c)
	}
	return w.Add(all...)
}

// issuerOf is what the root of a chain says of its issuer, "" where it cannot
// be read.
func issuerOf(chain []string) string {
	u, err := token.ParseChain(chain)
	if err != nil {
		return ""
	}
	return u.Describe()[0].Issuer
}
