package oauth

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// DetailsType is the type of an authorization detail (RFC 9396) that asks for a capability
// for a task.
const DetailsType = "urn:powerbox:task-capability"

// Detail is such an authorization detail, as clients send and get it.
type Detail struct {
	Type       string   `json:"type"`
	Grant      string   `json:"grant"`
	Operations []string `json:"operations,omitempty"`
	Purpose    string   `json:"purpose,omitempty"`
	Expires    string   `json:"expires,omitempty"`    // RFC 3339
	Capability string   `json:"capability,omitempty"` // in answers
}

// details are those of a request.
type details struct {
	all     []Detail
	purpose string
	expires time.Time
}

func (d details) any() bool { return len(d.all) > 0 }

const (
	maxDetails      = 16
	maxDetailsBytes = 8 << 10
)

// readDetails reads authorization_details. Members that are not known are refused: a client
// that wants a limit must not get a capability without it.
func readDetails(text string, of Resource) (details, error) {
	var d details
	if text == "" {
		return d, nil
	}
	if len(text) > maxDetailsBytes {
		return d, Errorf(InvalidDetails, "authorization_details has %d bytes; want at most %d", len(text), maxDetailsBytes)
	}
	v, err := powerbox.DecodeValue([]byte(text), powerbox.Limits{Bytes: maxDetailsBytes, Depth: 4, Nodes: 500})
	if err != nil {
		return d, Errorf(InvalidDetails, "authorization_details is not strict JSON: %v", err)
	}
	if err := checkMembers(v); err != nil {
		return d, err
	}
	if err := json.Unmarshal([]byte(text), &d.all); err != nil {
		return d, Errorf(InvalidDetails, "authorization_details cannot be read: %v; want a list of {type, grant, operations, purpose, expires}", err)
	}
	if len(d.all) == 0 || len(d.all) > maxDetails {
		return d, Errorf(InvalidDetails, "authorization_details has %d elements; want 1 to %d", len(d.all), maxDetails)
	}
	for _, one := range d.all {
		if err := d.add(one, of); err != nil {
			return d, err
		}
	}
	return d, nil
}

// detailMembers are the members of a detail.
var detailMembers = []string{"type", "grant", "operations", "purpose", "expires", "capability"}

// checkMembers refuses members that are not known, and members without a value. A client that
// names no operation must not get all of them. encoding/json would take OPERATIONS for operations.
func checkMembers(all powerbox.Value) error {
	elements, _ := all.Elements()
	for _, one := range elements {
		members, _ := one.Members()
		for _, m := range members {
			text, isText := m.Value.Text()
			list, isList := m.Value.Elements()
			switch {
			case !slices.Contains(detailMembers, m.Name):
				return Errorf(InvalidDetails, "%.40q is not known; want a list of {type, grant, operations, purpose, expires}", m.Name)
			case isText && text == "" || isList && len(list) == 0 || m.Value.Kind() == powerbox.KindNull:
				return Errorf(InvalidDetails, "%.40q is empty, which limits nothing; leave it out, or name the limit", m.Name)
			}
		}
	}
	return nil
}

// add checks one element, and takes purpose and end of it.
func (d *details) add(one Detail, of Resource) error {
	i := slices.IndexFunc(of.Grants, func(g Offer) bool { return g.ID == one.Grant })
	switch {
	case one.Type != DetailsType:
		return Errorf(InvalidDetails, "type %.100q is not supported; want %s", one.Type, DetailsType)
	case i < 0:
		return Errorf(InvalidDetails, "%s offers no grant %.100q; there are %s", of.Agent, one.Grant, strings.Join(of.Scopes(), ", "))
	case one.Capability != "":
		return Errorf(InvalidDetails, "capability is for answers; leave it out")
	}
	for _, op := range one.Operations {
		if !slices.Contains(of.Grants[i].Operations, op) {
			return Errorf(InvalidDetails, "grant %q has no operation %.100q; there are %s", one.Grant, op, strings.Join(of.Grants[i].Operations, ", "))
		}
	}
	if one.Purpose != "" && d.purpose != "" && one.Purpose != d.purpose {
		return Errorf(InvalidDetails, "two purposes in one request; want one")
	}
	if one.Purpose != "" {
		d.purpose = one.Purpose
	}
	if one.Expires == "" {
		return nil
	}
	end, err := time.Parse(time.RFC3339, one.Expires)
	if err != nil || end.IsZero() { // which would be no limit
		return Errorf(InvalidDetails, "expires %.40q is no time as in RFC 3339", one.Expires)
	}
	if d.expires.IsZero() || end.Before(d.expires) {
		d.expires = end
	}
	return nil
}

// grants are the grants of d, each with the operations where it has not all of them.
func (d details) grants() (grants []string, of map[string][]string) {
	of = map[string][]string{}
	whole := map[string]bool{}
	for _, one := range d.all {
		if !slices.Contains(grants, one.Grant) {
			grants = append(grants, one.Grant)
		}
		whole[one.Grant] = whole[one.Grant] || len(one.Operations) == 0
		of[one.Grant] = append(of[one.Grant], one.Operations...)
	}
	for grant := range of {
		if whole[grant] {
			delete(of, grant)
		}
	}
	slices.Sort(grants)
	return grants, of
}

// detailsOf words capabilities as authorization details.
func detailsOf(all []issuer.Capability) []Detail {
	out := make([]Detail, 0, len(all))
	for _, c := range all {
		out = append(out, Detail{
			Type: DetailsType, Grant: c.Grant, Operations: c.Operations(), Purpose: c.Purpose, Expires: c.Expires.UTC().Format(time.RFC3339), Capability: c.ID,
		})
	}
	return out
}
