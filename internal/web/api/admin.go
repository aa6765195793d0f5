package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// Exporter writes the bundle of all evidence, and the same with the bodies that
// are left.
type Exporter interface {
	Export(ctx context.Context, w io.Writer, keys []evidence.Key) error
	ExportBodies(ctx context.Context, w io.Writer, keys []evidence.Key) error
	// ExportCosigned writes the bundle that the cosigned checkpoint covers.
	ExportCosigned(ctx context.Context, w io.Writer, keys []evidence.Key, bodies bool) error
	// ExportPeriod writes the bundle of one closed period.
	ExportPeriod(ctx context.Context, w io.Writer, keys []evidence.Key, number int64, bodies bool) error
}

// Admin is the operators' interface under /v1. Every call needs the operator's token, or
// the session of a person whose roles permit it; no agent has one.
type Admin struct {
	Issuer   *issuer.Issuer
	Store    issuer.Store
	Exporter Exporter
	Public   *Public // the public part of the log
	// Operators says who calls, and what they may do.
	Operators Operators
	Keys      []evidence.Key // that sign records
	Trust     evidence.Trust // the keys that a verifier should pin
	Agents    func() []AgentStatus
	// Mode returns the mode that is in force for an agent.
	Mode func(ctx context.Context, agent string) (gate.Mode, error)
	// Witnesses returns the state of the witnesses of the log.
	Witnesses func() []WitnessStatus
	// Delegations has the delegation graph.
	Delegations Delegations
	// Looked fills in the last look of the gateway at an agent: its health, and with whole its level of enforcement.
	Looked   func(one *AgentStatus, whole bool)
	URL      string // public base URL
	FeedKey  signed.Public
	Gateways *Gateways // the remote gateways
	// Can says why a possible call of a configured caller at an agent is denied without a
	// capability, in the words of a call. None means that it is allowed.
	Can func(origin, agent string, attempt powerbox.Attempt) (denied []evidence.Reason)
	// Callers knows the configured callers; nil where none can be.
	Callers Callers
	// Policies reads policies that are not in force, by the names of their files.
	Policies func(files map[string][]byte) (issuer.Policy, error)
	// PolicyFiles returns the texts of the policies that are in force, by name.
	PolicyFiles func() map[string][]byte
	// PolicyTests runs the tests beside the policies on those in force.
	PolicyTests func() (PolicyTests, error)
	// Issuing are the issuing keys of the agents, MaximumLifetime how long anything
	// lives that they signed.
	Issuing func(agent string) (*keyring.Issuing, bool)
	Drafts  gate.Drafts // of tokens that are accepted
	Scores  *Scores
	// Activity counts the calls of the last hour.
	Activity *Activity
	// Live follows the log for those who watch it.
	Live *Live
	// AsksTrust says that calls are denied by scores, which count the whole history.
	AsksTrust bool
	People    People   // nil where people cannot log in
	Sessions  Sessions // nil where no pages are served
	Outbox    Outbox   // nil where no webhooks are told anything
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

// Handler returns the interface.
func (a *Admin) Handler() http.Handler { return a.authenticated(a.routes()) }

func (a *Admin) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.table() {
		mux.HandleFunc(r.pattern, a.guarded(r))
	}
	return mux
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
		w.Header().Set("X-Content-Type-Options", "nosniff")
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false) // a record has one form, in which < is <
		_ = out.Encode(answer)   // the client has gone: there is no caller to tell
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

func (a *Admin) record(r *http.Request) (any, error) {
	var out json.RawMessage
	err := a.Store.View(r.Context(), func(rd issuer.Reader) error {
		s, err := ownRecord(r, rd, r.PathValue("id"))
		if err == nil {
			out = s.Bytes()
		}
		return err
	})
	return out, err
}

// ownRecord is a record about an agent of the caller. Another one is unknown.
func ownRecord(r *http.Request, rd issuer.Reader, id string) (evidence.Sealed, error) {
	s, err := rd.Record(id)
	if err == nil && !at(r, s.Record().AgentID) {
		return evidence.Sealed{}, issuer.ErrNotFound
	}
	return s, err
}

// knows says which of a calling and a called agent is not configured. A caller with some
// agents alone is not told whether there is a calling agent of a name: one without a scope at
// the called agent may be another tenant's.
func (a *Admin) knows(r *http.Request, caller, agent string) error {
	if !at(r, agent) {
		return status{http.StatusNotFound, unknownAgent(agent)}
	}
	if !everywhere(r) {
		return nil
	}
	if err := a.Issuer.Knows(caller, agent); err != nil {
		return status{http.StatusNotFound, err.Error()}
	}
	return nil
}

func (a *Admin) can(r *http.Request) (any, error) {
	var body canRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if err := a.knows(r, body.Caller, body.Agent); err != nil {
		return nil, err
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
	answer := canAnswer{Allowed: len(denied) == 0, Reasons: []canReason{}}
	for _, reason := range denied {
		answer.Reasons = append(answer.Reasons, canReason{reason.Code, reason.Message})
	}
	return answer, nil
}

// pinned returns the keys that a verifier pins: those of the server, and of the gateways of the
// caller's agents.
func (a *Admin) pinned(r *http.Request) (any, error) {
	out := a.Gateways.Trust(a.Trust)
	if everywhere(r) {
		return out, nil
	}
	kept := out.RecordKeys[:0]
	for _, key := range out.RecordKeys {
		key.Agents = slices.DeleteFunc(slices.Clone(key.Agents), func(agent string) bool { return agent != "*" && !at(r, agent) })
		if len(key.Agents) > 0 {
			kept = append(kept, key)
		}
	}
	out.RecordKeys = kept
	return out, nil
}

// mayHaveBodies refuses bodies to a caller who may read records alone.
func mayHaveBodies(r *http.Request, bodies bool) error {
	if by := callerOf(r); bodies && !by.rights.May(people.Contents) {
		return status{http.StatusForbidden, "bodies need the permission " + people.Contents.String() + ", which " + by.roles() + " does not have; export without them"}
	}
	return nil
}

// bundle streams the evidence. An error after the first byte cannot be told by
// a status any more; the bundle then lacks its checkpoint, which a verifier
// names.
func (a *Admin) bundle(w http.ResponseWriter, r *http.Request) {
	bodies := r.URL.Query().Get("bodies") == "true"
	if err := mayHaveBodies(r, bodies); err != nil {
		reply(w, r, a.Log, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	if err := a.Public.export(r.Context(), w, a.Gateways.Keys(a.Keys), bodies, a.Exporter); err != nil {
		a.Log.ErrorContext(r.Context(), "evidence export failed", slog.Any("error", err))
		problem(w, http.StatusInternalServerError, err.Error())
	}
}
