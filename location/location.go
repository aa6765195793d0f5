// Package location protects a service that executes a capability at a location of
// its own, where agents of the Agent Auth Protocol call it without their provider
// in between (AAP-P10, AAP-E12).
//
// Its laws: nothing is executed without introspection; a token for another location
// is refused; the executed arguments are the bytes that were decided on; if the
// provider cannot be asked, the answer is no.
//
// The provider is asked at every call, so that a revocation holds here
// from the next call on. It says whether one of the agent's grants admits the
// arguments: no constraint is read here. A token is verified and not used up; a
// service whose work must not be done twice keeps the ids of its own requests.
//
// A token that is bound to a key (RFC 9449) is good with a proof for the very
// request, which the provider verifies and uses up; one that is bound to a client
// certificate (RFC 8705) over a connection with that, which is looked at here
// (AAP-J9).
package location

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Verifier says who calls and whether they may. Every field is required unless it
// says otherwise.
type Verifier struct {
	// Location is the service's own URL, as the capability names it: the audience
	// of the tokens that it takes.
	Location string
	// Capabilities are the names of those that are executed here.
	Capabilities []string
	// Introspection is the provider's endpoint, and Secret what it knows the service
	// by; "" where it asks for nothing.
	Introspection string
	Secret        string
	// Client asks the provider; nil for one that follows no redirect and waits ten
	// seconds.
	Client *http.Client
	// BodyLimit is how large a request may be, in bytes; 0 for 1 MiB.
	BodyLimit int64
}

// Call is one execution that was allowed.
type Call struct {
	Capability string
	Arguments  json.RawMessage // an object
	Agent      string          // id at the provider
	Host       string
	User       string // for whom the agent acts, "" for none
}

// key is that of a Call in a context.
type key struct{}

// FromContext returns the execution that a request is, and false for one that did
// not come through [Verifier.Middleware].
func FromContext(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(key{}).(Call)
	return c, ok
}

// Middleware lets those requests through to next that are executions which the
// agent has a grant for. next has the body once more, and the execution by
// [FromContext]. An invalid v is an error here.
func (v Verifier) Middleware(next http.Handler) (http.Handler, error) {
	for name, s := range map[string]string{"Location": v.Location, "Introspection": v.Introspection} {
		if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("location: %s is %q; want an absolute URL", name, s)
		}
	}
	if len(v.Capabilities) == 0 || next == nil {
		return nil, errors.New("location: Capabilities and a handler are required")
	}
	if v.Client == nil {
		v.Client = &http.Client{
			Timeout:       10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if v.BodyLimit <= 0 {
		v.BodyLimit = 1 << 20
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, body, no := v.verify(w, r)
		if no != nil {
			no.write(w)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), key{}, call))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Del("Authorization") // the service has no use for it
		r.Header.Del("DPoP")
		next.ServeHTTP(w, r)
	}), nil
}

// verify reads one request and has the provider decide on it.
func (v Verifier) verify(w http.ResponseWriter, r *http.Request) (Call, []byte, *refusal) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return Call{}, nil, &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "want POST"}
	}
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return Call{}, nil, &refusal{http.StatusUnauthorized, "authentication_required", "want one token of an agent, for " + v.Location}
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	shown := credentials{token: strings.TrimSpace(token), dpop: strings.EqualFold(scheme, "DPoP")}
	if !shown.dpop && !strings.EqualFold(scheme, "Bearer") || shown.token == "" {
		return Call{}, nil, &refusal{http.StatusUnauthorized, "invalid_jwt", "Authorization is neither Bearer nor DPoP and a token"}
	}
	if proofs := r.Header.Values("DPoP"); shown.dpop && len(proofs) == 1 {
		shown.proof = proofs[0]
	} else if shown.dpop {
		return Call{}, nil, &refusal{http.StatusUnauthorized, "invalid_jwt", "Authorization is DPoP; want one header DPoP with a proof for this request"}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
		shown.certificate = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, v.BodyLimit))
	if err != nil {
		return Call{}, nil, &refusal{http.StatusBadRequest, "invalid_request", "the body cannot be read, or is too large"}
	}
	call, err := read(body)
	if err != nil {
		return Call{}, nil, &refusal{http.StatusBadRequest, "invalid_request", "body: " + err.Error()}
	}
	if !slices.Contains(v.Capabilities, call.Capability) {
		return Call{}, nil, &refusal{http.StatusNotFound, "capability_not_found", "that capability is not executed here"}
	}
	said, err := v.introspect(r.Context(), shown, call)
	switch {
	case err != nil:
		return Call{}, nil, &refusal{http.StatusServiceUnavailable, "unavailable", "whether the token holds cannot be told now; try again in a moment"}
	case !said.Active:
		return Call{}, nil, &refusal{http.StatusUnauthorized, "invalid_jwt", "the token does not hold"}
	case !said.proves(shown):
		return Call{}, nil, &refusal{http.StatusUnauthorized, "invalid_jwt", "the token is bound to a key or a certificate: send it as Authorization: DPoP with a proof for this request, or over a connection with that certificate"}
	case said.Audience != v.Location:
		return Call{}, nil, &refusal{http.StatusUnauthorized, "invalid_jwt", "the token is not for " + v.Location}
	case !said.Allowed:
		return Call{}, nil, &refusal{http.StatusForbidden, "capability_not_granted", "the agent has no grant in force that admits this"}
	}
	call.Agent, call.Host, call.User = said.Agent, said.Host, said.User
	return call, body, nil
}

// introspection is what the provider says of a token.
type introspection struct {
	Active   bool   `json:"active"`
	Allowed  bool   `json:"allowed"`
	Audience string `json:"aud"`
	Agent    string `json:"agent_id"`
	Host     string `json:"host_id"`
	User     string `json:"user_id"`
	// Confirmation is what the token is bound to, and Proven says that the proof of
	// its key holds.
	Confirmation map[string]any `json:"cnf"`
	Proven       bool           `json:"proven"`
}

// credentials are what a request shows.
type credentials struct {
	token       string
	dpop        bool
	proof       string // DPoP proof, "" for none
	certificate string // x5t#S256 of the connection's, "" for none
}

// proves reports whether the request has shown everything that its token is bound
// to. An unknown binding is not skipped, and a proof that was not
// verified proves nothing (RFC 9449, section 7.1).
func (s introspection) proves(shown credentials) bool {
	for name, bound := range s.Confirmation {
		switch name {
		case "jkt":
			if !shown.dpop { // with which goes a proof
				return false
			}
		case "x5t#S256":
			if shown.certificate == "" || bound != shown.certificate {
				return false
			}
		default:
			return false
		}
	}
	return (s.Confirmation == nil) == (len(s.Confirmation) == 0) && (!shown.dpop || s.Proven)
}

// introspect asks the provider about a token, the proof and the arguments that came
// with it.
func (v Verifier) introspect(ctx context.Context, shown credentials, c Call) (introspection, error) {
	question := map[string]any{"token": shown.token, "capability": c.Capability, "arguments": c.Arguments}
	if shown.dpop {
		question["proof"] = map[string]string{"dpop": shown.proof, "method": http.MethodPost, "url": v.Location}
	}
	ask, err := json.Marshal(question)
	if err != nil {
		return introspection{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.Introspection, bytes.NewReader(ask))
	if err != nil {
		return introspection{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if v.Secret != "" {
		req.Header.Set("Authorization", "Bearer "+v.Secret)
	}
	resp, err := v.Client.Do(req)
	if err != nil {
		return introspection{}, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	if resp.StatusCode != http.StatusOK {
		return introspection{}, fmt.Errorf("location: the provider answered with %s", resp.Status)
	}
	var out introspection
	return out, json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&out)
}

// refusal is an answer that says no, in the protocol's form.
type refusal struct {
	status        int
	code, message string
}

func (n *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(n.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": n.code, "message": n.message}) // the client may have gone
}
