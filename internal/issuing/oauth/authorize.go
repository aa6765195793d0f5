package oauth

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
)

// Authorization is an authorization request that was read. With a Redirect its client is
// known, and errors are for that client.
type Authorization struct {
	Client    Client
	Redirect  string
	State     string
	challenge string // PKCE, S256
	resource  Resource
	grants    []string
	of        map[string][]string
	details   details
	offline   bool // the client wants refresh tokens
}

// Read reads an authorization request.
func (s *Server) Read(ctx context.Context, q url.Values) (Authorization, error) {
	var a Authorization
	for name, values := range q {
		if len(values) > 1 {
			return a, Errorf(InvalidRequest, "%.40q occurs %d times; want it once", name, len(values))
		}
	}
	var err error
	if a.Client, err = s.Client(ctx, q.Get("client_id")); err != nil {
		return a, err
	}
	if !a.Client.redirects(q.Get("redirect_uri")) {
		return a, Errorf(InvalidRequest, "redirect_uri is missing, or is not one that the client registered, byte for byte")
	}
	a.Redirect, a.State = q.Get("redirect_uri"), q.Get("state")
	return a, s.read(&a, q)
}

// challengeLength is that of a SHA-256 in base64url.
const challengeLength = 43

// read reads the part whose errors the client is told.
func (s *Server) read(a *Authorization, q url.Values) error {
	a.challenge = q.Get("code_challenge")
	switch {
	case q.Has("request") || q.Has("request_uri"):
		return Errorf("request_not_supported", "request objects are not supported; send the parameters themselves")
	case q.Get("response_type") != "code":
		return Errorf(UnsupportedType, "response_type must be code")
	case q.Has("response_mode") && q.Get("response_mode") != "query":
		return Errorf(InvalidRequest, "response_mode must be query")
	case len(a.challenge) != challengeLength || q.Get("code_challenge_method") != "S256":
		return Errorf(InvalidRequest, "PKCE is required: code_challenge with code_challenge_method S256")
	case q.Get("prompt") == "none":
		return Errorf(InteractionRequired, "a person has to answer; leave out prompt=none")
	}
	var err error
	if a.resource, err = s.Resource(q.Get("resource")); err != nil {
		return err
	}
	if a.details, err = readDetails(q.Get("authorization_details"), a.resource); err != nil {
		return err
	}
	if a.details.any() {
		if a.offline = q.Get("scope") == OfflineAccess; q.Get("scope") != "" && !a.offline {
			return Errorf(InvalidRequest, "scope and authorization_details stand together; want one of them")
		}
		a.grants, a.of = a.details.grants()
		return nil
	}
	a.offline = slices.Contains(strings.Fields(q.Get("scope")), OfflineAccess)
	a.grants, a.of, err = a.resource.wanted(q.Get("scope"))
	return err
}

// Answer is what became of an authorization request: the page on which a person is asked,
// or the code.
type Answer struct{ Page, Code string }

// Authorize finds out what people have said of a request of a person who is logged in, or
// asks them. It can be called again with the same path, which names the request.
func (s *Server) Authorize(ctx context.Context, who people.Person, a Authorization, path string) (Answer, error) {
	caller := s.caller(a.Client.ID, who.Principal, who.Groups)
	asked, key, err := s.config.Issuing.Consent(ctx, a.resource.Agent, caller, issuer.Request{
		Grants: a.grants, Of: a.of, Purpose: a.purpose(), Expires: a.details.expires,
		Client: &issuer.Client{ID: a.Client.ID, Name: a.Client.Name, Returns: origin(a.Redirect), Continue: path},
	})
	if err != nil {
		return Answer{}, refused(err)
	}
	switch asked.State {
	case issuer.StatePending:
		return Answer{Page: asked.URL}, nil
	case issuer.StateDenied:
		return Answer{}, Errorf(AccessDenied, "a person has denied the request")
	case issuer.StateExpired:
		return Answer{}, Errorf(AccessDenied, "no person answered the request in time")
	case issuer.StateApproved:
	}
	code, err := s.seal(asCode, sealed{
		Key: key, Question: asked.ID, Client: a.Client.ID, Principal: who.Principal, Groups: who.Groups,
		Resource: a.resource.URL, Redirect: a.Redirect, Challenge: a.challenge, Offline: a.offline, Until: s.config.Now().Add(s.config.Lifetimes.Code),
	})
	return Answer{Code: code}, err
}

// purpose is what the person reads as the client's own words.
func (a Authorization) purpose() string {
	if a.details.purpose != "" {
		return a.details.purpose
	}
	return "Access for the client " + a.Client.shown()
}

// refused words a refusal of the issuer.
func refused(err error) error {
	var no *issuer.Refusal
	switch {
	case !errors.As(err, &no):
		return err
	case no.Code == issuer.CodeApprovalTooMany:
		return Errorf(Unavailable, "%s", no.Message)
	case no.Code == issuer.CodeExpiryInvalid:
		return Errorf(InvalidDetails, "%s", no.Message)
	}
	return Errorf(AccessDenied, "%s", no.Message)
}

// Redirected is the address to which a browser is sent with an answer (RFC 9207 wants the
// issuer in it).
func (s *Server) Redirected(a Authorization, answer url.Values) string {
	u, err := url.Parse(a.Redirect)
	if err != nil { // it was checked
		return s.config.URL
	}
	q := u.Query()
	for name, values := range answer {
		q[name] = slices.Clone(values)
	}
	if a.State != "" {
		q.Set("state", a.State)
	}
	q.Set("iss", s.config.URL)
	u.RawQuery = q.Encode()
	return u.String()
}

// ended reports whether something that was sealed is over.
func (b sealed) ended(now time.Time) bool { return !now.Before(b.Until) }
