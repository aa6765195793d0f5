package investigate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/token"
)

// tokens explains a capability file, a chain file, or a compact token.
func (x *explainer) tokens(ctx context.Context, data []byte) (explanation, error) {
	if isCapabilityFile(data) {
		return x.file(ctx, data)
	}
	data = bytes.TrimSpace(data)
	chain := token.SplitChain(string(data))
	if bytes.HasPrefix(data, []byte("[")) {
		var err error
		if chain, err = token.ParseChainFile(data); err != nil {
			return explanation{}, cli.Invalid(err)
		}
	}
	return x.chain(ctx, chain)
}

// file explains every capability of a file.
func (x *explainer) file(ctx context.Context, data []byte) (explanation, error) {
	held, err := cli.ParseCapabilities(data)
	if err != nil {
		return explanation{}, cli.Invalid(err)
	}
	var all []explanation
	for _, c := range held {
		e := explanation{Kind: "capability", ID: c.ID, Verdict: "by reference only"}
		if len(c.Chain) > 0 {
			e, err = x.chain(ctx, c.Chain)
		} else if x.operator != nil {
			e, err = x.capability(ctx, c.ID)
		}
		if err != nil {
			return explanation{}, err
		}
		for _, h := range c.Handles {
			e.fact("resource", "%q is %s", h.DisplayName, h.Handle)
		}
		all = append(all, e)
	}
	first := all[0]
	first.Chains = all[1:]
	return first, nil
}

// chain explains a chain: every prefix is verified separately, so that the
// first link that fails is known.
func (x *explainer) chain(ctx context.Context, chain []string) (explanation, error) {
	u, err := token.ParseChain(chain)
	if err != nil {
		return explanation{}, cli.Invalid(err)
	}
	links := u.Describe()
	last := links[len(links)-1]
	e := explanation{Kind: "token", ID: last.ID, Verdict: "holds"}
	anchors := x.keys(ctx, links[0].Issuer, &e)
	for n, link := range links {
		h := hop{
			ID: link.ID, Issuer: link.Issuer, Holder: link.Holder, Expires: plain.Time(link.Expires),
			Narrowed: append([]string{}, link.Narrowed...), Holds: true,
		}
		if err := x.verify(chain[:n+1], anchors); err != nil && e.First == nil {
			e.failed(err)
		}
		if e.First != nil {
			h.Holds = false
			if n == 0 || e.Hops[n-1].Holds {
				h.Problem = e.First.Message
			}
		}
		e.Hops = append(e.Hops, h)
	}
	for _, c := range last.Tools {
		if name := c.Pattern.Name(); !strings.HasPrefix(name, "a2a.") {
			e.fact("may", "%s%s", name, cli.ArgumentsText(c.Shape))
		}
	}
	e.fact("delegated", "%d of at most %d times", last.Depth, last.MaxDepth)
	x.remaining(&e, last)
	x.revoked(ctx, u, &e)
	if e.First != nil {
		e.Verdict, e.Fix = "fails", x.tokenFix(e.First.Code, links)
	}
	return e, nil
}

func (x *explainer) remaining(e *explanation, last token.Link) {
	if left := last.Expires.Sub(x.Now()); left > 0 {
		e.fact("for", "another %s", left.Truncate(1e9))
	}
}

// failed notes the error of a verification.
func (e *explanation) failed(err error) {
	var problem *token.Error
	if errors.As(err, &problem) {
		e.fail(string(problem.Code), problem.Message)
		return
	}
	e.fail("unknown", err.Error())
}

// verify checks a chain, under the issuer's keys where they are known.
func (x *explainer) verify(chain []string, anchors *token.KeySet) error {
	u, err := token.ParseChain(chain)
	if err != nil {
		return err
	}
	o := token.Options{Now: x.Now(), Revoked: token.UnsafeNothingRevoked, Draft01: true}
	if anchors == nil {
		_, err = u.UnsafeTrustRoot(o)
		return err
	}
	_, err = u.Verify(*anchors, o)
	return err
}

// keys are the keys to verify the root under: those that were given, or those
// that the issuer publishes. What an issuer publishes says only that it is the
// issuer, not that anybody trusts it.
func (x *explainer) keys(ctx context.Context, issuerURL string, e *explanation) *token.KeySet {
	if x.anchors != nil {
		return x.anchors
	}
	if x.offline {
		e.note("the root's signature was not verified: give the issuer's keys with --anchors")
		return nil
	}
	set, err := fetchKeys(ctx, issuerURL)
	if err != nil {
		e.note("the root's signature was not verified, since the issuer's keys could not be had: %v", err)
		return nil
	}
	return &set
}

func fetchKeys(ctx context.Context, issuerURL string) (token.KeySet, error) {
	client := outbound.New(outbound.Configured())
	data, _, err := client.Get(ctx, strings.TrimRight(issuerURL, "/")+"/.well-known/jwks.json", "application/json")
	if err != nil {
		return token.KeySet{}, err
	}
	return token.ParseKeySet(data)
}

// revoked asks the server which links were revoked, and what of it is frozen.
func (x *explainer) revoked(ctx context.Context, u token.Unverified, e *explanation) {
	if x.operator == nil {
		e.note("whether anything of it was revoked was not asked: no server is known here")
		return
	}
	ids := map[string]int{}
	for n, l := range u.Describe() {
		ids[l.Hash] = n
		ids["key:"+l.Holder[strings.LastIndexByte(l.Holder, ':')+1:]] = n
	}
	root := u.Describe()[0]
	ids[root.ID] = 0
	for _, a := range x.agents {
		if a.URL == root.Issuer {
			ids[issuer.AgentTarget(a.ID)] = 0
			x.onRecord(ctx, root.ID, e)
		}
	}
	if v, err := u.UnsafeTrustRoot(token.Options{Now: x.Now(), Revoked: token.UnsafeNothingRevoked}); err == nil {
		if private, ok := v.Private(); ok {
			for _, id := range issuer.ParseLineage(private.Capability) {
				ids[id] = 0
			}
			ids[private.Principal] = 0
		}
	}
	query := url.Values{}
	for id := range ids {
		query.Add("id", id)
	}
	var answer struct {
		Revoked []string `json:"revoked"`
		Frozen  []string `json:"frozen"`
	}
	if err := x.operator.Get(ctx, "/v1/revoked?"+query.Encode(), &answer); err != nil {
		e.note("whether anything of it was revoked is not known: %v", err)
		return
	}
	for _, id := range answer.Revoked {
		e.dead(ids[id], "revoked")
		e.fail(string(token.CodeRevoked), fmt.Sprintf("%s was revoked, and with it everything that descends from it", id))
	}
	for _, id := range answer.Frozen {
		if strings.HasPrefix(id, gate.CardPrefix) {
			continue
		}
		e.dead(ids[id], "frozen by an operator")
		e.fail(gate.CodeFrozen, fmt.Sprintf("an operator stopped %s", id))
	}
}

// onRecord asks the server whether it has a capability that one of its agents issued. After a
// restore from an older copy it may not.
func (x *explainer) onRecord(ctx context.Context, id string, e *explanation) {
	if !strings.HasPrefix(id, "cap_") {
		return
	}
	var c struct{}
	if err := x.operator.Get(ctx, "/v1/capabilities/"+url.PathEscape(id), &c); errors.Is(err, audit.ErrNotThere) {
		e.dead(0, "not on record")
		e.fail(gate.CodeCapabilityUnknown, fmt.Sprintf("%s is not on record at the server, for example after a restore from an older copy", id))
	}
}

// dead marks a hop and everything that descends from it.
func (e *explanation) dead(from int, problem string) {
	for n := from; n < len(e.Hops); n++ {
		e.Hops[n].Holds = false
	}
	e.Hops[from].Problem = problem
}

// consentFix is the command that resumes grants that a wider card stopped.
const consentFix = "see in what the card is wider, and consent: powerbox grant consent AGENT; or ask again"

// tokenFix is the command that fixes a token.
func (x *explainer) tokenFix(code string, links []token.Link) string {
	root := links[0]
	grant := "GRANT"
	for _, c := range root.Tools {
		if parts := strings.Split(c.Pattern.Name(), "/"); len(parts) == 3 {
			grant = parts[1]
		}
	}
	request := fmt.Sprintf("powerbox request %s --grant %s --purpose '...' --key FILE --out capability.json", root.Issuer, grant)
	switch code {
	case gate.CodeFrozen:
		return thawFix
	case string(token.CodeExpired), string(token.CodeRevoked):
		return "ask again: " + request
	case string(token.CodeSignature), string(token.CodeUnknownKey), string(token.CodeParentHash):
		return "do not use it: it was not issued as it is, or the issuer has other keys now; ask again: " + request
	case string(token.CodeNotYetValid):
		return "compare the clocks: powerbox doctor"
	case string(token.CodeWidened), string(token.CodeExpiryWidened), string(token.CodeDepth):
		return "derive it again from its parent, no wider: powerbox narrow --capability FILE --key FILE"
	}
	return "ask again: " + request
}
