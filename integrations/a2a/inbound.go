package powerboxa2a

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// HeaderContext carries what the gateway in front has signed about a request.
const HeaderContext = "Powerbox-Context"

// Config says behind which gateway an agent is.
type Config struct {
	// URL is the agent's public URL, which is the gateway's: the issuer of
	// contexts. Required.
	URL string
	// ID is the agent's id at its gateway: the audience of contexts. Required.
	ID string
	// Now is the clock. Required.
	Now func() time.Time
	// HTTP fetches the gateway's keys and the agent's card from it. Required
	// unless Keys and Skills are given.
	HTTP *http.Client
	// Keys are those under which the gateway signs contexts. Optional: they are
	// fetched from below URL, and again every minute.
	Keys token.KeySet
	// Skills say what operation each skill of the agent is. Optional: they are
	// read from the card at the gateway, and again every minute.
	Skills map[string]holder.Skill
	// Enforces says that the executor asks [Task.Permits] before every effect
	// that words ask it for, as enforces: context says so to the gateway. Where
	// it is false, free text is refused under a capability that holds operations
	// to arguments, since nothing would hold the text to them.
	Enforces bool
	// RequireCapability refuses calls that the gateway has let through without a
	// capability, as it does in the modes observe, scoped and prefer.
	RequireCapability bool
	// Holder is the key to which others delegate what the agent is to use for
	// them. Optional: without it, [Task.Wallet] receives nothing.
	Holder token.PublicKey
	// Log gets the refused calls. Optional: slog.Default.
	Log *slog.Logger
}

// Inbound is the side of an agent on which it is called.
type Inbound struct {
	config Config
	keys   *fetched[token.KeySet]
	skills *fetched[map[string]holder.Skill]

	used  *gate.Memory // of contexts
	began time.Time    // since when they are remembered, in whole seconds as contexts have them
}

// maxUsed bounds how many contexts are remembered as used. Each is of the gateway.
const maxUsed = 1 << 20

// NewInbound returns the inbound side of an agent. It fetches nothing yet, so
// that agent and gateway can be started in any order. Calls of the second in which
// it began are refused: the process before it may have executed them.
func NewInbound(c Config) (*Inbound, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("powerbox: Config.URL is %q; want the agent's http or https URL at its gateway", c.URL)
	case c.ID == "":
		return nil, errors.New("powerbox: Config.ID is missing; want the agent's id at its gateway")
	case c.Now == nil:
		return nil, errors.New("powerbox: Config.Now is missing; want the clock")
	case c.HTTP == nil && (c.Keys.Len() == 0 || c.Skills == nil):
		return nil, errors.New("powerbox: Config.HTTP is missing; it fetches what is not given of Keys and Skills")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Inbound{config: c, keys: newKeys(c), skills: newSkills(c), used: gate.NewMemory(maxUsed), began: c.Now().Truncate(time.Second).Add(time.Second)}, nil
}

// errContext is why a request is refused before anything is decided about it.
type errContext struct {
	code powerbox.Code
	text string
}

func (e *errContext) Error() string { return e.text }

// admit verifies that a request came from the gateway, and uses its context
// up: one that is seen again is a copy of it.
func (in *Inbound) admit(ctx context.Context, compact string, body []byte) (*Task, error) {
	keys, err := in.keySet(ctx, false)
	if err != nil {
		return nil, err
	}
	now := in.config.Now()
	verified, err := token.VerifyContext(compact, keys, in.config.ID, now, body)
	if wrong := (*token.Error)(nil); errors.As(err, &wrong) && wrong.Code == token.CodeUnknownKey {
		if keys, err = in.keySet(ctx, true); err == nil {
			verified, err = token.VerifyContext(compact, keys, in.config.ID, now, body)
		}
	}
	if err != nil {
		return nil, err
	}
	if verified.Issuer != in.config.URL {
		return nil, &errContext{token.CodeIssuer, fmt.Sprintf("the context is of issuer %q; want %q", verified.Issuer, in.config.URL)}
	}
	if verified.IssuedAt.Before(in.began) {
		return nil, &errContext{"context_before_start", "the context was made before this process began, so it may have been used; repeat the call"}
	}
	if sum := token.ContextID(compact); !in.used.Use(string(sum[:]), verified.Expires, now) {
		return nil, &errContext{"context_replayed", "the context was used before; it serves for one request"}
	}
	return in.newTask(verified), nil
}

func (in *Inbound) keySet(ctx context.Context, anew bool) (token.KeySet, error) {
	if in.config.Keys.Len() > 0 {
		return in.config.Keys, nil
	}
	return in.keys.get(ctx, anew)
}

// skillSet is what the agent's skills are in its authority.
func (in *Inbound) skillSet(ctx context.Context) (map[string]holder.Skill, error) {
	if in.config.Skills != nil {
		return in.config.Skills, nil
	}
	return in.skills.get(ctx, false)
}
