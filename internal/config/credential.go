package config

import (
	"fmt"
	"net/http"
	"strings"
)

// AgentCredential is a secret that the gateway adds to decided calls to the agent.
type AgentCredential struct {
	Header string          `key:"header" doc:"Header with the secret. Default: Authorization."`
	Scheme string          `key:"scheme" doc:"Word before the secret in the header. Default: Bearer in Authorization, and none elsewhere."`
	Query  string          `key:"query" doc:"Parameter of the query with the secret, instead of a header. Servers log URLs: use it only if the agent reads no header."`
	File   Path            `key:"file" doc:"File with the secret, read again for every call."`
	Env    string          `key:"env" doc:"Variable of the server's environment with the secret."`
	Vault  CredentialVault `key:"vault" doc:"Secret in the key-value engine (version 2) of Vault or OpenBao, read again after 5 minutes or when the agent refuses it."`
	OAuth  CredentialOAuth `key:"oauth" doc:"Access tokens of an OAuth server that the agent believes."`
}

// CredentialFile is the secret that a remote gateway adds to decided calls: the file that
// powerbox gateway --credential-file names.
type CredentialFile struct {
	Credential AgentCredential `key:"credential" doc:"The secret, as agents[].credential of a server."`
	Variable   string          `key:"variable" doc:"With --mcp-exec, variable of the environment in which the command gets the secret when it starts."`
}

// LoadCredential reads such a file, as [LoadAttach] reads its own.
func LoadCredential(path string, read func(string) ([]byte, error)) (*CredentialFile, error) {
	c := new(CredentialFile)
	if err := loadFile(path, read, c); err != nil {
		return nil, err
	}
	return c, nil
}

// check wants one secret that a gateway can have.
func (c *CredentialFile) check(d *decoder) {
	k := checker{Config: new(Config), decoder: d}
	k.checkCredential("", Agent{Credential: c.Credential})
	if c.Credential.IsZero() {
		d.place("credential", "has no secret; want file, env, vault.address or oauth.token_url")
	}
	if c.Credential.OAuth.Grant == "refresh_token" && c.Credential.OAuth.TokenURL != "" {
		d.place("credential.oauth.grant", "is refresh_token, which needs the store of a server; want client_credentials")
	}
}

// CredentialVault is a secret in Vault.
type CredentialVault struct {
	Address   string `key:"address" format:"origin" doc:"Address of the server, https or on loopback."`
	Mount     string `key:"mount" default:"secret" doc:"Where the engine is mounted."`
	Path      string `key:"path" doc:"Path of the secret in the engine."`
	Field     string `key:"field" default:"value" doc:"Field of the secret."`
	Namespace string `key:"namespace" doc:"Namespace of the engine."`
	TokenFile Path   `key:"token_file" doc:"File with the token for Vault."`
}

// CredentialOAuth are access tokens of an OAuth server.
type CredentialOAuth struct {
	Grant            string   `key:"grant" default:"client_credentials" enum:"client_credentials,refresh_token" doc:"client_credentials: one token of this client for all callers. refresh_token: a token of the person behind the call, who consents once at URL/connect/AGENT of this server."`
	TokenURL         string   `key:"token_url" format:"url" doc:"Token endpoint, https or on loopback."`
	AuthorizationURL string   `key:"authorization_url" format:"url" doc:"Authorization endpoint, where persons consent. Only for refresh_token."`
	ClientID         string   `key:"client_id" doc:"Id of this server as a client there. Its redirect URI is URL/connect/AGENT/done."`
	ClientSecretFile Path     `key:"client_secret_file" doc:"File with the client's secret. Absent: a public client."`
	Scopes           []string `key:"scopes" doc:"Scopes to ask for. Many servers give refresh tokens only for offline_access."`
	Resource         string   `key:"resource" format:"url" doc:"Resource indicator (RFC 8707)."`
}

// IsZero reports whether there is no credential.
func (c AgentCredential) IsZero() bool { return len(c.sources()) == 0 }

// sources are the sources that are set.
func (c AgentCredential) sources() (set []string) {
	for _, s := range []struct{ name, value string }{{"file", string(c.File)}, {"env", c.Env}, {"vault.address", c.Vault.Address}, {"oauth.token_url", c.OAuth.TokenURL}} {
		if s.value != "" {
			set = append(set, s.name)
		}
	}
	return set
}

// Place returns the header and the word before the secret, or the parameter of the query.
func (c AgentCredential) Place() (header, scheme, query string) {
	if c.Query != "" {
		return "", "", c.Query
	}
	if c.Header == "" || c.Header == "Authorization" {
		if c.Scheme == "" {
			return "Authorization", "Bearer", ""
		}
		return "Authorization", c.Scheme, ""
	}
	return c.Header, c.Scheme, ""
}

// checkCredential wants one source and one place.
func (k checker) checkCredential(at string, a Agent) {
	c := a.Credential
	at = strings.TrimPrefix(at+".credential", ".")
	set := c.sources()
	if len(set) == 0 {
		if c.Header+c.Query+c.Scheme != "" {
			k.place(at, "has no secret; want file, env, vault.address or oauth.token_url")
		}
		return
	}
	switch {
	case len(set) > 1:
		k.place(at, "has %s; want one of them", strings.Join(set, " and "))
	case c.Query != "" && c.Header+c.Scheme != "":
		k.place(at+".query", "is set beside a header; want one of them")
	case c.Header != "" && c.Header != http.CanonicalHeaderKey(c.Header):
		k.place(at+".header", "is %q; want %s", c.Header, http.CanonicalHeaderKey(c.Header))
	case credentialHeaders[c.Header] || strings.HasPrefix(c.Header, "Powerbox-"):
		k.place(at+".header", "is %q, which the gateway sets itself; want Authorization or a header of the agent's own", c.Header)
	case a.Protocol == "local":
		k.place(at, "is set for an agent with protocol: local, to which nothing is forwarded")
	case a.GatewayURL != "":
		k.place(at, "is set for an agent with remote gateways; name the secret at each gateway: powerbox gateway --credential-file")
	}
	k.checkCredentialSource(at, c)
}

// credentialHeaders are headers that decide how a call is read or sent.
var credentialHeaders = map[string]bool{
	"Content-Type": true, "Content-Length": true, "Content-Encoding": true, "Transfer-Encoding": true, "Connection": true, "Host": true, "Te": true,
	"Trailer": true, "Upgrade": true, "Expect": true, "Accept-Encoding": true, "User-Agent": true, "A2a-Version": true, "A2a-Extensions": true,
	"Mcp-Session-Id": true, "Mcp-Protocol-Version": true, "Mcp-Method": true, "Mcp-Name": true, "Last-Event-Id": true, "Traceparent": true, "Tracestate": true, "Dpop": true,
}

func (k checker) checkCredentialSource(at string, c AgentCredential) {
	for _, one := range []struct{ key, value string }{
		{"vault.address", c.Vault.Address}, {"oauth.token_url", c.OAuth.TokenURL}, {"oauth.authorization_url", c.OAuth.AuthorizationURL},
	} {
		if one.value == "" {
			continue
		}
		if err := encryptedOrLoopback(one.value); err != nil {
			k.place(at+"."+one.key, "%v", err)
		}
	}
	need := func(key, value string) {
		if value == "" {
			k.place(fmt.Sprintf("%s.%s", at, key), "is missing")
		}
	}
	if c.Vault.Address != "" {
		need("vault.path", c.Vault.Path)
		need("vault.token_file", string(c.Vault.TokenFile))
	}
	if c.OAuth.TokenURL == "" {
		return
	}
	need("oauth.client_id", c.OAuth.ClientID)
	if c.OAuth.Grant == "refresh_token" {
		need("oauth.authorization_url", c.OAuth.AuthorizationURL)
	} else {
		need("oauth.client_secret_file", string(c.OAuth.ClientSecretFile))
	}
}
