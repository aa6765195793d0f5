package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/token"
	"github.com/powerbox-project/powerbox/trust"
)

// Gateways answers the requests of remote gateways. Each is in front of one agent, and
// reads and writes the data of that agent alone.
type Gateways struct {
	Issuer *issuer.Issuer
	Tasks  Tasks
	Links  gate.Nonces  // which delegation link a nonce names
	Agents http.Handler // serves the agents' own paths, for the methods of issuing
	Key    signed.Key   // signs the answers to them
	URL    string       // public base URL
	// Setup returns the setup of a gateway of an agent.
	Setup func(agent string) (link.Setup, error)
	// Levels are the levels of trust of the agents, by their names.
	Levels   func() map[string]trust.Level
	CardSeen func(ctx context.Context, agent string, raw []byte) error // is told which card an agent has now; required
	// Issues is the key set that an agent issues under now.
	Issues func(agent string) string
	// InForce is the digest of the configuration in force; nil where it never changes.
	InForce func() string
	Mode    func(ctx context.Context, agent string) (gate.Mode, error)
	// ModeSet reports whether an operator set that mode.
	ModeSet func(ctx context.Context, agent string) (bool, error)
	RemoteCalls

	Used  gate.Replay // proofs that were used at any gateway
	Began time.Time   // since when they are remembered
	// ProofWindow is how far the time of a caller's proof may be from the clock of a
	// gateway (defaults.proof_window).
	ProofWindow time.Duration
	Now         func() time.Time
	Log         *slog.Logger

	loading sync.Mutex // held from reading known to replacing it
	mu      sync.Mutex // guards the fields below
	known   []issuer.Gateway
	fronted map[string]bool   // agents that a gateway was ever enrolled in front of
	changed chan struct{}     // closed when known is replaced
	digests map[string]digest // of setups, by agent: they are of this process
	reports map[string]report // the last reports of open gateways, by id, to this process
	// Keeper has their reports to any node; nil for a process that is alone.
	Keeper Keeper
}

// RemoteCalls is what gateways ask about calls that they have decided.
type RemoteCalls struct {
	// Held answers about calls that a gateway holds back; nil where no person can be asked.
	Held func(ctx context.Context, of issuer.Gateway, q link.HeldQuery) (link.HeldAnswer, error)
	// Receipt returns the receipt of a record about an agent.
	Receipt func(ctx context.Context, agent, record string) ([]byte, error)
	// Data keeps what callers have read; nil where nothing is labelled.
	Data *RemoteData
}

// digest is that of a setup, with the key set that the agent issues under.
type digest struct{ under, setup string }

// Load reads which gateways are enrolled.
func (g *Gateways) Load(ctx context.Context) error {
	g.loading.Lock() // an earlier read must not overwrite a later one
	defer g.loading.Unlock()
	all, err := g.Issuer.Gateways(context.WithoutCancel(ctx))
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		if g.changed != nil {
			close(g.changed)
		}
		g.known, g.changed, g.fronted = all, make(chan struct{}), map[string]bool{}
		for _, k := range all {
			g.fronted[k.Agent] = true
		}
	}
	return err
}

// Known returns every gateway that was ever enrolled.
func (g *Gateways) Known() []issuer.Gateway {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]issuer.Gateway(nil), g.known...)
}

// Handler returns the interface.
func (g *Gateways) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+link.PathEnroll, g.enroll)
	handle := func(path string, do func(r *http.Request, of issuer.Gateway, body []byte) (any, error)) {
		mux.HandleFunc("POST "+path, g.serve(do, maxGatewayBody, link.Scheme))
	}
	handle(link.PathSetup, g.setup)
	handle(link.PathStatus, g.status)
	handle(link.PathCapability, g.capability)
	handle(link.PathVeto, g.veto)
	handle(link.PathTasks, g.tasks)
	handle(link.PathPseudonym, g.pseudonym)
	handle(link.PathProof, g.proof)
	handle(link.PathBudget, g.budget)
	handle(link.PathScopes, g.scopes)
	handle(link.PathLink, g.link)
	handle(link.PathPolicy, g.policy)
	handle(link.PathReceipt, g.receipt)
	handle(link.PathData, g.data)
	handle(link.PathCard, func(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
		var seen link.CardSeen
		if err := decodeBytes(body, &seen); err != nil {
			return nil, err
		}
		err := g.CardSeen(r.Context(), of.Agent, seen.Card)
		return link.CardKnown{Sequence: g.Issuer.RevocationSequence()}, err
	})
	mux.HandleFunc("POST "+link.PathHeld, g.serve(g.held, maxHeldBody, link.Scheme))
	// A decision stays as it was made and is on record: also of a gateway that is told
	// nothing.
	mux.HandleFunc("POST "+link.PathShip, g.serve(g.ship, maxGatewayBody, link.Scheme, link.OldScheme))
	mux.HandleFunc("POST "+link.PathIssue, g.issue)
	return mux
}

// maxGatewayBody is the largest request of a gateway.
const maxGatewayBody = 8 << 20

// Authenticate returns the gateway that made a request in one of the schemes: one that
// is enrolled and open, whose key signed method, path, body and time.
func (g *Gateways) Authenticate(r *http.Request, body []byte, schemes ...string) (issuer.Gateway, bool) {
	scheme, compact, _ := strings.Cut(r.Header.Get(link.HeaderGateway), " ")
	if !slices.Contains(schemes, scheme+" ") {
		return issuer.Gateway{}, false
	}
	var open []issuer.Gateway
	var keys []signed.Public
	for _, k := range g.Known() {
		if k.Closed.IsZero() {
			open, keys = append(open, k), append(keys, k.Key)
		}
	}
	var c link.Request
	by, err := signed.Open(link.TypeRequest, keys, compact, &c)
	if err != nil {
		return issuer.Gateway{}, false
	}
	age := g.Now().Sub(time.UnixMilli(c.Time))
	sum := sha256.Sum256(body)
	if c.Audience != g.URL || c.Method != r.Method || c.Path != r.URL.RequestURI() || c.Digest != base64.RawURLEncoding.EncodeToString(sum[:]) ||
		age > link.RequestWindow || age < -link.RequestWindow {
		return issuer.Gateway{}, false
	}
	for n, k := range keys {
		if k == by {
			return open[n], true
		}
	}
	return issuer.Gateway{}, false
}

// MayFollow reports whether a request for the feed is a gateway's, and returns a
// context that ends when the gateway is closed: without news it denies.
func (g *Gateways) MayFollow(r *http.Request) (context.Context, bool) {
	of, ok := g.Authenticate(r, nil, link.Scheme)
	if !ok {
		return nil, false
	}
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		defer cancel()
		for {
			g.mu.Lock()
			changed, open := g.changed, g.isOpen(of.ID)
			g.mu.Unlock()
			if !open {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}()
	return ctx, true
}

// isOpen is called with the lock.
func (g *Gateways) isOpen(id string) bool {
	return slices.ContainsFunc(g.known, func(k issuer.Gateway) bool { return k.ID == id && k.Closed.IsZero() })
}

// serve is the one way from a gateway's request to an answer.
func (g *Gateways) serve(do func(*http.Request, issuer.Gateway, []byte) (any, error), limit int64, schemes ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, of, ok := g.read(w, r, limit, schemes...)
		if !ok {
			return
		}
		answer, err := do(r, of, body)
		reply(w, r, g.Log, answer, err)
	}
}

func (g *Gateways) read(w http.ResponseWriter, r *http.Request, limit int64, schemes ...string) ([]byte, issuer.Gateway, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		problem(w, http.StatusBadRequest, "the body could not be read, or is too large")
		return nil, issuer.Gateway{}, false
	}
	of, ok := g.Authenticate(r, body, schemes...)
	if !ok && strings.HasPrefix(r.Header.Get(link.HeaderGateway), link.OldScheme) {
		// It would tell the tasks of one tenant for those of another (ADR 96).
		problem(w, http.StatusUnauthorized, "this gateway is older than the server, and does not tell tenants apart: have it run the same version")
		return nil, issuer.Gateway{}, false
	}
	if !ok {
		problem(w, http.StatusUnauthorized, "this is for enrolled gateways; compare the clocks, or enroll with powerbox gateway enroll")
	}
	return body, of, ok
}

func decodeBytes(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return status{http.StatusBadRequest, "body: " + err.Error()}
	}
	return nil
}

// enroll makes a gateway known. It needs no key of the gateway except the one in the
// request, which must have signed it: the token admits the gateway.
func (g *Gateways) enroll(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	var e link.Enrolment
	if err == nil {
		err = decodeBytes(body, &e)
	}
	var said link.Enrolment
	if err == nil {
		_, err = signed.Open(link.TypeEnrolment, []signed.Public{e.Key}, r.Header.Get(link.HeaderGateway), &said)
	}
	if err != nil || said != e {
		problem(w, http.StatusBadRequest, "want the keys of the gateway, signed with its own")
		return
	}
	public, err := token.ParsePublicKey([]byte(e.Context))
	if err != nil {
		problem(w, http.StatusBadRequest, "the key for contexts is none")
		return
	}
	record, err := evidence.ParseKey([]byte(e.Record))
	if err != nil {
		problem(w, http.StatusBadRequest, "the key for records is none")
		return
	}
	keys, _ := token.JWKS(public).Get("keys")
	elements, _ := keys.Elements()
	of, err := g.Issuer.Enroll(r.Context(), e.Secret, record, issuer.Gateway{Key: e.Key, Context: elements[0].AppendJSON(nil)})
	if err == nil {
		err = g.Load(r.Context())
	}
	compact := ""
	if err == nil {
		compact, err = g.Key.Sign(link.TypeEnrolled, link.Enrolled{Server: g.URL, Gateway: of.ID, Agent: of.Agent, Key: e.Key, Feed: g.Key.Public()})
	}
	reply(w, r, g.Log, map[string]string{"enrolled": compact}, err)
}

// setup sends a gateway its setup, signed.
func (g *Gateways) setup(r *http.Request, of issuer.Gateway, _ []byte) (any, error) {
	s, err := g.Setup(of.Agent)
	if err != nil {
		return nil, err
	}
	s.Server, s.Gateway, s.Time = g.URL, of.ID, g.Now().UnixMilli()
	mode, err := g.Mode(r.Context(), of.Agent)
	if err != nil {
		return nil, err
	}
	if s.ModeSet, err = g.ModeSet(r.Context(), of.Agent); err != nil {
		return nil, err
	}
	s.Mode, s.PolicyDigest = string(mode), g.Issuer.PolicyDigest()
	if s.Digest, err = g.digest(of.Agent); err != nil {
		return nil, err
	}
	s.ContextKeys, s.Trust = g.contextKeys(of.Agent), g.Levels()
	compact, err := g.Key.Sign(link.TypeSetup, s)
	return map[string]string{"setup": compact}, err
}

// saidBefore reports whether the last report of a gateway had the same sequence. This
// node knows the latest writes of another node by the next report.
func (g *Gateways) saidBefore(gateway string, sequence int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	last, ok := g.reports[gateway]
	return ok && last.sequence == sequence
}

func (g *Gateways) status(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.StatusQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	if known := g.Issuer.RevocationSequence(); q.Sequence > known && g.saidBefore(of.ID, q.Sequence) {
		g.Log.ErrorContext(r.Context(), "a gateway knows revocations that are not in this store: it was restored from an older copy",
			slog.String("gateway", of.ID), slog.Int64("gateway_knows", q.Sequence), slog.Int64("store_ends_at", known))
	}
	g.heard(of.ID, q)
	mode, err := g.Mode(r.Context(), of.Agent)
	if err != nil {
		return nil, err
	}
	set, err := g.ModeSet(r.Context(), of.Agent)
	if err != nil {
		return nil, err
	}
	digest, err := g.digest(of.Agent)
	return link.Status{Mode: string(mode), ModeSet: set, PolicyDigest: g.Issuer.PolicyDigest(), ContextKeys: g.contextKeys(of.Agent), Digest: digest, Trust: g.Levels()}, err
}

// digest tells a gateway whether its setup has changed.
func (g *Gateways) digest(agent string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// An agent's issuing keys, and the configuration, change while this process runs.
	under := g.Issues(agent)
	if g.InForce != nil {
		under += g.InForce()
	}
	if d, ok := g.digests[agent]; ok && d.under == under {
		return d.setup, nil
	}
	s, err := g.Setup(agent)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	if g.digests == nil {
		g.digests = map[string]digest{}
	}
	g.digests[agent] = digest{under, base64.RawURLEncoding.EncodeToString(sum[:])}
	return g.digests[agent].setup, nil
}

// contextKeys are the keys by which the open gateways of an agent sign contexts.
func (g *Gateways) contextKeys(agent string) []json.RawMessage {
	keys := []json.RawMessage{}
	for _, k := range g.Known() {
		if k.Agent == agent && k.Closed.IsZero() {
			keys = append(keys, k.Context)
		}
	}
	return keys
}

// capability returns the record of a capability of the gateway's agent. One of another
// agent is answered as unknown.
func (g *Gateways) capability(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.CapabilityQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	c, err := g.Issuer.Presentable(r.Context(), q.ID)
	if err != nil || c.ID == "" || c.Agent != of.Agent {
		return link.Capability{}, err
	}
	out := link.Capability{
		ID: c.ID, Root: c.Root, Principal: g.Issuer.Pseudonym(c.Agent, c.Principal), Holder: c.Holder, Authority: c.Authority.JSON().AppendJSON(nil),
		Issued: c.Issued().Unix(), Lineage: c.Lineage(), Links: c.Links(), Legacy: c.Legacy, Task: c.Task, Tenant: c.Tenant, PolicyDigest: c.PolicyDigest,
	}
	accounts, err := c.Accounts()
	if err != nil {
		return nil, err
	}
	out.Digest = c.Digest
	for _, a := range accounts {
		out.Accounts, out.Budgets = append(out.Accounts, a.Of), append(out.Budgets, budgetOf(a))
	}
	for _, h := range g.Issuer.Permitted(c) {
		out.Handles = append(out.Handles, h.Handle)
	}
	for _, id := range c.Ancestors {
		a, err := g.Issuer.OnRecord(r.Context(), id)
		if err != nil {
			return nil, err
		}
		out.Through = append(out.Through, a.Holder)
	}
	return out, nil
}

// veto asks the policies that are in force about attempts under a capability.
func (g *Gateways) veto(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.VetoQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	c, err := g.Issuer.OnRecord(r.Context(), q.ID)
	if err != nil {
		return nil, err
	}
	if c.ID == "" || c.Agent != of.Agent {
		return link.Veto{Why: "the capability is not on record at this agent"}, nil
	}
	var attempts []powerbox.Attempt
	for _, a := range q.Attempts {
		attempt, err := a.Attempt()
		if err != nil {
			return nil, status{http.StatusBadRequest, "attempts: " + err.Error()}
		}
		attempts = append(attempts, attempt)
	}
	if operation, vetoed := g.Issuer.Vetoed(c, attempts); vetoed {
		return link.Veto{Why: "the user's policy has changed and no longer allows " + operation}, nil
	}
	return link.Veto{}, nil
}

func (g *Gateways) tasks(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.TaskQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	var out link.TaskAnswer
	var err error
	switch q.Do {
	case "owner":
		out.Owner, out.Known, err = g.Tasks.Owner(r.Context(), of.Agent, q.Tenant, q.Task)
	case "bind":
		out.Known = true
		out.Owner, err = g.Tasks.Bind(r.Context(), of.Agent, q.Tenant, q.Task, q.Owner)
	case "end":
		err = g.Tasks.End(r.Context(), of.Agent, q.Tenant, q.Task)
	default:
		err = status{http.StatusBadRequest, "do is none of owner, bind and end"}
	}
	return out, err
}

func (g *Gateways) pseudonym(_ *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.PseudonymQuery
	err := decodeBytes(body, &q)
	return link.PseudonymQuery{Name: g.Issuer.Pseudonym(of.Agent, q.Name)}, err
}

// proof uses up the proof of a call for all gateways of an agent. A proof from before
// this server began to remember is taken for used.
func (g *Gateways) proof(_ *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.ProofQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	until, now, window := time.Unix(q.Until, 0), g.Now(), token.ProofWindow
	if q.Session {
		window = g.ProofWindow
	}
	// One that is past by the clock here would not be remembered.
	fresh := !until.Before(g.Began.Add(window+time.Second)) && until.After(now) && !until.After(now.Add(3*window))
	if fresh {
		var err error
		if fresh, err = g.used(of.Agent, q.Session, q.ID, until, now); err != nil {
			return nil, err
		}
	}
	return link.ProofAnswer{Fresh: fresh}, nil
}

// used uses up a proof at an agent. An error says that it cannot be told now.
func (g *Gateways) used(agent string, session bool, id string, until, now time.Time) (fresh bool, err error) {
	kind := ""
	if session {
		kind = "session/"
	}
	return useIn(g.Used, gate.ProofUse{}, agent+"/"+kind+id, until, now)
}

func (g *Gateways) ship(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.Shipment
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	if len(q.Records) == 0 {
		head, err := g.Issuer.ChainEnd(r.Context(), of)
		return link.Shipped{Next: head.Sequence, Chain: &head.ChainID, Hash: &head.Hash}, err
	}
	records := make([][]byte, len(q.Records))
	for n := range q.Records {
		records[n] = q.Records[n]
	}
	next, err := g.Issuer.Ship(r.Context(), of, records, q.Bodies)
	if errors.Is(err, issuer.ErrGap) {
		g.Log.WarnContext(r.Context(), "a gateway is asked for records again", slog.String("gateway", of.ID), slog.Int64("from", next))
		err = nil
	}
	return link.Shipped{Next: next}, err
}

// issues reports a method that issues, lists or ends capabilities.
func issues(m a2a.Method) bool {
	switch m { //nolint:exhaustive // these alone
	case a2a.CapabilitiesRequest, a2a.CapabilitiesAttenuate, a2a.CapabilitiesRevoke, a2a.CapabilitiesList:
		return true
	}
	return false
}

// issue answers the methods of the extension that issue or end capabilities, as the
// caller sent them. The server derives the caller from the caller's own proofs, and
// never takes it from the gateway.
func (g *Gateways) issue(w http.ResponseWriter, r *http.Request) {
	body, of, ok := g.read(w, r, maxGatewayBody, link.Scheme)
	if !ok {
		return
	}
	call, _ := a2a.Decode(body, a2a.Header{Version: r.Header.Get("A2A-Version")}, powerbox.Limits{Bytes: maxGatewayBody, Depth: 64})
	if !issues(call.Method) {
		problem(w, http.StatusBadRequest, "only the methods that issue, list or end capabilities are answered here")
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath, inner.URL.RawQuery = "/agents/"+of.Agent, "", ""
	inner.TLS = nil // the certificate is the gateway's, and says nothing about the caller
	inner.Header.Del(link.HeaderGateway)
	inner.Body, inner.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	g.Agents.ServeHTTP(w, inner)
}

// Keys are the keys that sign records: the server's own and the gateways'.
func (g *Gateways) Keys(own []evidence.Key) []evidence.Key {
	keys := append([]evidence.Key(nil), own...)
	for _, k := range g.Known() {
		keys = append(keys, k.Record)
	}
	return keys
}

// Trust has the keys that a verifier should pin: the gateways' keys for their agent
// alone.
func (g *Gateways) Trust(own evidence.Trust) evidence.Trust {
	own.RecordKeys = append([]evidence.PinnedKey(nil), own.RecordKeys...)
	for _, k := range g.Known() {
		own.RecordKeys = append(own.RecordKeys, k.Pinned())
	}
	return own
}
