// Package oauth has the HTTP endpoints of the authorization server and the metadata of
// protected resources (ADR 129). It parses and words; internal/issuing/oauth decides.
package oauth

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/bucket"
	"github.com/powerbox-project/powerbox/internal/issuing/oauth"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// The paths of the endpoints.
const (
	pathAuthorize  = "/oauth/authorize"
	pathToken      = "/oauth/token" //nolint:gosec // a path
	pathRevoke     = "/oauth/revoke"
	pathIntrospect = "/oauth/introspect"
	pathRegister   = "/oauth/register"
	pathKeys       = "/oauth/jwks"
	// pathServer is well-known (RFC 8414).
	pathServer = "/.well-known/oauth-authorization-server"
)

// formLimit bounds the body of a request, and queryLimit its query.
const formLimit, queryLimit = 64 << 10, 16 << 10

// Config has the parts that the endpoints need. Every field is required unless it says
// otherwise.
type Config struct {
	Server *oauth.Server
	// Person returns the person who is logged in, and false for none.
	Person func(r *http.Request) (people.Person, bool, error)
	Keys   []byte // the key set of access tokens
	Limits Limits
	Now    func() time.Time
	Log    *slog.Logger
}

// Limits bound the requests; 0 is no limit.
type Limits struct {
	PerAddress int // a minute, from one address, to each endpoint
	Total      int // a minute, from all addresses, to each endpoint
}

// Handler is an [http.Handler]. Its methods can be called by many goroutines.
type Handler struct {
	config Config
	table  bucket.Table
	mux    *http.ServeMux
}

// New returns a Handler.
func New(c Config) (*Handler, error) {
	if err := missing.Fields("oauth", c, "Server", "Person", "Keys", "Now", "Log"); err != nil {
		return nil, err
	}
	h := &Handler{config: c, mux: http.NewServeMux()}
	endpoints := map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + pathAuthorize:                    h.authorize,
		"POST " + pathToken:                       h.forClients(h.token),
		"POST " + pathRevoke:                      h.forClients(h.revoke),
		"POST " + pathIntrospect:                  h.forClients(h.introspect),
		"GET " + pathKeys:                         h.keys,
		"GET " + pathServer:                       h.server,
		"GET " + link.PathResource + "/{path...}": h.resource,
	}
	if c.Server.Registers() {
		endpoints["POST "+pathRegister] = h.register
	}
	for pattern, serve := range endpoints {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h.limited(pattern, r); err != nil {
				h.refuse(w, r, err)
			} else if err := serve(w, r); err != nil {
				h.refuse(w, r, err)
			}
		})
	}
	return h, nil
}

// Paths are the patterns of the endpoints.
func Paths() []string {
	return []string{pathAuthorize, pathToken, pathRevoke, pathIntrospect, pathRegister, pathKeys, pathServer, link.PathResource + "/"}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	// A page of the answer is a text. Nothing may frame it, and nothing in it runs.
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	r.Body = http.MaxBytesReader(w, r.Body, formLimit)
	h.mux.ServeHTTP(w, r)
}

// limited counts a request to an endpoint.
func (h *Handler) limited(endpoint string, r *http.Request) error {
	l := h.config.Limits
	if wait, ok := h.table.TakeAll(h.config.Now(), bucket.PerMinute(endpoint+" from "+peer.Of(r).Network(), l.PerAddress), bucket.PerMinute(endpoint, l.Total)); !ok {
		return &late{wait}
	}
	return nil
}

// late is a refusal of requests that come too often.
type late struct{ seconds int }

func (l *late) Error() string {
	return "too many requests; try again in " + strconv.Itoa(l.seconds) + " seconds"
}

// Late answers a request that the store keeps waiting.
func (h *Handler) Late(w http.ResponseWriter, r *http.Request) {
	shed.LogLate(h.config.Log, r)
	h.refuse(w, r, evidence.ErrUnavailable)
}

// refuse answers an error: as JSON to clients, and as a text in a browser.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *oauth.Error
	var wait *late
	switch {
	case errors.As(err, &wait):
		e = &oauth.Error{Code: oauth.SlowDown, Message: wait.Error()}
		w.Header().Set("Retry-After", strconv.Itoa(wait.seconds))
	case errors.As(err, &e):
	case errors.Is(err, evidence.ErrUnavailable):
		e = &oauth.Error{Code: oauth.Unavailable, Message: "the server could not make this durable in time; try again in a moment"}
		w.Header().Set("Retry-After", "1")
	default:
		h.config.Log.ErrorContext(r.Context(), "an OAuth request failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		e = &oauth.Error{Code: oauth.ServerError, Message: "the request failed; the server's log says why"}
	}
	if r.URL.Path == pathAuthorize {
		http.Error(w, "This authorization request is refused: "+e.Message+".\nYou are not sent on, since the address may not be the client's.", e.Status())
		return
	}
	if e.Code == oauth.InvalidClient {
		w.Header().Set("WWW-Authenticate", `Basic realm="powerbox"`)
	}
	body := map[string]string{"error": e.Code, "error_description": plain(e.Message)}
	if e.Page != "" {
		body["error_uri"] = e.Page
	}
	h.write(w, e.Status(), body)
}

// plain leaves what an error_description can have (RFC 6749, section 5.2).
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '"' || r == '\\' {
			return '\''
		}
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

func (h *Handler) write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

// authorize is where clients send the browsers of people, and the console sends them back
// after an answer.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request) error {
	if len(r.URL.RawQuery) > queryLimit {
		return oauth.Errorf(oauth.InvalidRequest, "the query has %d bytes; want at most %d", len(r.URL.RawQuery), queryLimit)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return oauth.Errorf(oauth.InvalidRequest, "the query cannot be read")
	}
	a, err := h.config.Server.Read(r.Context(), query)
	if err != nil {
		return h.back(w, r, a, err)
	}
	path := pathAuthorize + "?" + query.Encode()
	who, known, err := h.config.Person(r)
	var no *agentauth.Error
	switch {
	case errors.As(err, &no): // someone who may not log in any more
		return h.back(w, r, a, oauth.Errorf(oauth.AccessDenied, "%s", no.Message))
	case err != nil:
		return err
	}
	if !known {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(path), http.StatusSeeOther)
		return nil
	}
	answer, err := h.config.Server.Authorize(r.Context(), who, a, path)
	switch {
	case err != nil:
		return h.back(w, r, a, err)
	case answer.Page != "":
		http.Redirect(w, r, answer.Page, http.StatusSeeOther)
	default:
		http.Redirect(w, r, h.config.Server.Redirected(a, url.Values{"code": {answer.Code}}), http.StatusSeeOther) //nolint:gosec // to a URI that the client registered
	}
	return nil
}

// back sends an error to a client, by the browser, where the client is known.
func (h *Handler) back(w http.ResponseWriter, r *http.Request, a oauth.Authorization, err error) error {
	var e *oauth.Error
	if a.Redirect == "" || !errors.As(err, &e) {
		return err
	}
	http.Redirect(w, r, h.config.Server.Redirected(a, url.Values{"error": {e.Code}, "error_description": {plain(e.Message)}}), http.StatusSeeOther) //nolint:gosec // to a URI that the client registered
	return nil
}

// forClients reads the form of a client, and who the client is.
func (h *Handler) forClients(serve func(w http.ResponseWriter, r *http.Request, c oauth.Client) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
			return oauth.Errorf(oauth.InvalidRequest, "want a body of type application/x-www-form-urlencoded")
		}
		if r.URL.RawQuery != "" {
			return oauth.Errorf(oauth.InvalidRequest, "the URL has a query; send the parameters in the body, where logs do not have them")
		}
		if err := r.ParseForm(); err != nil {
			return oauth.Errorf(oauth.InvalidRequest, "the form cannot be read")
		}
		for name, values := range r.PostForm {
			if len(values) > 1 {
				return oauth.Errorf(oauth.InvalidRequest, "%.40q occurs %d times; want it once", name, len(values))
			}
		}
		id, secret, err := credentials(r)
		if err != nil {
			return err
		}
		c, err := h.config.Server.Authenticate(r.Context(), id, secret)
		if err != nil {
			return err
		}
		return serve(w, r, c)
	}
}

// credentials are those of a client: in the header (client_secret_basic) or in the form.
func credentials(r *http.Request) (id, secret string, err error) {
	form := r.PostForm
	name, password, basic := r.BasicAuth()
	if !basic {
		return form.Get("client_id"), form.Get("client_secret"), nil
	}
	id, err1 := url.QueryUnescape(name)
	secret, err2 := url.QueryUnescape(password)
	if err1 != nil || err2 != nil || form.Has("client_secret") || form.Has("client_id") && form.Get("client_id") != id {
		return "", "", oauth.Errorf(oauth.InvalidRequest, "the client is named twice, or its name and secret are not encoded as a form")
	}
	return id, secret, nil
}

func (h *Handler) token(w http.ResponseWriter, r *http.Request, c oauth.Client) error {
	form := r.PostForm
	var out oauth.Tokens
	err := limits(form)
	if err != nil {
		return err
	}
	switch kind := form.Get("grant_type"); kind {
	case "authorization_code":
		out, err = h.config.Server.Redeem(r.Context(), c, oauth.Redemption{
			Code: form.Get("code"), Redirect: form.Get("redirect_uri"), Verifier: form.Get("code_verifier"), Resource: form.Get("resource"),
		})
	case "refresh_token":
		out, err = h.config.Server.Refresh(r.Context(), c, form.Get("refresh_token"), form.Get("scope"), form.Get("resource"))
	case oauth.GrantExchange:
		out, err = h.config.Server.Exchange(r.Context(), c, oauth.Exchange{
			Subject: form.Get("subject_token"), SubjectType: form.Get("subject_token_type"), Scope: form.Get("scope"),
			Details: form.Get("authorization_details"), Resource: form.Get("resource"), Audience: form.Get("audience"), Wanted: form.Get("requested_token_type"),
		})
	case oauth.GrantAssertion:
		out, err = h.config.Server.Assert(r.Context(), c, oauth.Asserted{Assertion: form.Get("assertion"), Scope: form.Get("scope"), Resource: form.Get("resource")})
	default:
		err = oauth.Errorf(oauth.UnsupportedGrant, "grant_type %.60q is not supported; want one of %s", kind, strings.Join(h.grantTypes(), ", "))
	}
	if err != nil {
		return err
	}
	h.write(w, http.StatusOK, out)
	return nil
}

// limiting are parameters by which a client says that a token is to be good for less, each with
// the grant types that heed it.
var limiting = map[string][]string{
	"audience": {oauth.GrantExchange}, "authorization_details": {oauth.GrantExchange}, "actor_token": nil, "actor_token_type": nil,
}

// limits refuses a limit that would not be heeded: a client that names one must not get a
// token without it.
func limits(form url.Values) error {
	for name, heeded := range limiting {
		if form.Has(name) && !slices.Contains(heeded, form.Get("grant_type")) {
			return oauth.Errorf(oauth.InvalidRequest, "%s is not heeded with this grant_type; leave it out, or narrow the token by token exchange", name)
		}
	}
	return nil
}

// grantTypes are those that the token endpoint takes.
func (h *Handler) grantTypes() []string {
	all := []string{"authorization_code", "refresh_token", oauth.GrantExchange}
	if h.config.Server.Asserts() {
		all = append(all, oauth.GrantAssertion)
	}
	return all
}

func (h *Handler) revoke(w http.ResponseWriter, r *http.Request, c oauth.Client) error {
	if err := h.config.Server.Revoke(r.Context(), c, r.PostForm.Get("token")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (h *Handler) introspect(w http.ResponseWriter, r *http.Request, c oauth.Client) error {
	answer, err := h.config.Server.Introspect(r.Context(), c, r.PostForm.Get("token"))
	if err != nil {
		return err
	}
	h.write(w, http.StatusOK, answer)
	return nil
}

// register gives an id to a client that the operator lets register itself (RFC 7591).
func (h *Handler) register(w http.ResponseWriter, r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return oauth.Errorf(oauth.InvalidMetadata, "want a body of type application/json")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return oauth.Errorf(oauth.InvalidMetadata, "the body cannot be read, or has more than %d bytes", formLimit)
	}
	registered, err := h.config.Server.Register(body)
	if err != nil {
		return err
	}
	h.write(w, http.StatusCreated, registered)
	return nil
}

func (h *Handler) keys(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/jwk-set+json")
	_, err := w.Write(h.config.Keys)
	return err
}

// server is the metadata of the authorization server (RFC 8414).
func (h *Handler) server(w http.ResponseWriter, _ *http.Request) error {
	at := strings.TrimRight(h.config.Server.URL(), "/")
	var scopes []string
	for _, r := range h.config.Server.Resources() {
		scopes = append(scopes, r.Scopes()...)
	}
	scopes = append(scopes, oauth.OfflineAccess)
	slices.Sort(scopes)
	methods := []string{"none", "client_secret_basic", "client_secret_post"}
	metadata := map[string]any{
		"issuer":                                         h.config.Server.URL(),
		"authorization_endpoint":                         at + pathAuthorize,
		"token_endpoint":                                 at + pathToken,
		"revocation_endpoint":                            at + pathRevoke,
		"introspection_endpoint":                         at + pathIntrospect,
		"jwks_uri":                                       at + pathKeys,
		"scopes_supported":                               slices.Compact(scopes),
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          h.grantTypes(),
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          methods,
		"revocation_endpoint_auth_methods_supported":     methods,
		"introspection_endpoint_auth_methods_supported":  methods[1:],
		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          h.config.Server.Documents(),
		"authorization_details_types_supported":          []string{oauth.DetailsType},
	}
	if h.config.Server.Registers() {
		metadata["registration_endpoint"] = at + pathRegister
	}
	if h.config.Server.Asserts() {
		metadata["authorization_grant_profiles_supported"] = []string{oauth.ProfileAssertion}
	}
	h.write(w, http.StatusOK, metadata)
	return nil
}

// resource is the metadata of a protected resource (RFC 9728).
func (h *Handler) resource(w http.ResponseWriter, r *http.Request) error {
	for _, one := range h.config.Server.Resources() {
		u, err := url.Parse(one.URL)
		if err != nil || u.Path != "/"+r.PathValue("path") {
			continue
		}
		h.write(w, http.StatusOK, Metadata(h.config.Server.URL(), one))
		return nil
	}
	http.NotFound(w, r)
	return nil
}

// Metadata is that of a protected resource (RFC 9728), whose clients a server authorizes.
func Metadata(server string, r oauth.Resource) map[string]any {
	return map[string]any{
		"resource":                              r.URL,
		"authorization_servers":                 []string{server},
		"scopes_supported":                      r.Scopes(),
		"bearer_methods_supported":              []string{"header"},
		"resource_name":                         r.Agent,
		"authorization_details_types_supported": []string{oauth.DetailsType},
	}
}
