package issuer

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"hash"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/trust"
)

// issuerItself stands for the agent in records that are about none.
const issuerItself = trust.Issuer

// Pseudonym returns the name that a principal has in the tokens and the
// evidence of one agent: the same for the same principal and agent, and of no
// use to link it with another agent's.
func (i *Issuer) Pseudonym(agent, principal string) string {
	if principal == "" {
		return ""
	}
	mac := i.macs.Get().(hash.Hash)
	defer i.macs.Put(mac)
	mac.Reset()
	mac.Write([]byte(agent + "\x00" + principal))
	return "pw_" + hex.EncodeToString(mac.Sum(nil)[:12])
}

// Pseudonyms returns the names that a principal can have in the evidence: at every agent that is
// configured or was once, and at the server itself.
func (i *Issuer) Pseudonyms(ctx context.Context, principal string) ([]string, error) {
	if principal == "" {
		return nil, nil
	}
	var keys map[string]string
	if err := i.config.Store.View(ctx, func(r Reader) (err error) {
		keys, err = r.NewestKeys()
		return err
	}); err != nil {
		return nil, err
	}
	agents := map[string]bool{issuerItself: true}
	for id := range keys {
		agents[id] = true
	}
	for id := range i.all() {
		agents[id] = true
	}
	names := make([]string, 0, len(agents))
	for id := range agents {
		names = append(names, i.Pseudonym(id, principal))
	}
	return names, nil
}

// newRecord begins the record of a use case.
func (i *Issuer) newRecord(agent string, caller identity.Caller, of action.Type, intent evidence.Intent) (evidence.Record, error) {
	id, err := i.NewID("rec_")
	if err != nil {
		return evidence.Record{}, err
	}
	return evidence.Record{
		ID: id, AgentID: agent, ActionType: of.String(), Intent: intent,
		Decision: evidence.Allow, Time: i.config.Now(),
		Details: evidence.Details{
			Recorder: i.config.Recorder, Requester: requester(caller), Principal: i.Pseudonym(agent, caller.Principal),
			RevocationSequence: i.revoked.Load().sequence, PolicyDigest: i.config.Policy.Digest(),
		},
	}, nil
}

// requester names the caller: the configured name of the calling agent, or else
// its holder id.
func requester(caller identity.Caller) string {
	if caller.Agent != "" {
		return caller.Agent
	}
	return caller.Holder.ID
}

// answering adds to the details of a request the question to which people said yes.
func answering(said json.RawMessage, question string) json.RawMessage {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(said, &all); err != nil {
		return said // the issuer made it, so that it is an object
	}
	all["question"], _ = json.Marshal(question) // text always has a JSON form
	if out, err := json.Marshal(all); err == nil {
		return out
	}
	return said
}

// details makes the free object of an intent or an outcome. The values are the
// issuer's own and always have a JSON form.
func details(v map[string]any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
