package oauth

import (
	"encoding/base64"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Loopback stands among the redirect URIs of [Config.Registering] for every path on http on
// the person's machine.
const Loopback = "loopback"

// Registered is what a client is told that registered itself (RFC 7591, section 3.2.1).
type Registered struct {
	ID         string   `json:"client_id"`
	Issued     int64    `json:"client_id_issued_at"` // seconds since 1970
	Name       string   `json:"client_name,omitempty"`
	Redirects  []string `json:"redirect_uris"`
	Method     string   `json:"token_endpoint_auth_method"`
	GrantTypes []string `json:"grant_types"`
	Responses  []string `json:"response_types"`
}

const (
	selfPrefix = "self."
	selfNonce  = 12 // bytes
	maxSlug    = 32
)

// selfID is the form of the id of a client that registered itself: its name, and a random part.
var selfID = regexp.MustCompile(`^self\.([a-z0-9-]{1,32})\.[A-Za-z0-9_-]{16}$`)

// Registers reports whether clients can register themselves.
func (s *Server) Registers() bool { return len(s.config.Registering) > 0 }

// Register gives an id to a client. The server keeps nothing: the id has the form of such a
// client, and may be used with each redirect URI that the operator lets clients register.
func (s *Server) Register(body []byte) (Registered, error) {
	v, err := powerbox.DecodeValue(body, documentLimits)
	if err != nil {
		return Registered{}, Errorf(InvalidMetadata, "the body is not JSON: %v", err)
	}
	if v.Kind() != powerbox.KindObject {
		return Registered{}, Errorf(InvalidMetadata, "the body is not a JSON object with the metadata of the client")
	}
	r := Registered{
		Issued: s.config.Now().Unix(), Method: "none",
		GrantTypes: []string{"authorization_code", "refresh_token"}, Responses: []string{"code"},
	}
	name, _ := v.Get("client_name")
	text, _ := name.Text()
	r.Name = agentauth.Plain(text, maxName)
	if r.Redirects, err = redirectsOf(v); err != nil {
		return Registered{}, Errorf(InvalidRedirect, "%v", err)
	}
	self := s.self("", "")
	for _, uri := range r.Redirects {
		if !self.redirects(uri) {
			return Registered{}, Errorf(InvalidRedirect, "redirect URI %.200q cannot be registered here; the operator can add it to oauth.self_registration", uri)
		}
	}
	if wanted, has := v.Get("grant_types"); has && !lists(wanted, "authorization_code") {
		return Registered{}, Errorf(InvalidMetadata, "grant_types lacks authorization_code, the only way to a token for a client that registered itself")
	}
	nonce := make([]byte, selfNonce)
	if _, err := io.ReadFull(s.config.Random, nonce); err != nil {
		return Registered{}, fmt.Errorf("oauth: %w", err)
	}
	r.ID = selfPrefix + slug(r.Name) + "." + base64.RawURLEncoding.EncodeToString(nonce)
	return r, nil
}

// registered returns the client of an id that Register gives.
func (s *Server) registered(id string) (Client, bool) {
	form := selfID.FindStringSubmatch(id)
	if form == nil || !s.Registers() {
		return Client{}, false
	}
	return s.self(id, form[1]), true
}

// self is a client that registered itself.
func (s *Server) self(id, name string) Client {
	c := Client{ID: id, Name: name}
	for _, uri := range s.config.Registering {
		if uri == Loopback {
			c.loopback = true
		} else {
			c.Redirects = append(c.Redirects, uri)
		}
	}
	return c
}

// redirectsOf reads the redirect URIs of the metadata of a client.
func redirectsOf(metadata powerbox.Value) (all []string, err error) {
	listed, _ := metadata.Get("redirect_uris")
	uris, _ := listed.Elements()
	if len(uris) == 0 || len(uris) > maxRedirects {
		return nil, fmt.Errorf("it has %d redirect_uris; want 1 to %d", len(uris), maxRedirects)
	}
	for _, u := range uris {
		uri, _ := u.Text()
		if err := CheckRedirect(uri); err != nil {
			return nil, err
		}
		all = append(all, uri)
	}
	return all, nil
}

func lists(v powerbox.Value, text string) bool {
	all, _ := v.Elements()
	return slices.ContainsFunc(all, func(e powerbox.Value) bool { s, _ := e.Text(); return s == text })
}

// slug is a name in the letters of an id.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	s := strings.Trim(fmt.Sprintf("%.*s", maxSlug, strings.Join(words, "-")), "-")
	if s == "" {
		return "client"
	}
	return s
}
