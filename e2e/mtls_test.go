package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, next: 2}
	a.key = newECKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns a certificate for a server on loopback or a client, as PEM.
func (a *authority) issue(usage x509.ExtKeyUsage) (cert, key []byte, parsed tls.Certificate) {
	a.t.Helper()
	private := newECKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	a.next++
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", pkcs8)
	if parsed, err = tls.X509KeyPair(cert, key); err != nil {
		a.t.Fatal(err)
	}
	return cert, key, parsed
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// TestSEP17_ACertificateHoldsByReference has callers that hold no key of the
// protocol's: their client certificates make them holders, by reference alone,
// and what one of them holds is useless to the other.
func TestSEP17_ACertificateHoldsByReference(t *testing.T) {
	ca := newAuthority(t)
	serverCert, serverKey, _ := ca.issue(x509.ExtKeyUsageServerAuth)
	_, _, mine := ca.issue(x509.ExtKeyUsageClientAuth)
	_, _, other := ca.issue(x509.ExtKeyUsageClientAuth)
	spki := sha256.Sum256(mine.Leaf.RawSubjectPublicKeyInfo)
	w := start(t, options{
		scheme: "https", tls: &tls.Config{RootCAs: pool(ca.cert), MinVersion: tls.VersionTLS12},
		issuer:  "  tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}",
		callers: "  callers:\n    - {agent: reader, mtls: " + base64.RawURLEncoding.EncodeToString(spki[:]) + "}",
		files: map[string]string{
			"server.pem": string(serverCert), "server.key": string(serverKey), "ca.pem": string(pemOf("CERTIFICATE", ca.cert.Raw)),
		},
	})
	post := func(with *tls.Certificate, body []byte) answer {
		t.Helper()
		settings := w.tls.Clone()
		if with != nil {
			settings.Certificates = []tls.Certificate{*with}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true}, Timeout: 10 * time.Second}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.agentURL("documents"), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + aliceToken}, "A2a-Version": {"1.0"}, "Content-Type": {"application/json"}}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		a := answer{Status: response.StatusCode, Header: response.Header}
		if a.Raw, err = io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(a.Raw, &a); err != nil {
			t.Fatalf("%v: %s", err, a.Raw)
		}
		return a
	}
	got := post(&mine, rpc("a2a/capabilities/request", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "Read reports",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	}))
	if got.Error != nil {
		t.Fatalf("request: %s\n%s", got.Raw, w.log)
	}
	c := capabilities(t, got)[0]
	if strings.Count(c.Token, ".") != 0 {
		t.Errorf("a holder without a key got a portable token: %s", c.Token)
	}
	call := invoke("retrieve_document", map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}, c.ID)
	if a := post(&mine, call); a.Error != nil {
		t.Errorf("its own capability: %s", a.Raw)
	}
	for name, with := range map[string]*tls.Certificate{"another certificate": &other, "no certificate": nil} {
		if a := post(with, call); a.reason() != "capability_unknown" {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	if n := len(w.documents.got()); n != 1 {
		t.Errorf("%d calls reached the agent; want the one of the holder", n)
	}
}

func pool(certs ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}
