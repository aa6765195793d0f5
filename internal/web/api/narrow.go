package api

import "net/http"

// Narrowed is a capability with the narrower one that took its place, or would.
type Narrowed struct {
	Old CapabilityStatus `json:"old"`
	New CapabilityStatus `json:"new"`
	// Sequence is that of the revocation of the old one; 0 for a dry run.
	Sequence int64 `json:"sequence,omitempty"`
}

// narrow replaces a capability with a narrower one.
func (a *Admin) narrow(r *http.Request) (any, error) {
	var body replacing
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if _, err := a.ofOwn(r, id); err != nil {
		return nil, err
	}
	if body.DryRun {
		n, err := a.Issuer.Narrowable(r.Context(), id, body.Operations)
		return Narrowed{Old: a.status(n.Old), New: a.status(n.New)}, err
	}
	n, err := a.Issuer.ReplaceAsOperator(r.Context(), operator(r), id, body.Operations)
	return Narrowed{Old: a.status(n.Old), New: a.status(n.New), Sequence: n.Revocation.Sequence}, err
}

// keep has on record that a capability stays.
func (a *Admin) keep(r *http.Request) (any, error) {
	var body keeping
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if _, err := a.ofOwn(r, id); err != nil {
		return nil, err
	}
	if err := a.Issuer.KeepAsOperator(r.Context(), operator(r), id, body.Reason); err != nil {
		return nil, err
	}
	c, err := a.Issuer.Capability(r.Context(), id)
	return a.status(c), err
}
