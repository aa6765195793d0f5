package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Agreed keeps the cards with which in view capabilities of protected agents were
// issued, and has those stop whose agent's card says more since, until someone
// consents (CARD-13, ATK-53). The stored cards of an agent are where listings are,
// under its name, which no listing can have. Its methods can be called by many
// goroutines.
type Agreed struct {
	Store Store // required
	// Stop has the capabilities stop that were issued under a card, and Go has them
	// continue. Both are done again where that is so already. Required.
	Stop, Go func(ctx context.Context, agent, digest, reason string) error
	// Current is told which card an agent has now. Required.
	Current func(agent, digest string)

	mu   sync.Mutex
	last map[string]string // digest by agent, of what this process has seen to
}

// maxAgreed is how many cards of an agent are kept. A capability issued under an older
// one stops, and is asked for anew.
const maxAgreed = 32

// agreedCard is a card with which in view capabilities were issued.
type agreedCard struct {
	Digest string `json:"digest"`
	Card   []byte `json:"card"`
	// Stopped says by which changes the card that the agent has now is wider; none
	// where it is not, or where someone consented.
	Stopped []Change `json:"stopped,omitempty"`
	// Consented is the digest of the wider card with which capabilities issued under this
	// one may continue, since someone said so; "" for none.
	Consented string `json:"consented,omitempty"`
}

// Stopped is what stopped at an agent since its card widened.
type Stopped struct {
	Issued  string   `json:"issued_under"` // digest of the card
	Changes []Change `json:"changes"`      // from that one to the card of now
}

// seenTries is how often a card is taken note of anew because another node took note of
// one meanwhile.
const seenTries = 8

// errOthers is why a card could not be taken note of: other nodes see others all the
// time, or the agent has several.
var errOthers = errors.New("registry: other nodes see other cards of the agent all the time; does it have several?")

// Seen takes note of the card that an agent has now, before anything is done by it:
// when it returns nil, capabilities issued under narrower cards have stopped, also where
// another node saw another card meanwhile.
func (a *Agreed) Seen(ctx context.Context, agent string, raw []byte) error {
	digest := digestOf(raw)
	a.mu.Lock()
	defer a.mu.Unlock() // one after the other: stops follow the seen cards
	for range seenTries {
		was, err := a.read(ctx, agent)
		if err != nil || a.last[agent] == digest && was.Current == digest { // no other node saw another one since
			return err
		}
		done, err := a.sees(ctx, was, digest, raw)
		if err != nil {
			return err
		}
		if done {
			if a.last == nil {
				a.last = map[string]string{}
			}
			a.last[agent] = digest
			a.Current(agent, digest)
			return nil
		}
	}
	return errOthers
}

// sees takes note of a card, and returns false if the stored state of the agent
// changed meanwhile. Cards are compared before the transaction, which all
// nodes wait for.
func (a *Agreed) sees(ctx context.Context, was Listing, digest string, raw []byte) (bool, error) {
	if gone := was.forgets(digest); gone != "" {
		// No node watches it any more, so that it stops for good.
		if err := a.Stop(ctx, was.ID, gone, fmt.Sprintf("%d other cards came since", maxAgreed)); err != nil {
			return false, err
		}
	}
	next := was
	next.Agreed = slices.Clone(was.Agreed)
	if next.becomes(digest, raw) {
		same := false
		err := a.Store.UpdateRegistry(ctx, func(tx Tx) error {
			now, err := listed(tx, was.ID)
			if same = err == nil && reflect.DeepEqual(now, was); !same {
				return err
			}
			return tx.PutListing(next)
		})
		if err != nil || !same {
			return false, err
		}
	}
	if err := a.follow(ctx, was.ID, next.Agreed, "the card says no more than when this was granted"); err != nil {
		return false, err
	}
	// Who let something continue that another node stopped meanwhile stops it again.
	after, err := a.read(ctx, was.ID)
	return err == nil && after.Current == digest, err
}

// forgets is the digest of the card that makes room for another one, "" for none.
func (l *Listing) forgets(digest string) string {
	if len(l.Agreed) < maxAgreed || slices.ContainsFunc(l.Agreed, func(k agreedCard) bool { return k.Digest == digest }) {
		return ""
	}
	return l.Agreed[0].Digest
}

// becomes notes which card the agent of l has now, and what stops with it. It returns
// false where that was on record.
func (l *Listing) becomes(digest string, raw []byte) bool {
	now := agreedCard{Digest: digest, Card: raw}
	if at := slices.IndexFunc(l.Agreed, func(k agreedCard) bool { return k.Digest == digest }); at >= 0 {
		if l.Current == digest {
			return false
		}
		now = l.Agreed[at]
		l.Agreed = slices.Delete(l.Agreed, at, at+1) // the first is the one that was longest not seen
	}
	l.Agreed = append(l.Agreed, now)
	if len(l.Agreed) > maxAgreed {
		l.Agreed = l.Agreed[1:]
	}
	is := lintCard(raw)
	for i, k := range l.Agreed {
		l.Agreed[i].Stopped = nil
		if k.Consented != digest {
			l.Agreed[i].Stopped = widened(lintCard(k.Card), is)
		}
	}
	l.Current = digest
	return true
}

// Load takes over which cards agents have as another node saw them.
func (a *Agreed) Load(ctx context.Context, agents []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, agent := range agents {
		l, err := a.read(ctx, agent)
		if err != nil {
			return err
		}
		if l.Current != "" {
			a.Current(agent, l.Current)
		}
	}
	a.last = nil // the other node may have ended before it saw to what stops
	return nil
}

// lintedCard is a card that was read, with its digest. A card that is no good has one, too.
type lintedCard struct {
	card   agentcard.Card
	relied bool
	digest string
}

func lintCard(raw []byte) lintedCard {
	card, problems := agentcard.Lint(raw, false)
	c := lintedCard{card, agentcard.Relied(problems), fmt.Sprintf("sha256:%x", sha256.Sum256(raw))}
	if c.relied && card.Digest() != "" {
		c.digest = card.Digest()
	}
	return c
}

func digestOf(raw []byte) string { return lintCard(raw).digest }

// widened are the changes by which a card offers or reaches more than another one.
// A change that cannot be judged does.
func widened(was, is lintedCard) []Change {
	if was.digest == is.digest {
		return nil
	}
	if !was.relied || !is.relied {
		return []Change{{Kind: agentcard.Widens, Subject: "card", Message: "cannot be relied on, as powerbox card lint says, and is another one"}}
	}
	return slices.DeleteFunc(agentcard.DiffCards(was.card, is.card), func(c Change) bool { return c.Kind != agentcard.Widens })
}

// follow stops the capabilities that must stop, and lifts freezes that are not needed any more, also where
// that broke off before. Anything that is not kept any more stays as it is.
func (a *Agreed) follow(ctx context.Context, agent string, all []agreedCard, again string) error {
	for _, k := range all {
		var err error
		if len(k.Stopped) > 0 {
			err = a.Stop(ctx, agent, k.Digest, "the card says more than when this was granted: "+inWords(k.Stopped))
		} else {
			err = a.Go(ctx, agent, k.Digest, again)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inWords is what changed, within the length of a reason.
func inWords(changes []Change) string {
	var all []string
	for _, c := range changes[:min(len(changes), 8)] {
		all = append(all, c.Subject+" "+c.Message)
	}
	text := strings.Join(all, "; ")
	return strings.ToValidUTF8(text[:min(len(text), 800)], "")
}

func (a *Agreed) read(ctx context.Context, agent string) (Listing, error) {
	var l Listing
	err := a.Store.ViewRegistry(ctx, func(r Reader) (err error) { l, err = listed(r, agent); return err })
	return l, err
}

func listed(r Reader, agent string) (Listing, error) {
	l, err := r.Listing(agent)
	if errors.Is(err, issuer.ErrNotFound) {
		return Listing{ID: agent}, nil
	}
	return l, err
}

// Waiting returns the digest of the card that an agent has now, and what stopped
// since it says more.
func (a *Agreed) Waiting(ctx context.Context, agent string) (digest string, stopped []Stopped, err error) {
	l, err := a.read(ctx, agent)
	if err != nil {
		return "", nil, err
	}
	for _, k := range l.Agreed {
		if len(k.Stopped) > 0 {
			stopped = append(stopped, Stopped{k.Digest, k.Stopped})
		}
	}
	return l.Current, stopped, nil
}

// Consent has everything continue that stopped since the agent's card widened, with
// the card of that digest in view and no other.
func (a *Agreed) Consent(ctx context.Context, agent, digest, by string) (stopped []Stopped, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var l Listing
	// First on record that someone consented: a stop that stays is the safe half.
	err = a.Store.UpdateRegistry(ctx, func(tx Tx) error {
		if l, err = listed(tx, agent); err != nil {
			return err
		}
		stopped = nil
		for i, k := range l.Agreed {
			if len(k.Stopped) > 0 {
				stopped = append(stopped, Stopped{k.Digest, k.Stopped})
				l.Agreed[i].Stopped, l.Agreed[i].Consented = nil, digest
			}
		}
		switch {
		case len(stopped) == 0:
			return refused("nothing of agent %q waits for consent", agent)
		case digest != l.Current:
			return refused("the card of agent %q has the digest %s and not %.100q; look at it again", agent, l.Current, digest)
		}
		return tx.PutListing(l)
	})
	if err != nil {
		return nil, err
	}
	return stopped, a.follow(ctx, agent, l.Agreed, by+" consented to the card "+digest)
}
