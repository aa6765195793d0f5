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
	Identity  Identity                       `key:"identity" doc:"Trusted identities: sessions, calling agents, built-in users."`
	Agents    []Agent                        `key:"agents" doc:"The protected agents."`
	Doors     []Door                         `key:"doors" doc:"Listeners at which other gateways, such as Envoy, Caddy and nginx, ask whether a request may continue (docs/how-to/other-gateways.md). Absent: none."`
	Offers    map[string][]Offer             `key:"offers" doc:"Per agent, the grants that callers can request."`
	Scopes    map[string]map[string][]string `key:"scopes" doc:"Per calling agent and protected agent, the operations (grant/operation) that need no capability in mode scoped. An empty list allows nothing."`
	Skills    map[string][]Skill             `key:"skills" doc:"Per agent, the operation of each skill."`
	Plans     []Plan                         `key:"plans" doc:"Paths of delegations. A call along a plan is refused while the path does not hold (docs/reference/cards.md)."`
	Resources map[string]Resources           `key:"resources" doc:"Per agent, the catalogue of its resources."`
	Policies  []Path                         `key:"policies" doc:"Cedar policy files; patterns with * are allowed."`
	Data      Data                           `key:"data" doc:"Labels of results and rules about the origin of data (docs/how-to/data-origin.md)."`
	Approvals Approvals                      `key:"approvals" doc:"How people log in to the approval pages, and who answers."`
	OAuth     OAuth                          `key:"oauth" doc:"Access for MCP and A2A clients by OAuth 2.1. Off by default."`
	Operators Operators                      `key:"operators" doc:"Who operates this server, by role."`
	Evidence  Evidence                       `key:"evidence" doc:"The evidence log: contents, signatures, witnesses."`
	Telemetry Telemetry                      `key:"telemetry" doc:"Metrics, traces and logs for operators."`
	Proxies   Proxies                        `key:"proxies" doc:"Proxies in front of the server that are trusted to report the addresses of their clients."`
	Limits    Limits                         `key:"limits" doc:"Limits on callers."`
	Defaults  Defaults                       `key:"defaults" doc:"Defaults for agents."`
	Include   []Path                         `key:"include" doc:"Further files; patterns with * are allowed. Lists are joined. A key must not be set twice. Only the main file can include others."`
}

// Issuer is the issuing side.
type Issuer struct {
	URL             string        `key:"url" default:"http://127.0.0.1:8700" format:"origin" doc:"Public base URL; agents live at URL/agents/ID."`
	Directory       Path          `key:"directory" default:"powerbox-data" doc:"Folder of the keys (mode 0600) and the store, relative to the file."`
	PassphraseFile  Path          `key:"passphrase_file" doc:"File with the passphrase that encrypts the keys in directory (age): at least 12 bytes, white space around it is ignored. The next start encrypts plain keys. Absent: keys are plain files of mode 0600."`
	SignerFile      Path          `key:"signer_file" doc:"File that says where signing keys are kept that are not files: in a program such as one for PKCS#11 or a cloud, or in Vault (docs/how-to/keys.md). Absent: they are files in directory."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" default:"1h" doc:"Longest lifetime of a capability (SEP-8)."`
	TokenDrafts     []string      `key:"token_drafts" doc:"Drafts of attenuating tokens that are accepted: 02, 01. The first one is issued. Default: 02. Chains of other drafts are denied with draft_not_accepted."`
	TokenStrict     bool          `key:"token_strict" doc:"Issue and accept only constraint types that the token draft defines: no path, url, cidr and glob in tokens. Capabilities with one of these are issued by reference."`
	Feed            Feed          `key:"feed" doc:"The signed feed of revocations and freezes, for remote gateways."`
	TLS             TLS           `key:"tls" doc:"TLS of serve, at every address except that of telemetry. The server reads the files again when they change, or on SIGHUP. Without a certificate it speaks plain HTTP, for loopback or behind a proxy that terminates TLS."`
}

// Feed is the signed feed of revocations and freezes.
type Feed struct {
	Heartbeat time.Duration `key:"heartbeat" default:"5s" doc:"Time between two heartbeats; at most 15s."`
	Streams   int           `key:"streams" default:"1024" min:"1" max:"100000" doc:"Number of followers at once."`
	Relays    []FeedRelay   `key:"relays" doc:"Relays that may follow the feed (powerbox relay). They can do nothing else here."`
}

// FeedRelay is a relay of the feed.
type FeedRelay struct {
	Name      string `key:"name" required:"true" format:"id" doc:"Its name."`
	TokenFile Path   `key:"token_file" required:"true" doc:"File with its bearer token, at least 32 bytes; white space around it is ignored."`
}

// TLS is how the server proves itself and what it asks of callers.
type TLS struct {
	Certificate Path `key:"certificate" doc:"PEM file with the server's certificate chain."`
	Key         Path `key:"key" doc:"PEM file with its private key."`
	ClientCA    Path `key:"client_ca" doc:"PEM file with the authorities for client certificates. A caller can then be the holder of a certificate (identity.callers, mtls or spiffe)."`
}

// Guard is a program that asks for decisions.
type Guard struct {
	Name      string   `key:"name" required:"true" format:"id" doc:"Its name."`
	TokenFile Path     `key:"token_file" required:"true" doc:"File with its bearer token, at least 32 bytes; white space around it is ignored."`
	Agents    []string `key:"agents" doc:"Calling agents whose attempts it may ask about, by their names in scopes. Empty: only attempts that show a capability."`
	Users     bool     `key:"users" doc:"It may ask about users, and state their roles, groups and attributes, which policies then believe."`
}

// Door is a listener at which another gateway asks for decisions.
type Door struct {
	Name             string      `key:"name" required:"true" format:"id" doc:"Its name."`
	Listen           string      `key:"listen" required:"true" format:"address" doc:"Address that the gateway asks at, host:port. It answers Envoy's ext_authz and ext_proc over gRPC, ext_authz over HTTP below /ext_authz, and Caddy, nginx and Traefik at /forward_auth. TLS is that of issuer.tls."`
	TokenFile        Path        `key:"token_file" doc:"File with the token that the gateway shows in the header, or gRPC metadata, Powerbox-Door: at least 32 bytes; white space around it is ignored. Required unless listen is a loopback address, and with peer_certificates."`
	PeerCertificates bool        `key:"peer_certificates" doc:"The client certificates that the gateway reports over gRPC are verified by it, and prove a calling agent (identity.callers, mtls or spiffe). Absent: they prove nothing."`
	GRPCOnly         bool        `key:"grpc_only" doc:"The gateway asks over gRPC alone. Answers then come sooner, and HTTP is not answered."`
	Routes           []DoorRoute `key:"routes" doc:"Which agent a request is for. The gateway may forward nothing that has no route."`
}

// DoorRoute names the agent of a host and a path.
type DoorRoute struct {
	Host  string `key:"host" doc:"Host of the request, in lower case and without a port. Absent: any."`
	Path  string `key:"path" default:"/" doc:"Path of the agent's URL at the gateway, and everything below it."`
	Agent string `key:"agent" required:"true" format:"id" doc:"The protected agent. It is called over JSON-RPC, HTTP+JSON or MCP."`
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
	ID               string          `key:"id" required:"true" format:"id" doc:"Name of the agent: letters a-z, digits and '-'."`
	Tenant           string          `key:"tenant" format:"id" doc:"Label of the team or customer that the agent is of. operators.roles can name it."`
	Upstream         string          `key:"upstream" format:"url" doc:"URL of the protected agent, or endpoint of the MCP server. Required except for protocol: local."`
	Headers          []string        `key:"headers" doc:"Headers of callers that pass to the agent, in addition to those of the protocols, content negotiation and tracing. An example is X-Api-Key, if the agent reads it. Do not list headers that frameworks trust from a proxy."`
	UpstreamHosts    []string        `key:"upstream_hosts" doc:"Hosts that the agent's card may name for its interfaces, in addition to that of upstream, also on this machine and in private networks. *.example.org is every host below it. Other hosts are called only at public addresses."`
	Protocol         string          `key:"protocol" default:"a2a" enum:"a2a,mcp,local" doc:"Protocol of the agent. a2a: A2A. mcp: an MCP server over Streamable HTTP, whose tools are its skills (docs/how-to/mcp.md). local: an agent or tools inside a program that asks here before it acts (docs/how-to/guards.md); the gateway forwards nothing to it."`
	MCP              AgentMCP        `key:"mcp" doc:"Methods of an MCP server that are available in addition to its tools."`
	GatewayURL       string          `key:"gateway_url" format:"origin" doc:"Public base URL of the agent's remote gateways (powerbox gateway); the agent is then at URL/agents/ID. Default: the server is its gateway."`
	GRPC             AgentGRPC       `key:"grpc" doc:"Calls by gRPC. JSON-RPC and HTTP+JSON need no setting."`
	Connections      string          `key:"upstream_connections" default:"shared" enum:"shared,fresh" doc:"Whether calls of different callers use the same connections to the agent one after the other (shared), or one connection each (fresh). Use fresh for an agent that may read one request as two. gRPC is always shared."`
	Credential       AgentCredential `key:"credential" doc:"Secret of the operator that is added to decided calls to the agent. Callers never see it and cannot send another (docs/how-to/credentials.md)."`
	TLS              UpstreamTLS     `key:"tls" doc:"TLS to the agent, for every binding. If any of these is set, the gateway calls the agent only over TLS. Files are read again when they change."`
	Push             AgentPush       `key:"push" doc:"Addresses to which callers may have events posted."`
	Mode             string          `key:"mode" enum:"observe,scoped,prefer,require" doc:"Mode: how much is enforced (SEP-18). Default: defaults.mode."`
	Modes            []ModeRule      `key:"modes" doc:"Other modes for some callers, or for calls about some grants; the first match counts. powerbox mode takes precedence."`
	Canary           int             `key:"canary" default:"100" min:"0" max:"100" doc:"Share of callers, in percent, for which the mode holds; the others are observed. The same caller always gets the same mode."`
	Enforces         string          `key:"enforces" default:"none" enum:"none,context" doc:"Whether the agent enforces the signed context (context) or not (none)."`
	Context          string          `key:"context" default:"signed" enum:"signed,none" doc:"Whether the gateway signs a context for the agent with every call (signed) or sends none. Use none only for an agent that does not verify it and is reached through its gateway alone: it saves a signature a call."`
	AdmitFreeText    string          `key:"admit_free_text" enum:"unsafe" doc:"unsafe admits free text under a capability with constrained operations, although the agent enforces nothing; every record says so."`
	Authorization    AgentScopes     `key:"authorization" doc:"The authorization extension (urn:a2a:ext:authorization:v1) on the agent's card, and its enforcement."`
	AgentAuth        AgentAuth       `key:"agent_auth" doc:"Makes the agent a provider of the Agent Auth Protocol, at the server's own URL."`
	GRPCTenants      string          `key:"grpc_tenants" default:"dropped" enum:"dropped,read" doc:"Whether the agent reads the tenant of CancelTask and SubscribeToTask over gRPC. Agents on a2a-go up to 2.4.0 do not: they take the task of that id that is in no tenant. dropped refuses such a call if that task belongs to another caller."`
	ClientContexts   bool            `key:"client_contexts" doc:"Callers may choose the id of a new context, which then belongs to them. Otherwise the gateway knows only contexts from the agent. In a tenant only if the card has that tenant or declares multi_tenant. Use it only if all contexts of the agent began behind its gateway: an older context would belong to the first caller that names it."`
	Required         []string        `key:"required" doc:"Operations (grant/operation) that free text needs. Empty: free text is refused."`
	RefuseUndeclared bool            `key:"refuse_undeclared" doc:"In mode prefer, refuse callers that use ambient authority without declaring it."`
	NeedsExtension   bool            `key:"extension_required" doc:"Callers must request the extension (A2A-Extensions). The card says so, and others get ExtensionSupportRequired (EXT-36)."`
	DenyStatus       int             `key:"deny_status" default:"200" enum:"200,403" doc:"HTTP status of a JSON-RPC denial; many clients lose the body of a 403."`
	Invoke           string          `key:"invoke" default:"message" enum:"message,native" doc:"Whether a2a/skill/invoke reaches the agent as a message or unchanged."`
	UnknownMethods   []string        `key:"unknown_methods" doc:"Methods beyond A2A that the gateway forwards."`
	CardLegacyMember bool            `key:"card_legacy_member" default:"true" doc:"Also write capabilityGrants at the top level of the card (SEP-1)."`
	CardKeys         Path            `key:"card_keys" doc:"JWKS file. One of its keys must sign the agent's card; the card cannot add keys. Absent: no signature is needed."`
	Drift            string          `key:"drift" default:"record" enum:"ignore,record,block" doc:"How to treat undeclared behaviour of the agent: streams, streamed messages, push notifications, its extended card, paused tasks, another protocol version. record: the outcome of the call names it. block: also, the caller does not get it."`
	CardPin          Path            `key:"card_pin" doc:"File with the accepted card of the agent. The gateway does not use a card that offers or reaches more (widening, in powerbox card diff) until you replace the file, which is the consent. Features that a card drops are gone at once. Absent: any card of the agent is used."`
	Yields           Yields          `key:"yields" doc:"Label of answers of the agent that are of no skill, such as resources of an MCP server, and answers to free text."`
	Trust            string          `key:"trust" enum:"HIGH,MODERATE,LOW" doc:"Level of trust that a calling agent needs for every call except ending a task (docs/reference/scores.md). Its score is that of the protected agent of the same name; other callers have none. Absent: no level."`
	Bodies           AgentBodies     `key:"bodies" doc:"Bodies to keep beside the records of the agent's calls; they can be erased without changing the records (docs/how-to/operations.md). Default: nothing; records have the names and kinds of arguments (evidence.arguments)."`
	Degraded         Degraded        `key:"degraded" doc:"Calls that continue while records cannot be written. Default: none."`
	TrustRoots       []TrustRoot     `key:"trust_roots" doc:"Other issuers whose capabilities are accepted, recorded as foreign. Default: none."`
}

// AgentMCP is what of an MCP server is there beside its tools.
type AgentMCP struct {
	Methods        map[string]string `key:"methods" doc:"Operations (grant/operation) that other methods than tools/call need, by method: resources/read, resources/subscribe, resources/unsubscribe, prompts/get, completion/complete. Their parameters are the operation's arguments. subscriptions/listen needs that of resources/subscribe for every resource. A method that is not named is refused, and its items are not listed."`
	ServerRequests []string          `key:"server_requests" doc:"Methods that the server may call at its clients: sampling/createMessage, elicitation/create, roots/list, ping. Empty: the gateway refuses its requests."`
}

// AgentBodies says which bodies are kept beside records. A record holds a commitment to it,
// under a key that is erased with it.
type AgentBodies struct {
	Keep      string        `key:"keep" default:"none" enum:"none,arguments" doc:"arguments keeps the arguments of named skills as they were sent, up to 512KiB. Larger calls are refused."`
	Retention time.Duration `key:"retention" default:"720h" doc:"How long to keep them. Then they are erased, and the records stay."`
}

// Degraded is what the operator lets continue although it cannot be recorded
// (EXT-27).
type Degraded struct {
	Calls string        `key:"calls" default:"none" enum:"none,reads" doc:"reads lets allowed calls continue that are known to change nothing. Each is logged, and their number is recorded as soon as possible. Not for an agent with remote gateways."`
	For   time.Duration `key:"for" default:"15m" doc:"How long, from the first record that could not be written; up to 24h. After that all calls are refused."`
}

// ModeRule is the mode of one caller, or of calls about one grant.
type ModeRule struct {
	Caller string `key:"caller" format:"id" doc:"Name of a calling agent, as in identity.callers. A caller that does not prove its name has the agent's mode."`
	Grant  string `key:"grant" format:"grant" doc:"Grant of the agent: the rule is for calls that name only skills of this grant. Free text has the agent's mode."`
	Mode   string `key:"mode" required:"true" enum:"observe,scoped,prefer,require" doc:"Mode for these calls."`
	Canary int    `key:"canary" default:"100" min:"0" max:"100" doc:"Share of callers, in percent, for which the rule holds; the others are observed."`
}

// AgentGRPC is where calls by gRPC are taken. Their paths name no agent, so that
// each agent has its own address.
type AgentGRPC struct {
	Listen   string `key:"listen" format:"address" doc:"Address for gRPC calls to this agent, host:port. Absent: no gRPC, also not on the card."`
	Address  string `key:"address" format:"address" doc:"Address that clients use, host:port. Default: listen."`
	Upstream string `key:"upstream" format:"url" doc:"URL of the agent's gRPC; http means HTTP/2 without TLS. Default: the URL on its card, with TLS except on loopback."`
}

// UpstreamTLS is how an agent is reached over TLS.
type UpstreamTLS struct {
	CA          Path   `key:"ca" doc:"PEM file with the authorities that sign the agent's certificate. Absent: those of the system."`
	Certificate Path   `key:"certificate" doc:"PEM file with the certificate chain to show to the agent (mTLS)."`
	Key         Path   `key:"key" doc:"PEM file with its private key."`
	ServerName  string `key:"server_name" doc:"Name that the agent's certificate must have. Absent: the host of its URL."`
}

// AgentScopes are the parameters of the authorization extension (EXT-1). They
// bind: what the card says is enforced (EXT-42).
type AgentScopes struct {
	Model            string              `key:"model" default:"CAPABILITY" enum:"CAPABILITY,ROLE,ATTRIBUTE" doc:"Authorization model (EXT-2). CAPABILITY: every call needs a capability. ROLE or ATTRIBUTE: a session needs none for operations that policy allows its user on the agent itself, by the roles or attributes from the identity provider."`
	Roles            map[string][]string `key:"roles" doc:"Grants, or operations as grant/operation, of each role. It is the same as policies that permit them on every resource."`
	Compliance       []string            `key:"compliance" doc:"Compliance labels for the agent's card, such as soc2 or eu-ai-act-high-risk. Powerbox does not check them (EXT-40)."`
	RequiredScopes   []string            `key:"required_scopes" doc:"Scopes that every call needs in addition to its operation: GRANT.OPERATION of the agent's offers, with ':' as a dot."`
	Delegation       bool                `key:"delegation" default:"true" doc:"Whether to accept chains of delegation links."`
	MaxDepth         int                 `key:"max_delegation_depth" default:"16" min:"0" max:"16" doc:"Longest chain of links; a grant may allow fewer. 0 accepts none."`
	EvidenceRequired bool                `key:"evidence_required" doc:"Callers must request the extension (A2A-Extensions), which declares that they know of the evidence: every answer names its record. Not for an MCP server, whose clients request no extensions."`
}

// AgentPush says where events of an agent's tasks may be posted to. Without a
// relay they leave the agent without passing the gateway.
type AgentPush struct {
	Hosts    []string `key:"hosts" doc:"Hosts to which events may be posted; *.example.org is every host below it. Absent: every public host."`
	Private  bool     `key:"private" doc:"Whether to admit addresses of this machine and of private networks, also without TLS."`
	Relay    bool     `key:"relay" doc:"Whether events pass the gateway: the agent gets the gateway's address instead of the caller's, and the gateway decides and records every event before it posts it. Not in mode observe."`
	RelayVia string   `key:"relay_via" format:"url" doc:"Base URL at which the agent reaches the gateway, if it is not the public one, such as http://127.0.0.1:8443."`
}

// TrustRoot is another issuer whose capabilities an agent accepts.
type TrustRoot struct {
	Issuer   string `key:"issuer" required:"true" format:"url" doc:"The iss of its root tokens, compared exactly."`
	JWKSFile Path   `key:"jwks_file" required:"true" doc:"Its key set."`
}

// Offer is one grant that can be asked for (SEP-1).
type Offer struct {
	ID              string        `key:"id" required:"true" format:"grant" doc:"Name of the grant, such as documents:read."`
	Description     string        `key:"description" doc:"Description in one sentence, for people."`
	Operations      []string      `key:"operations" required:"true" doc:"Its operations; [\"*\"] is every operation that a skill of the agent maps to under it."`
	Attenuable      bool          `key:"attenuable" default:"true" doc:"Whether a holder may narrow and delegate it."`
	Requires        []string      `key:"requires" doc:"Grants of the agent that must be held with it (SEP-2)."`
	Legacy          bool          `key:"legacy" doc:"Wraps a service without capability support: by reference only, never attenuable (SEP-3)."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" doc:"Longest lifetime. Default: issuer.maximum_lifetime."`
	MaximumDepth    int           `key:"maximum_depth" default:"3" min:"0" max:"16" doc:"How often a holder may delegate it."`
	// Budgets, which have the capability stay by reference.
	Uses int                       `key:"uses" min:"0" max:"1000000000" doc:"Total number of uses of one capability and all that is narrowed from it; 0 for no limit. Each call of a skill or tool and each message counts once, also if a stream answers. Reading, following and ending tasks and other methods of MCP do not count. A capability with a budget has no token: callers present its id."`
	Sum  map[string]powerbox.Value `key:"sum" doc:"Per argument, the largest sum over all uses of one capability and all that is narrowed from it. Free text has no sum and is refused."`
}

// Skill says which operation a skill is.
type Skill struct {
	Skill     string                `key:"skill" required:"true" doc:"Id of the skill, as in the agent's card."`
	Grant     string                `key:"grant" required:"true" doc:"Grant that has the operation."`
	Operation string                `key:"operation" required:"true" format:"operation" doc:"Operation of the skill."`
	Handle    string                `key:"handle" doc:"Argument that contains the handle of a resource."`
	Trust     string                `key:"trust" enum:"HIGH,MODERATE,LOW" doc:"Level of trust that a calling agent needs for this operation, if it is higher than agents.trust. Free text that could request the operation needs it too."`
	Effect    string                `key:"effect" default:"write" enum:"read,write" doc:"Whether the skill changes anything."`
	Approval  bool                  `key:"approval" doc:"A person must approve every call of it: the gateway holds the call and answers with a task in AUTH_REQUIRED. approvals.rules say who; without a rule, the user for whom the agent acts."`
	Yields    Yields                `key:"yields" doc:"Label of the skill's results (docs/how-to/data-origin.md). It counts if data.mode is not off."`
	Accepts   Accepts               `key:"accepts" doc:"Data that may flow into calls of the skill. It counts if data.mode is not off. Skills of one operation must agree."`
	Arguments map[string]Constraint `key:"arguments" doc:"All arguments that the skill takes, each with a constraint: a call has exactly these. Absent: any. Skills of one operation must agree in arguments and handle."`
}

// Evidence configures the records.
type Evidence struct {
	Origin     string `key:"origin" format:"log" doc:"Name of the log in its checkpoints. Default: host and path of issuer.url."`
	Arguments  string `key:"arguments" default:"redacted" enum:"redacted,none,full" doc:"How much of the arguments records keep."`
	Algorithm  string `key:"algorithm" default:"Ed25519" enum:"Ed25519,ES256,ML-DSA-87" doc:"Algorithm that signs records. Each has its own key; a change closes the old key and enrols the new one, on record. ML-DSA-87 signatures have 4.6 KiB each; with signatures: batch few records need one."`
	Retention  int    `key:"retention_years" default:"10" min:"1" max:"100" doc:"Years for which signatures must stay convincing. More than 10 need algorithm ML-DSA-87. Records are not deleted afterwards."`
	Signatures string `key:"signatures" default:"record" enum:"record,batch" doc:"Which records are signed: every one (record), or the last of each agent's records in one commit (batch), which covers those before it."`
	Durability string `key:"durability" default:"local" enum:"local" doc:"When an action may continue. local: after the gateway's own disk has the record."`

	Outcome string `key:"outcome" default:"before" enum:"before,behind" doc:"When the outcome of a call is on the disk. before: before the answer leaves. behind: for calls that only read, the answer does not wait. If the process is killed in between, the evidence says that the outcome is unknown. The decision is always on the disk before the call is made. Calls that change something or take from a budget, and calls that ask for a receipt, always wait."`

	Witnesses        []Witness     `key:"witnesses" doc:"Witnesses that cosign the log's checkpoints (C2SP tlog-witness), preferably run by other people than the server. The server does not start if its store is behind, or differs from, the cosigned checkpoints."`
	Quorum           int           `key:"quorum" default:"0" min:"0" max:"100" doc:"Number of witnesses that must have cosigned: more than half of them; 0 is the smallest such number."`
	WitnessPeriod    time.Duration `key:"witness_period" default:"10s" doc:"Time between two rounds of cosigning; from 100ms to 1h."`
	StartUnwitnessed string        `key:"start_unwitnessed" enum:"unsafe" doc:"unsafe lets serve start although fewer witnesses than the quorum answer. A rolled-back store is then found only when they answer."`
}

// Witness cosigns the checkpoints of the log.
type Witness struct {
	URL string `key:"url" required:"true" format:"origin" doc:"Base URL of the witness, before /add-checkpoint. Plain http only for loopback and private addresses."`
	Key string `key:"key" required:"true" doc:"Its key, as powerbox witness key prints it: NAME+HASH+BASE64."`
}

// Telemetry configures metrics, traces and where the log is sent. No metric and no span
// names a principal, an argument or a body.
type Telemetry struct {
	Listen string `key:"listen" format:"address" doc:"Address of the metrics for Prometheus, host:port, at /metrics without TLS and token. Use a loopback address, or one in a network of your own. Absent: no metrics."`
	Traces bool   `key:"traces" doc:"Whether to send a span for every call to the exporter in the OTEL_* environment variables. The span continues the caller's trace, and the agent gets Powerbox's span as its parent."`
	Logs   bool   `key:"logs" doc:"Whether to send the log to the exporter in the OTEL_* environment variables too. The log on standard error stays the same."`
}

// Defaults hold where an agent says nothing else.
type Defaults struct {
	Mode        string        `key:"mode" default:"observe" enum:"observe,scoped,prefer,require" doc:"Mode of agents without one."`
	ProofWindow time.Duration `key:"proof_window" default:"30s" doc:"Largest difference between the time of a proof and the server's clock, in both directions."`
	BodyLimit   Size          `key:"body_limit" default:"4MiB" doc:"Largest request body."`
	Drain       time.Duration `key:"drain" default:"10s" doc:"Time for calls and streams in progress to end, after the server is told to stop."`
	DrainNotice time.Duration `key:"drain_notice" doc:"Time before that in which the server still accepts connections while /readyz says no, so that a balancer notices. Absent: none."`
	RequestRate int           `key:"request_rate" default:"1000" min:"0" max:"1000000" doc:"Requests per second and caller; 0 is no limit. A caller that shows only capabilities has this rate for each, and four times this rate for all of one person."`
}

// Proxies are the proxies in front of a listener that are believed.
type Proxies struct {
	Trusted []string `key:"trusted" format:"network" doc:"Networks of the proxies, such as 10.0.0.0/8 or 192.0.2.7. Absent: no proxy is trusted, and the address of a client is that of its connection."`
	Address string   `key:"address" enum:"x-forwarded-for,forwarded,proxy-protocol" default:"x-forwarded-for" doc:"How the proxies report the address of a client. The server reads only this one, so that a client cannot use another. With proxy-protocol (versions 1 and 2) it closes a proxy's connection that begins with anything else."`
}

// Limits are what callers may use up at one listener, or one caller alone.
type Limits struct {
	Connections int           `key:"connections" default:"8192" min:"1" max:"1000000" doc:"Connections at one listening address; further ones wait."`
	PerAddress  int           `key:"connections_per_address" default:"4096" min:"0" max:"1000000" doc:"Connections of one client address (for IPv6 a network of 64 bits) at one listening address; further ones are closed at once. The default is half of limits.connections, so that no single address takes all. A proxy of proxies.trusted has no such limit; with proxy-protocol the limit applies to its clients. 0 is no limit."`
	Header      Size          `key:"header" default:"64KiB" doc:"Largest header of a request. A chain with its proof needs up to 8KiB."`
	HeaderTime  time.Duration `key:"header_time" default:"10s" doc:"Time in which the header of a request must arrive."`
	IdleTime    time.Duration `key:"idle_time" default:"2m" doc:"Time after which the server closes a connection without a request."`
	BodyTime    time.Duration `key:"body_time" default:"30s" doc:"Time in which the body of a request must arrive."`
	Denials     int           `key:"denials" default:"120" min:"0" max:"1000000" doc:"Denials of one caller in a minute that are recorded one by one. Of further denials a part is recorded, with their number. 0 records all."`
	Streams     int           `key:"streams" default:"256" min:"1" max:"1000000" doc:"Open streams of one caller."`
	// Calls that wait longer than that are turned away.
	QueueTime time.Duration `key:"queue_time" default:"100ms" doc:"Time that a call waits to be decided while limits.deciding calls are in progress. A call that would wait longer is turned away at once with 503 and Retry-After. It is counted but not recorded. 0s turns none away."`
	Deciding  int           `key:"deciding" default:"0" min:"0" max:"1000000" doc:"Calls that one process decides and records at once; others wait for limits.queue_time. 0 is 128, or 32 for each processor if that is more."`
	// The deadline of everything that a call waits for.
	DependencyTime time.Duration `key:"dependency_time" default:"5s" doc:"Time that a call waits for one dependency: a change of the store, the latest revocations of other nodes, or a connection to an agent. At a remote gateway it also bounds an answer of the server (at most 2s). Afterwards the caller gets a retryable error."`
}
