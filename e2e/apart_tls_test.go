package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// client makes a connection for every request.
func (r *replica) client(with ...tls.Certificate) *http.Client {
	settings := r.tls.Clone()
	settings.Certificates = with
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true}, Timeout: 10 * time.Second}
}

// TestAGatewayApartSpeaksTLS: with its own certificate, which is read again
// when it is renewed, and for clients of the authority that it is given alone.
func TestAGatewayApartSpeaksTLS(t *testing.T) {
	old, renewed := newAuthority(t), newAuthority(t)
	cert, key, _ := old.issue(x509.ExtKeyUsageServerAuth)
	_, _, known := old.issue(x509.ExtKeyUsageClientAuth)
	_, _, stranger := renewed.issue(x509.ExtKeyUsageClientAuth)
	address := "127.0.0.1:" + freePort(t)
	w := start(t, options{agent: "    gateway_url: https://" + address, issuer: "  feed: {heartbeat: 100ms}"})
	files := map[string][]byte{"server.pem": cert, "server.key": key, "ca.pem": pemOf("CERTIFICATE", old.cert.Raw)}
	for name, data := range files {
		w.write(name, string(data))
	}
	r := &replica{
		w: w, state: filepath.Join(t.TempDir(), "state"), address: address, tls: &tls.Config{RootCAs: pool(old.cert), MinVersion: tls.VersionTLS12},
		flags: []string{
			"--tls-certificate", filepath.Join(w.dir, "server.pem"), "--tls-key", filepath.Join(w.dir, "server.key"), "--client-ca", filepath.Join(w.dir, "ca.pem"),
		},
	}
	r.enroll()
	r.boot()
	w.apart, w.client = "https://"+address, r.client(known)
	alice := w.caller(aliceToken)
	if a := alice.looksUp(alice.reports()); a.Error != nil {
		t.Errorf("over TLS: %s\n%s", a.Raw, r.log)
	}
	if response, err := r.client(stranger).Get(w.apart + "/readyz"); err == nil {
		_ = response.Body.Close()
		t.Error("a client of another authority was let in")
	}
	if response, err := http.Get("http://" + address + "/readyz"); err == nil {
		if _ = response.Body.Close(); response.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
	cert, key, _ = renewed.issue(x509.ExtKeyUsageServerAuth)
	w.write("server.key", string(key))
	w.write("server.pem", string(cert))
	r.tls.RootCAs = pool(renewed.cert)
	becomes(t, "the new certificate is used", func() bool {
		response, err := r.client(known).Get(w.apart + "/readyz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil
	})
	for _, flags := range [][]string{{"--tls-certificate", "x"}, {"--tls-key", "x"}, {"--client-ca", "x"}} {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"gateway", "--state", r.state}, flags...)...).CombinedOutput()
		if exit := (&exec.ExitError{}); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "--tls-certificate and --tls-key together") {
			t.Errorf("%v: %v %s", flags, err, out)
		}
	}
}
