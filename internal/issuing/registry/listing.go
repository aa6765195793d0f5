// Package registry knows agents by their cards: those that this server protects,
// and those that an operator registered. It answers who will do for a task, before
// anything is sent to anybody, and tells no caller of an agent that it may not see
// (CARD-19, EXT-40).
//
// # Acceptance
//
// The operator who registers a card accepts it. A source that answers with another
// card changes nothing: the new card waits, with its differences, until an operator
// accepts its digest. Answering from a changed card at once would mean that callers
// rely on it before anyone looked (ATK-53). Agents do not register themselves,
// because a card is only a claim. A session sees a protected agent if policy could
// grant it anything of that agent, and other listings if the operator names it.
package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/agentcard"
)

// ErrUnknown says that no agent of that name is listed, or none that the caller
// may see.
var ErrUnknown = errors.New("no agent of that name is in the registry")

// Refused is a request that cannot be done as it is, in words for who made it.
type Refused string

// Error implements error.
func (r Refused) Error() string { return string(r) }

func refused(format string, args ...any) error { return Refused(fmt.Sprintf(format, args...)) }

// everybody in VisibleTo lets every principal see a listing.
const everybody = "*"

// groupPrefix marks a group in VisibleTo.
const groupPrefix = "group:"

// Listing is an agent that an operator registered.
type Listing struct {
	ID        string          `json:"id"`
	Source    string          `json:"source,omitempty"`  // URL of the card; "" where the card was handed in
	Card      json.RawMessage `json:"card"`              // the one that was accepted, as it was written
	Keys      json.RawMessage `json:"keys,omitempty"`    // JWK Set of whom the card must be signed; nil asks for no signature
	KeyID     string          `json:"key_id,omitempty"`  // by which it is signed
	VisibleTo []string        `json:"visible_to"`        // principals, group:NAME, or *; none if empty
	Accepted  time.Time       `json:"accepted"`          // when an operator last accepted the card
	Looked    time.Time       `json:"looked"`            // when its source was last asked
	Tag       string          `json:"tag,omitempty"`     // entity tag of what came
	Failure   string          `json:"failure,omitempty"` // why the last look brought nothing usable
	Pending   json.RawMessage `json:"pending,omitempty"` // a card that says more, or less, than the accepted one, and waits
	Changes   []Change        `json:"changes,omitempty"` // from the accepted card to the pending one
	// Of a protected agent, which has nothing else here: the cards with which in
	// view something was issued, and the digest of the card of now.
	Agreed  []agreedCard `json:"agreed,omitempty"`
	Current string       `json:"current,omitempty"`
}

// Change is a difference between two cards.
type Change = agentcard.Change

// seenBy reports whether a principal may see the listing.
func (l Listing) seenBy(v Viewer) bool {
	if v.Operator {
		return true
	}
	if v.Principal == "" {
		return false
	}
	return slices.ContainsFunc(l.VisibleTo, func(who string) bool {
		group, isGroup := strings.CutPrefix(who, groupPrefix)
		return who == everybody || who == v.Principal || isGroup && slices.Contains(v.Groups, group)
	})
}

// Viewer is the caller.
type Viewer struct {
	Operator  bool
	Principal string
	Groups    []string
	// Sees reports whether the caller may be granted anything of a protected agent.
	Sees func(agent string) bool
}

const (
	maxVisible = 64
	maxName    = 64
)

// check refuses a listing that is no use.
func (l Listing) check() error {
	if !isName(l.ID) {
		return refused("id %.80q is no name; want letters a-z, digits and '-', at most %d", l.ID, maxName)
	}
	if len(l.VisibleTo) > maxVisible {
		return refused("visible_to has %d entries; want at most %d", len(l.VisibleTo), maxVisible)
	}
	for _, who := range l.VisibleTo {
		if who != everybody && !strings.Contains(who, ":") || who == groupPrefix || len(who) > 256 {
			return refused("visible_to has %.80q; want a principal such as user:alice, group:NAME, or *", who)
		}
	}
	if l.Source == "" {
		return nil
	}
	if u, err := url.Parse(l.Source); err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return refused("url %.200q is no URL of a card; want http or https, without a user", l.Source)
	}
	return nil
}

func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && s[0] != '-'
}

// nameOf makes a name of what an agent calls itself.
func nameOf(card agentcard.Card) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, card.Name())
	return strings.Trim(name[:min(len(name), maxName)], "-")
}

// readCard reads a card that can be relied on, and, where there are keys, is signed by
// one of them: only the signed part is then kept.
func readCard(raw, keys []byte) (card agentcard.Card, kept []byte, keyID string, err error) {
	if len(keys) > 0 {
		pinned, err := agentcard.ParseKeys(keys)
		if err != nil {
			return agentcard.Card{}, nil, "", refused("keys: %v", err)
		}
		signature, err := agentcard.Verify(raw, pinned)
		if err != nil {
			return agentcard.Card{}, nil, "", refused("%v", err)
		}
		raw, keyID = signature.Card, signature.KeyID
	}
	if card, err = agentcard.Parse(raw); err != nil {
		return agentcard.Card{}, nil, "", refused("%v", err)
	}
	return card, raw, keyID, nil
}
