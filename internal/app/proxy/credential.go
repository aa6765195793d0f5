package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// credentialTime bounds one request to a token endpoint or to Vault.
const credentialTime = 10 * time.Second

// Clients of credentials follow no redirect, which would have a secret sent elsewhere.
func credentialClient() *http.Client {
	return &http.Client{
		Transport: outbound.New(outbound.Configured()).Transport(), Timeout: credentialTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// SourceOf is the source of a secret that is not a person's.
func SourceOf(c config.AgentCredential, now func() time.Time) (credential.Source, error) {
	switch {
	case c.File != "":
		return credential.File(c.File), nil
	case c.Env != "":
		text := os.Getenv(c.Env)
		if text == "" {
			return nil, fmt.Errorf("env: the variable %s is empty or not set", c.Env)
		}
		return credential.Static{Text: config.NewSecret(text)}, nil
	case c.Vault.Address != "":
		v := c.Vault
		return &credential.Kept{Now: now, Get: credential.Vault{
			Address: v.Address, Mount: v.Mount, Path: v.Path, Field: v.Field, Namespace: v.Namespace, TokenFile: string(v.TokenFile), Client: credentialClient(),
		}.Get}, nil
	case c.OAuth.Grant == "refresh_token":
		return nil, errors.New("oauth.grant: refresh_token needs the store of the server: run the gateway of this agent within powerbox serve")
	}
	return &credential.Kept{Now: now, Get: ClientOf(c.OAuth).Get}, nil
}

// ClientOf is the client of the OAuth server of an agent behind.
func ClientOf(o config.CredentialOAuth) credential.Client {
	c := credential.Client{ID: o.ClientID, TokenURL: o.TokenURL, AuthorizeURL: o.AuthorizationURL, Scopes: o.Scopes, Resource: o.Resource, HTTP: credentialClient()}
	if o.ClientSecretFile != "" {
		c.Secret = credential.File(o.ClientSecretFile)
	}
	return c
}

// credential is the secret that is added to calls to an agent, nil for none.
func (p *Proxy) credential(c config.Agent) (*credential.Placed, error) {
	own := c.Credential
	if own.IsZero() {
		return nil, nil //nolint:nilnil // none is no error
	}
	var err error
	placed := &credential.Placed{}
	placed.Header, placed.Scheme, placed.Query = own.Place()
	if own.OAuth.TokenURL != "" && own.OAuth.Grant == "refresh_token" && p.Consented != nil {
		placed.Source, err = p.Consented(c)
		return placed, err
	}
	if placed.Source, err = SourceOf(own, p.Now); err != nil {
		return nil, fmt.Errorf("agents, %s, credential: %w", c.ID, err)
	}
	return placed, nil
}
