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
	Store     Store                          `key:"store" doc:"Where state and evidence are kept."`
	Identity  Identity                       `key:"identity" doc:"Whom to believe: sessions, calling agents, built-in users."`
	Agents    []Agent                        `key:"agents" doc:"The protected agents."`
	Offers    map[string][]Offer             `key:"offers" doc:"Per agent, the grants that can be asked for."`
	Scopes    map[string]map[string][]string `key:"scopes" doc:"Per calling agent and protected agent, the operations (grant/operation) that stand in for a capability in mode scoped. An empty list allows nothing."`
	Skills    map[string][]Skill             `key:"skills" doc:"Per agent, which operation each skill is."`
	Plans     []Plan                         `key:"plans" doc:"Paths of delegations. A call along a plan is refused while the path does not hold (docs/reference/cards.md)."`
	Resources map[string]Resources           `key:"resources" doc:"Per agent, the catalogue of its resources."`
	Policies  []Path                         `key:"policies" doc:"Cedar policy files; patterns with * are allowed."`
	Approvals Approvals                      `key:"approvals" doc:"How people log in to the pages on which they answer."`
	Evidence  Evidence                       `key:"evidence" doc:"What is recorded, and how safely."`
	Telemetry Telemetry                      `key:"telemetry" doc:"What is counted and traced for those who run the server."`
	Proxies   Proxies                        `key:"proxies" doc:"The proxies in front of the server, as far as they are believed about the addresses of their clients."`
	Limits    Limits                         `key:"limits" doc:"What callers may use up."`
	Defaults  Defaults                       `key:"defaults" doc:"What holds where an agent says nothing else."`
	Include   []Path                         `key:"include" doc:"Further files; patterns with * are allowed. Lists are joined, and nothing may be set twice. Only the main file includes."`
}

// Issuer is the issuing side.
type Issuer struct {
	URL             string        `key:"url" default:"http://127.0.0.1:8700" format:"origin" doc:"Public base URL; agents live at URL/agents/ID."`
	Directory       Path          `key:"directory" default:"powerbox-data" doc:"Where keys (mode 0600) and the store are, relative to the file."`
	PassphraseFile  Path          `key:"passphrase_file" doc:"File with the passphrase under which the keys in directory are encrypted (age); at least 12 bytes, white space around it is left out. Keys that stand in the clear are encrypted at the next start. Absent: they stand in the clear, mode 0600."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" default:"1h" doc:"Longest lifetime of a capability (SEP-8)."`
	Feed            Feed          `key:"feed" doc:"The signed feed of revocations and freezes, for gateways apart from the server."`
	TLS             TLS           `key:"tls" doc:"How serve speaks TLS, at every address but that of telemetry. The files are read again when they change, or on SIGHUP. Without a certificate it speaks plain HTTP, for loopback or behind a proxy that terminates TLS."`
}

// Feed is the signed feed of revocations and freezes.
type Feed struct {
	Heartbeat time.Duration `key:"heartbeat" default:"5s" doc:"Time between two heartbeats; at most 15s."`
	Streams   int           `key:"streams" default:"1024" min:"1" max:"100000" doc:"How many followers are served at once."`
	Relays    []FeedRelay   `key:"relays" doc:"Relays that may follow the feed (powerbox relay), and do nothing else here."`
}

// FeedRelay is a relay of the feed.
type FeedRelay struct {
	Name      string `key:"name" required:"true" format:"id" doc:"Its name."`
	TokenFile Path   `key:"token_file" required:"true" doc:"File with the bearer token by which it follows, at least 32 bytes; white space around it is left out."`
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
	Guards    []Guard      `key:"guards" doc:"Programs that enforce in their own process and ask at /access/v1 before they act (docs/how-to/guards.md)."`
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
	Key    string `key:"key" format:"digest" doc:"RFC 7638 thumbprint of its key, as powerbox keys thumbprint prints it."`
	Client string `key:"client" doc:"OAuth client id, never a session token; with several providers ISSUER#CLIENT."`
	MTLS   string `key:"mtls" format:"digest" doc:"base64url SHA-256 of its certificate's public key."`
	SPIFFE string `key:"spiffe" doc:"Its SPIFFE id."`
}

// Guard is a program that asks for decisions.
type Guard struct {
	Name      string   `key:"name" required:"true" format:"id" doc:"Its name."`
	TokenFile Path     `key:"token_file" required:"true" doc:"File with the bearer token by which it asks, at least 32 bytes; white space around it is left out."`
	Agents    []string `key:"agents" doc:"Calling agents whose attempts it may ask about, by their names in scopes. None: only attempts that show a capability."`
	Users     bool     `key:"users" doc:"It may ask about users, with the roles, groups and attributes that it says they have: policies believe them."`
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
	Upstream         string      `key:"upstream" format:"url" doc:"URL of the agent behind; of an MCP server, its endpoint. Required but for protocol: local."`
	Headers          []string    `key:"headers" doc:"Headers of callers that pass to the agent beside those of the protocols, content negotiation and tracing, such as X-Api-Key where the agent itself reads one. What frameworks believe of a proxy does not belong here."`
	UpstreamHosts    []string    `key:"upstream_hosts" doc:"Hosts that the agent's card may name for its interfaces beside that of upstream, on this machine and in private networks too; *.example.org is every host below it. To hosts that are neither, calls go on public addresses alone."`
	Protocol         string      `key:"protocol" default:"a2a" enum:"a2a,mcp,local" doc:"What the agent speaks: A2A; mcp for an MCP server over Streamable HTTP, whose tools are its skills (docs/how-to/mcp.md); local for an agent or tools inside a program that asks here before it acts (docs/how-to/guards.md): nothing is forwarded to it."`
	MCP              AgentMCP    `key:"mcp" doc:"What of an MCP server is there beside its tools."`
	GatewayURL       string      `key:"gateway_url" format:"origin" doc:"Public base URL of the agent's gateways, where they are apart from the server (powerbox gateway); the agent then lives at URL/agents/ID. Default: the server is its gateway."`
	GRPC             AgentGRPC   `key:"grpc" doc:"Calls by gRPC. JSON-RPC and HTTP+JSON need no setting."`
	Connections      string      `key:"upstream_connections" default:"shared" enum:"shared,fresh" doc:"Whether calls of different callers go to the agent on the same connections, one after the other (shared), or each on one of its own (fresh), for an agent that may take one request for two. gRPC is shared in both."`
	TLS              UpstreamTLS `key:"tls" doc:"How the agent is reached over TLS, by every binding. With any of these set it is reached over TLS alone. Files are read again when they change."`
	Push             AgentPush   `key:"push" doc:"Where callers may have events posted to."`
	Mode             string      `key:"mode" enum:"observe,scoped,prefer,require" doc:"How much is enforced (SEP-18). Default: defaults.mode."`
	Modes            []ModeRule  `key:"modes" doc:"Other modes for some callers, or for calls about some grants; the first that fits counts. An operator's powerbox mode goes over them."`
	Canary           int         `key:"canary" default:"100" min:"0" max:"100" doc:"Share of callers, in percent, that the mode holds for; the others are observed. A caller always gets the same."`
	Enforces         string      `key:"enforces" default:"none" enum:"none,context" doc:"Whether the agent itself enforces the signed context (context) or not (none)."`
	AdmitFreeText    string      `key:"admit_free_text" enum:"unsafe" doc:"unsafe admits free text under a capability with constrained operations, although the agent enforces nothing; every record says so."`
	Authorization    AgentScopes `key:"authorization" doc:"What the agent's card says under the authorization extension (urn:a2a:ext:authorization:v1), and what is then so."`
	AgentAuth        AgentAuth   `key:"agent_auth" doc:"Makes the agent a provider of the Agent Auth Protocol, at the server's own URL."`
	GRPCTenants      string      `key:"grpc_tenants" default:"dropped" enum:"dropped,read" doc:"Whether the agent reads the tenant of CancelTask and SubscribeToTask over gRPC. What is built on a2a-go up to 2.4.0 does not, and takes them for the task of that id which is in no tenant: dropped refuses them where that one is somebody else's."`
	ClientContexts   bool        `key:"client_contexts" doc:"Callers may choose the id of a new context, which is then theirs; otherwise a context that did not come from the agent is none. In a tenant only where the card has that tenant or declares multi_tenant. Only for an agent whose contexts all began behind its gateway: one that it made before would be whose who names it first."`
	Required         []string    `key:"required" doc:"Operations (grant/operation) that free text needs. None: free text is refused."`
	RefuseUndeclared bool        `key:"refuse_undeclared" doc:"In mode prefer, refuse callers that use ambient authority without saying so."`
	NeedsExtension   bool        `key:"extension_required" doc:"Callers must ask for the extension (A2A-Extensions); the card says so, and others get ExtensionSupportRequired (EXT-36)."`
	DenyStatus       int         `key:"deny_status" default:"200" enum:"200,403" doc:"HTTP status of a JSON-RPC denial; many clients lose the body of a 403."`
	Invoke           string      `key:"invoke" default:"message" enum:"message,native" doc:"Whether a2a/skill/invoke reaches the agent as a message or as it is."`
	UnknownMethods   []string    `key:"unknown_methods" doc:"Methods beyond A2A that are let through."`
	CardLegacyMember bool        `key:"card_legacy_member" default:"true" doc:"Emit capabilityGrants at the top level of the card, too (SEP-1)."`
	CardKeys         Path        `key:"card_keys" doc:"JWKS file. The agent's card must then be signed by one of its keys; nothing in the card adds to them. Absent: no signature is asked for."`
	Drift            string      `key:"drift" default:"record" enum:"ignore,record,block" doc:"What becomes of what the agent does and its card does not declare: streams, streamed messages, push notifications, its extended card, paused tasks, another protocol version. record: it stands in the outcome of the call. block: that, and the caller does not get it."`
	CardPin          Path        `key:"card_pin" doc:"File with the agent's card as it was agreed to. A card that offers or reaches more than this one (powerbox card diff calls it widening) is not used until the file is replaced, which is the consent; what a card drops is gone at once. Absent: any card of the agent is used."`
	Trust            string      `key:"trust" enum:"HIGH,MODERATE,LOW" doc:"Level of trust that a calling agent must have reached for whatever it asks of this one, but for ending a task (docs/reference/scores.md). Its score is that of the protected agent of the same name; who is none has none. Absent: no level."`
	Bodies           AgentBodies `key:"bodies" doc:"What is kept beside the records of the agent's calls, and can be erased without touching them (docs/how-to/operations.md). Default: nothing; records have the names and kinds of arguments (evidence.arguments)."`
	Degraded         Degraded    `key:"degraded" doc:"What goes on while records cannot be written. Default: nothing."`
	TrustRoots       []TrustRoot `key:"trust_roots" doc:"Other issuers whose capabilities are accepted, recorded as foreign. Default: none."`
}

// AgentMCP is what of an MCP server is there beside its tools.
type AgentMCP struct {
	Methods        map[string]string `key:"methods" doc:"Operations (grant/operation) that methods beside tools/call need, by method: resources/read, resources/subscribe, resources/unsubscribe, prompts/get, completion/complete. Their parameters are the operation's arguments; subscriptions/listen has that of resources/subscribe for every resource. One that is not named is refused, and nothing is listed for it."`
	ServerRequests []string          `key:"server_requests" doc:"Methods that the server may call at its clients: sampling/createMessage, elicitation/create, roots/list, ping. None: its requests are refused in the client's place."`
}

// AgentBodies is what is kept beside records. A record holds a commitment to it,
// under a key that is erased with it.
type AgentBodies struct {
	Keep      string        `key:"keep" default:"none" enum:"none,arguments" doc:"arguments keeps the arguments of named skills as they were sent, up to 512KiB; more is refused."`
	Retention time.Duration `key:"retention" default:"720h" doc:"How long they are kept; then they are erased, and the records stay."`
}

// Degraded is what the operator lets go on although it cannot be recorded
// (EXT-27).
type Degraded struct {
	Calls string        `key:"calls" default:"none" enum:"none,reads" doc:"reads lets calls go on that are allowed and known to change nothing; each is logged, and how many they were is recorded as soon as that can be. Not for an agent whose gateways are apart from the server."`
	For   time.Duration `key:"for" default:"15m" doc:"How long at a time, from the first record that could not be written; up to 24h. After that nothing goes on."`
}

// ModeRule is the mode of one caller, or of calls about one grant.
type ModeRule struct {
	Caller string `key:"caller" format:"id" doc:"Name of a calling agent, as in identity.callers. A caller that does not prove its name has the agent's mode."`
	Grant  string `key:"grant" format:"grant" doc:"Grant of the agent: calls that name a skill of it and nothing else. Free text has the agent's mode."`
	Mode   string `key:"mode" required:"true" enum:"observe,scoped,prefer,require" doc:"How much is enforced for them."`
	Canary int    `key:"canary" default:"100" min:"0" max:"100" doc:"Share of callers, in percent, that it holds for; the others are observed."`
}

// AgentGRPC is where calls by gRPC are taken. Their paths name no agent, so that
// each agent has an address of its own.
type AgentGRPC struct {
	Listen   string `key:"listen" format:"address" doc:"Address on which calls by gRPC to this agent are taken, host:port. Absent: gRPC is not taken, and not on the card."`
	Address  string `key:"address" format:"address" doc:"host:port that clients use. Default: listen."`
	Upstream string `key:"upstream" format:"url" doc:"Where the agent takes gRPC, http for HTTP/2 without TLS. Default: what its card says, with TLS but on loopback."`
}

// UpstreamTLS is how an agent is reached over TLS.
type UpstreamTLS struct {
	CA          Path   `key:"ca" doc:"PEM file with the authorities that sign the agent's certificate. Absent: those of the system."`
	Certificate Path   `key:"certificate" doc:"PEM file with the certificate chain that is shown to the agent (mTLS)."`
	Key         Path   `key:"key" doc:"PEM file with its private key."`
	ServerName  string `key:"server_name" doc:"Name that the agent's certificate must have. Absent: the host of its URL."`
}

// AgentScopes are the parameters of the authorization extension (EXT-1). They
// bind: what the card says is enforced (EXT-42).
type AgentScopes struct {
	Model            string              `key:"model" default:"CAPABILITY" enum:"CAPABILITY,ROLE,ATTRIBUTE" doc:"The authorization model (EXT-2). With CAPABILITY nothing is enforced as allowed without a capability. With ROLE or ATTRIBUTE a session needs none for the operations that policy allows its user on the agent itself, by the roles or attributes that the identity provider says."`
	Roles            map[string][]string `key:"roles" doc:"What roles may do: per role grants, or operations as grant/operation. The same as policies that permit it on every resource."`
	Compliance       []string            `key:"compliance" doc:"Compliance labels of the agent, such as soc2 or eu-ai-act-high-risk, as the card then shows them; nothing here checks them (EXT-40)."`
	RequiredScopes   []string            `key:"required_scopes" doc:"Scopes that every call needs, beside what it does: GRANT.OPERATION of the agent's offers, with ':' as a dot."`
	Delegation       bool                `key:"delegation" default:"true" doc:"Whether chains of delegation links are accepted."`
	MaxDepth         int                 `key:"max_delegation_depth" default:"16" min:"0" max:"16" doc:"How many links a chain may have; a grant may allow fewer. 0 accepts none."`
	EvidenceRequired bool                `key:"evidence_required" doc:"Callers must ask for the extension (A2A-Extensions), by which they say that they know of the evidence: every answer names its record. Not for an MCP server, whose clients ask for no extensions."`
}

// AgentPush says where events of an agent's tasks may be posted to. Without a
// relay they leave the agent without passing the gateway.
type AgentPush struct {
	Hosts    []string `key:"hosts" doc:"Hosts that events may be posted to; *.example.org is every host below it. Absent: every public host."`
	Private  bool     `key:"private" doc:"Whether addresses of this machine and of private networks are admitted, also without TLS."`
	Relay    bool     `key:"relay" doc:"Whether events pass the gateway: the agent gets the gateway's address in the place of the caller's, and every event is decided and recorded before it is posted. Not in mode observe."`
	RelayVia string   `key:"relay_via" format:"url" doc:"Base URL at which the agent reaches the gateway, where that is not the public one, such as http://127.0.0.1:8443."`
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
	// Budgets, which have the capability stay by reference.
	Uses int                       `key:"uses" min:"0" max:"1000000000" doc:"How often one capability of it can be used in all, with everything that is narrowed from it; 0 for no bound. Skills, tools and messages count, once each, also where a stream answers; reading, following and ending tasks, and what MCP does beside calls, do not. A capability with a budget has no token: it is presented by its id."`
	Sum  map[string]powerbox.Value `key:"sum" doc:"Per argument, the most that all uses of one capability of it may add up to, with everything that is narrowed from it. Free text, which nobody can add up, is refused under it."`
}

// Skill says which operation a skill is.
type Skill struct {
	Skill     string                `key:"skill" required:"true" doc:"Id of the skill, as in the agent's card."`
	Grant     string                `key:"grant" required:"true" doc:"Grant that has the operation."`
	Operation string                `key:"operation" required:"true" format:"operation" doc:"The one operation that the skill is."`
	Handle    string                `key:"handle" doc:"Argument that names a resource by its handle."`
	Trust     string                `key:"trust" enum:"HIGH,MODERATE,LOW" doc:"Level of trust that a calling agent must have reached for this operation, as in agents.trust, where that is lower; free text that could ask for it needs it too."`
	Effect    string                `key:"effect" default:"write" enum:"read,write" doc:"Whether it changes anything."`
	Approval  bool                  `key:"approval" doc:"A person has to approve every single call of it: the gateway holds the call back and answers with a task in AUTH_REQUIRED. approvals.rules say who; the user behind, where no rule does."`
	Arguments map[string]Constraint `key:"arguments" doc:"All arguments that the skill takes, each with a constraint: a call has exactly these. Absent: any. Skills of one operation must agree in arguments and handle."`
}

// Resources is the catalogue of one agent: exactly one of the two.
type Resources struct {
	File  Path             `key:"file" doc:"Catalogue file, YAML or JSON."`
	Items []powerbox.Value `key:"items" doc:"The items themselves: collection, id, name, attributes."`
}

// Evidence says what is recorded.
type Evidence struct {
	Origin     string `key:"origin" format:"log" doc:"Name of the log in its checkpoints. Default: host and path of issuer.url."`
	Arguments  string `key:"arguments" default:"redacted" enum:"redacted,none,full" doc:"How much of the arguments records keep."`
	Algorithm  string `key:"algorithm" default:"Ed25519" enum:"Ed25519,ES256,ML-DSA-87" doc:"What signs records. Each has a key of its own: changing it closes the key before and enrols the other, on record. ML-DSA-87 signatures have 4.6 KiB each; with signatures: batch few records need one."`
	Retention  int    `key:"retention_years" default:"10" min:"1" max:"100" doc:"For how many years records must convince. Nothing is deleted when they are over; more than 10 need algorithm ML-DSA-87."`
	Signatures string `key:"signatures" default:"record" enum:"record,batch" doc:"What is signed: every record, or of each agent's records that reach the disk together the last, which covers those before it."`
	Durability string `key:"durability" default:"local" enum:"local" doc:"When an action may go on: local is after the gateway's own disk has the record."`

	Witnesses        []Witness     `key:"witnesses" doc:"Who is asked to cosign the log's checkpoints (C2SP tlog-witness), best in other hands than the server. At start each is asked whether the store is behind or beside what it has cosigned; if it is, nothing is served."`
	Quorum           int           `key:"quorum" default:"0" min:"0" max:"100" doc:"How many witnesses must have cosigned, more than half of them; 0 is just more than half."`
	WitnessPeriod    time.Duration `key:"witness_period" default:"10s" doc:"Time between two rounds of asking; from 100ms to 1h."`
	StartUnwitnessed string        `key:"start_unwitnessed" enum:"unsafe" doc:"unsafe lets serve start although fewer witnesses than the quorum answer: a store that was rolled back is then found only when they do."`
}

// Witness cosigns the checkpoints of the log.
type Witness struct {
	URL string `key:"url" required:"true" format:"origin" doc:"Where it takes checkpoints: what is in front of /add-checkpoint. Plain http goes to loopback and private addresses alone."`
	Key string `key:"key" required:"true" doc:"Its key, as powerbox witness key prints it: NAME+HASH+BASE64."`
}

// Telemetry says what is counted and traced. No metric and no span names a
// principal, an argument or a body.
type Telemetry struct {
	Listen string `key:"listen" format:"address" doc:"Address of the metrics for Prometheus, host:port, at /metrics without TLS and token: a loopback address, or one in a network of your own. Absent: none are kept."`
	Traces bool   `key:"traces" doc:"Whether a span is made of every call and sent to where the OTEL_* variables of the environment say. The trace that a caller names goes on, and the agent behind gets ours."`
}

// Defaults hold where an agent says nothing else.
type Defaults struct {
	Mode        string        `key:"mode" default:"observe" enum:"observe,scoped,prefer,require" doc:"Mode of agents that name none."`
	ProofWindow time.Duration `key:"proof_window" default:"30s" doc:"How far the time of a proof may be from ours, both ways."`
	BodyLimit   Size          `key:"body_limit" default:"4MiB" doc:"Largest request body."`
	Drain       time.Duration `key:"drain" default:"10s" doc:"Time that calls and streams under way have to end, once the server is told to."`
	DrainNotice time.Duration `key:"drain_notice" doc:"Time before that in which connections are still taken while /readyz says no, for a balancer to notice. Absent: none."`
	RequestRate int           `key:"request_rate" default:"1000" min:"0" max:"1000000" doc:"Requests per second and caller; 0 is no limit."`
}

// Proxies are the proxies in front of a listener that are believed.
type Proxies struct {
	Trusted []string `key:"trusted" format:"network" doc:"Networks of the proxies, such as 10.0.0.0/8 or 192.0.2.7. Absent: none is believed, and the address of a client is that of its connection."`
	Address string   `key:"address" enum:"x-forwarded-for,forwarded,proxy-protocol" default:"x-forwarded-for" doc:"How they tell the address of a client. Only this one is read, so that a client cannot use another. With proxy-protocol (versions 1 and 2) a connection from them that begins with anything else is closed."`
}

// Limits are what callers may use up at one listener, or one caller by itself.
type Limits struct {
	Connections int           `key:"connections" default:"8192" min:"1" max:"1000000" doc:"Connections at one address; further ones wait."`
	PerAddress  int           `key:"connections_per_address" default:"4096" min:"0" max:"1000000" doc:"Connections of one client address at one of ours, for IPv6 of one network of 64 bits; further ones are closed at once. Half of limits.connections, so that no single address takes all. A proxy of proxies.trusted has no such limit: with proxy-protocol its clients have. 0 is no limit."`
	Header      Size          `key:"header" default:"64KiB" doc:"Largest header of a request. A chain with its proof needs up to 8KiB."`
	HeaderTime  time.Duration `key:"header_time" default:"10s" doc:"Time in which the header of a request has to come."`
	IdleTime    time.Duration `key:"idle_time" default:"2m" doc:"Time after which a connection without a request is closed."`
	BodyTime    time.Duration `key:"body_time" default:"30s" doc:"Time in which the body of a request has to come."`
	Denials     int           `key:"denials" default:"120" min:"0" max:"1000000" doc:"Denials of one caller in a minute that are recorded one by one. Of more than that a part is recorded, with how many there were; 0 records all."`
	Streams     int           `key:"streams" default:"256" min:"1" max:"1000000" doc:"Streams that one caller may have open."`
	// Calls that wait longer than that are turned away.
	QueueTime time.Duration `key:"queue_time" default:"100ms" doc:"Time that a call waits to be decided while as many are decided as limits.deciding says. A call that would wait longer is turned away at once with 503 and Retry-After, and is counted and not recorded. 0s turns none away."`
	Deciding  int           `key:"deciding" default:"0" min:"0" max:"1000000" doc:"Calls that one process decides and records at once; others wait for limits.queue_time. 0 is 128, or 32 for each processor where that is more."`
	// The deadline of everything that a call waits for.
	DependencyTime time.Duration `key:"dependency_time" default:"5s" doc:"Time that a call waits for one dependency: a change of the store, the latest revocations of other nodes, a connection to an agent, and at a remote gateway an answer of the server, which has 2s at the most. After it the caller gets an error that says to try again."`
}
