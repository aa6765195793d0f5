package main

import (
	"time"

	"github.com/MetaMask/go-did-it"
	didkey "github.com/MetaMask/go-did-it/controller/did-key"
	"github.com/MetaMask/go-did-it/crypto/ed25519"
	"github.com/ipfs/go-cid"
	"github.com/ucan-wg/go-ucan/pkg/command"
	"github.com/ucan-wg/go-ucan/pkg/container"
	"github.com/ucan-wg/go-ucan/pkg/policy"
	"github.com/ucan-wg/go-ucan/token/delegation"
	"github.com/ucan-wg/go-ucan/token/invocation"
)

type ucanParty struct {
	key ed25519.PrivateKey
	did did.DID
}

// newUCAN returns a container with links delegations and an invocation, which
// is the proof of possession: one signature more than there are links.
func newUCAN(now time.Time, links int, operation string) ([]byte, error) {
	parties := make([]ucanParty, links+1)
	for i := range parties {
		_, key, err := ed25519.GenerateKeyPair()
		if err != nil {
			return nil, err
		}
		parties[i] = ucanParty{key, didkey.FromPrivateKey(key)}
	}
	w := container.NewWriter()
	proofs := make([]cid.Cid, links)
	for i := range links {
		data, id, err := ucanDelegate(now, parties, i)
		if err != nil {
			return nil, err
		}
		w.AddSealed(data)
		proofs[links-1-i] = id
	}
	last := parties[links]
	call, err := invocation.New(last.did, command.MustParse("/docs/"+operation), parties[0].did, proofs,
		invocation.WithArgument("path", requestPath), invocation.WithExpiration(now.Add(time.Hour)))
	if err != nil {
		return nil, err
	}
	data, _, err := call.ToSealed(last.key)
	if err != nil {
		return nil, err
	}
	w.AddSealed(data)
	return w.ToBytes()
}

func ucanDelegate(now time.Time, parties []ucanParty, i int) ([]byte, cid.Cid, error) {
	what, prefix := command.MustParse("/docs/read"), narrowPrefix
	if i == 0 {
		what, prefix = command.MustParse("/docs"), rootPrefix
	}
	rules, err := policy.Construct(policy.Like(".path", prefix+"*"))
	if err != nil {
		return nil, cid.Undef, err
	}
	d, err := delegation.New(parties[i].did, parties[i+1].did, what, rules, parties[0].did, delegation.WithExpiration(now.Add(time.Hour)))
	if err != nil {
		return nil, cid.Undef, err
	}
	return d.ToSealed(parties[i].key)
}

func ucanVerify(raw []byte) job {
	return repeat(func() error {
		r, err := container.FromBytes(raw)
		if err != nil {
			return err
		}
		call, err := r.GetInvocation()
		if err != nil {
			return err
		}
		return call.ExecutionAllowed(r)
	})
}
