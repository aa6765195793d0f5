// Package approved has the one value that a person's yes becomes, whichever way it
// was asked for. Its laws:
//
//   - It is complete: what it does not name was not approved. An empty list is nothing.
//   - It is exact: every operation, resource and limit stands in it, whether or not the
//     person took something away.
//   - Anyone who issues under it issues its meet with what policy allows by then. Neither
//     side widens the other (SEP-27, ATK-46).
//   - Its digest names all of it. The digest is what a passkey signs and what records have.
package approved

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Approved is what people have approved. It is made once, when the last of them
// answers, and does not change. The zero Approved is nothing.
type Approved struct {
	Question  string // id of the question
	Request   string // key or digest of the request that it answers, "" for none
	Agent     string // the protected agent at which it can be used
	Recipient string // the one holder, or agent, that may have it
	Principal string // in whose name it acts, "" for none
	Asker     Asker
	Shown     string // digest of what the people were shown
	Parts     []Part
}

// Asker is who asked, as far as the server knows, and in its own words why.
type Asker struct {
	Name    string `json:",omitempty"` // that the operator has for it
	Host    string `json:",omitempty"` // that it runs in
	Key     string `json:",omitempty"` // thumbprint of its key
	Purpose string `json:",omitempty"` // in its own words
}

// Part is the approved part of one grant.
type Part struct {
	Grant      string
	Operations []Operation
	Resources  []string  // ids; empty for none
	Until      time.Time // the end; zero only for one call, which has its own
}

// Operation is one operation with the limits on its arguments.
type Operation struct {
	Name   string
	Limits json.RawMessage `json:",omitempty"` // a shape as JSON; nil for any arguments
}

// Digest names everything in a.
func (a Approved) Digest() string {
	for i := range a.Parts {
		if i == 0 {
			a.Parts = slices.Clone(a.Parts)
		}
		a.Parts[i].Until = a.Parts[i].Until.UTC().Truncate(time.Second)
	}
	data, err := json.Marshal([]any{"powerbox approved/v1", a})
	if err != nil {
		panic("approved: what is digested is not JSON: " + err.Error()) // limits are stored JSON
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Until is the latest end of a part, zero for none.
func (a Approved) Until() time.Time {
	var latest time.Time
	for _, p := range a.Parts {
		if p.Until.After(latest) {
			latest = p.Until
		}
	}
	return latest
}

// Of returns the approved part of a grant, and false for none.
func (a Approved) Of(grant string) (Part, bool) {
	i := slices.IndexFunc(a.Parts, func(p Part) bool { return p.Grant == grant && len(p.Operations) > 0 })
	if i < 0 {
		return Part{}, false
	}
	return a.Parts[i], true
}

// Shape is the limit on the arguments of an operation, and false where p does not have
// the operation, or its limit cannot be read.
func (p Part) Shape(operation string) (powerbox.Shape, bool) {
	for _, op := range p.Operations {
		switch {
		case op.Name != operation:
		case op.Limits == nil:
			return powerbox.AnyArguments(), true
		default:
			v, err := powerbox.ParseValue(op.Limits)
			if err != nil {
				return powerbox.Shape{}, false
			}
			s, err := powerbox.ParseShape(v)
			return s, err == nil
		}
	}
	return powerbox.Shape{}, false
}
