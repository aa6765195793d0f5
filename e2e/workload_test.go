package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/powerbox-project/powerbox/internal/identity/spiffe/spiffetest"
	"github.com/powerbox-project/powerbox/token"
)

const (
	spiffePlanner = "spiffe://prod.example/ns/agents/sa/planner"
	spiffePartner = "spiffe://partner.example/job/17"
	clusterRobot  = "system:serviceaccount:agents:robot"
)

// workloads is a server whose callers prove who they are by the means of their platforms.
type workloads struct {
	*town
	test          *testing.T
	prod, partner *spiffetest.Domain
	api           *spiffetest.WorkloadAPI
	cluster       *cluster
	provider      string
}

func startWorkloads(t *testing.T) *workloads {
	t.Helper()
	w := &workloads{test: t, prod: spiffetest.New(t, "prod.example", time.Now()), partner: spiffetest.New(t, "partner.example", time.Now()), cluster: newCluster(t), provider: programsProvider(t)}
	w.api = spiffetest.Serve(t, w.served(w.prod, spiffePlanner))
	ca := newAuthority(t)
	cert, key, _ := ca.issue(x509.ExtKeyUsageServerAuth)
	bundle, err := w.partner.Bundle(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	w.town = start(t, options{
		scheme: "https", tls: &tls.Config{RootCAs: pool(ca.cert), MinVersion: tls.VersionTLS12}, mode: "scoped",
		issuer: "  tls: {certificate: server.pem, key: server.key}",
		callers: fmt.Sprintf(`  trust_domains:
    - {name: prod.example, workload_api: %q}
    - {name: partner.example, bundle_file: partner.json, audience: [powerbox]}
  providers:
    - {issuer: %q, jwks_url: %q, ca: cluster.pem, token_file: cluster.token, audience: [powerbox], subjects: programs, principal: "cluster:{sub}"}
    - {issuer: %q, audience: [sid1]}
  callers:
    - {agent: planner, spiffe: %s}
    - {agent: job, spiffe: "spiffe://partner.example/job/*"}
    - {agent: robot, issuer: %q, claims: {sub: %q, /kubernetes.io/namespace: agents}}
    - {agent: service, issuer: %q, claims: {sub: sid1, client_id: sid1}}
`, w.api.Address, clusterIssuer, w.cluster.server.URL+"/openid/v1/jwks", w.provider, spiffePlanner, clusterIssuer, clusterRobot, w.provider),
		extra: "scopes:\n" + strings.Join([]string{
			"  planner: {documents: [documents:read/search]}", "  job: {documents: [documents:read/search]}",
			"  robot: {documents: [documents:read/search]}", "  service: {documents: [documents:read/search]}", "",
		}, "\n"),
		files: map[string]string{
			"server.pem": string(cert), "server.key": string(key), "partner.json": string(bundle),
			"cluster.pem": string(pemOf("CERTIFICATE", w.cluster.server.Certificate().Raw)), "cluster.token": "token-of-the-server\n",
		},
	})
	return w
}

// served is what the Workload API of a domain gives its planner.
func (w *workloads) served(d *spiffetest.Domain, id string) spiffetest.Served {
	return spiffetest.Served{SVID: d.X509(w.test, id), Domains: []*spiffetest.Domain{d}, Tokens: func(audience string) (string, string) {
		return id, d.JWT(w.test, id, audience, nil, nil)
	}}
}

const clusterIssuer = "https://kubernetes.default.svc.cluster.local"

// cluster gives out its key set as an API server does, to those with a service account token.
type cluster struct {
	server *httptest.Server
	key    *rsa.PrivateKey
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{key: key}
	c.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openid/v1/jwks" || r.Header.Get("Authorization") != "Bearer token-of-the-server" {
			http.Error(w, "Forbidden", http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "cluster", Use: "sig", Algorithm: "RS256"}}})
	}))
	t.Cleanup(c.server.Close)
	return c
}

// token is a projected service account token, with the claims that Kubernetes gives it.
func (c *cluster) token(t *testing.T, account, audience string, valid time.Duration) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: c.key, KeyID: "cluster"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	raw, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": clusterIssuer, "sub": "system:serviceaccount:agents:" + account, "aud": []string{audience}, "jti": "0b8f0a5e",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(valid).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": "agents", "node": map[string]any{"name": "node-1", "uid": "2c6f"},
			"pod": map[string]any{"name": account + "-7d4b9", "uid": "4a1c"}, "serviceaccount": map[string]any{"name": account, "uid": "91d2"},
		},
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// jwtTokens has the provider's service users get JWT access tokens, in place of opaque ones.
type jwtTokens struct{ *storage.Storage }

type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (s jwtTokens) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	c, err := s.Storage.ClientCredentials(ctx, id, secret)
	return jwtClient{c}, err
}

// programsProvider is an OpenID provider of another hand with a service user.
func programsProvider(t *testing.T) string {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	handler = exampleop.SetupServer(server.URL, jwtTokens{storage.NewStorage(storage.NewUserStore(server.URL))}, nil, false)
	return server.URL
}

// credentials gets an access token by the client credentials of the service user.
func (w *workloads) credentials() string {
	w.test.Helper()
	r, err := http.NewRequestWithContext(w.test.Context(), http.MethodPost, w.provider+"/oauth/token", strings.NewReader(url.Values{
		"grant_type": {string(oidc.GrantTypeClientCredentials)}, "scope": {"openid"},
	}.Encode()))
	if err != nil {
		w.test.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("sid1", "verysecret")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.test.Fatal(err)
	}
	defer response.Body.Close()
	var out oidc.AccessTokenResponse
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil || out.AccessToken == "" {
		w.test.Fatalf("HTTP %d, %v", response.StatusCode, err)
	}
	return out.AccessToken
}

// asked calls the search as a caller with a bearer token, "" for none, over a client's connections.
func (w *workloads) asked(client *http.Client, bearer string) answer {
	w.test.Helper()
	r, err := http.NewRequestWithContext(w.test.Context(), http.MethodPost, w.agentURL("documents"), bytes.NewReader(data("search_documents", map[string]any{})))
	if err != nil {
		w.test.Fatal(err)
	}
	r.Header = http.Header{"A2a-Version": {"1.0"}, "Content-Type": {"application/json"}}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := client.Do(r)
	if err != nil {
		return answer{Raw: []byte(err.Error())}
	}
	defer response.Body.Close()
	a := answer{Status: response.StatusCode, Header: response.Header}
	if a.Raw, err = io.ReadAll(response.Body); err != nil {
		w.test.Fatal(err)
	}
	if err := json.Unmarshal(a.Raw, &a); err != nil {
		w.test.Fatalf("%v: %s", err, a.Raw)
	}
	return a
}

// withCertificate is a client with a certificate, over connections of its own.
func (w *workloads) withCertificate(get func(*tls.CertificateRequestInfo) (*tls.Certificate, error)) *http.Client {
	settings := w.tls.Clone()
	settings.GetClientCertificate = get
	transport := &http.Transport{TLSClientConfig: settings}
	w.test.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func (a answer) served() bool {
	return a.Status == http.StatusOK && a.Error == nil && len(a.Result) > 0
}

// TestWorkloadsNameThemselves has agents call by X.509-SVID over mTLS and by JWT-SVID, both
// from a Workload API and with SPIFFE's own client, by a Kubernetes service account token,
// and by an access token of a provider of another hand. Bundles rotate under open connections,
// and a bundle that is gone ends what it vouched for.
func TestWorkloadsNameThemselves(t *testing.T) {
	w := startWorkloads(t)
	source, err := workloadapi.NewX509Source(t.Context(), workloadapi.WithClientOptions(workloadapi.WithAddr(w.api.Address)))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	planner := w.withCertificate(tlsconfig.GetClientCertificate(source))
	plain := w.withCertificate(nil)
	w.searches("X.509-SVID", spiffePlanner, w.asked(planner, ""))
	t.Run("JWT-SVID", func(*testing.T) {
		svid, err := workloadapi.FetchJWTSVID(t.Context(), jwtsvid.Params{Audience: w.agentURL("documents")}, workloadapi.WithAddr(w.api.Address))
		if err != nil {
			t.Fatal(err)
		}
		w.searches("JWT-SVID", spiffePlanner, w.asked(plain, svid.Marshal()))
		w.searches("JWT-SVID of a bundle on disk", spiffePartner, w.asked(plain, w.partner.JWT(t, spiffePartner, "powerbox", nil, nil)))
		w.refused("JWT-SVID of a stranger", w.asked(plain, w.prod.JWT(t, "spiffe://prod.example/ns/agents/sa/other", w.agentURL("documents"), nil, nil)))
		w.refused("JWT-SVID of the other domain's authority", w.asked(plain, w.partner.JWT(t, spiffePlanner, w.agentURL("documents"), nil, nil)))
	})
	t.Run("Kubernetes", func(*testing.T) {
		w.searches("service account", "token:"+clusterIssuer+"#%2Fkubernetes.io%2Fnamespace=agents&sub=system%3Aserviceaccount%3Aagents%3Arobot", w.asked(plain, w.cluster.token(t, "robot", "powerbox", time.Hour)))
		w.refused("another account", w.asked(plain, w.cluster.token(t, "robot2", "powerbox", time.Hour)))
		w.refused("a token for a year", w.asked(plain, w.cluster.token(t, "robot", "powerbox", 365*24*time.Hour)))
		w.refused("for the API server", w.asked(plain, w.cluster.token(t, "robot", clusterIssuer, time.Hour)))
	})
	t.Run("access token", func(*testing.T) {
		w.searches("client credentials", "token:"+w.provider+"#client_id=sid1&sub=sid1", w.asked(plain, w.credentials()))
	})
	t.Run("certificates", func(*testing.T) {
		for name, of := range map[string]struct {
			domain *spiffetest.Domain
			id     string
		}{"of another domain's authority": {w.partner, spiffePlanner}, "of a domain that is not configured": {w.prod, "spiffe://else.example/planner"}} {
			svid := of.domain.X509(t, of.id)
			a := w.asked(w.withCertificate(tlsconfig.GetClientCertificate(svid)), "")
			if a.Status != 0 || !strings.Contains(string(a.Raw), "certificate") {
				t.Errorf("a certificate %s: HTTP %d %s; want the handshake refused", name, a.Status, a.Raw)
			}
		}
	})
	w.rotates(source, planner)
	w.loses(plain)
}

// searches expects a call to have been served under the scope of the caller's name, and for
// its holder.
func (w *workloads) searches(name, holder string, a answer) {
	w.test.Helper()
	if !a.served() {
		w.test.Errorf("%s: HTTP %d %s\n%s", name, a.Status, a.Raw, w.log)
		return
	}
	got := w.documents.got()
	last := got[len(got)-1]
	c, err := token.VerifyContext(last.header.Get("Powerbox-Context"), w.issuing(), "documents", time.Now(), last.body)
	if err != nil || c.Holder != holder || c.Principal != "" {
		w.test.Errorf("%s: the agent was called by %q for %q, %v; want %q, and no person", name, c.Holder, c.Principal, err, holder)
	}
}

// issuing is the key set of the agent.
func (w *workloads) issuing() token.KeySet {
	w.test.Helper()
	response, err := w.withCertificate(nil).Get(w.agentURL("documents") + "/.well-known/jwks.json")
	if err != nil {
		w.test.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		w.test.Fatal(err)
	}
	keys, err := token.ParseKeySet(data)
	if err != nil {
		w.test.Fatal(err)
	}
	return keys
}

func (w *workloads) refused(name string, a answer) {
	w.test.Helper()
	if a.served() || a.Status == 0 {
		w.test.Errorf("%s: HTTP %d %s; want it refused", name, a.Status, a.Raw)
	}
}

// rotates replaces the authorities of the domain: the connection that is open is refused with
// the SVID that it began with, and the renewed SVID is let in.
func (w *workloads) rotates(source *workloadapi.X509Source, planner *http.Client) {
	w.test.Helper()
	old, err := source.GetX509SVID()
	if err != nil {
		w.test.Fatal(err)
	}
	kept := w.withCertificate(tlsconfig.GetClientCertificate(old))
	w.searches("before the rotation", spiffePlanner, w.asked(kept, ""))
	next := w.prod.Rotated(w.test)
	w.api.Set(w.served(next, spiffePlanner))
	var last answer
	becomes(w.test, "the SVID of the old authority is refused on the open connection", func() bool {
		last = w.asked(kept, "")
		return !last.served()
	})
	if last.reason() != "unauthenticated" || !strings.Contains(string(last.Raw), "trust domain") {
		w.test.Errorf("with the SVID of the old authority: %s; want it unauthenticated, and why", last.Raw)
	}
	becomes(w.test, "SPIFFE's client has the renewed SVID", func() bool {
		now, err := source.GetX509SVID()
		return err == nil && now.Certificates[0].SerialNumber.Cmp(old.Certificates[0].SerialNumber) != 0
	})
	planner.CloseIdleConnections()
	w.searches("after the rotation", spiffePlanner, w.asked(planner, ""))
}

// loses takes bundles away, on disk and at the Workload API.
func (w *workloads) loses(plain *http.Client) {
	w.test.Helper()
	file := filepath.Join(w.dir, "partner.json")
	job := func() answer { return w.asked(plain, w.partner.JWT(w.test, spiffePartner, "powerbox", nil, nil)) }
	if err := os.Remove(file); err != nil {
		w.test.Fatal(err)
	}
	becomes(w.test, "no SVID of a bundle on disk that is gone is believed", func() bool { return !job().served() })
	w.partner.WriteBundle(w.test, file)
	becomes(w.test, "the bundle on disk is back", func() bool { return job().served() })
	w.api.Set(spiffetest.Served{})
	becomes(w.test, "no SVID of a domain that the Workload API no longer has is believed", func() bool {
		return !w.asked(plain, w.prod.JWT(w.test, spiffePlanner, w.agentURL("documents"), nil, nil)).served()
	})
}
