package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// delegated is one capability of the model: a root, a child on record, or what its
// holder derived offline.
type delegated struct {
	parent  *delegated
	by      *caller // its holder
	chain   []string
	id      string // on record, "" for one derived offline
	revoked bool
}

func (l *delegated) dead() bool { return l.revoked || l.parent != nil && l.parent.dead() }

// chaos makes random steps against the running program, beside a model of what
// they come to.
type chaos struct {
	*town
	random  *rand.Rand
	alice   *caller
	parties []*caller // who can be handed something
	links   []*delegated
	frozen  map[string]bool // by target
	steps   []string        // for people
}

func (c *chaos) said(format string, a ...any) { c.steps = append(c.steps, fmt.Sprintf(format, a...)) }

func (c *chaos) stopped(l *delegated) bool {
	for at := l; at != nil; at = at.parent {
		if at.id != "" && c.frozen[at.id] || c.frozen["key:"+at.by.key.Public().Thumbprint()] {
			return true
		}
	}
	return c.frozen["agent:documents"] || c.frozen["user:alice"]
}

func (c *chaos) step() {
	l := c.links[c.random.IntN(len(c.links))]
	switch c.random.IntN(8) {
	case 0:
		if !c.frozen["agent:documents"] && !c.frozen["user:alice"] && !c.frozen["key:"+c.alice.key.Public().Thumbprint()] {
			c.root()
		}
	case 1, 2:
		if len(l.chain) < 3 {
			to := c.parties[c.random.IntN(len(c.parties))]
			c.links = append(c.links, &delegated{parent: l, by: to, chain: l.by.hands(to, l.chain...)})
			c.said("%d is handed on", len(c.links)-1)
		}
	case 3:
		if l.by == c.alice && l.id != "" && !l.dead() && !c.stopped(l) {
			child := capabilities(c.t, c.alice.attenuate(l.id, map[string]any{"operations": []string{"search"}}))[0]
			c.links = append(c.links, &delegated{parent: l, by: c.alice, chain: []string{child.Token}, id: child.ID})
			c.said("%d is narrowed on record", len(c.links)-1)
		}
	case 4:
		c.revokes(l)
	case 5, 6:
		targets := []string{"agent:documents", "user:alice", "key:" + l.by.key.Public().Thumbprint()}
		if l.id != "" {
			targets = append(targets, l.id)
		}
		target := targets[c.random.IntN(len(targets))]
		path := map[bool]string{true: "/v1/thaws", false: "/v1/freezes"}[c.frozen[target]]
		c.operator(http.MethodPost, path, map[string]any{"target": target, "reason": "model"})
		c.frozen[target] = !c.frozen[target]
		c.said("%s %s", path, target)
	case 7:
		c.again(func() {})
		c.said("restart")
	}
}

func (c *chaos) root() {
	held := c.alice.reports()
	c.links = append(c.links, &delegated{by: c.alice, chain: []string{held.Token}, id: held.ID})
	c.said("%d is issued", len(c.links)-1)
}

// revokes ends a link, whatever was done to it before: by an operator on record,
// or by the chain that shows it.
func (c *chaos) revokes(l *delegated) {
	body := map[string]any{"chain": l.chain}
	if l.id != "" && c.random.IntN(2) == 0 {
		body = map[string]any{"target": l.id}
	}
	c.operator(http.MethodPost, "/v1/revocations", body)
	l.revoked = true
	c.said("%v is revoked", l.chain[len(l.chain)-1][:8])
}

// check has every holder present what it holds.
func (c *chaos) check() {
	c.t.Helper()
	for n, l := range c.links {
		a := l.by.present("documents", data("search_documents", map[string]any{}), proven{chain: l.chain, operation: opSearch})
		want := ""
		switch {
		case l.dead():
			want = "revoked"
		case c.stopped(l):
			want = "frozen"
		}
		got := a.reason()
		both := want == "revoked" && c.stopped(l) && strings.Contains(got, "frozen") // either is told
		if want == "" && a.Error != nil || want != "" && !strings.Contains(got, want) && !both {
			c.t.Fatalf("ATK-51 link %d: %q, want %q after\n%s\n%s", n, got, want, strings.Join(c.steps, "\n"), a.Raw)
		}
	}
}

// TestATK51_RevokeIsAbsorbing makes random sequences of steps on every binding:
// after each, whatever was revoked, with all that descends from it, is refused, and
// nothing else is. Freezing, thawing and restarts bring nothing back.
func TestATK51_RevokeIsAbsorbing(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		c := &chaos{town: w, random: rand.New(rand.NewPCG(51, uint64(len(t.Name())))), alice: w.caller(aliceToken), frozen: map[string]bool{}}
		c.parties = []*caller{w.caller(""), w.caller(""), c.alice}
		c.root()
		for range 25 {
			c.step()
			c.check()
		}
		dead := 0
		for _, l := range c.links {
			if l.dead() {
				dead++
			}
		}
		if dead == 0 || len(c.links) < 4 {
			t.Errorf("of %d links %d are dead: the steps show nothing\n%s", len(c.links), dead, strings.Join(c.steps, "\n"))
		}
	})
}
