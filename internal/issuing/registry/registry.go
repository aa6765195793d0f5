package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/trust"
)

// Reader reads one snapshot of the listings.
type Reader interface {
	// Listing returns a listing, or [issuer.ErrNotFound].
	Listing(id string) (Listing, error)
	// Listings returns all of them, in order of their names.
	Listings() ([]Listing, error)
}

// Tx changes them, with the records of it.
type Tx interface {
	Reader
	Append(evidence.Record) (evidence.Sealed, error)
	PutListing(l Listing) error
	// ForgetListing removes one that is there.
	ForgetListing(id string) error
}

// Store keeps listings.
type Store interface {
	UpdateRegistry(ctx context.Context, change func(Tx) error) error
	ViewRegistry(ctx context.Context, read func(Reader) error) error
}

// Protected is an agent of this server.
type Protected struct {
	ID   string
	URL  string                                    // public
	Card func(ctx context.Context) ([]byte, error) // as clients see it
}

// Cards fetches cards.
type Cards interface {
	GetChanged(ctx context.Context, address, accept, tag string) (body []byte, header http.Header, changed bool, err error)
}

// Config is what a registry needs. Every field is required.
type Config struct {
	Store     Store
	Protected func() []Protected
	Cards     Cards
	// Record makes the record of a change, by an operator.
	Record func(by string, of action.Type, details map[string]any) (evidence.Record, error)
	// Level is the trust that an agent has reached, by its name; "" where that is
	// not kept up to date. Asked is the same after Scores has brought it up to date,
	// for who searches by it.
	Level, Asked func(agent string) trust.Level
	Scores       func(ctx context.Context) error
	Now          func() time.Time
	Log          *slog.Logger
}

// Registry knows agents.
type Registry struct {
	config Config
	cards  CardReader
}

// maxListings bounds how many agents an operator can register.
const maxListings = 10000

// New returns a registry.
func New(c Config) (*Registry, error) {
	if err := missing.Fields("registry", c, "Store", "Protected", "Cards", "Record", "Level", "Asked", "Scores", "Now", "Log"); err != nil {
		return nil, err
	}
	return &Registry{config: c}, nil
}

// Offer is what an operator registers: the URL of a card, or a card.
type Offer struct {
	ID        string          `json:"id,omitempty"`
	URL       string          `json:"url,omitempty"`
	Card      json.RawMessage `json:"card,omitempty"`
	Keys      json.RawMessage `json:"keys,omitempty"`
	VisibleTo []string        `json:"visible_to,omitempty"`
}

// Register lists an agent. Anyone who registers an agent has accepted its card; of the
// same name another one takes the place of the first.
func (r *Registry) Register(ctx context.Context, by string, o Offer) (Entry, error) {
	l := Listing{ID: o.ID, Source: o.URL, Keys: o.Keys, VisibleTo: o.VisibleTo, Looked: r.config.Now()}
	if (o.URL == "") == (len(o.Card) == 0) {
		return Entry{}, refused("want either url, of a card, or card")
	}
	if err := (Listing{ID: "x", Source: o.URL, VisibleTo: o.VisibleTo}).check(); err != nil {
		return Entry{}, err
	}
	raw := []byte(o.Card)
	if o.URL != "" {
		body, header, _, err := r.config.Cards.GetChanged(ctx, o.URL, "application/json", "")
		if err != nil {
			return Entry{}, refused("the card cannot be read: %v", err)
		}
		raw, l.Tag = body, tagOf(header)
	}
	card, kept, keyID, err := readCard(raw, o.Keys)
	if err != nil {
		return Entry{}, err
	}
	l.ID, l.Card, l.KeyID, l.Accepted = cmp.Or(l.ID, nameOf(card)), kept, keyID, r.config.Now()
	if err := l.check(); err != nil {
		return Entry{}, err
	}
	if slices.ContainsFunc(r.config.Protected(), func(p Protected) bool { return p.ID == l.ID }) {
		return Entry{}, refused("%q is an agent that this server protects; want another id", l.ID)
	}
	e, err := r.entry(l)
	if err != nil {
		return Entry{}, err
	}
	return e, r.change(ctx, by, action.RegistryRegister, l, card.Digest(), func(tx Tx) error {
		all, err := tx.Listings()
		if err != nil {
			return err
		}
		if len(all) >= maxListings && !slices.ContainsFunc(all, func(other Listing) bool { return other.ID == l.ID }) {
			return refused("%d agents are registered, which is the most", maxListings)
		}
		return tx.PutListing(l)
	})
}

// change makes a change with its record.
func (r *Registry) change(ctx context.Context, by string, of action.Type, l Listing, digest string, change func(Tx) error) error {
	record, err := r.config.Record(by, of, map[string]any{"agent": l.ID, "source": l.Source, "card_digest": digest, "visible_to": l.VisibleTo})
	if err != nil {
		return err
	}
	return r.config.Store.UpdateRegistry(ctx, func(tx Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		_, err := tx.Append(record)
		return err
	})
}

// Forget removes a listing.
func (r *Registry) Forget(ctx context.Context, by, id string) error {
	l, err := r.listing(ctx, id)
	if err != nil {
		return err
	}
	return r.change(ctx, by, action.RegistryForget, l, "", func(tx Tx) error { return known(tx.ForgetListing(id)) })
}

// Accept takes the card that waits as the listing's own (ATK-53): until then every
// answer is about the card that was accepted before.
func (r *Registry) Accept(ctx context.Context, by, id, digest string) (Entry, error) {
	l, err := r.listing(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	if l.Pending == nil {
		return Entry{}, refused("no other card of %q waits", id)
	}
	card, kept, keyID, err := readCard(l.Pending, l.Keys)
	if err != nil {
		return Entry{}, err
	}
	l.Card, l.KeyID, l.Accepted, l.Pending, l.Changes = kept, keyID, r.config.Now(), nil, nil
	e, err := r.entry(l)
	if err != nil {
		return Entry{}, err
	}
	return e, r.change(ctx, by, action.RegistryAccept, l, digest, func(tx Tx) error {
		now, err := tx.Listing(id)
		if err != nil {
			return known(err)
		}
		other, err := agentcard.Parse(now.Pending)
		if err != nil {
			return refused("no other card of %q waits any more", id)
		}
		if waits := other.Digest(); waits != digest || waits != card.Digest() {
			return refused("the card that waits has the digest %s and not %.100q; look at it again", waits, digest)
		}
		return tx.PutListing(l)
	})
}

// Refresh asks the source of a listing for its card. A card that says something else
// waits for an operator, whatever it says.
func (r *Registry) Refresh(ctx context.Context, id string) (Entry, error) {
	l, err := r.listing(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	if l.Source == "" {
		return Entry{}, refused("%q was registered with its card and has no URL to ask; register it again", id)
	}
	looked, err := r.look(ctx, l)
	if err != nil {
		return Entry{}, err
	}
	e, err := r.entry(looked)
	if err != nil {
		return Entry{}, err
	}
	return e, r.config.Store.UpdateRegistry(ctx, func(tx Tx) error {
		now, err := tx.Listing(id)
		if err != nil {
			return known(err)
		}
		if !slices.Equal(now.Card, l.Card) || now.Source != l.Source {
			return nil // another one was registered or accepted meanwhile
		}
		return tx.PutListing(looked)
	})
}

// look asks the source, and says in the listing what came.
func (r *Registry) look(ctx context.Context, l Listing) (Listing, error) {
	body, header, changed, err := r.config.Cards.GetChanged(ctx, l.Source, "application/json", l.Tag)
	l.Looked, l.Failure = r.config.Now(), ""
	if err != nil {
		l.Failure = err.Error()
		return l, nil //nolint:nilerr // the listing says so
	}
	if !changed {
		return l, nil
	}
	card, kept, _, err := readCard(body, l.Keys)
	if err != nil {
		l.Failure = err.Error()
		return l, nil //nolint:nilerr // the same
	}
	before, err := agentcard.Parse(l.Card)
	if err != nil {
		return Listing{}, err
	}
	l.Tag, l.Pending, l.Changes = tagOf(header), nil, nil
	if card.Digest() != before.Digest() {
		l.Pending, l.Changes = kept, agentcard.DiffCards(before, card)
	}
	return l, nil
}

func tagOf(header http.Header) string { return header.Get("Etag") }

// RefreshAll asks every source, one after the other, until ctx ends.
func (r *Registry) RefreshAll(ctx context.Context) {
	var all []Listing
	err := r.config.Store.ViewRegistry(ctx, func(rd Reader) (err error) { all, err = rd.Listings(); return err })
	for _, l := range all {
		if l.Source == "" || ctx.Err() != nil {
			continue
		}
		if _, wrong := r.Refresh(ctx, l.ID); wrong != nil {
			err = errors.Join(err, wrong)
		}
	}
	if err != nil && ctx.Err() == nil {
		r.config.Log.WarnContext(ctx, "cards of registered agents were not all looked at", slog.Any("error", err))
	}
}

func (r *Registry) listing(ctx context.Context, id string) (Listing, error) {
	var l Listing
	err := r.config.Store.ViewRegistry(ctx, func(rd Reader) (err error) { l, err = rd.Listing(id); return err })
	if err == nil && len(l.Agreed) > 0 {
		err = ErrUnknown // of a protected agent, whose card is not registered
	}
	return l, known(err)
}

func known(err error) error {
	if errors.Is(err, issuer.ErrNotFound) {
		return ErrUnknown
	}
	return err
}

func (r *Registry) entry(l Listing) (Entry, error) {
	card, err := r.cards.Parse(l.Card)
	if err != nil {
		return Entry{}, err
	}
	e, err := entryOf(l.ID, l.Card, card)
	if l.Pending != nil {
		other, wrong := r.cards.Parse(l.Pending)
		if wrong != nil {
			return Entry{}, wrong
		}
		e.Waiting = other.Digest()
	}
	e.Card, e.KeyID, e.Changed, e.Failure, e.Trust = l.Source, l.KeyID, l.Changes, l.Failure, r.config.Level(l.ID)
	return e, err
}

// Search returns the agents that a viewer may see and that have what the query wants,
// in order of their names.
func (r *Registry) Search(ctx context.Context, v Viewer, q Query) ([]Entry, error) {
	found, level := []Entry{}, r.config.Level
	if q.Trust != "" {
		if err := r.config.Scores(ctx); err != nil {
			return nil, err
		}
		level = r.config.Asked
	}
	for _, p := range r.config.Protected() {
		if !v.Operator && (v.Principal == "" || v.Sees == nil || !v.Sees(p.ID)) {
			continue
		}
		e, ok := r.protected(ctx, p)
		e.Trust = level(p.ID)
		if ok && q.matches(e) {
			found = append(found, e)
		}
	}
	var all []Listing
	if err := r.config.Store.ViewRegistry(ctx, func(rd Reader) (err error) { all, err = rd.Listings(); return err }); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l Listing) bool { return len(l.Agreed) > 0 }) // they were above
	for _, l := range all {
		if !l.seenBy(v) {
			continue
		}
		e, err := r.entry(l)
		if err != nil {
			return nil, err
		}
		e.Trust = level(l.ID)
		if !v.Operator {
			e.Failure, e.Changed, e.Waiting = "", nil, ""
		}
		if q.matches(e) {
			found = append(found, e)
		}
	}
	sorting.Sort(found, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

// Agent returns one of them.
func (r *Registry) Agent(ctx context.Context, v Viewer, id string) (Entry, error) {
	all, err := r.Search(ctx, v, Query{})
	if err != nil {
		return Entry{}, err
	}
	i := slices.IndexFunc(all, func(e Entry) bool { return e.ID == id })
	if i < 0 {
		return Entry{}, ErrUnknown
	}
	return all[i], nil
}

// protected is an agent of this server; false where its card cannot be had, or not
// relied on.
func (r *Registry) protected(ctx context.Context, p Protected) (Entry, bool) {
	raw, err := p.Card(ctx)
	if err != nil {
		return Entry{}, false
	}
	card, err := r.cards.Parse(raw)
	if err != nil {
		return Entry{}, false
	}
	e, err := entryOf(p.ID, raw, card)
	e.Protected, e.URL, e.Card, e.Trust = true, p.URL, p.URL+"/.well-known/agent-card.json", r.config.Level(p.ID)
	return e, err == nil
}
