package api

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// Exporter writes the bundle of all evidence, and the same with the bodies that
// are left.
type Exporter interface {
	Export(ctx context.Context, w io.Writer, keys []evidence.Key) error
	ExportBodies(ctx context.Context, w io.Writer, keys []evidence.Key) error
	// ExportPeriod writes the bundle of one closed period.
	ExportPeriod(ctx context.Context, w io.Writer, keys []evidence.Key, number int64, bodies bool) error
}

// Admin is the operator's interface under /v1. Every call needs the operator's
// token; no agent has one.
type Admin struct {
	Issuer   *issuer.Issuer
	Store    issuer.Store
	Exporter Exporter
	Public   *Public        // the public part of the log
	Token    string         // required; at least 32 characters
	Keys     []evidence.Key // that sign records
	Trust    evidence.Trust // the keys that a verifier should pin
	Agents   func() []AgentStatus
	URL      string // public base URL
	FeedKey  signed.Public
	Gateways *Gateways // the remote gateways
	// Can says why a possible call of a configured caller at an agent is denied without a
	// capability, in the words of a call. None means that it is allowed.
	Can func(origin, agent string, attempt powerbox.Attempt) (denied []evidence.Reason)
	// Policies reads policies that are not in force, by the names of their files.
	Policies func(files map[string][]byte) (issuer.Policy, error)
	// Issuing are the issuing keys of the agents, MaximumLifetime how long anything
	// lives that they signed.
	Issuing func(agent string) (*keyring.Issuing, bool)
	Scores  *Scores
	// AsksTrust says that calls are denied by scores, which count the whole history.
	AsksTrust bool
	People    People // nil where people cannot log in
	Outbox    Outbox // nil where no webhooks are told anything
	// Unrecorded returns how many calls continued without a record that the evidence
	// does not tell of yet, by agent.
	Unrecorded func() map[string]int64
	// Reload reads the configuration again, by the word of an operator.
	Reload func(ctx context.Context, by string) (Reloaded, error)
	// ArgumentsKey returns the key of the digest that a record of an execution has of
	// its arguments; nil where nothing is executed here.
	ArgumentsKey    func(record string) []byte
	MaximumLifetime time.Duration
	Now             func() time.Time
	Log             *slog.Logger
}

// AgentStatus is an agent as operators see it.
type AgentStatus struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Upstream string `json:"upstream"`
	Mode     string `json:"mode"` // as configured; the one in force may have been set since
	Frozen   bool   `json:"frozen,omitempty"`
	// Canary is the share of callers in percent that the configured mode holds for, Rules
	// are the modes of some callers and grants; an operator's setting overrides them.
	Canary int        `json:"canary"`
	Rules  []ModeRule `json:"rules,omitempty"`
	Set    bool       `json:"set,omitempty"` // whether an operator set the mode
	// Degraded names the calls that continue while records cannot be written, "" for none.
	// Unrecorded is how many did of which the evidence does not tell yet.
	Degraded   string `json:"degraded,omitempty"`
	Unrecorded int64  `json:"unrecorded,omitempty"`
}

// ModeRule is the mode of one caller at an agent, or of calls about one grant.
type ModeRule struct {
	Caller string `json:"caller,omitempty"`
	Grant  string `json:"grant,omitempty"`
	Mode   string `json:"mode"`
	Canary int    `json:"canary"`
}

// Handler returns the interface.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agents", serve(a, a.agents))
	mux.HandleFunc("PUT /v1/agents/{agent}/mode", serve(a, a.setMode))
	mux.HandleFunc("POST /v1/config/reload", serve(a, a.reload))
	mux.HandleFunc("POST /v1/revocations", serve(a, a.revoke))
	mux.HandleFunc("GET /v1/revocations/{sequence}/gateways", serve(a, a.reached))
	mux.HandleFunc("GET /v1/revoked", serve(a, a.revoked))
	mux.HandleFunc("GET /v1/freezes", serve(a, a.freezes))
	mux.HandleFunc("POST /v1/freezes", serve(a, a.stop(a.Issuer.Freeze)))
	mux.HandleFunc("GET /v1/people", serve(a, a.people))
	mux.HandleFunc("POST /v1/people/{verb}", serve(a, a.setPerson))
	mux.HandleFunc("POST /v1/thaws", serve(a, a.stop(a.Issuer.Thaw)))
	mux.HandleFunc("GET /v1/feed/key", serve(a, a.feedKey))
	mux.HandleFunc("POST /v1/gateway-tokens", serve(a, a.gatewayToken))
	mux.HandleFunc("GET /v1/gateways", serve(a, a.gateways))
	mux.HandleFunc("DELETE /v1/gateways/{id}", serve(a, a.closeGateway))
	mux.HandleFunc("POST /v1/feed/extension", serve(a, a.extend))
	mux.HandleFunc("GET /v1/capabilities", serve(a, a.capabilities))
	mux.HandleFunc("GET /v1/capabilities/{id}", serve(a, a.capability))
	mux.HandleFunc("POST /v1/capabilities/{id}/status", serve(a, a.statusPlace))
	mux.HandleFunc("GET /v1/records", unlimited(a.records))
	mux.HandleFunc("GET /v1/records/{id}", serve(a, a.record))
	mux.HandleFunc("GET /v1/records/{id}/body", serve(a, a.body))
	mux.HandleFunc("GET /v1/records/{id}/arguments-key", serve(a, a.argumentsKey))
	mux.HandleFunc("POST /v1/evidence/erasures", serve(a, a.erase))
	mux.HandleFunc("GET /v1/evidence/periods", serve(a, a.periods))
	mux.HandleFunc("POST /v1/evidence/periods", serveLong(a, a.closePeriod))
	mux.HandleFunc("GET /v1/evidence/periods/{period}/bundle", unlimited(a.exportPeriod))
	mux.HandleFunc("POST /v1/evidence/periods/{period}/archive", serveLong(a, a.archivePeriod))
	mux.HandleFunc("GET /v1/evidence/trust", serve(a, func(*http.Request) (any, error) { return a.Gateways.Trust(a.Trust), nil }))
	mux.HandleFunc("POST /v1/agents/{agent}/keys", serve(a, a.rotate))
	mux.HandleFunc("GET /v1/trust/{agent}", serve(a, a.trust))
	mux.HandleFunc("GET /v1/webhooks", serve(a, a.webhooks))
	mux.HandleFunc("POST /v1/webhooks/{id}", serve(a, a.redeliver))
	mux.HandleFunc("POST /v1/can", serve(a, a.can))
	mux.HandleFunc("POST /v1/policies/replay", serve(a, a.replay))
	mux.HandleFunc("GET /v1/evidence/bundle", unlimited(a.bundle))
	mux.HandleFunc("GET /v1/evidence/proof/{id}", a.proof)
	return a.operatorOnly(mux)
}

// operatorOnly lets only callers with the operator's token in.
func (a *Admin) operatorOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.IsOperator(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "the operator's token is missing or wrong; it is in keys/operator.secret of the server's issuer.directory")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IsOperator reports whether a request has the operator's token.
func (a *Admin) IsOperator(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && len(a.Token) >= 32 && subtle.ConstantTimeCompare([]byte(given), []byte(a.Token)) == 1
}

// status is an error with its own HTTP status.
type status struct {
	code    int
	message string
}

func (s status) Error() string { return s.message }

// serve makes a use case a handler. A change continues when its caller has gone.
func serve(a *Admin, do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxOperatorBody)
		if r.Method != http.MethodGet {
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
		answer, err := do(r)
		reply(w, r, a.Log, answer, err)
	}
}

// maxOperatorBody bounds the body of a call of an operator.
const maxOperatorBody = 1 << 20

// serveLong is serve for a request without a limit of time, such as the end of a period.
func serveLong(a *Admin, do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer shed.Pause(r.Context())()
		serve(a, do)(w, r)
	}
}

// unlimited is serveLong for a handler that writes a long answer.
func unlimited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer shed.Pause(r.Context())()
		next(w, r)
	}
}

// Late answers a request of an operator that the store did not answer in time.
func Late(log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		shed.LogLate(log, r)
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, shed.LateMessage(r.Method))
	}
}

// reply is the one way from a use case to an answer.
func reply(w http.ResponseWriter, r *http.Request, log *slog.Logger, answer any, err error) {
	var s status
	var target *issuer.TargetError
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(answer) // the client has gone: there is no caller to tell
	case errors.As(err, &s):
		problem(w, s.code, s.message)
	case errors.As(err, &target):
		problem(w, http.StatusBadRequest, target.Message)
	case errors.Is(err, issuer.ErrNotFound):
		problem(w, http.StatusNotFound, "not found: there is no such id here")
	case errors.Is(err, issuer.ErrNotNext):
		problem(w, http.StatusConflict, err.Error())
	case errors.Is(err, evidence.ErrUnavailable):
		log.ErrorContext(r.Context(), "the store did not answer", slog.String("path", r.URL.Path), slog.Any("error", err))
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, shed.LateMessage(r.Method))
	default:
		log.ErrorContext(r.Context(), "a call failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		problem(w, http.StatusInternalServerError, "the call failed; the server's log says why")
	}
}

func problem(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": code, "detail": message}) // as in reply
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return status{http.StatusBadRequest, "body: " + err.Error()}
	}
	return nil
}

func (a *Admin) agents(r *http.Request) (any, error) {
	out, untold := append([]AgentStatus{}, a.Agents()...), a.Unrecorded()
	for i := range out {
		out[i].Unrecorded = untold[out[i].ID]
		mode, err := a.Mode(r.Context(), out[i].ID)
		if err != nil {
			return nil, err
		}
		if out[i].Set, err = a.ModeSet(r.Context(), out[i].ID); err != nil {
			return nil, err
		}
		out[i].Mode, out[i].Frozen = string(mode), a.Issuer.Frozen(issuer.AgentTarget(out[i].ID))
	}
	return out, nil
}

// Mode returns the mode that is in force for an agent: the one that an
// operator set, and otherwise the configured one.
func (a *Admin) Mode(_ context.Context, agent string) (gate.Mode, error) {
	set := a.Issuer.Mode(agent)
	for _, s := range a.Agents() {
		if s.ID == agent && set == "" {
			set = s.Mode
		}
	}
	return gate.ParseMode(set)
}

// ModeSet reports whether an operator set the mode of an agent.
func (a *Admin) ModeSet(_ context.Context, agent string) (bool, error) {
	return a.Issuer.Mode(agent) != "", nil
}

// ModeConfigured takes back a mode that an operator set.
const ModeConfigured = "configured"

// Overridden returns the agents whose mode an operator set to another one than
// the configuration has, with both.
func (a *Admin) Overridden(ctx context.Context) (map[string][2]string, error) {
	out := map[string][2]string{}
	for _, s := range a.Agents() {
		mode, err := a.Mode(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		if string(mode) != s.Mode {
			out[s.ID] = [2]string{string(mode), s.Mode}
		}
	}
	return out, nil
}

func (a *Admin) setMode(r *http.Request) (any, error) {
	var body struct {
		Mode string `json:"mode"`
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	agent := r.PathValue("agent")
	if _, ok := a.Issuer.Agent(agent); !ok {
		return nil, status{http.StatusNotFound, fmt.Sprintf("no agent %q is protected here", agent)}
	}
	set := body.Mode
	if set == ModeConfigured {
		set = ""
	} else if _, err := gate.ParseMode(set); err != nil {
		return nil, status{http.StatusBadRequest, err.Error() + ", or " + ModeConfigured + " to use the mode in the configuration"}
	}
	before, err := a.Mode(r.Context(), agent)
	if err != nil {
		return nil, err
	}
	if err := a.Issuer.SetMode(r.Context(), "operator", agent, set); err != nil {
		return nil, err
	}
	mode, err := a.Mode(r.Context(), agent)
	return map[string]string{"agent": agent, "mode": string(mode), "before": string(before)}, err
}

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
}

func (a *Admin) capability(r *http.Request) (any, error) {
	c, err := a.Issuer.Capability(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return a.status(c), nil
}

// capabilities lists the capabilities that a holder can still use, and those of the
// holders to whom it passed one on.
func (a *Admin) capabilities(r *http.Request) (any, error) {
	holder := r.URL.Query().Get("holder")
	if holder == "" {
		return nil, status{http.StatusBadRequest, "holder is missing; want the configured name of an agent, or a holder such as key:THUMBPRINT"}
	}
	live, err := a.Issuer.LiveOf(r.Context(), holder)
	out := make([]CapabilityStatus, len(live))
	for n, c := range live {
		out[n] = a.status(c)
	}
	return out, err
}

func (a *Admin) status(c issuer.Capability) CapabilityStatus {
	s := CapabilityStatus{
		ID: c.ID, Agent: c.Agent, Grant: c.Grant, Root: c.Root, Ancestors: c.Ancestors, Principal: c.Principal,
		Holder: c.Holder, Requester: c.Requester, Purpose: c.Purpose, Task: c.Task, Tenant: c.Tenant, Operations: c.Operations(),
		Authority: c.Authority.JSON().AppendJSON(nil), RevocationID: c.RevocationID, Created: c.Created, Expires: c.Expires,
		Legacy: c.Legacy, Revoked: a.Issuer.Dead(c), Expired: !c.Expires.After(a.Now()),
		Frozen: a.Issuer.Stopped(c),
	}
	for _, h := range c.Handles {
		s.Resources = append(s.Resources, h.Resource)
	}
	return s
}

func (a *Admin) record(r *http.Request) (any, error) {
	var out json.RawMessage
	err := a.Store.View(r.Context(), func(rd issuer.Reader) error {
		s, err := rd.Record(r.PathValue("id"))
		if err == nil {
			out = s.Bytes()
		}
		return err
	})
	return out, err
}

func (a *Admin) can(r *http.Request) (any, error) {
	var body struct {
		Caller    string          `json:"caller"`
		Agent     string          `json:"agent"`
		Operation string          `json:"operation"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if err := a.Issuer.Knows(body.Caller, body.Agent); err != nil {
		return nil, status{http.StatusNotFound, err.Error()}
	}
	args := powerbox.Object()
	if len(body.Arguments) > 0 {
		v, err := powerbox.ParseValue(body.Arguments)
		if err != nil {
			return nil, status{http.StatusBadRequest, "arguments: " + err.Error()}
		}
		args = v
	}
	op, err := powerbox.ParseOperation(body.Operation)
	if err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	if err := a.Issuer.Offers(body.Agent, body.Operation); err != nil {
		return nil, status{http.StatusNotFound, err.Error()}
	}
	attempt, err := powerbox.Invocation(op, args)
	if err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	denied := a.Can(body.Caller, body.Agent, attempt)
	reasons := make([]map[string]string, 0, len(denied))
	for _, reason := range denied {
		reasons = append(reasons, map[string]string{"code": reason.Code, "message": reason.Message})
	}
	return map[string]any{"allowed": len(denied) == 0, "reasons": reasons}, nil
}

// bundle streams the evidence. An error after the first byte cannot be told by
// a status any more; the bundle then lacks its checkpoint, which a verifier
// names.
func (a *Admin) bundle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	bodies := r.URL.Query().Get("bodies") == "true"
	if err := a.Public.export(r.Context(), w, a.Gateways.Keys(a.Keys), bodies, a.Exporter); err != nil {
		a.Log.ErrorContext(r.Context(), "evidence export failed", slog.Any("error", err))
		problem(w, http.StatusInternalServerError, err.Error())
	}
}
