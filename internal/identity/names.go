package identity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// CallerRule gives the agent that a holder is.
type CallerRule = config.CallerRule

// Names are the configured names of calling agents. A holder that no rule names has none.
type Names struct {
	holders   map[string]string // agents by the holder that one rule names exactly
	workloads []workloads       // the longest beginning first
	tokens    map[string][]tokenRule
}

// workloads is a rule for the SPIFFE ids of one trust domain that begin with the same
// segments and have a fixed number of others after them.
type workloads struct {
	domain spiffeid.TrustDomain
	begins []string
	more   int
	agent  string
}

// tokenRule is a rule for the tokens of one issuer.
type tokenRule struct {
	holder string
	claims map[string]string
}

// ParseNames reads the rules.
func ParseNames(rules []CallerRule) (*Names, error) {
	n := &Names{holders: make(map[string]string, len(rules)), tokens: map[string][]tokenRule{}}
	for i, r := range rules {
		holder, err := r.Holder()
		if err != nil {
			return nil, fmt.Errorf("caller %d: %w", i+1, err)
		}
		if other, ok := n.holders[holder]; ok && other != r.Agent {
			return nil, fmt.Errorf("caller %d: %s is both %q and %q", i+1, holder, other, r.Agent)
		}
		n.holders[holder] = r.Agent
		switch {
		case len(r.Claims) > 0:
			n.tokens[r.Issuer] = append(n.tokens[r.Issuer], tokenRule{holder, r.Claims})
		case r.Open():
			id, more, _ := r.Workloads() // was read by Holder
			n.workloads = append(n.workloads, workloads{id.TrustDomain(), segments(id), more, r.Agent})
		}
	}
	sorting.Stable(n.workloads, func(a, b workloads) int { return cmp.Compare(len(b.begins), len(a.begins)) })
	for _, rules := range n.tokens {
		sorting.Stable(rules, func(a, b tokenRule) int {
			return cmp.Or(cmp.Compare(len(b.claims), len(a.claims)), strings.Compare(a.holder, b.holder))
		})
	}
	return n, nil
}

// Of returns the agent that a holder is, "" for a stranger.
func (n *Names) Of(holder string) string {
	if agent, ok := n.holders[holder]; ok && !strings.HasSuffix(holder, "/*") {
		return agent
	}
	if len(n.workloads) == 0 || !strings.HasPrefix(holder, "spiffe://") {
		return ""
	}
	id, err := spiffeid.FromString(holder)
	if err != nil {
		return ""
	}
	for _, w := range n.workloads {
		if w.has(id) {
			return w.agent
		}
	}
	return ""
}

func (w workloads) has(id spiffeid.ID) bool {
	path := segments(id)
	return id.TrustDomain() == w.domain && len(path) == len(w.begins)+w.more && slices.Equal(path[:len(w.begins)], w.begins)
}

func segments(id spiffeid.ID) []string {
	return strings.Split(strings.TrimPrefix(id.Path(), "/"), "/")
}

// ofToken returns the holders of the rules that a token's claims fulfil, and whether one of
// them takes the claim that names the principal. Of rules that it fulfils, those with
// most claims count.
func (n *Names) ofToken(issuer, principal string, claims powerbox.Value) (held []Holder, own bool) {
	most := 0
	for _, r := range n.tokens[issuer] {
		if len(r.claims) < most || !r.has(claims) {
			continue
		}
		most = len(r.claims)
		held = append(held, Holder{ID: r.holder})
		for name := range r.claims {
			own = own || pointer(name) == pointer(principal)
		}
	}
	return held, own
}

// pointer is a claim's name as a JSON pointer.
func pointer(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return string(jsontext.Pointer("").AppendToken(name))
}

// has reports whether all claims of the rule are in a token, with exactly its texts.
func (r tokenRule) has(claims powerbox.Value) bool {
	for name, want := range r.claims {
		v, _ := lookup(claims, name)
		if text, ok := v.Text(); !ok || text != want {
			return false
		}
	}
	return true
}
