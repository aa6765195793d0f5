package config

import (
	"time"

	"github.com/powerbox-project/powerbox"
)

// The tags of the fields below: key is the name in the file, doc the meaning,
// default the value where the file has none, enum the only values, format a
// form that is checked (see formats), required that it must be there, min and
// max the bounds of a number.

// Config is the whole configuration.
type Config struct {
	Listen    string                         `key:"listen" default:"127.0.0.1:8700" format:"address" doc:"Address that serve listens on, host:port."`
	Issuer    Issuer                         `key:"issuer" doc:"The issuing side."`
	Identity  Identity                       `key:"identity" doc:"Whom to believe: sessions, calling agents, built-in users."`
	Agents    []Agent                        `key:"agents" doc:"The protected agents."`
	Offers    map[string][]Offer             `key:"offers" doc:"Per agent, the grants that can be asked for."`
	Scopes    map[string]map[string][]string `key:"scopes" doc:"Per calling agent and protected agent, the operations (grant/operation) that stand in for a capability in mode scoped. An empty list allows nothing."`
	Skills    map[string][]Skill             `key:"skills" doc:"Per agent, which operation each skill is."`
	Resources map[string]Resources           `key:"resources" doc:"Per agent, the catalogue of its resources."`
	Policies  []Path                         `key:"policies" doc:"Cedar policy files; patterns with * are allowed."`
	Approvals Approvals                      `key:"approvals" doc:"Reserved; empty in this version."`
	Evidence  Evidence                       `key:"evidence" doc:"What is recorded, and how safely."`
	Defaults  Defaults                       `key:"defaults" doc:"What holds where an agent says nothing else."`
	Include   []Path                         `key:"include" doc:"Further files; patterns with * are allowed. Lists are joined, and nothing may be set twice. Only the main file includes."`
}

// Issuer is the issuing side.
type Issuer struct {
	URL             string        `key:"url" default:"http://127.0.0.1:8700" format:"origin" doc:"Public base URL; agents live at URL/agents/ID."`
	Directory       Path          `key:"directory" default:"powerbox-data" doc:"Where keys (mode 0600) and the store are, relative to the file."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" default:"1h" doc:"Longest lifetime of a capability (SEP-8)."`
	TLS             TLS           `key:"tls" doc:"How serve speaks TLS. Without a certificate it speaks plain HTTP, for loopback or behind a proxy that terminates TLS."`
}

// TLS is how the server proves itself and what it asks of callers.
type TLS struct {
	Certificate Path `key:"certificate" doc:"PEM file with the server's certificate chain."`
	Key         Path `key:"key" doc:"PEM file with its private key."`
	ClientCA    Path `key:"client_ca" doc:"PEM file with the authorities for client certificates. A caller may then be the holder of a certificate (identity.callers, mtls or spiffe)."`
}

// Identity says whom to believe.
type Identity struct {
	Providers []Provider   `key:"providers" doc:"Issuers of sessions (OpenID Connect, OAuth 2.0 JWT access tokens)."`
	Callers   []CallerRule `key:"callers" doc:"Names of calling agents, by what they prove."`
	Dev       []DevUser    `key:"dev" doc:"Built-in users, for experiments: only with serve --dev."`
}

// Provider is one issuer of sessions.
type Provider struct {
	Issuer      string   `key:"issuer" required:"true" format:"url" doc:"The iss claim, compared exactly."`
	Audience    []string `key:"audience" doc:"Audiences that are accepted besides the agent's own URL."`
	JWKSFile    Path     `key:"jwks_file" doc:"Key set on disk. Without it and jwks_url, the issuer's discovery document says where the keys are."`
	JWKSURL     string   `key:"jwks_url" format:"url" doc:"Key set to fetch."`
	Principal   string   `key:"principal" default:"user:{sub}" doc:"Name of the principal, with one claim in braces."`
	GroupsClaim string   `key:"groups_claim" default:"groups" doc:"Claim that lists groups; /a/b is a JSON pointer."`
	RolesClaim  string   `key:"roles_claim" default:"roles" doc:"Claim that lists roles; /a/b is a JSON pointer."`
	Attributes  []string `key:"attributes" doc:"Claims that policies may read."`
}

// CallerRule names the agent that one holder is: exactly one of the others is
// set.
type CallerRule struct {
	Agent  string `key:"agent" required:"true" format:"id" doc:"Name of the calling agent, as in scopes."`
	Key    string `key:"key" doc:"RFC 7638 thumbprint of its key."`
	Client string `key:"client" doc:"OAuth client id; with several providers ISSUER#CLIENT."`
	MTLS   string `key:"mtls" doc:"base64url SHA-256 of its certificate's public key."`
	SPIFFE string `key:"spiffe" doc:"Its SPIFFE id."`
}

// DevUser is a user with a fixed token.
type DevUser struct {
	Name       string                    `key:"name" required:"true" format:"id" doc:"The principal is user:NAME."`
	Token      Secret                    `key:"token" required:"true" doc:"Bearer token, at least 8 bytes."`
	Groups     []string                  `key:"groups" doc:"Groups of the user."`
	Roles      []string                  `key:"roles" doc:"Roles of the user."`
	Attributes map[string]powerbox.Value `key:"attributes" doc:"Attributes that policies may read."`
}

// Agent is one protected agent.
type Agent struct {
	ID               string      `key:"id" required:"true" format:"id" doc:"Name of the agent: letters a-z, digits and '-'."`
	Upstream         string      `key:"upstream" required:"true" format:"url" doc:"URL of the agent behind."`
	Mode             string      `key:"mode" enum:"observe,scoped,prefer,require" doc:"How much is enforced (SEP-18). Default: defaults.mode."`
	Canary           int         `key:"canary" default:"100" min:"0" max:"100" doc:"Share of callers, in percent, that the mode holds for; the others are observed. A caller always gets the same."`
	Enforces         string      `key:"enforces" default:"none" enum:"none,context" doc:"Whether the agent itself enforces the signed context (context) or not (none)."`
	AdmitFreeText    string      `key:"admit_free_text" enum:"unsafe" doc:"unsafe admits free text under a capability with constrained operations, although the agent enforces nothing; every record says so."`
	Required         []string    `key:"required" doc:"Operations (grant/operation) that free text needs. None: free text is refused."`
	RefuseUndeclared bool        `key:"refuse_undeclared" doc:"In mode prefer, refuse callers that use ambient authority without saying so."`
	DenyStatus       int         `key:"deny_status" default:"200" enum:"200,403" doc:"HTTP status of a JSON-RPC denial; many clients lose the body of a 403."`
	Invoke           string      `key:"invoke" default:"message" enum:"message,native" doc:"Whether a2a/skill/invoke reaches the agent as a message or as it is."`
	UnknownMethods   []string    `key:"unknown_methods" doc:"Methods beyond A2A that are let through."`
	CardLegacyMember bool        `key:"card_legacy_member" default:"true" doc:"Emit capabilityGrants at the top level of the card, too (SEP-1)."`
	TrustRoots       []TrustRoot `key:"trust_roots" doc:"Other issuers whose capabilities are accepted, recorded as foreign. Default: none."`
}

// TrustRoot is another issuer whose capabilities an agent accepts.
type TrustRoot struct {
	Issuer   string `key:"issuer" required:"true" format:"url" doc:"The iss of its root tokens, compared exactly."`
	JWKSFile Path   `key:"jwks_file" required:"true" doc:"Its key set."`
}

// Offer is one grant that can be asked for (SEP-1).
type Offer struct {
	ID              string        `key:"id" required:"true" format:"grant" doc:"Name of the grant, such as documents:read."`
	Description     string        `key:"description" doc:"What it is for, in a sentence for people."`
	Operations      []string      `key:"operations" required:"true" doc:"Its operations; [\"*\"] is every operation that a skill of the agent maps to under it."`
	Attenuable      bool          `key:"attenuable" default:"true" doc:"Whether a holder may narrow and delegate it."`
	Requires        []string      `key:"requires" doc:"Grants of the agent that have to be held with it (SEP-2)."`
	Legacy          bool          `key:"legacy" doc:"Wraps a service without capability support: by reference only, never attenuable (SEP-3)."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" doc:"Longest lifetime. Default: issuer.maximum_lifetime."`
	MaximumDepth    int           `key:"maximum_depth" default:"3" min:"0" max:"16" doc:"How often it may be delegated on."`
}

// Skill says which operation a skill is.
type Skill struct {
	Skill     string                `key:"skill" required:"true" doc:"Id of the skill, as in the agent's card."`
	Grant     string                `key:"grant" required:"true" doc:"Grant that has the operation."`
	Operation string                `key:"operation" required:"true" format:"operation" doc:"The one operation that the skill is."`
	Handle    string                `key:"handle" doc:"Argument that names a resource by its handle."`
	Effect    string                `key:"effect" default:"write" enum:"read,write" doc:"Whether it changes anything."`
	Arguments map[string]Constraint `key:"arguments" doc:"All arguments that the skill takes, each with a constraint: a call has exactly these. Absent: any. Skills of one operation must agree in arguments and handle."`
}

// Resources is the catalogue of one agent: exactly one of the two.
type Resources struct {
	File  Path             `key:"file" doc:"Catalogue file, YAML or JSON."`
	Items []powerbox.Value `key:"items" doc:"The items themselves: collection, id, name, attributes."`
}

// Approvals is reserved.
type Approvals struct{}

// Evidence says what is recorded.
type Evidence struct {
	Origin     string `key:"origin" format:"log" doc:"Name of the log in its checkpoints. Default: host and path of issuer.url."`
	Arguments  string `key:"arguments" default:"redacted" enum:"redacted,none,full" doc:"How much of the arguments records keep."`
	Durability string `key:"durability" default:"local" enum:"local" doc:"When an action may go on: local is after the gateway's own disk has the record."`
}

// Defaults hold where an agent says nothing else.
type Defaults struct {
	Mode        string        `key:"mode" default:"observe" enum:"observe,scoped,prefer,require" doc:"Mode of agents that name none."`
	ProofWindow time.Duration `key:"proof_window" default:"30s" doc:"How far the time of a proof may be from ours, both ways."`
	BodyLimit   Size          `key:"body_limit" default:"4MiB" doc:"Largest request body."`
	RequestRate int           `key:"request_rate" default:"0" min:"0" max:"1000000" doc:"Requests per second and caller; 0 is no limit."`
}
