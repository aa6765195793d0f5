package gateway

import (
	"bytes"
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
	"github.com/powerbox-project/powerbox/trust"
)

// The headers of the extension. What comes in under these names from outside
// is read and never forwarded.
const (
	HeaderCapability = "Powerbox-Capability"
	HeaderProof      = "Powerbox-Proof"
	HeaderContext    = "Powerbox-Context"
	HeaderDecision   = "Powerbox-Decision"
	HeaderOutcome    = "Powerbox-Outcome"
	HeaderReason     = "Powerbox-Reason"
	HeaderAmbient    = "Powerbox-Ambient"
)

// Skill is what a skill of an agent maps to.
type Skill struct {
	Operation powerbox.Operation
	Handle    string // argument that takes a handle, "" for none
	Write     bool
	Shape     powerbox.Shape // the arguments that are declared; any where none are
	Trust     trust.Level    // that a calling agent must have reached, "" for none
	Approval  bool           // whether a person has to approve every call
	Flow      gate.Flow
}

// Agent is one agent behind the gateway.
type Agent struct {
	ID     string // required
	URL    string // required; public URL
	Local  bool   // inside a program that asks for decisions: nothing is forwarded; MCP is set, too
	MCP    *MCP   // set for an MCP server, whose endpoint Upstream is
	Scopes Scopes // parameters and enforcement of the authorization extension
	Behind
	Identities
	Offered
	Enforced
	Events
}

// Behind is where the agent is, and how it is reached.
type Behind struct {
	Upstream     string // required; base URL of the agent's card
	GRPC         string // host:port where clients reach its gRPC, "" where that is not taken
	GRPCUpstream string // URL of the agent's gRPC instead of what its card says; "" for that
	// UpstreamHosts are the hosts that the agent's card may name beside that of
	// Upstream, *.example.org for those below, wherever they are. To any other one
	// calls continue public addresses alone (ATK-15).
	UpstreamHosts []string
	Headers       []string // of callers that pass beside those of the protocols, by canonical name
	ReadsTenants  bool     // it reads those of CancelTask and SubscribeToTask over gRPC, too
	// Credential is added to decided calls; nil for none.
	Credential *credential.Placed
	// Encrypted says that the agent is reached over TLS alone, whatever its card
	// names.
	Encrypted bool
	// The way to the agent where it has its own; nil for those of Config.
	Transport, HTTP2    http.RoundTripper
	Public, PublicHTTP2 http.RoundTripper
	Cards               Cards
}

// Identities are the keys of the agent, and of anyone who speaks for it.
type Identities struct {
	Keys      func() token.KeySet     // that its capabilities are accepted under now (SEP-16, EXT-34)
	Published func() []byte           // JWK Set of them (EXT-33)
	Signer    func() token.Signer     // required; of the context header, as of now
	Foreign   map[string]token.KeySet // other issuers that are accepted
	Drift     Drift                   // what becomes of what the card does not declare
	CardPin   *agentcard.Card         // that the agent's card must not widen; nil for any card (CARD-13)
	CardKeys  agentcard.Keys          // of whom the agent's card must be signed; none asks for no signature
	// Metadata is the address at which OAuth clients begin (RFC 9728); "" for an agent
	// without such clients.
	Metadata string
}

// Offered is what the agent can be asked for.
type Offered struct {
	Skills          map[string]Skill
	Grants          []a2a.CardGrant
	Required        []powerbox.Operation // that a message needs which names no skill
	Methods         []string             // further methods that may pass, by exact name
	InvokeNative    bool                 // the agent knows a2a/skill/invoke itself
	LegacyMember    bool                 // whether its card gets the top-level capabilityGrants
	EnforcesContext bool                 // whether it decides every effect by the forwarded context
	NoContext       bool                 // whether it gets none
}

// Enforced says how calls are held to grants.
type Enforced struct {
	Trust          trust.Level // that a calling agent must have reached for anything, "" for none
	AdmitFreeText  bool
	RefuseAmbient  bool
	NeedsExtension bool       // callers must ask for our extension (EXT-36)
	Modes          []ModeRule // the first that is about a call counts
	Canary         int        // share of callers in percent that the mode holds for
	DenyStatus     int        // HTTP status of a denial: 200 or 403
	ClientContexts bool       // the first caller that names an unknown context owns it
	Degraded       gate.Degraded
	Yields         gate.Label // of answers that are of no skill
	// Detach returns arguments as a body that is kept beside the record of their
	// call; nil where none are kept.
	Detach func(arguments []byte) (*evidence.Body, error)
}

// Events is where events of the agent's tasks may go.
type Events struct {
	PushHosts   []string // hosts that events may be posted to, *.example.org for those below; any where none is named
	PushPrivate bool     // also on this machine and in private networks, without TLS
	Relay       Relay    // whether and how events pass here
}

// Authenticator says who makes a request. See the identity package.
type Authenticator interface {
	Authenticate(r *http.Request, audience string, now time.Time) (caller identity.Caller, consumed bool, err error)
}

// Issuing answers the methods of the extension. A refusal has a method
// Denial() a2a.Denial.
type Issuing interface {
	Request(ctx context.Context, agent string, caller identity.Caller, p a2a.RequestParams) (a2a.CapabilitiesResult, error)
	Attenuate(ctx context.Context, agent string, caller identity.Caller, p a2a.AttenuateParams) (a2a.CapabilitiesResult, error)
	Revoke(ctx context.Context, agent string, caller identity.Caller, p a2a.RevokeParams) (a2a.RevokeResult, error)
	List(ctx context.Context, agent string, caller identity.Caller) (a2a.CapabilitiesResult, error)
}

// Delegating makes the capabilities that tasks run under.
type Delegating interface {
	// IssuerOf returns the agent that issued a capability that the caller holds.
	IssuerOf(ctx context.Context, caller identity.Caller, capability string) (agent string, err error)
	// Delegate narrows capabilities that the caller holds for a task at an agent:
	// those of that agent for the caller itself, which continues presenting them, and
	// those of other agents for that agent, which becomes their holder (SEP-13). It
	// makes all of them or, if one is refused, none. A capability without an entry in
	// asked keeps what it has.
	Delegate(ctx context.Context, caller identity.Caller, capabilities []string, asked map[string]a2a.Attenuation, at string) ([]Delegated, error)
}

// Delegated is a capability that a task runs under.
type Delegated = struct{ Agent, ID string }

// Owner is to whom a task belongs.
type Owner = struct{ Root, Principal, Holder string }

// Tasks remembers the owners of tasks and contexts. One is told from others by its
// agent, the tenant that calls name it in, "" for none, and its id: agents can give
// one id in several tenants (ADR 96).
type Tasks interface {
	// Owner returns the owner of a task or context, and false where it is not
	// known.
	Owner(ctx context.Context, agent, tenant, task string) (Owner, bool, error)
	// Bind remembers the owner and returns who the first one was.
	Bind(ctx context.Context, agent, tenant, task string, owner Owner) (Owner, error)
	// End ends the capabilities that were issued for a task, which has ended.
	End(ctx context.Context, agent, tenant, task string) error
}

// Resources tells what a handle stands for.
type Resources interface {
	// Open returns the resource behind a handle that was issued under a root
	// capability of an agent.
	Open(agent, root, handle string) (id, name string, ok bool)
	// Held returns all handles of a capability on record.
	Held(ctx context.Context, capability string) ([]string, error)
}

// Cards fetches cards of agents. Where the answer is still the one of an entity
// tag, changed is false and there is no body; an empty tag is none.
type Cards interface {
	GetChanged(ctx context.Context, address, accept, tag string) (body []byte, header http.Header, changed bool, err error)
}

// Asking is how people are asked.
type Asking struct {
	Holds    Holds    // nil where people cannot be asked
	Releases Releases // of the same calls
	Asks     Asks     // nil where people cannot be asked about calls that their callers keep
}

// Config is what a gateway needs. Every field but those of Asking, Observer, Queue and ModeSet is required.
type Config struct {
	Agents   []Agent
	Gate     *gate.Gate
	Identity Authenticator
	Issuing  Issuing
	Asking
	Tasks     Tasks
	Resources Resources
	Cards     Cards
	Network
	Answers
	Limits
	// Pages seals tokens of pages, and where events are relayed to, without a nonce
	// of the caller's. Gateways of one agent share its key.
	Pages    cipher.AEAD
	Now      func() time.Time
	Log      *slog.Logger
	Observer Observer // nil for none
}

// Network is how a gateway reaches others.
type Network struct {
	Transport http.RoundTripper // HTTP/1.1
	HTTP2     http.RoundTripper // HTTP/2, without TLS where the URL says http: gRPC needs it
	// Public and PublicHTTP2 are the same to public addresses alone; required.
	Public, PublicHTTP2 http.RoundTripper
	// PushAddress returns why events may not be posted to an address, private ones
	// admitted or not.
	PushAddress func(ctx context.Context, address string, private bool) error
	// PushPost posts an event and returns the status of the answer. Addresses are
	// those that PushAddress admits, looked at again as they are dialled.
	PushPost func(ctx context.Context, address string, private bool, header http.Header, body []byte) (status int, err error)
}

// Answers are what a gateway asks the rest of the product.
type Answers struct {
	Delegating Delegating // required
	// CardSeen is told of the card of an agent before anything is done by it; an
	// error keeps the one before. It can be nil (CARD-13).
	CardSeen func(ctx context.Context, agent string, raw []byte) error
	// Mode returns the mode of an agent now.
	Mode func(ctx context.Context, agent string) (gate.Mode, error)
	// ModeSet reports whether an operator set that mode, which then goes over the
	// rules of the agent. nil if no operator can.
	ModeSet func(ctx context.Context, agent string) (bool, error)
	// Vouches is [gate.Chains.Vouches].
	Vouches func(target *gate.Target, chain []string, now time.Time) bool
	// Origin returns the configured name of the agent that a holder is.
	Origin func(holder string) string
	// Scope returns Scope(A) as it is configured now, for a caller at an agent. It
	// returns nil where no scopes are configured at all.
	Scope func() func(origin, agent string) powerbox.Authority
	// Plans returns the paths of delegations that are declared now; nil for none.
	Plans func() []agentcard.Plan
	// ByPolicy returns what policy allows a caller at an agent without a
	// capability; nil where that cannot be asked.
	ByPolicy func(ctx context.Context, agent string, caller identity.Caller) (powerbox.Authority, error)
	// Given returns what operators gave a caller for calls of an operation that present
	// nothing; nil where nothing is given.
	Given func(ctx context.Context, agent string, caller identity.Caller, operation powerbox.Operation) ([]gate.Held, error)
	// Data keeps labels of results; nil where nothing is labelled.
	Data *Data
	// Pseudonym returns a principal's name at an agent.
	Pseudonym func(agent, principal string) string
	Redact    func(arguments powerbox.Value) []byte
	// Receipt returns the receipt of a record of this gateway. A record that is not in the
	// log yet gets there first. nil where there are no receipts.
	Receipt func(ctx context.Context, record string) ([]byte, error)
}

// scopeAt is Scope(A) at one agent. A stream asks again with every event, and gets the scopes
// configured then; without configured scopes, those of the start of the call.
func (a Answers) scopeAt(agent string) func(origin string) powerbox.Authority {
	if a.Scope == nil {
		return nil
	}
	began := a.Scope()
	if began == nil {
		return nil
	}
	return func(origin string) powerbox.Authority {
		if now := a.Scope(); now != nil {
			return now(origin, agent)
		}
		return began(origin, agent)
	}
}

// Limits bound what callers can take.
type Limits struct {
	BodyLimit int           // bytes of a body
	BodyTime  time.Duration // in which a body has to come
	Denials   int           // of one caller in a minute that are recorded one by one; 0 records all
	Streams   int           // that one caller may have open; 0 for no limit
	Rate      int           // calls per second and caller; 0 for no limit
	Queue     *shed.Queue   // in which calls wait to be decided; nil for none
	// Patience is how long a request for capabilities waits for the issuer; 0 for as long
	// as it takes.
	Patience time.Duration
}

// cardLife is how long a card is used before it is fetched again.
const cardLife = time.Minute

// Gateway is an [http.Handler] for the paths under /agents/.
type Gateway struct {
	config Config
	agents atomic.Pointer[map[string]*agent] // replaced as a whole
	mux    *http.ServeMux

	limiter *limiter
	streams *holds
	repeats *repeats
	pushes  *counter
	posts   chan struct{} // events that are being posted

	draining   atomic.Bool
	ending     context.Context // ends when streams must
	endStreams context.CancelFunc
}

// New returns the gateway for the configured agents.
func New(c Config) (*Gateway, error) {
	if err := missing.Fields("gateway", c, "Gate", "Identity", "Issuing", "Delegating", "Tasks", "Resources", "Cards",
		"Transport", "HTTP2", "Public", "PublicHTTP2", "PushAddress", "PushPost",
		"Mode", "Origin", "Pseudonym", "Redact", "Pages", "Now", "Log"); err != nil {
		return nil, err
	}
	if c.BodyLimit <= 0 || c.BodyTime <= 0 {
		return nil, errors.New("gateway: BodyLimit and BodyTime must be positive")
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	g := &Gateway{config: c, mux: http.NewServeMux(), limiter: newLimiter(c.Rate), streams: newHolds(c.Streams), repeats: newRepeats(c.Denials), pushes: newCounter(), posts: make(chan struct{}, maxPosts)}
	g.ending, g.endStreams = context.WithCancel(context.Background())
	g.agents.Store(&map[string]*agent{})
	put, err := g.Replace(c.Agents, nil)
	if err != nil {
		return nil, err
	}
	put()
	g.routes()
	return g, nil
}

func (g *Gateway) routes() {
	handle := func(pattern string, serve func(http.ResponseWriter, *http.Request, *agent, string)) {
		g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			a, ok := g.all()[r.PathValue("agent")]
			switch {
			case r.PathValue("agent") == ".well-known":
				http.Error(w, "no agent is named; add a slash to the end of the agent's URL, because some clients replace its last part", http.StatusNotFound)
				return
			case !ok:
				http.Error(w, "no such agent", http.StatusNotFound)
				return
			}
			serve(w, r, a, r.PathValue("skill"))
		})
	}
	handle("GET /agents/{agent}/.well-known/agent-card.json", g.card)
	handle("GET /agents/{agent}/.well-known/agent.json", g.card)
	handle("GET /agents/{agent}/.well-known/jwks.json", g.keys)
	handle("GET /agents/{agent}/skills/{skill}/.well-known/agent-card.json", g.card)
	for _, path := range []string{"/agents/{agent}", "/agents/{agent}/{$}", "/agents/{agent}/skills/{skill}", "/agents/{agent}/skills/{skill}/{$}"} {
		for _, method := range carried {
			handle(method+" "+path, g.timely(g.serve(a2a.JSONRPC)))
		}
	}
	handle("POST /agents/{agent}"+relayPath+"{posting}", g.timely(g.posted))
	// Anything that is no path of ours is one of HTTP+JSON, below a skill or not.
	for _, method := range carried {
		handle(method+" /agents/{agent}/{path...}", g.timely(g.serve(a2a.HTTPJSON)))
		handle(method+" /agents/{agent}/skills/{skill}/{path...}", g.timely(g.serve(a2a.HTTPJSON)))
	}
}

// carried are the methods that continue to an agent in observe, whatever it makes of
// them. GET stands for HEAD, too.
var carried = []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut, http.MethodPatch, http.MethodOptions}

// callsBy are the methods that calls come by, and no others.
var callsBy = map[a2a.Binding][]string{
	a2a.JSONRPC:  {http.MethodPost},
	a2a.HTTPJSON: {http.MethodGet, http.MethodPost, http.MethodDelete},
	a2a.GRPC:     {http.MethodPost},
	a2a.MCP:      {http.MethodGet, http.MethodPost, http.MethodDelete},
}

// noCall says why a request cannot be a call at all: calls do not come by its
// method, or its body cannot be checked as the agent will read it.
func (x *received) noCall() (status int, err error) {
	if by := callsBy[x.binding]; !slices.Contains(by, x.request.Method) {
		return http.StatusMethodNotAllowed, fmt.Errorf("calls of %s come by %s", x.binding, strings.Join(by, ", "))
	}
	if encoding := coding(x.request.Header); encoding != "" {
		return http.StatusUnsupportedMediaType, fmt.Errorf("Content-Encoding %q is not accepted; send the body as it is", encoding)
	}
	return 0, nil
}

// Timely bounds the time in which the body of a request has to come.
func Timely(w http.ResponseWriter, r *http.Request, within time.Duration) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(within)); err != nil { //nolint:forbidigo // the connection has the machine's clock
		return err
	}
	r.Body = timelyBody{r.Body, control}
	return nil
}

// timely bounds the time in which a body has to come. Answers have no such
// limit, since they may be streams.
func (g *Gateway) timely(serve func(http.ResponseWriter, *http.Request, *agent, string)) func(http.ResponseWriter, *http.Request, *agent, string) {
	return func(w http.ResponseWriter, r *http.Request, a *agent, skill string) {
		if err := Timely(w, r, g.config.BodyTime); err != nil {
			g.config.Log.ErrorContext(r.Context(), "no deadline for a body", "error", err)
			http.Error(w, "this server cannot bound the time of a body", http.StatusInternalServerError)
			return
		}
		serve(w, r, a, skill)
	}
}

// timelyBody lifts the deadline at its end. Where the end was not reached the
// deadline stays: the server still reads the rest.
type timelyBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (b timelyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{}) // it could be set
	}
	return n, err
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Check fetches the card of an agent. An agent without a card has no skills, and so nothing is
// allowed.
func (g *Gateway) Check(ctx context.Context, id string) error {
	a, ok := g.all()[id]
	if !ok {
		return nil // it is gone
	}
	_, err := a.view(ctx)
	return err
}

// readAll is io.ReadAll for something whose length was told, -1 where it was not.
// It allocates no more than usual bodies have.
func readAll(r io.Reader, told int64) ([]byte, error) {
	const usual = 64 << 10
	b := bytes.NewBuffer(make([]byte, 0, min(max(told, 0), usual)+bytes.MinRead))
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// readBody reads a body within a limit.
func readBody(r *http.Request, limit int) ([]byte, int, error) {
	body, err := readAll(io.LimitReader(r.Body, int64(limit)+1), r.ContentLength)
	if err != nil {
		return nil, http.StatusBadRequest, errors.New("the body could not be read")
	}
	if len(body) > limit {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes, the most that is taken of this caller", limit)
	}
	return body, 0, nil
}
