package a2a

import (
	"time"

	"github.com/powerbox-project/powerbox"
)

// RequestParams are those of a2a/capabilities/request (SEP-4).
type RequestParams struct {
	Grants        []string       // required, at least one
	Operations    []string       // ours: fewer than the grants have; nil for all
	Purpose       string         // required, in the agent's own words (SEP-9)
	ResourceQuery powerbox.Value // {collection, filter}; null when absent, read by the catalogue (SEP-21)
	Arguments     powerbox.Value // ours: constraints by operation and argument; null when absent
	Expires       time.Time      // UTC; zero when absent
	Task          string         // ours: task or context that the capability is for; "" for the purpose alone (SEP-22)
	Tenant        string         // of the call, in which that task is
	Push          bool           // ours: may also set push notifications for its tasks
	Card          bool           // ours: may also read the extended card
	ScopeToken    bool           // ours: format is scope_token, the token of EXT-5, instead of an AAT
}

// FormatScopeToken is the format of a request that asks for scope tokens.
const FormatScopeToken = "scope_token"

// AttenuateParams are those of a2a/capabilities/attenuate (SEP-12).
type AttenuateParams struct {
	CapabilityID string
	Constraints  Attenuation
}

// RevokeParams are those of a2a/capabilities/revoke (SEP-20): a revocation id,
// or a chain, whose last link is meant, with a proof of one of its holders where
// the caller is none.
type RevokeParams struct {
	RevocationID string
	Chain        []string
	Proof        string
}

// InvokeParams are those of a2a/skill/invoke (SEP-10).
type InvokeParams struct {
	Skill        string
	Arguments    powerbox.Value // an object; {} when absent
	CapabilityID string         // "" when the capability is in the header
	Tenant       string
}

// TaskSendParams are those of a2a/task/send (SEP-13).
type TaskSendParams struct {
	Message      powerbox.Value // null when absent
	Capabilities []string
	Attenuations map[string]Attenuation
	Tenant       string
}

// ResourceHandle is a resource in a result: an opaque name and the description that a
// person may see (SEP-5).
type ResourceHandle struct {
	Handle      string `json:"handle"`
	DisplayName string `json:"displayName"`
}

// Capability is one capability in a result (SEP-6). Legacy marks a wrapper
// around a service without capability support (SEP-3).
type Capability struct {
	ID              string           `json:"id"`
	Grant           string           `json:"grant"`
	Token           string           `json:"token,omitempty"`
	ResourceHandles []ResourceHandle `json:"resourceHandles"`
	NextResources   string           `json:"nextResources,omitempty"` // cursor of the resources after these
	Operations      []string         `json:"operations"`
	Expires         time.Time        `json:"expires"`
	RevocationID    string           `json:"revocationId"`
	Principal       string           `json:"principal"`
	Task            string           `json:"task,omitempty"`
	Tenant          string           `json:"tenant,omitempty"` // of the task
	Legacy          bool             `json:"legacy,omitempty"`
	OutsideScope    []string         `json:"outsideScope,omitempty"` // of Operations: those that the configured scope of the caller refuses now
}

// Pending says that a person has to approve first (SEP-27).
type Pending struct {
	ID          string    `json:"id"`
	ApprovalURL string    `json:"approvalUrl"`
	Expires     time.Time `json:"expires"`
	Interval    int       `json:"interval"` // seconds between two calls
}

// MarshalJSON writes an empty list as an empty array, never as null.
func (c Capability) MarshalJSON() ([]byte, error) {
	type plain Capability
	c.ResourceHandles = append([]ResourceHandle{}, c.ResourceHandles...)
	c.Operations = append([]string{}, c.Operations...)
	return encode(plain(c))
}

// CapabilitiesResult is the result of request, attenuate and list: either
// capabilities, none of them being an empty array, or, for request, pending.
type CapabilitiesResult struct {
	Capabilities []Capability
	Pending      *Pending
}

// MarshalJSON implements json.Marshaler.
func (r CapabilitiesResult) MarshalJSON() ([]byte, error) {
	if r.Pending != nil {
		return encode(map[string]*Pending{"pending": r.Pending})
	}
	return encode(map[string][]Capability{"capabilities": append([]Capability{}, r.Capabilities...)})
}

// RevokeResult is the result of revoke. Descendants end with the revoked capability.
type RevokeResult struct {
	RevocationID string    `json:"revocationId"`
	RevokedAt    time.Time `json:"revokedAt"`
}

// parseExtension reads the parameters of a method of the extension. Unknown
// members are refused (SEP-23). A tenant is accepted everywhere, because
// clients echo the one of the card into every request.
func (c *Call) parseExtension() *Error {
	var err *Error
	switch c.Method {
	case CapabilitiesRequest:
		c.Request, err = parseRequest(c.Params)
	case CapabilitiesAttenuate:
		r := openStrict("params", c.Params, "capabilityId", "constraints", "tenant")
		c.Attenuate = &AttenuateParams{CapabilityID: r.required("capabilityId")}
		if r.err == nil {
			c.Attenuate.Constraints, r.err = parseAttenuation("params.constraints", r.object("constraints"))
		}
		err = r.err
	case CapabilitiesRevoke:
		r := openStrict("params", c.Params, "revocationId", "chain", "proof", "tenant")
		c.Revoke = &RevokeParams{RevocationID: r.text("revocationId"), Chain: r.chain("chain"), Proof: r.text("proof")}
		if (c.Revoke.RevocationID == "") == (c.Revoke.Chain == nil) {
			r.fail(ReasonParams, "params wants either revocationId, or chain, with proof where the caller is neither a holder nor the user of it")
		}
		if c.Revoke.Chain == nil && c.Revoke.Proof != "" {
			r.fail(ReasonParams, "params has proof, which goes with chain")
		}
		err = r.err
	case CapabilitiesList:
		err = openStrict("params", c.Params, "tenant").err
	case SkillInvoke:
		err = c.parseInvoke()
	case TaskSend:
		err = c.parseTaskSend()
	default:
	}
	return err
}

func parseRequest(params powerbox.Value) (*RequestParams, *Error) {
	r := openStrict("params", params, "grants", "operations", "purpose", "resourceQuery", "arguments", "expires", "task", "push", "card", "format", "tenant")
	p := &RequestParams{
		Grants:        r.texts("grants"),
		Operations:    r.texts("operations"),
		Purpose:       r.bounded(r.required("purpose"), "purpose"),
		ResourceQuery: r.object("resourceQuery"),
		Arguments:     r.object("arguments"),
		Expires:       r.time("expires"),
		Task:          r.text("task"),
		Tenant:        r.text("tenant"),
		Push:          r.flag("push"),
		Card:          r.flag("card"),
	}
	switch format := r.text("format"); format {
	case "":
	case FormatScopeToken:
		p.ScopeToken = true
	default:
		r.fail(ReasonParams, "params.format is %q; want %s, or nothing for an attenuating token", format, FormatScopeToken)
	}
	if p.Grants == nil {
		r.fail(ReasonParams, "params.grants is missing; want at least one of the card's capabilityGrants")
	}
	return p, r.err
}

func (c *Call) parseInvoke() *Error {
	r := openStrict("params", c.Params, "skill", "arguments", "capabilityId", "tenant")
	p := &InvokeParams{Skill: r.required("skill"), Arguments: r.object("arguments"), CapabilityID: r.text("capabilityId"), Tenant: r.text("tenant")}
	if p.Arguments.Kind() == powerbox.KindNull {
		p.Arguments = powerbox.Object()
	}
	c.Invoke = p
	c.Members = &Members{Skill: p.Skill, Arguments: &p.Arguments, CapabilityID: p.CapabilityID}
	return r.err
}

func (c *Call) parseTaskSend() *Error {
	r := openStrict("params", c.Params, "message", "capabilities", "attenuations", "tenant")
	message, _ := c.Params.Get("message")
	p := &TaskSendParams{Message: message, Capabilities: r.texts("capabilities"), Tenant: r.text("tenant")}
	p.Attenuations = r.attenuations(p.Capabilities)
	c.TaskSend = p
	c.Members = &Members{Capabilities: p.Capabilities, Attenuations: p.Attenuations}
	return r.err
}
