package issuer

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/steady"
)

// A Token Status List (draft-ietf-oauth-status-list) tells verifiers that are not
// ours what became of capabilities on record that an operator named to them.
// Our own gateways never read it: the feed is fresher, and knows links that were
// derived offline.
const (
	// StatusType is the typ of a list, and with "application/" its media type.
	StatusType = "statuslist+jwt"
	// statusLife is how long a list may be relied on, from when it is made.
	statusLife = 30 * time.Second
	// statusKept is how long one list is served: anyone who has it then keeps it
	// for ttl, and both together are StatusLife.
	statusKept = 5 * time.Second
	statusBits = 2
	// statusPlaces is how many capabilities a list has room for. It is half full
	// at the most, so that a free place is soon found and no one can count
	// them by their places.
	statusPlaces = 1 << 17
)

// The statuses of a list (section 7.1 of the draft).
const (
	statusInvalid   = 1 // revoked
	statusSuspended = 2 // frozen
)

// statusLists are the lists that were made last.
type statusLists struct {
	mu   sync.Mutex
	made map[string]madeList // by agent
}

type madeList struct {
	compact string
	at      time.Time
	set     *revocations
}

// StatusPlace returns the place of a capability in the list of its agent, and
// gives it a random one the first time, which is recorded.
func (i *Issuer) StatusPlace(ctx context.Context, operator, id string) (c Capability, place int, err error) {
	if c, err = i.Capability(ctx, id); err != nil {
		return c, 0, err
	}
	if !c.Expires.After(i.config.Now()) {
		return c, 0, noTarget("capability %s has expired", id)
	}
	record, err := i.newRecord(c.Agent, identity.Caller{Agent: operator}, action.CapabilityStatus, evidence.Intent{Operation: OperationCapability})
	if err != nil {
		return c, 0, err
	}
	record.Details.Capability, record.OutcomeStatus = c.ID, evidence.Achieved
	tries, err := i.randomPlaces(16)
	if err != nil {
		return c, 0, err
	}
	full := false
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		full = false
		known, err := tx.StatusPlaces(c.Agent)
		if err != nil {
			return err
		}
		var ok bool
		if place, ok = known[c.ID]; ok {
			return nil
		}
		for _, place = range tries {
			if ok, err = tx.PutStatusPlace(c, place, steady.Past(i.config.Now())); ok || err != nil || len(known) > statusPlaces/2 {
				break
			}
		}
		if err == nil && !ok {
			full = true
			return errors.New("the list is full")
		}
		if err == nil {
			_, err = tx.Append(record)
		}
		return err
	})
	if full {
		return c, 0, noTarget("the status list of agent %s is full; what expires makes room", c.Agent)
	}
	return c, place, err
}

// randomPlaces returns unguessable places.
func (i *Issuer) randomPlaces(n int) ([]int, error) {
	raw := make([]byte, 4*n)
	i.mu.Lock()
	_, err := io.ReadFull(i.random, raw)
	i.mu.Unlock()
	out := make([]int, n)
	for k := range out {
		out[k] = int(binary.BigEndian.Uint32(raw[4*k:]) % statusPlaces)
	}
	return out, err
}

// StatusList returns the signed list of an agent, whose address is uri. Anybody
// may have it: without a place it says nothing.
func (i *Issuer) StatusList(ctx context.Context, agentID, uri string) (string, error) {
	agent, ok := i.all()[agentID]
	if !ok {
		return "", ErrNotFound
	}
	i.lists.mu.Lock()
	defer i.lists.mu.Unlock()
	now, set := i.config.Now(), i.revoked.Load()
	if l := i.lists.made[agentID]; l.set == set && !now.Before(l.at) && now.Sub(l.at) < statusKept {
		return l.compact, nil
	}
	packed, err := i.statuses(ctx, agentID, set)
	if err != nil {
		return "", err
	}
	compact, err := signList(agent, uri, packed, now)
	if err != nil {
		return "", err
	}
	if i.lists.made == nil {
		i.lists.made = map[string]madeList{}
	}
	i.lists.made[agentID] = madeList{compact, now, set}
	return compact, nil
}

// statuses packs the status of everything that has a place.
func (i *Issuer) statuses(ctx context.Context, agentID string, set *revocations) ([]byte, error) {
	packed := make([]byte, statusPlaces*statusBits/8)
	err := i.config.Store.View(ctx, func(r Reader) error {
		places, err := r.StatusPlaces(agentID)
		if err != nil {
			return err
		}
		for id, place := range places {
			c, err := r.Capability(id)
			if err != nil {
				return err
			}
			status := byte(0)
			switch {
			case i.dead(set, c):
				status = statusInvalid
			case i.Stopped(c):
				status = statusSuspended
			}
			const each = 8 / statusBits
			packed[place/each] |= status << (place % each * statusBits)
		}
		return nil
	})
	return packed, err
}

// signList is the list as a compact JWS under the agent's issuing key.
func signList(agent *Agent, uri string, packed []byte, now time.Time) (string, error) {
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	_, err := z.Write(packed)
	if err := errors.Join(err, z.Close()); err != nil {
		return "", err
	}
	signer := agent.Signer()
	key := signer.Public()
	header, err := json.Marshal(map[string]string{"alg": key.Algorithm().String(), "kid": key.Thumbprint(), "typ": StatusType})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"sub": uri, "iss": agent.URL, "iat": now.Unix(), "exp": now.Add(statusLife).Unix(), "ttl": int((statusLife - statusKept).Seconds()),
		"status_list": map[string]any{"bits": statusBits, "lst": base64.RawURLEncoding.EncodeToString(deflated.Bytes())},
	})
	if err != nil {
		return "", err
	}
	input := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	signature, err := signer.Sign([]byte(input))
	if err != nil {
		return "", fmt.Errorf("issuer: signing a status list: %w", err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
