package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/kept"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Client is a client that is known: from the configuration, from its own document, or
// because it registered itself.
type Client struct {
	ID        string
	Name      string // "" for none
	Redirects []string
	// Secret is its secret; "" for a public client, which PKCE alone protects.
	Secret string
	// Introspects lets a client with a secret ask about the tokens of others, and Exchanges
	// lets it exchange them.
	Introspects, Exchanges bool
	loopback               bool // every redirect URI on loopback is registered
}

// authenticated reports whether a secret is the client's: "" for a public client.
func (c Client) authenticated(secret string) bool {
	have, want := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(c.Secret))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// redirects reports whether the browser may be sent to a URI: one that is registered, byte
// for byte. Only a loopback address may have another port (RFC 8252, section 7.3).
func (c Client) redirects(uri string) bool {
	if CheckRedirect(uri) != nil {
		return false
	}
	return c.loopback && isLoopback(uri) || slices.ContainsFunc(c.Redirects, func(known string) bool {
		return known == uri || isLoopback(known) && isLoopback(uri) && withoutPort(known) == withoutPort(uri)
	})
}

// CheckRedirect returns why no browser is sent to a URI.
func CheckRedirect(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Opaque != "" && !strings.Contains(u.Scheme, ".") || strings.ContainsAny(uri, " \\\"<>\r\n\t"):
		return fmt.Errorf("redirect URI %q cannot be read", uri)
	case u.Fragment != "" || strings.Contains(uri, "#") || u.User != nil:
		return fmt.Errorf("redirect URI %q has a fragment or a user; want none", uri)
	case u.Scheme == "https" && u.Host != "", isLoopback(uri), strings.Contains(u.Scheme, "."):
		return nil
	}
	return fmt.Errorf("redirect URI %q is neither https, nor http on loopback, nor of a private scheme with a dot such as com.example.app", uri)
}

// isLoopback reports whether a URI is http on this machine.
func isLoopback(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || u.User != nil {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && at.IsLoopback()
}

func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return uri
	}
	if u.Host = u.Hostname(); strings.Contains(u.Host, ":") {
		u.Host = "[" + u.Host + "]"
	}
	return u.String()
}

// origin is what a person sees of a redirect URI.
func origin(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		scheme, _, _ := strings.Cut(uri, ":")
		return scheme + ":"
	}
	return u.Scheme + "://" + u.Host
}

// errFetch tells a stranger that a document could not be fetched. Why says how the server's
// network looks from inside: which addresses a name has, and what answers there.
var errFetch = errors.New("it could not be fetched; the server's log says why")

// Fetcher gets documents, and logs why it could not. internal/outbound has the one that keeps to the address policy.
type Fetcher func(ctx context.Context, address string) ([]byte, error)

// Documents are the metadata documents of clients whose id is the URL of the document
// (draft-ietf-oauth-client-id-metadata-document).
type Documents struct {
	// Hosts that may have them; "*" is every host.
	Hosts []string
	Fetch Fetcher
	known *kept.Values[Client]
}

const (
	documentFresh = 5 * time.Minute
	documentStale = time.Hour
	documentPause = 10 * time.Second
	maxDocuments  = 1000
	maxRedirects  = 50
	maxName       = 80
)

var documentLimits = powerbox.Limits{Bytes: 16 << 10, Depth: 8, Nodes: 1000}

// NewDocuments returns those of some hosts.
func NewDocuments(hosts []string, fetch Fetcher) *Documents {
	d := &Documents{Hosts: hosts, Fetch: fetch}
	d.known = kept.New(kept.Times{Fresh: documentFresh, Stale: documentStale, Pause: documentPause}, maxDocuments, d.load)
	return d
}

// isDocument reports whether a client id is the URL of a document.
func isDocument(id string) bool { return strings.HasPrefix(id, "https://") }

// client fetches the client of a document.
func (d *Documents) client(ctx context.Context, id string, now func() time.Time) (Client, error) {
	if err := d.admits(id); err != nil {
		return Client{}, err
	}
	c, ok, err := d.known.Get(ctx, id, now, func(c Client) bool { return c.ID == id })
	if !ok {
		if err == nil {
			err = fmt.Errorf("it was tried a moment ago")
		}
		return Client{}, Errorf(InvalidClient, "the metadata document of the client cannot be had: %v", err)
	}
	return c, nil
}

// admits refuses URLs that are no client's, before anything is fetched.
func (d *Documents) admits(id string) error {
	u, err := url.Parse(id)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Contains(id, "#") || u.RawQuery != "":
		return Errorf(InvalidClient, "the client id is not an https URL without user, query and fragment")
	case u.Path == "" || u.Path == "/" || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/"):
		return Errorf(InvalidClient, "the client id has no path, or one with dots; want the URL of its metadata document")
	case !slices.Contains(d.Hosts, "*") && !slices.Contains(d.Hosts, u.Host):
		return Errorf(InvalidClient, "no clients of %s are admitted here; the operator can add it to oauth.client_metadata_hosts", u.Host)
	}
	return nil
}

// load fetches a document, and reads the client of it.
func (d *Documents) load(ctx context.Context, id string) (Client, error) {
	body, err := d.Fetch(ctx, id)
	if err != nil {
		return Client{}, errFetch
	}
	v, err := powerbox.DecodeValue(body, documentLimits)
	if err != nil {
		return Client{}, fmt.Errorf("it is not JSON: %w", err)
	}
	text := func(name string) string {
		member, _ := v.Get(name)
		s, _ := member.Text()
		return s
	}
	c := Client{ID: id, Name: agentauth.Plain(text("client_name"), maxName)}
	if text("client_id") != id {
		return Client{}, fmt.Errorf("its client_id is not its URL")
	}
	if _, secret := v.Get("client_secret"); secret {
		return Client{}, fmt.Errorf("it has a client_secret, which everybody can read")
	}
	if method := text("token_endpoint_auth_method"); method != "" && method != "none" {
		return Client{}, fmt.Errorf("its token_endpoint_auth_method is %.40q; want none", method)
	}
	c.Redirects, err = redirectsOf(v)
	return c, err
}
