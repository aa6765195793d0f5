// Package agentapi serves the Agent Auth Protocol over HTTP: one funnel from a
// request to a use case of internal/issuing/provider, and every answer, an unknown path
// and malformed JSON included, in the protocol's form.
package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// The paths under the provider's URL (section 5.1).
const (
	PathDiscovery  = "/.well-known/agent-configuration"
	PathRegister   = "/agent/register"
	PathRequest    = "/agent/request-capability"
	PathStatus     = "/agent/status"
	PathReactivate = "/agent/reactivate"
	PathRevoke     = "/agent/revoke"
	PathRotate     = "/agent/rotate-key"
	PathIntrospect = "/agent/introspect"
	PathRevokeHost = "/host/revoke"
	PathRotateHost = "/host/rotate-key"
	PathClaim      = "/agent/claim"
	PathEnroll     = "/host/enroll"
	PathToken      = "/agent/issue-token"
	PathList       = "/capability/list"
	PathDescribe   = "/capability/describe"
	PathExecute    = "/capability/execute"
	PathBatch      = "/capability/batch-execute"
	PathJob        = "/capability/status/"
)

// Config has the parts that the interface needs.
type Config struct {
	Provider     *provider.Provider
	Name         string // provider_name
	Description  string
	Modes        []string
	Private      bool          // nothing is listed without authentication (AAP-C3)
	Approvals    string        // URL of the page for user codes
	Keys         string        // URL of the keys that contexts are signed with
	Interval     time.Duration // between two polls
	Limits       Limits
	BodyLimit    int64
	MaxStream    time.Duration
	Tokens       func(issuer.Capability) any // words a token of a grant (PathToken); nil where none are issued
	Introspector func(r *http.Request) bool  // who may introspect; nil for all callers, within the limits
	Done         <-chan struct{}             // closed when the server ends
	Queue        *shed.Queue                 // in which executions wait to be decided; nil for none
	Now          func() time.Time
	Log          *slog.Logger
}

// API serves one provider.
type API struct {
	config Config
	limits *limiter
	mux    *http.ServeMux

	followed *places // of requests that are followed
}

// New returns the interface.
func New(c Config) *API {
	a := &API{config: c, limits: newLimiter(c.Limits, c.Now), mux: http.NewServeMux(), followed: newPlaces(maxFollowed, maxFollowedEach)}
	for pattern, do := range map[string]func(*http.Request) (answer, error){
		"GET " + PathDiscovery: a.discovery, "POST " + PathRegister: a.register, "POST " + PathRequest: a.request, "GET " + PathStatus: a.status,
		"POST " + PathReactivate: a.reactivate, "POST " + PathRevoke: a.revoke, "POST " + PathRotate: a.rotate, "POST " + PathIntrospect: a.introspect,
		"POST " + PathRevokeHost: a.revokeHost, "POST " + PathRotateHost: a.rotateHost, "GET " + PathList: a.list, "GET " + PathDescribe: a.describe,
		"POST " + PathClaim: a.claim, "POST " + PathEnroll: a.enroll, "POST " + PathBatch: a.batch, "POST " + PathToken: a.token, "GET " + PathJob + "{job}": a.job,
	} {
		a.mux.HandleFunc(pattern, a.serve(do))
	}
	a.mux.HandleFunc("POST "+PathExecute, a.execute)
	a.mux.HandleFunc("GET "+PathEvents+"{request}", a.follow)
	return a
}

// Paths are the paths of the interface; everything below them is its own.
func Paths() []string {
	return []string{PathDiscovery, "/agent/", "/host/", "/capability/"}
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := a.mux.Handler(r)
	if r.Method == http.MethodOptions && r.URL.Path == PathDiscovery {
		preflight(w)
		return
	}
	if pattern != "" {
		a.mux.ServeHTTP(w, r)
		return
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, known := a.mux.Handler(other); known != "" {
			w.Header().Set("Allow", method)
			a.refuse(w, r, agentauth.Errorf(agentauth.CodeMethod, "want %s here", method))
			return
		}
	}
	a.refuse(w, r, agentauth.Errorf(agentauth.CodeNotFound, "there is nothing at this path; %s says what there is", PathDiscovery))
}

// preflight lets pages of any origin read the discovery document, which is public.
func preflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", http.MethodGet)
	h.Set("Access-Control-Allow-Headers", "Accept, Content-Type")
	h.Set("Access-Control-Max-Age", "3600")
	w.WriteHeader(http.StatusNoContent)
}

// answer is the successful answer of a use case.
type answer struct {
	status int // 0 for 200
	body   any
	header http.Header
}

// serve makes a use case a handler.
func (a *API) serve(do func(*http.Request) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, a.config.BodyLimit)
		if err := a.limits.allow(r); err != nil {
			a.refuse(w, r, err)
			return
		}
		out, err := do(r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		a.reply(w, out)
	}
}

func (a *API) reply(w http.ResponseWriter, out answer) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	for name, values := range out.header {
		h[name] = values
	}
	if out.status != 0 {
		w.WriteHeader(out.status)
	}
	_ = json.NewEncoder(w).Encode(out.body) // the client has gone: there is no caller to tell
}

// refuse answers with an error in the protocol's form (AAP-F1). Anything that is no refusal
// of ours is not told to the caller, but to the log.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *agentauth.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, evidence.ErrUnavailable):
		a.config.Log.ErrorContext(r.Context(), "the store did not answer", slog.String("path", r.URL.Path), slog.Any("error", err))
		e = late(r)
	default:
		a.config.Log.ErrorContext(r.Context(), "a call failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		e = agentauth.Errorf(agentauth.CodeInternal, "the call failed; the server's log says why")
	}
	a.write(w, e)
}

// Late answers a request that the store did not answer in time.
func (a *API) Late(w http.ResponseWriter, r *http.Request) {
	shed.LogLate(a.config.Log, r)
	a.write(w, late(r))
}

func late(r *http.Request) *agentauth.Error {
	e := agentauth.Errorf(agentauth.CodeUnavailable, "%s", shed.LateMessage(r.Method))
	e.RetryAfter = retryOverloaded
	return e
}

func (a *API) write(w http.ResponseWriter, e *agentauth.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if e.Decision != "" {
		h.Set("Powerbox-Decision", e.Decision)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Status() == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `AgentAuth discovery="`+a.config.Provider.URL()+PathDiscovery+`"`)
	}
	w.WriteHeader(e.Status())
	_, _ = w.Write(append(e.JSON().AppendJSON(nil), '\n')) // as in reply
}

// credentials returns scheme and token of a request, "" without one.
func credentials(r *http.Request) (scheme, token string, err error) {
	values := r.Header.Values("Authorization")
	switch len(values) {
	case 0:
		return "", "", nil
	case 1:
	default:
		return "", "", agentauth.Errorf(agentauth.CodeInvalidJWT, "several Authorization headers; want one")
	}
	scheme, token, _ = strings.Cut(values[0], " ")
	for _, known := range []string{"Bearer", "DPoP"} {
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, known) && token != "" {
			return known, token, nil
		}
	}
	return "", "", agentauth.Errorf(agentauth.CodeInvalidJWT, "Authorization is neither Bearer nor DPoP and a token")
}

// bearer returns the bearer token of a request, "" without one.
func bearer(r *http.Request) (string, error) {
	scheme, token, err := credentials(r)
	if err == nil && scheme == "DPoP" {
		err = agentauth.Errorf(agentauth.CodeInvalidJWT, "Authorization is not Bearer and a token")
	}
	return token, err
}

// presented is the token of a request with the proof that came along with it.
func (a *API) presented(r *http.Request) (provider.Presented, error) {
	scheme, token, err := credentials(r)
	out := provider.Presented{Token: token, Scheme: scheme, Proofs: r.Header.Values("DPoP"), Method: r.Method, URL: a.config.Provider.URL() + r.URL.EscapedPath()}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		out.Certificate = r.TLS.PeerCertificates[0].Raw
	}
	return out, err
}

func errNoToken() error {
	return agentauth.Errorf(agentauth.CodeUnauthenticated, "want Authorization: Bearer and a token of a host or an agent")
}

// needed is bearer where one is required.
func needed(r *http.Request) (string, error) {
	token, err := bearer(r)
	if err == nil && token == "" {
		err = errNoToken()
	}
	return token, err
}

// host authenticates the host of a request.
func (a *API) host(r *http.Request, pending bool) (provider.HostSession, error) {
	token, err := needed(r)
	if err != nil {
		return provider.HostSession{}, err
	}
	return a.config.Provider.AuthenticateHost(a.bounded(r), token, pending)
}

// bounded has a request ask before a key set is fetched for a host that is unknown, or a row
// is written for the token of any host.
func (a *API) bounded(r *http.Request) context.Context {
	ctx := provider.WithFetches(r.Context(), func() error { return a.limits.fetch(r) })
	return provider.WithWrites(ctx, func(h provider.Host) error { return a.limits.write(r, h) })
}

// body reads the body of a request: an object of exact form, in which members that
// are not known mean nothing (section 5.1.1), and none is there in two spellings
// (ATK-27).
func body(r *http.Request) (powerbox.Value, error) {
	_, v, err := received(r)
	return v, err
}

// received is body with the bytes that came, nil for none.
func received(r *http.Request) ([]byte, powerbox.Value, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, powerbox.Value{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "the body cannot be read, or is too large")
	}
	if len(data) == 0 {
		return nil, powerbox.Object(), nil
	}
	if err := asJSON(r.Header); err != nil {
		return nil, powerbox.Value{}, err
	}
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: len(data), Depth: 64})
	if err == nil && v.Kind() != powerbox.KindObject {
		err = errors.New("JSON " + v.Kind().String() + "; want an object")
	}
	if err != nil {
		return nil, powerbox.Value{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "body: %v", err)
	}
	if wrong := a2a.CheckCase(v); wrong != nil {
		return nil, powerbox.Value{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "body: %.300s", wrong.Message)
	}
	return data, v, nil
}

// asJSON refuses a body that says it is something else than JSON in UTF-8, or in
// another coding: someone could read it differently (ATK-29, ATK-30).
func asJSON(h http.Header) error {
	for _, coding := range h.Values("Content-Encoding") {
		if coding != "" && coding != "identity" {
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "Content-Encoding %.64q is not accepted; send the body as it is", coding)
		}
	}
	said := h.Values("Content-Type")
	if len(said) == 0 {
		return nil
	}
	kind, params, err := mime.ParseMediaType(said[0])
	if charset := params["charset"]; err != nil || len(said) > 1 || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "Content-Type %.64q is not accepted; want application/json", said[0])
	}
	return nil
}

// text reads an optional text of a body.
func text(v powerbox.Value, name string) (string, error) {
	m, ok := v.Get(name)
	if !ok || m.Kind() == powerbox.KindNull {
		return "", nil
	}
	s, ok := m.Text()
	if !ok {
		return "", agentauth.Errorf(agentauth.CodeInvalidRequest, "%s is JSON %s; want a string", name, m.Kind())
	}
	return s, nil
}

// texts reads several.
func texts(v powerbox.Value, into map[string]*string) error {
	for name, p := range into {
		var err error
		if *p, err = text(v, name); err != nil {
			return err
		}
	}
	return nil
}
