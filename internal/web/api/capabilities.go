package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// CapabilityStatus is a capability as operators see it: with its real
// resources, without its token.
type CapabilityStatus struct {
	ID           string          `json:"id"`
	Agent        string          `json:"agent"`
	Grant        string          `json:"grant"`
	Root         string          `json:"root"`
	Ancestors    []string        `json:"ancestors,omitempty"`
	Principal    string          `json:"principal"`
	Holder       string          `json:"holder"`
	Requester    string          `json:"requester,omitempty"`
	Purpose      string          `json:"purpose"`
	Task         string          `json:"task,omitempty"`
	Tenant       string          `json:"tenant,omitempty"` // of that task
	Operations   []string        `json:"operations"`
	Resources    []string        `json:"resources,omitempty"`
	Authority    json.RawMessage `json:"authority"`
	RevocationID string          `json:"revocationId"`
	Created      time.Time       `json:"created"`
	Expires      time.Time       `json:"expires"`
	Legacy       bool            `json:"legacy,omitempty"`
	Revoked      bool            `json:"revoked"`
	Frozen       bool            `json:"frozen,omitempty"`
	Expired      bool            `json:"expired"`
	Uses         int             `json:"uses,omitempty"`  // how often it can be used in all; 0 for no bound
	Given        *GivenBy        `json:"given,omitempty"` // where an operator gave it after a denial
}

// GivenBy is the operator who gave a capability, and the denied call after which.
type GivenBy struct {
	By     string `json:"by"`
	Record string `json:"record"`
}

func (a *Admin) capability(r *http.Request) (any, error) {
	c, err := a.ofOwn(r, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return a.status(c), nil
}

// capabilityPage is how many capabilities a page has where no limit is named.
const capabilityPage = 100

// capabilities answers with a page of the capabilities in force, the one that was issued last
// first. With a holder and nothing else, it answers with all that the holder can still use,
// and what it passed on to others.
func (a *Admin) capabilities(w http.ResponseWriter, r *http.Request) {
	var found []issuer.Capability
	var next string
	query := r.URL.Query()
	q, err := inForceQuery(query)
	agents, all := agentsOf(r)
	if !all {
		q.Agents = agents
	}
	if err == nil && !all && q.Before != "" {
		_, err = a.ofOwn(r, q.Before)
	}
	switch {
	case err != nil:
	case len(query) == 1 && q.Holder != "":
		found, err = a.Issuer.LiveOf(r.Context(), q.Holder)
		found = slices.DeleteFunc(found, func(c issuer.Capability) bool { return !at(r, c.Agent) })
	default:
		found, next, err = a.Issuer.InForce(r.Context(), q)
	}
	if errors.Is(err, issuer.ErrNotFound) {
		err = status{http.StatusBadRequest, "before names no capability; want the id of one, from the page before"}
	}
	if next != "" {
		w.Header().Set(operators.NextHeader, next)
	}
	out := make([]CapabilityStatus, len(found))
	for n, c := range found {
		out[n] = a.status(c)
	}
	reply(w, r, a.Log, out, err)
}

// inForceQuery reads the selection of a request, which [checkQuery] admitted.
func inForceQuery(query url.Values) (issuer.LiveQuery, error) {
	q := issuer.LiveQuery{
		Agent: query.Get("agent"), Holder: query.Get("holder"), Principal: query.Get("principal"),
		Root: query.Get("root"), Below: query.Get("below"), Before: query.Get("before"), Limit: capabilityPage,
	}
	if query.Has("limit") {
		n, err := strconv.Atoi(query.Get("limit"))
		if err != nil || n < 1 || n > pageLimit {
			return q, status{http.StatusBadRequest, "limit must be a number from 1 to " + strconv.Itoa(pageLimit)}
		}
		q.Limit = n
	}
	return q, nil
}

func (a *Admin) status(c issuer.Capability) CapabilityStatus {
	s := CapabilityStatus{
		ID: c.ID, Agent: c.Agent, Grant: c.Grant, Root: c.Root, Ancestors: c.Ancestors, Principal: c.Principal,
		Holder: c.Holder, Requester: c.Requester, Purpose: c.Purpose, Task: c.Task, Tenant: c.Tenant, Operations: c.Operations(),
		Authority: c.Authority.JSON().AppendJSON(nil), RevocationID: c.RevocationID, Created: c.Created, Expires: c.Expires,
		Legacy: c.Legacy, Revoked: a.Issuer.Dead(c), Expired: !c.Expires.After(a.Now()),
		Frozen: a.Issuer.Stopped(c), Uses: c.Budgets.Uses,
	}
	if (c.Given != issuer.Given{}) {
		s.Given = &GivenBy{c.Given.By, c.Given.Record}
	}
	for _, h := range c.Handles {
		s.Resources = append(s.Resources, h.Resource)
	}
	return s
}
