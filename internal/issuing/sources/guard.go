package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Source asks one system.
type Source interface {
	// Page returns a page of the resources of the collection that the principal may use in
	// the way of the action. A resource needs neither agent nor collection. The error has no
	// text of others.
	Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error)
}

// Bounds of one page.
const (
	maxItems = catalogue.MaxPage
	maxNext  = 2 << 10 // bytes of a cursor of a source
)

// Settings are those of a collection.
type Settings struct {
	Prefix  string        // before the ids of the source, so that ids are unique within the agent
	Timeout time.Duration // of one call
	Fresh   time.Duration // how long a page is kept; 0 for not at all
	Calls   int           // most calls at once
	Now     func() time.Time
	Log     *slog.Logger
}

// Guarded holds a source to its bounds. It implements [issuer.Source].
type Guarded struct {
	source  Source
	set     Settings
	turns   chan struct{}
	flights singleflight.Group
	kept    kept
}

// Guard returns the guarded source.
func Guard(s Source, set Settings) *Guarded {
	return &Guarded{source: s, set: set, turns: make(chan struct{}, max(1, set.Calls)), kept: kept{fresh: set.Fresh, now: set.Now}}
}

// Page implements [issuer.Source]. One call serves all who ask the same at the same time.
func (g *Guarded) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	key := keyOf(q)
	if p, ok := g.kept.get(key); ok {
		return p, nil
	}
	flight := g.flights.DoChan(key, func() (any, error) {
		// The call is not that of one caller: if one leaves, the others still wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.set.Timeout)
		defer cancel()
		p, err := g.ask(ctx, q)
		if err == nil {
			g.kept.put(key, p)
		}
		return p, err
	})
	select {
	case r := <-flight:
		p, _ := r.Val.(catalogue.Page)
		return p, r.Err
	case <-ctx.Done():
		return catalogue.Page{}, fmt.Errorf("%w: %w", issuer.ErrSource, ctx.Err())
	}
}

// keyOf has one reading: the selection is JSON, in which no NUL stands.
func keyOf(q catalogue.Question) string {
	return strings.Join([]string{q.Query.Selection(), fmt.Sprintf("%q %q %q", q.Principal, q.Action, q.After)}, "\x00")
}

func (g *Guarded) ask(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	select {
	case g.turns <- struct{}{}:
		defer func() { <-g.turns }()
	case <-ctx.Done():
		return catalogue.Page{}, g.failed(q, errors.New("too many calls at once"))
	}
	p, err := g.source.Page(ctx, q)
	switch {
	case ctx.Err() != nil:
		return catalogue.Page{}, g.failed(q, fmt.Errorf("no answer within %s", g.set.Timeout))
	case err != nil:
		return catalogue.Page{}, g.failed(q, err)
	case len(p.Items) > maxItems:
		return catalogue.Page{}, g.failed(q, fmt.Errorf("a page has more than %d resources", maxItems))
	case len(p.Next) > maxNext || !utf8.ValidString(p.Next):
		return catalogue.Page{}, g.failed(q, fmt.Errorf("a cursor is no text of at most %d bytes", maxNext))
	case p.Next != "" && p.Next == q.After:
		return catalogue.Page{}, g.failed(q, errors.New("the pages do not end: a page names itself as the next"))
	}
	return g.admit(q, p), nil
}

// admit leaves the resources that are as declared. One bad row does not hide the others.
func (g *Guarded) admit(q catalogue.Question, p catalogue.Page) catalogue.Page {
	out, seen := catalogue.Page{Next: p.Next}, map[string]bool{}
	left, reason := 0, error(nil)
	for _, item := range p.Items {
		item.Agent, item.Collection = q.Collection.Agent, q.Collection.Name
		if item.ID != "" {
			item.ID = g.set.Prefix + item.ID
		}
		if seen[item.ID] {
			continue
		}
		if err := q.Collection.Admit(item); err != nil {
			left, reason = left+1, err
			continue
		}
		seen[item.ID] = true
		out.Items = append(out.Items, item)
	}
	if left > 0 {
		g.set.Log.Warn("a source returned resources that are not as declared; they are left out", "agent", q.Collection.Agent, "collection", q.Collection.Name, "count", left, "reason", kindOf(reason))
	}
	return out
}

// kindOf names the broken rule without the value that breaks it.
func kindOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), " is \"")
	if before, _, quoted := strings.Cut(text, `"`); quoted {
		text = before
	}
	return strings.TrimSpace(text)
}

func (g *Guarded) failed(q catalogue.Question, err error) error {
	g.set.Log.Error("the source of a live collection failed; requests for its resources are refused", "agent", q.Collection.Agent, "collection", q.Collection.Name, "error", err)
	return issuer.ErrSource
}
