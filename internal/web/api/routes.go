package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/people"
)

// route is one operation of the interface, with its description. The document at
// [PathOpenAPI] is made from these, so that no operation is served undescribed.
type route struct {
	pattern string // method and path, as for [http.ServeMux]
	// needs are permissions, of which the caller must have one; keeps says where. The
	// server does not start with a route that lacks one of them.
	needs   people.Permission
	keeps   scope
	says    string
	query   []parameter
	in, out any    // values of the types of the bodies; nil for none, or for any JSON
	media   string // of the answer; "" for JSON
	serve   http.HandlerFunc
}

// recordParameters select records.
var recordParameters = []parameter{
	{name: "agent", says: "id of the agent"},
	{name: "requester", says: "caller, by its configured name or as in records"},
	{name: "principal", says: "person for whom it was, as in records"},
	{name: "task", says: "id of the task"},
	{name: "trace", says: "id of the trace"},
	{name: "operation", says: "agent/grant/operation"},
	{name: "capability", says: "id of the capability"},
	{name: "decision", says: "ALLOW, DENY or ABSTAIN"},
	{name: "reason", says: "code of a reason of the decision"},
	{name: "outcome_of", says: "id of the decision whose outcome is wanted"},
	{name: "before", says: "id of a record: those that the log has before it"},
	{name: "since", says: "time in RFC 3339, included"},
	{name: "until", says: "time in RFC 3339, included"},
	{name: "limit", says: "1 to 1000 records; 1000 without it"},
}

// streamParameters select the records of a stream.
var streamParameters = []parameter{
	{name: "agent", says: "id of the agent"},
	{name: "requester", says: "caller, by its configured name or as in records"},
	{name: "operation", says: "agent/grant/operation"},
	{name: "decision", says: "ALLOW, DENY or ABSTAIN"},
	{name: "reason", says: "code of a reason of the decision"},
	{name: "after", says: "id of a record: those that the log has after it"},
}

// table lists all operations.
func (a *Admin) table() []route {
	var all []route
	for _, part := range [][]route{a.operating(), a.stopping(), a.gatewayRoutes(), a.capabilityRoutes(), a.recordRoutes(), a.policyRoutes(), a.ownRoutes()} {
		all = append(all, part...)
	}
	return all
}

func (a *Admin) operating() []route {
	return []route{
		{pattern: "GET /v1/agents", needs: people.See, keeps: own, says: "List the protected agents.", query: []parameter{{name: "first", says: "id of an agent that comes before the others; can be repeated", many: true}, {name: "health", says: "answers, unreachable, unknown or not_asked"}, {name: "after", says: "id of an agent: those that are listed after it"}, {name: "limit", says: "1 to 1000 agents; all without it"}}, out: []AgentStatus{}, serve: a.agents},
		{pattern: "GET /v1/agents/{agent}", needs: people.See, keeps: ofAgent, says: "Return one protected agent, with the behaviour that its card does not declare.", out: AgentDetail{}, serve: serve(a, a.agent)},
		{pattern: "PUT /v1/agents/{agent}/mode", needs: people.Steer, keeps: ofAgent, says: "Set the mode of an agent, or \"configured\" to use that of the configuration.", in: modeChange{}, out: modeChanged{}, serve: serve(a, a.setMode)},
		{pattern: "POST /v1/agents/{agent}/keys", needs: people.Administer, keeps: ofAgent, says: "Have an agent issue with a new key.", in: Rotation{}, out: Rotated{}, serve: serve(a, a.rotate)},
		{pattern: "GET /v1/trust/{agent}", needs: people.See, keeps: ofAgent, says: "Return the score of an agent.", query: []parameter{{name: "at", says: "time in RFC 3339; now without it"}}, out: Score{}, serve: serve(a, a.trust)},
		{pattern: "GET /v1/summary", needs: people.See | people.Evidence, keeps: own, says: "Count the calls of the last hour, and show the head of the log.", out: ActivityReport{}, serve: serve(a, a.activity)},
		{pattern: "POST /v1/config/reload", needs: people.Administer, keeps: whole, says: "Read the configuration again.", out: Reloaded{}, serve: serve(a, a.reload)},
		{pattern: "GET /v1/webhooks", needs: people.See, keeps: whole, says: "Show the webhooks and the messages that none took.", out: Webhooks{}, serve: serve(a, a.webhooks)},
		{pattern: "POST /v1/webhooks/{id}", needs: people.Steer, keeps: whole, says: "Try a message again.", out: WebhookMessage{}, serve: serve(a, a.redeliver)},
	}
}

func (a *Admin) stopping() []route {
	return []route{
		{pattern: "POST /v1/revocations", needs: people.Stop, keeps: own, says: "Revoke a capability, a link of a chain, or all that a holder, a delegator, a person or an agent's key has; with dry_run only list what would end.", in: revocation{}, serve: serve(a, a.revoke)},
		{pattern: "GET /v1/revocations/{sequence}/gateways", needs: people.See, keeps: own, says: "Tell which gateways enforce a revocation.", out: Reached{}, serve: serve(a, a.reached)},
		{pattern: "GET /v1/revoked", needs: people.See, keeps: whole, says: "Tell which of some ids are revoked or frozen.", query: []parameter{{name: "id", says: "id; may be repeated", many: true}}, out: revokedOf{}, serve: serve(a, a.revoked)},
		{pattern: "GET /v1/freezes", needs: people.See, keeps: own, says: "List what is frozen.", out: []FreezeStatus{}, serve: serve(a, a.freezes)},
		{pattern: "POST /v1/freezes", needs: people.Stop, keeps: own, says: "Freeze a capability, a holder, a person or an agent.", in: stopping{}, out: FreezeStatus{}, serve: serve(a, a.stop(false, a.Issuer.Freeze))},
		{pattern: "POST /v1/thaws", needs: people.Steer, keeps: own, says: "End a freeze.", in: stopping{}, out: FreezeStatus{}, serve: serve(a, a.stop(true, a.Issuer.Thaw))},
		{pattern: "GET /v1/people", needs: people.See, keeps: whole, says: "List the people who can log in.", query: []parameter{{name: "principal", says: "of one person"}}, out: []PersonStatus{}, serve: serve(a, a.people)},
		{pattern: "GET /v1/sessions", needs: people.Administer, keeps: whole, says: "List the logins of people in browsers, the newest 200.", query: []parameter{{name: "principal", says: "of one person"}}, out: OpenSessions{}, serve: serve(a, a.openSessions)},
		{pattern: "POST /v1/people/{verb}", needs: people.Administer, keeps: whole, says: "Freeze, thaw or remove a person, or end every login with logout.", in: personChange{}, serve: serve(a, a.setPerson)},
	}
}

func (a *Admin) gatewayRoutes() []route {
	return []route{
		{pattern: "GET /v1/feed/key", needs: people.See, keeps: whole, says: "Return the key that signs the feed of revocations.", serve: serve(a, a.feedKey)},
		{pattern: "POST /v1/feed/extension", needs: people.Steer, keeps: whole, says: "Let gateways that are cut off serve longer.", in: extension{}, serve: serve(a, a.extend)},
		{pattern: "POST /v1/gateway-tokens", needs: people.Administer, keeps: whole, says: "Make a token that enrols a remote gateway.", in: gatewayTokenRequest{}, serve: serve(a, a.gatewayToken)},
		{pattern: "GET /v1/gateways", needs: people.See, keeps: own, says: "List the remote gateways.", out: []GatewayStatus{}, serve: serve(a, a.gateways)},
		{pattern: "DELETE /v1/gateways/{id}", needs: people.Administer, keeps: whole, says: "Close a remote gateway.", out: GatewayStatus{}, serve: serve(a, a.closeGateway)},
	}
}

func (a *Admin) capabilityRoutes() []route {
	return []route{
		{pattern: "GET /v1/capabilities", needs: people.See, keeps: own, says: "Return one page of the capabilities in force, the newest first; with a holder alone, all that it can use and that it passed on. Powerbox-Next has the id that the next page begins before.", query: []parameter{{name: "holder", says: "configured name of an agent, or a holder such as key:THUMBPRINT"}, {name: "agent", says: "id of the agent that it is for"}, {name: "principal", says: "person for whom it acts"}, {name: "root", says: "id of the capability at the top of its tree"}, {name: "below", says: "id of a capability that it descends from"}, {name: "before", says: "id of a capability: those that are older"}, {name: "limit", says: "how many, at most"}}, out: []CapabilityStatus{}, serve: a.capabilities},
		{pattern: "GET /v1/capabilities/{id}", needs: people.See | people.Evidence, keeps: own, says: "Return one capability, without its token.", out: CapabilityStatus{}, serve: serve(a, a.capability)},
		{pattern: "POST /v1/capabilities/{id}/status", needs: people.Steer, keeps: own, says: "Give a capability a place in the status list.", serve: serve(a, a.statusPlace)},
		{pattern: "POST /v1/capabilities/{id}/narrow", needs: people.Steer, keeps: own, says: "End a capability, and put one with some of its operations in its place, for the same holder; with dry_run only say what that would be.", in: replacing{}, out: Narrowed{}, serve: serve(a, a.narrow)},
		{pattern: "POST /v1/capabilities/{id}/keep", needs: people.Steer, keeps: own, says: "Have on record that an operator looked at a capability, and keeps it.", in: keeping{}, out: CapabilityStatus{}, serve: serve(a, a.keep)},
		{pattern: "POST /v1/grants", needs: people.Steer, keeps: own, says: "Give the caller of a denied call its operation, with exactly its arguments, once and for an hour unless told otherwise; with dry_run only say what would be given.", in: Giving{}, out: Grant{}, serve: serve(a, a.give)},
		{pattern: "GET /v1/graph", needs: people.See, keeps: own, says: "Show which agents may hand what to whom, and what was tried.", query: []parameter{{name: "agent", says: "id of the agent whose reach is wanted"}, {name: "without", says: "FROM,TO: the graph without one edge"}, {name: "until", says: "time in RFC 3339: attempts up to the end of its step"}}, out: GraphReport{}, serve: serve(a, a.graph)},
		{pattern: "POST /v1/can", needs: people.See, keeps: own, says: "Tell whether the scope of a caller allows an operation.", in: canRequest{}, out: canAnswer{}, serve: serve(a, a.can)},
		{pattern: "POST /v1/try", needs: people.See, keeps: own, says: "Tell layer by layer what would become of a call. Nothing is called or kept.", in: Try{}, out: Verdict{}, serve: serve(a, a.tries)},
	}
}

func (a *Admin) recordRoutes() []route {
	return []route{
		{pattern: "GET /v1/records", needs: people.Evidence, keeps: own, says: "Return one page of records, the newest first. Powerbox-Next has the id that the next page begins before; a page can be empty and have a next one.", query: recordParameters, out: []json.RawMessage{}, serve: unlimited(a.records)},
		{pattern: "GET /v1/records/stream", needs: people.Evidence, keeps: own, says: "Follow the decisions as they are recorded, as Server-Sent Events.", query: streamParameters, media: "text/event-stream", serve: unlimited(a.stream)},
		{pattern: "GET /v1/records/{id}", needs: people.Evidence, keeps: own, says: "Return one record as it was sealed.", serve: serve(a, a.record)},
		{pattern: "GET /v1/records/{id}/body", needs: people.Contents, keeps: own, says: "Return the kept body of a record.", serve: serve(a, a.body)},
		{pattern: "GET /v1/records/{id}/arguments-key", needs: people.Contents, keeps: own, says: "Return the key of the digest of the arguments of an execution.", serve: serve(a, a.argumentsKey)},
		{pattern: "GET /v1/evidence/bundle", needs: people.Evidence, keeps: whole, says: "Export the evidence, for verifiers.", query: []parameter{{name: "bodies", says: "true to include the kept bodies"}}, media: "application/jsonl", serve: unlimited(a.bundle)},
		{pattern: "GET /v1/evidence/proof/{id}", needs: people.Evidence, keeps: own, says: "Return the C2SP tlog-proof of a record.", media: "text/plain", serve: a.proof},
		{pattern: "GET /v1/evidence/trust", needs: people.Evidence | people.See, keeps: own, says: "Return the keys that a verifier pins.", out: evidence.Trust{}, serve: serve(a, a.pinned)},
		{pattern: "GET /v1/evidence/witnesses", needs: people.See | people.Evidence, keeps: own, says: "List the witnesses of the log, each with its last cosignature.", out: []WitnessStatus{}, serve: serve(a, a.witnesses)},
		{pattern: "POST /v1/evidence/erasures", needs: people.Administer, keeps: whole, says: "Erase bodies; with dry_run only list them.", in: erasure{}, serve: serve(a, a.erase)},
		{pattern: "GET /v1/evidence/periods", needs: people.Evidence, keeps: whole, says: "List the closed periods.", out: []PeriodStatus{}, serve: serve(a, a.periods)},
		{pattern: "POST /v1/evidence/periods", needs: people.Administer, keeps: whole, says: "Close the period.", out: PeriodStatus{}, serve: serveLong(a, a.closePeriod)},
		{pattern: "GET /v1/evidence/periods/{period}/bundle", needs: people.Evidence, keeps: whole, says: "Export one closed period.", query: []parameter{{name: "bodies", says: "true to include the kept bodies"}}, media: "application/jsonl", serve: unlimited(a.exportPeriod)},
		{pattern: "POST /v1/evidence/periods/{period}/archive", needs: people.Administer, keeps: whole, says: "Remove the records of a closed period that was exported.", in: archiving{}, out: PeriodStatus{}, serve: serveLong(a, a.archivePeriod)},
	}
}

func (a *Admin) policyRoutes() []route {
	return []route{
		{pattern: "GET /v1/policies", needs: people.See, keeps: whole, says: "Return the policies in force.", out: PoliciesInForce{}, serve: serve(a, a.policies)},
		{pattern: "GET /v1/policies/tests", needs: people.See, keeps: whole, says: "Run the tests beside the policies on the policies in force.", out: PolicyTests{}, serve: serve(a, a.policyTests)},
		{pattern: "POST /v1/policies/replay", needs: people.See, keeps: whole, says: "Decide recorded decisions again under other policies.", in: Replay{}, out: ReplayAnswer{}, serve: serve(a, a.replay)},
	}
}

func (a *Admin) ownRoutes() []route {
	return []route{
		{pattern: "GET /v1/whoami", needs: people.LoggedIn, keeps: own, says: "Return who calls, and what they may do.", out: WhoAmI{}, serve: serve(a, a.whoAmI)},
		{pattern: "GET " + PathOpenAPI, needs: people.LoggedIn, keeps: own, says: "Return this description.", serve: a.described},
	}
}

// The bodies of operations that have no type elsewhere.
type (
	modeChange struct {
		Mode string `json:"mode"`
	}
	modeChanged struct {
		Agent  string `json:"agent"`
		Mode   string `json:"mode"`
		Before string `json:"before"`
	}
	revocation struct {
		Target    string   `json:"target,omitempty"` // id of a capability
		Chain     []string `json:"chain,omitempty"`
		Issuer    string   `json:"issuer,omitempty"`
		Holder    string   `json:"holder,omitempty"`
		Delegator string   `json:"delegator,omitempty"`
		Principal string   `json:"principal,omitempty"`
		DryRun    bool     `json:"dry_run,omitempty"`
	}
	revokedOf struct {
		Revoked []string `json:"revoked"`
		Frozen  []string `json:"frozen"`
	}
	stopping struct {
		Target string `json:"target"`
		Reason string `json:"reason"`
	}
	personChange struct {
		Principal string `json:"principal"`
		Reason    string `json:"reason"`
	}
	replacing struct {
		Operations []string `json:"operations"` // of the grant, that stay
		DryRun     bool     `json:"dry_run,omitempty"`
	}
	keeping struct {
		Reason string `json:"reason"`
	}
	extension struct {
		Until  time.Time `json:"until"`
		Reason string    `json:"reason"`
	}
	gatewayTokenRequest struct {
		Agent string `json:"agent"`
		TTL   int    `json:"ttl"` // seconds
	}
	canRequest struct {
		Caller    string          `json:"caller"`
		Agent     string          `json:"agent"`
		Operation string          `json:"operation"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	canAnswer struct {
		Allowed bool        `json:"allowed"`
		Reasons []canReason `json:"reasons"`
	}
	canReason struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	erasure struct {
		Records   []string  `json:"records,omitempty"`
		Agent     string    `json:"agent,omitempty"`
		Principal string    `json:"principal,omitempty"`
		Until     time.Time `json:"until,omitzero"`
		DryRun    bool      `json:"dry_run,omitempty"`
	}
	archiving struct {
		Root string `json:"root"`
	}
)
