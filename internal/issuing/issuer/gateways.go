package issuer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// Gateway is a remote gateway, in front of one agent.
type Gateway struct {
	ID       string          // also the name of its recorder, such as gw_01j...
	Agent    string          // whose gateway it is
	Key      signed.Public   // by which it speaks to the server
	Record   evidence.Key    // that signs its records
	Context  json.RawMessage // JWK of the key that signs what the agent behind is told
	Enrolled time.Time
	Closed   time.Time // from when it is believed no more; zero while it is open
}

// The bounds of tokens that enrol a gateway.
const (
	maxTokenLife = 24 * time.Hour
	// tokenPrefix is the type of the tokens. Nothing else begins so (ATK-36).
	tokenPrefix = "pbgw1_"
)

// tokenHash is the stored form of a token: never the token itself, and never what
// another kind of token could hash to.
func tokenHash(secret string) [32]byte {
	return sha256.Sum256([]byte("powerbox gateway token\x00" + secret))
}

// GatewayToken makes a token that enrols one gateway of an agent, once, within
// its time. It is shown once and stored as a hash. It holds the fingerprint of
// the server's key, by which the gateway knows the server.
func (i *Issuer) GatewayToken(ctx context.Context, operator, agent string, life time.Duration, server signed.Public) (text string, expires time.Time, err error) {
	if _, ok := i.all()[agent]; !ok {
		return "", expires, noTarget("no agent %q is protected here", agent)
	}
	if life <= 0 || life > maxTokenLife {
		return "", expires, noTarget("a token for %v; want a time up to %v", life, maxTokenLife)
	}
	secret := make([]byte, 32)
	i.mu.Lock()
	_, err = io.ReadFull(i.random, secret)
	i.mu.Unlock()
	if err != nil {
		return "", expires, fmt.Errorf("issuer: making a token: %w", err)
	}
	text = base64.RawURLEncoding.EncodeToString(secret)
	expires = i.config.Now().Add(life).UTC().Truncate(time.Second)
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: operator}, action.GatewayToken, evidence.Intent{
		Operation: OperationCapability, Details: details(map[string]any{"agent": agent, "expires": expires.Format(time.RFC3339)}),
	})
	if err != nil {
		return "", expires, err
	}
	record.OutcomeStatus = evidence.Achieved
	hash := tokenHash(text)
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		if err := tx.PutGatewayToken(hash, agent, expires); err != nil {
			return err
		}
		_, err := tx.Append(record)
		return err
	})
	return tokenPrefix + server.ID() + "." + text, expires, err
}

// IsGatewayToken reports whether a text is a token that enrols a gateway, or was one.
func IsGatewayToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// SplitGatewayToken returns the fingerprint of the server's key and the secret.
func SplitGatewayToken(text string) (fingerprint, secret string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	fingerprint, secret, both := strings.Cut(rest, ".")
	return fingerprint, secret, ok && both && fingerprint != "" && secret != ""
}

// Enroll makes a gateway known by its keys, for the secret of a token, which is
// used up. The enrolment is a record in the issuer's own chain, so that a
// recorder that is left out of the evidence can be noticed.
func (i *Issuer) Enroll(ctx context.Context, secret string, record evidence.Key, g Gateway) (Gateway, error) {
	var err error
	if g.ID, err = i.NewID("gw_"); err != nil {
		return Gateway{}, err
	}
	g.Enrolled, g.Closed = i.config.Now().UTC().Truncate(time.Second), time.Time{}
	if want := i.config.Algorithm; want == evidence.MLDSA87 && record.Algorithm != want {
		return Gateway{}, noTarget("its records would be signed by %s, and the retention here needs %s; enroll with --algorithm %s", record.Algorithm, want, want)
	}
	g.Record = record.For(g.ID)
	refused, known := false, ""
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		var err error
		if g.Agent, err = tx.UseGatewayToken(tokenHash(secret), i.config.Now()); err != nil {
			refused = errors.Is(err, ErrNotFound)
			return err
		}
		if known, err = openWithKey(tx, g); err != nil || known != "" {
			return errors.Join(err, errKnownKey)
		}
		if err := tx.PutGateway(g); err != nil {
			return err
		}
		record, err := i.gatewayRecord("gateway", action.GatewayEnroll, g, nil)
		if err != nil {
			return err
		}
		_, err = tx.Append(record)
		return err
	})
	if refused {
		return Gateway{}, noTarget("the token is unknown, was used or has expired; have an operator make a new one with powerbox gateway token")
	}
	if known != "" {
		return Gateway{}, noTarget("the key is that of gateway %s; have an operator end it with powerbox gateway close %s, or enroll with another --state", known, known)
	}
	return g, err
}

var errKnownKey = errors.New("another gateway has the key")

// openWithKey is the open gateway that has the key of g, "" for none: requests
// are told apart by their key.
func openWithKey(tx LogReader, g Gateway) (string, error) {
	all, err := tx.Gateways()
	for _, other := range all {
		if other.Closed.IsZero() && other.Key.ID() == g.Key.ID() {
			return other.ID, err
		}
	}
	return "", err
}

// CloseGateway ends a gateway: nothing of it is believed from now on.
func (i *Issuer) CloseGateway(ctx context.Context, operator, id string) (Gateway, error) {
	var closed Gateway
	err := i.config.Store.Update(ctx, func(tx Tx) error {
		closed = Gateway{} // it may run again
		all, err := tx.Gateways()
		if err != nil {
			return err
		}
		for _, g := range all {
			if g.ID == id && g.Closed.IsZero() {
				closed = g
			}
		}
		if closed.ID == "" {
			return noTarget("no open gateway %q is enrolled", id)
		}
		closed.Closed = i.config.Now().UTC().Truncate(time.Second)
		if err := tx.PutGateway(closed); err != nil {
			return err
		}
		chains, err := left(tx, closed)
		if err != nil {
			return err
		}
		record, err := i.gatewayRecord(operator, action.GatewayClose, closed, chains)
		if err != nil {
			return err
		}
		_, err = tx.Append(record)
		return err
	})
	return closed, err
}

func (i *Issuer) gatewayRecord(by string, of action.Type, g Gateway, chains []evidence.ListedChain) (evidence.Record, error) {
	said := map[string]any{"agent": g.Agent, "gateway": g.ID, "key": g.Key, "record_key": g.Record.ID, "algorithm": g.Record.Algorithm}
	if len(chains) > 0 {
		said["chains"] = chains
	}
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, of, evidence.Intent{Operation: OperationCapability, Details: details(said)})
	record.OutcomeStatus = evidence.Achieved
	return record, err
}

// Gateways returns every gateway that was ever enrolled.
func (i *Issuer) Gateways(ctx context.Context) ([]Gateway, error) {
	var out []Gateway
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		out, err = r.Gateways()
		return err
	})
	return out, err
}

// shipped reads one record, which the gateway has to have sealed.
func (g Gateway) shipped(data []byte) (evidence.Sealed, error) {
	s, err := evidence.ParseSealed(data)
	if err == nil {
		err = s.CheckHash()
	}
	if err == nil {
		err = s.CheckSignature(g.Record)
	}
	if err != nil {
		return s, err
	}
	r := s.Record()
	switch {
	case r.AgentID != g.Agent || r.Details.Recorder != g.ID:
		return s, fmt.Errorf("record %q is of agent %q by %q; want %q by %q", r.ID, r.AgentID, r.Details.Recorder, g.Agent, g.ID)
	case len(r.Details.Erased) > 0:
		return s, fmt.Errorf("record %q says that bodies were erased; only the issuer erases, in its own chain", r.ID)
	}
	return s, nil
}

// ChainEnd returns where the chain of a gateway ends here: the head of a chain without
// records where it has not begun.
func (i *Issuer) ChainEnd(ctx context.Context, g Gateway) (evidence.Head, error) {
	var head evidence.Head
	err := i.config.Store.Update(ctx, func(tx Tx) error {
		var err error
		head, err = tx.ChainEnd(g.Agent, g.ID)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return evidence.Head{}, nil
	}
	return head, err
}

// Ship takes records that a gateway has sealed, in order, and returns the
// sequence of the one that comes next. A record of another agent or recorder,
// or under another key, is refused, and with it all that follow.
func (i *Issuer) Ship(ctx context.Context, g Gateway, records [][]byte, bodies map[int]*evidence.Body) (next int64, err error) {
	sealed := make([]evidence.Sealed, len(records))
	for n, data := range records {
		if sealed[n], err = g.shipped(data); err != nil {
			return 0, noTarget("record %d of the shipment: %v", n, err)
		}
		if b := bodies[n]; b != nil {
			if sealed[n], err = sealed[n].WithBody(b); err != nil {
				return 0, noTarget("record %d of the shipment: %v", n, err)
			}
		}
	}
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		for n, s := range sealed {
			if next, err = tx.AppendSealed(s); n > 0 && errors.Is(err, ErrGap) {
				return noTarget("record %d of the shipment does not follow the one before it", n) // nothing of it stays
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	return next, err
}
