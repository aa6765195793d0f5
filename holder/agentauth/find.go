package agentauth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Found is one capability that a search found.
type Found struct {
	Provider    string   `json:"provider_name"`
	Issuer      string   `json:"provider"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Modes       []string `json:"modes"`
	Connected   bool     `json:"connected"` // an agent of the store is at the provider
	score       int
}

// Bounds of a search.
const (
	foundAtOnce   = 5
	maxFound      = 50
	maxSearched   = 50 // providers of the store that are asked
	maxQueryWords = 16
)

// Find searches the capabilities of every provider that is known, and of those that
// the directory has for it, where there is one: best first, at most limit, 0 for five.
// A provider that does not answer is left out and warned of.
func (c *Client) Find(ctx context.Context, query string, limit int) ([]Found, error) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil, errors.New("agentauth: nothing to search for; want what is to be done, such as: transfer money")
	}
	words = words[:min(len(words), maxQueryWords)]
	providers, err := c.Providers()
	if err != nil {
		return nil, err
	}
	providers = providers[:min(len(providers), maxSearched)]
	if c.Directory != "" {
		more, err := c.Search(ctx, query)
		if err != nil {
			c.warn("the directory is left out: " + err.Error())
		}
		for _, p := range more {
			if !slices.ContainsFunc(providers, func(known Provider) bool { return known.Issuer == p.Issuer }) {
				providers = append(providers, p)
			}
		}
	}
	agents, err := c.Agents()
	if err != nil {
		return nil, err
	}
	var out []Found
	for _, p := range providers {
		list, err := c.List(ctx, p.Issuer, View{})
		if err != nil {
			c.warn(p.Issuer + " is left out: " + err.Error())
			continue
		}
		connected := slices.ContainsFunc(agents, func(a Agent) bool { return a.Issuer == p.Issuer && a.Status == "active" })
		for _, one := range list {
			if n := score(one, words); n > 0 {
				out = append(out, Found{p.Name, p.Issuer, one.Name, one.Description, p.Modes, connected, n})
			}
		}
	}
	sorting.Stable(out, func(a, b Found) int {
		if a.score == b.score && a.Connected != b.Connected {
			if a.Connected {
				return -1
			}
			return 1
		}
		return cmp.Or(b.score-a.score, strings.Compare(a.Name+" "+a.Issuer, b.Name+" "+b.Issuer))
	})
	return out[:min(len(out), min(cmp.Or(max(limit, 0), foundAtOnce), maxFound))], nil
}

// score is how well a capability fits: words in the name count twice. 0 is not at all.
func score(c Capability, words []string) (n int) {
	name, says := strings.ToLower(strings.ReplaceAll(c.Name, "_", " ")), strings.ToLower(c.Description)
	for _, w := range words {
		switch {
		case strings.Contains(name, w):
			n += 2
		case strings.Contains(says, w):
			n++
		}
	}
	return n
}
