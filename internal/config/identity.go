package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Identity says whom to believe.
type Identity struct {
	Providers    []Provider    `key:"providers" doc:"Issuers of sessions (OpenID Connect, OAuth 2.0 JWT access tokens)."`
	TrustDomains []TrustDomain `key:"trust_domains" doc:"SPIFFE trust domains. Their X.509-SVIDs, in client certificates, and their JWT-SVIDs prove calling agents (identity.callers, spiffe), and no persons."`
	Callers      []CallerRule  `key:"callers" doc:"Names of calling agents, by the key, client, certificate or token that they prove."`
	Guards       []Guard       `key:"guards" doc:"Programs that enforce in their own process: they ask at /access/v1 before they act (docs/how-to/guards.md)."`
	Dev          []DevUser     `key:"dev" doc:"Built-in users, for experiments: only with serve --dev."`
}

// Provider is one issuer of sessions.
type Provider struct {
	Issuer          string        `key:"issuer" required:"true" format:"url" doc:"The iss claim, compared exactly."`
	Audience        []string      `key:"audience" doc:"Audiences that are accepted besides the agent's own URL."`
	JWKSFile        Path          `key:"jwks_file" doc:"Key set on disk, read again when it changes. While it is missing or unreadable, no token of the issuer is believed. Absent, and without jwks_url: the issuer's discovery document names the key set."`
	JWKSURL         string        `key:"jwks_url" format:"url" doc:"URL of the key set."`
	CA              Path          `key:"ca" doc:"PEM file with the authorities for the issuer's TLS certificate, in place of the system's. It is read at every fetch."`
	TokenFile       Path          `key:"token_file" doc:"File with a bearer token for the key set, such as the server's own Kubernetes service account token. It is sent to jwks_url alone, and read at every fetch."`
	Subjects        string        `key:"subjects" default:"people" enum:"people,programs" doc:"Whether the issuer's tokens are of people, or of programs only. A token of a program has no principal, is no person's session, and is refused unless identity.callers names its agent."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" default:"24h" doc:"A token that is valid for longer, from iat to exp, is refused."`
	Principal       string        `key:"principal" default:"user:{sub}" doc:"Name of the principal, with one claim in braces."`
	GroupsClaim     string        `key:"groups_claim" default:"groups" doc:"Claim that lists groups; /a/b is a JSON pointer."`
	RolesClaim      string        `key:"roles_claim" default:"roles" doc:"Claim that lists roles; /a/b is a JSON pointer."`
	Attributes      []string      `key:"attributes" doc:"Claims that policies may read."`
}

// TrustDomain is one SPIFFE trust domain.
type TrustDomain struct {
	Name            string        `key:"name" required:"true" format:"domain" doc:"Its name, such as prod.example.org."`
	BundleFile      Path          `key:"bundle_file" doc:"Its trust bundle: in the SPIFFE format (JSON), or its X.509 authorities in PEM. It is read again when it changes. While it is missing or unreadable, no SVID of the domain is believed."`
	WorkloadAPI     string        `key:"workload_api" doc:"Address of the SPIFFE Workload API that has the bundle, such as unix:///run/spire/sockets/agent.sock or tcp://127.0.0.1:8089. Changes arrive at once. Exactly one of bundle_file and workload_api."`
	Audience        []string      `key:"audience" doc:"Audiences of JWT-SVIDs that are accepted besides the agent's own URL."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" default:"24h" doc:"An SVID that is valid for longer is refused."`
}

// CallerRule names the agent that one holder is: by exactly one of key, client, mtls,
// spiffe, and issuer with claims.
type CallerRule struct {
	Agent  string            `key:"agent" required:"true" format:"id" doc:"Name of the calling agent, as in scopes."`
	Key    string            `key:"key" format:"digest" doc:"RFC 7638 thumbprint of its key, as powerbox keys thumbprint prints it."`
	Client string            `key:"client" doc:"OAuth client id, never a session token; with several providers ISSUER#CLIENT."`
	MTLS   string            `key:"mtls" format:"digest" doc:"base64url SHA-256 of its certificate's public key."`
	SPIFFE string            `key:"spiffe" doc:"Its SPIFFE id. At the end, each /* stands for exactly one segment: spiffe://prod.example.org/job/* is every job, and nothing below a job. An exact rule precedes one with /*, and a longer beginning precedes a shorter one."`
	Issuer string            `key:"issuer" format:"url" doc:"Issuer of its tokens, one of identity.providers. Needs claims."`
	Claims map[string]string `key:"claims" doc:"Claims that all must have exactly these texts, by name; /a/b is a JSON pointer, such as /act/sub for the current actor (RFC 8693). If the claim that names the principal is among them, the token is the agent's own and has no principal."`
}

func (k checker) checkProviders() {
	ps := k.Identity.Providers
	k.unique("identity.providers", "issuer", len(ps), func(i int) string { return ps[i].Issuer })
	for i, p := range ps {
		at := fmt.Sprintf("identity.providers[%d]", i)
		if p.JWKSFile != "" && p.JWKSURL != "" {
			k.place(at+".jwks_url", "stands beside jwks_file; want one of the two")
		}
		if p.TokenFile != "" && !strings.HasPrefix(p.JWKSURL, "https://") {
			k.place(at+".token_file", "needs jwks_url with https, the only address that the token is sent to")
		}
		if p.CA != "" && p.JWKSFile != "" {
			k.place(at+".ca", "stands beside jwks_file, for which nothing is fetched; want one of the two")
		}
		if p.MaximumLifetime <= 0 {
			k.place(at+".maximum_lifetime", "is %s; want a time such as 24h", shortDuration(p.MaximumLifetime))
		}
		prefix, rest, opened := strings.Cut(p.Principal, "{")
		claim, suffix, closed := strings.Cut(rest, "}")
		if !opened || !closed || claim == "" || strings.ContainsAny(prefix+claim+suffix, "{}") {
			k.place(at+".principal", "%q does not name one claim in braces; want a name such as user:{sub}", p.Principal)
			continue
		}
		for j, other := range ps[:i] {
			theirs, _, _ := strings.Cut(other.Principal, "{")
			if strings.HasPrefix(prefix, theirs) || strings.HasPrefix(theirs, prefix) {
				k.place(at+".principal", "%q begins like that of identity.providers[%d], so that one issuer could name the principals of the other; want different beginnings, such as user:NAME/{sub}",
					p.Principal, j)
			}
		}
	}
}

func (k checker) checkCallers() {
	owner := make(map[string]string)
	for i, c := range k.Identity.Callers {
		at := fmt.Sprintf("identity.callers[%d]", i)
		holder, err := c.Holder()
		if err != nil {
			k.place(at, "%v", err)
			continue
		}
		k.checkClient(at+".client", c.Client)
		k.checkClaims(at, c)
		if other, taken := owner[holder]; taken && other != c.Agent {
			k.place(at, "%s is already agent %q", holder, other)
		}
		owner[holder] = c.Agent
	}
}

// checkClaims wants claims of a known issuer that can tell one caller from others.
func (k checker) checkClaims(at string, c CallerRule) {
	if c.Issuer != "" && !slices.ContainsFunc(k.Identity.Providers, func(p Provider) bool { return p.Issuer == c.Issuer }) {
		k.place(at+".issuer", "%q is not in identity.providers", c.Issuer)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		switch {
		case c.Claims[name] == "" || name == "":
			k.place(at+".claims", "has an empty name or text; want a claim and the text that it must have")
		case strings.HasPrefix(name, "/act/act"):
			k.place(at+".claims", "%q is of an earlier actor, which is no one that calls (RFC 8693, section 4.1); want /act/sub, the current one", name)
		case slices.Contains([]string{"iss", "aud"}, name):
			k.place(at+".claims", "%q is compared in any case, and names no caller; want a claim such as sub, azp or /act/sub", name)
		}
	}
}

// Holder returns the holder that the rule names, as records and capabilities have it. Of a
// SPIFFE rule with /* it is the rule's text, since the holders that it names differ.
func (r CallerRule) Holder() (string, error) {
	var ids []string
	for _, id := range [][2]string{{"key:", r.Key}, {"client:", r.Client}, {"mtls:", r.MTLS}, {"", r.SPIFFE}} {
		if id[1] != "" {
			ids = append(ids, id[0]+id[1])
		}
	}
	if r.Issuer != "" || len(r.Claims) > 0 {
		claims := url.Values{}
		for name, text := range r.Claims {
			claims.Set(name, text)
		}
		ids = append(ids, "token:"+r.Issuer+"#"+claims.Encode())
	}
	switch {
	case r.Agent == "":
		return "", errors.New("has no agent name")
	case len(ids) != 1:
		return "", fmt.Errorf("has %d identities; want exactly one of key, client, mtls, spiffe, and issuer with claims", len(ids))
	case (r.Issuer == "") != (len(r.Claims) == 0):
		return "", errors.New("has only one of issuer and claims; want both")
	}
	if r.SPIFFE != "" {
		if _, _, err := r.Workloads(); err != nil {
			return "", err
		}
	}
	return ids[0], nil
}

// Open reports whether the rule leaves segments of a SPIFFE id open.
func (r CallerRule) Open() bool { return strings.HasSuffix(r.SPIFFE, "/*") }

const maximumSegments = 4 // that /* stand for at the end of one SPIFFE rule

// Workloads takes a SPIFFE rule apart: the id that it spells out, and how many segments
// must follow that.
func (r CallerRule) Workloads() (id spiffeid.ID, more int, err error) {
	text := r.SPIFFE
	for strings.HasSuffix(text, "/*") {
		text, more = strings.TrimSuffix(text, "/*"), more+1
	}
	id, err = spiffeid.FromString(text)
	switch {
	case err != nil:
		return id, more, fmt.Errorf("spiffe: %q is not a SPIFFE id; want spiffe://TRUST-DOMAIN/PATH, with /* at the end for each segment that may differ", r.SPIFFE)
	case id.Path() == "":
		return id, more, fmt.Errorf("spiffe: %q names no workload; want at least one segment of a path, as in spiffe://%s/agent", r.SPIFFE, id.TrustDomain().Name())
	case more > maximumSegments:
		return id, more, fmt.Errorf("spiffe: %q leaves %d segments open; want at most %d", r.SPIFFE, more, maximumSegments)
	}
	return id, more, nil
}

func (k checker) checkTrustDomains() {
	domains := k.Identity.TrustDomains
	k.unique("identity.trust_domains", "name", len(domains), func(i int) string { return domains[i].Name })
	for i, d := range domains {
		at := fmt.Sprintf("identity.trust_domains[%d]", i)
		switch {
		case (d.BundleFile == "") == (d.WorkloadAPI == ""):
			k.place(at, "needs exactly one of bundle_file and workload_api")
		case d.WorkloadAPI != "" && !isWorkloadAPI(d.WorkloadAPI):
			k.place(at+".workload_api", "%q is not an address of a Workload API; want unix:///PATH, or tcp://IP:PORT", d.WorkloadAPI)
		}
		if d.MaximumLifetime <= 0 {
			k.place(at+".maximum_lifetime", "is %s; want a time such as 24h", shortDuration(d.MaximumLifetime))
		}
	}
}

// isWorkloadAPI reports whether a text is an address as the Workload API's specification has
// it: a socket, or an IP address and a port.
func isWorkloadAPI(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return false
	}
	_, err = netip.ParseAddrPort(u.Host)
	return u.Scheme == "unix" && u.Host == "" && len(u.Path) > 1 || u.Scheme == "tcp" && err == nil && u.Path == ""
}

func checkDomain(s string) error {
	if td, err := spiffeid.TrustDomainFromString(s); err != nil || td.Name() != s {
		return fmt.Errorf("%q is not a trust domain; want 1 to 255 of a-z, 0-9, '.', '-' and '_', such as prod.example.org", s)
	}
	return nil
}

// checkClient wants a client id that a token can prove. A session's token is a secret and
// proves a user; a client id is one of one issuer.
func (k checker) checkClient(at, client string) {
	issuer, _, qualified := strings.Cut(client, "#")
	switch {
	case client == "":
	case slices.ContainsFunc(k.Identity.Dev, func(u DevUser) bool { return u.Token.Reveal() == client }):
		k.place(at, "is the session token of a built-in user, which is a secret and names no client; give the calling agent a key (powerbox keys new FILE) and write key: THUMBPRINT")
	case slices.ContainsFunc(k.Identity.Dev, func(u DevUser) bool { return "dev:"+u.Name == client }):
		k.place(at, "%q is a built-in user, who is no client: the rule would match no caller; give the calling agent a key (powerbox keys new FILE) and write key: THUMBPRINT", client)
	case qualified && issuer != k.Issuer.URL && !slices.ContainsFunc(k.Identity.Providers, func(p Provider) bool { return p.Issuer == issuer }):
		k.place(at, "%q names an issuer that is not in identity.providers", client)
	case !qualified && len(k.Identity.Providers) > 1:
		k.place(at, "%q could be a client of any of %d providers; want ISSUER#CLIENT", client, len(k.Identity.Providers))
	}
}
