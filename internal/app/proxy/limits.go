package proxy

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/token"
)

// Behind returns where outcomes are recorded behind answers, nil if the operator did not choose
// so.
func Behind(c *config.Config) *gate.Behind {
	if c.Evidence.Outcome != "behind" {
		return nil
	}
	return &gate.Behind{}
}

// pushAddress says why events may not be posted to an address.
func pushAddress(ctx context.Context, address string, private bool) error {
	return pushPolicy(private).Check(ctx, address)
}

func pushPolicy(private bool) outbound.Policy {
	if private {
		return outbound.Policy{AllowLoopback: true, AllowPrivate: outbound.PrivateNetworks()}
	}
	return outbound.Policy{}
}

// poster posts events, under the policy that their addresses are checked by.
func poster() func(ctx context.Context, address string, private bool, header http.Header, body []byte) (int, error) {
	clients := map[bool]*outbound.Client{false: outbound.New(pushPolicy(false)), true: outbound.New(pushPolicy(true))}
	return func(ctx context.Context, address string, private bool, header http.Header, body []byte) (int, error) {
		return clients[private].Deliver(ctx, address, header, body)
	}
}

// Network is how a gateway reaches agents, and hosts that only their cards name.
func Network(agents, strangers *outbound.Client) gateway.Network {
	return gateway.Network{
		Transport: agents.Transport(), HTTP2: agents.HTTP2(), Public: strangers.Transport(), PublicHTTP2: strangers.HTTP2(),
		PushAddress: pushAddress, PushPost: poster(),
	}
}

// QueueOf is where the calls of one process wait to be decided.
func QueueOf(c config.Limits, now func() time.Time) *shed.Queue {
	places := c.Deciding
	if places == 0 {
		places = max(minPlaces, placesEach*runtime.GOMAXPROCS(0))
	}
	return shed.New(shed.Config{Places: places, Wait: c.QueueTime, Now: now})
}

// The places of a queue where none are configured: as many as keep the processors and a
// slow disk busy.
const minPlaces, placesEach = 128, 32

// IssuePatience is longer than the store itself waits, so that its own answer comes first
// where it has one: a request makes several changes, and asks more than the store.
func IssuePatience(dependency time.Duration) time.Duration { return 2*dependency + time.Second }

// LimitsOf returns the limits on the callers of a gateway.
func LimitsOf(c *config.Config, q *shed.Queue) gateway.Limits {
	return gateway.Limits{
		Queue: q, Patience: IssuePatience(c.Limits.DependencyTime),
		BodyLimit: int(c.Defaults.BodyLimit), BodyTime: c.Limits.BodyTime, Streams: c.Limits.Streams, Denials: c.Limits.Denials, Rate: c.Defaults.RequestRate,
	}
}

// Redaction returns the function that makes the recorded form of arguments: nothing,
// everything, or their names with the kind of each value.
func Redaction(how string) func(powerbox.Value) []byte {
	switch how {
	case "none":
		return func(powerbox.Value) []byte { return nil }
	case "full":
		return func(v powerbox.Value) []byte { return v.AppendJSON(nil) }
	}
	return func(v powerbox.Value) []byte {
		members, _ := v.Members()
		kinds := make([]powerbox.Member, len(members))
		for n, m := range members {
			kinds[n] = powerbox.Member{Name: m.Name, Value: powerbox.String(m.Value.Kind().String())}
		}
		return powerbox.Object(kinds...).AppendJSON(nil)
	}
}

// DraftsOf are the chains that a configuration accepts.
func DraftsOf(c *config.Config) gate.Drafts {
	return gate.Drafts{Old: slices.Contains(c.Issuer.TokenDrafts, token.Draft01.String()), Strict: c.Issuer.TokenStrict}
}

// RecordIDs makes the ids of records.
func RecordIDs(now func() time.Time) func() (string, error) {
	return func() (string, error) {
		id, err := ulid.New(ulid.Timestamp(now()), rand.Reader)
		return "rec_" + strings.ToLower(id.String()), err
	}
}

// SealerFor seals for one use, under a key that is derived from that of handles, which all
// nodes and all gateways of an agent have.
func SealerFor(handleKey []byte, use string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, handleKey, nil, use, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Bounds of the memory of one process.
const (
	MemoBytes     = 64 << 20
	ReplayEntries = 1 << 20
)

// GatewayListen is where a gateway listens unless told otherwise.
const GatewayListen = "127.0.0.1:8701"
