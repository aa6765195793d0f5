package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The contestants of the gateway's rows are separate processes. Those that
// are a few lines are this program again, with these words in front.
const peerVerb = "peer"

// runPeer is what such a process does: it serves until it is killed.
//
//	peer agent LISTEN                       the agent behind
//	peer handler LISTEN FOLDER              a handler that answers itself, behind TLS
//	peer httputil LISTEN FOLDER UPSTREAM    httputil.ReverseProxy, tuned, behind TLS
//	peer quiet LISTEN                       an agent whose streams stay open
//	peer balance LISTEN                     the service behind a capability
//	peer opa LISTEN POLICY LOG              OPA, which Caddy asks
//	peer stock LISTEN                       an agent on a2a-go, for the soak
func runPeer(args []string) error {
	if len(args) < 2 {
		return errors.New("peer: want a role and an address")
	}
	role, rest := args[0], args[1:]
	switch {
	case role == "agent" && len(rest) == 1:
		s := &http.Server{Addr: rest[0], Handler: stub(rest[0]), ReadHeaderTimeout: time.Minute}
		return s.ListenAndServe()
	case role == "quiet" && len(rest) == 1:
		s := &http.Server{Addr: rest[0], Handler: quiet(rest[0]), ReadHeaderTimeout: time.Minute}
		return s.ListenAndServe()
	case role == "balance" && len(rest) == 1:
		s := &http.Server{Addr: rest[0], Handler: balance(), ReadHeaderTimeout: time.Minute}
		return s.ListenAndServe()
	case role == "stock" && len(rest) == 1:
		return stock(rest[0]).ListenAndServe()
	case role == "handler" && len(rest) == 2:
		return serveTLS(rest[0], rest[1], stub(rest[0]))
	case role == "opa" && len(rest) == 3:
		return serveOPA(rest[0], rest[1], rest[2])
	case role == "httputil" && len(rest) == 3:
		h, err := tuned(rest[2])
		if err != nil {
			return err
		}
		return serveTLS(rest[0], rest[1], h)
	}
	return fmt.Errorf("peer: no role %q with %d arguments", role, len(rest))
}

// stubAnswer is about 1 KB, and names no task: binding tasks is work that no
// peer has.
var stubAnswer = []byte(`{"jsonrpc":"2.0","id":7,"result":{"message":{"messageId":"answer-1","role":"ROLE_AGENT","parts":[{"text":"` +
	strings.Repeat("Revenue grew in every region. ", 29) + `"}]}}}`)

// stub is an agent that reads its request and gives the same answer to all.
func stub(listen string) http.Handler {
	mux := http.NewServeMux()
	card := []byte(`{"name":"Documents","description":"Keeps documents","version":"1.0.0","protocolVersion":"1.0",` +
		`"supportedInterfaces":[{"url":"http://` + listen + `/invoke","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` +
		`"capabilities":{"streaming":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],` +
		`"skills":[{"id":"retrieve_document","name":"Retrieve","description":"Returns a document","tags":["documents"]}]}`)
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(card) //nolint:gosec // JSON, under its own type; when the client has gone, no one can be told
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(stubAnswer) // as above
	})
	return mux
}

// tuned is the reverse proxy of the standard library as one would run it: it
// keeps its connections, and its buffers.
func tuned(upstream string) (http.Handler, error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport:  &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 256, DisableCompression: true, IdleConnTimeout: time.Minute},
		BufferPool: &buffers{sync.Pool{New: func() any { return make([]byte, 32<<10) }}},
	}, nil
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return b.pool.Get().([]byte) }
func (b *buffers) Put(p []byte) { b.pool.Put(p) } //nolint:staticcheck // as in httputil's interface

// serveTLS serves HTTP/1.1 with the certificate of a folder, and asks for
// client certificates as the gateway does.
func serveTLS(listen, folder string, h http.Handler) error {
	pem, err := os.ReadFile(filepath.Join(folder, "ca.pem")) //nolint:gosec // the folder is ours
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimSpace(pem)) {
		return errors.New("peer: ca.pem holds no certificate")
	}
	s := &http.Server{
		Addr: listen, Handler: h, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven},
	}
	return s.ListenAndServeTLS(filepath.Join(folder, "server.pem"), filepath.Join(folder, "server.key"))
}
