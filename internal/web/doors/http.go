package doors

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// The paths of the forms over HTTP.
const (
	pathEnvoy   = "/ext_authz"
	pathForward = "/forward_auth"
)

// The headers in which a proxy tells of the request that it asks about, and that of a body
// which the proxy can send in no other way, in base64.
const (
	headerBody   = "Powerbox-Body"
	headerRemove = "X-Envoy-Auth-Headers-To-Remove"
	settingBody  = "have it send the body in base64 in " + headerBody + " (docs/how-to/other-gateways.md), or use a gateway that sends bodies"
)

// told are the names under which proxies tell of the request, which is read from exactly
// one.
var told = [...]struct{ method, target, host string }{
	{"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"}, // Caddy, Traefik
	{"X-Original-Method", "X-Original-Uri", "X-Original-Host"},    // nginx
}

// envoyHTTP answers ext_authz over HTTP: the request itself, with its path below a prefix.
func (d *Door) envoyHTTP(w http.ResponseWriter, r *http.Request, path string) {
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	q := &question{method: r.Method, host: r.Host, target: path, header: r.Header, setting: settingEnvoy}
	r.Header.Del("Content-Length") // of the request that asks
	if r.ContentLength > 0 || len(r.TransferEncoding) > 0 {
		var err error
		if q.body, err = io.ReadAll(io.LimitReader(r.Body, int64(d.BodyLimit)+1)); err != nil {
			d.say(w, answered(q, problem(codeCut, "the body could not be read")))
			return
		}
	}
	d.answer(w, r, q)
}

// forwardAuth answers a proxy that tells of the request in headers.
func (d *Door) forwardAuth(w http.ResponseWriter, r *http.Request) {
	q := &question{header: r.Header, setting: settingBody}
	form := told[0]
	if len(r.Header.Values(told[1].target)) > 0 {
		form = told[1]
	}
	parts := []*string{&q.method, &q.target, &q.host}
	for i, name := range []string{form.method, form.target, form.host} {
		values := r.Header.Values(name)
		if len(values) != 1 || values[0] == "" {
			d.say(w, answered(q, problem(codeRoute, "the proxy tells of no request: it has to send %s, %s and %s, each once", form.method, form.target, form.host)))
			return
		}
		*parts[i] = values[0]
	}
	sent := r.Header.Values(headerBody)
	if len(sent) > 1 {
		d.say(w, answered(q, problem(codeCut, "the proxy sent two bodies")))
		return
	}
	if len(sent) == 1 {
		var err error
		if q.body, err = base64.StdEncoding.Strict().DecodeString(sent[0]); err != nil {
			d.say(w, answered(q, problem(codeCut, "%s is not base64", headerBody)))
			return
		}
	}
	// The request that asks has no body, and is not the one that is asked about.
	for name := range r.Header {
		if name == headerBody || name == "Content-Length" || strings.HasPrefix(name, "X-Original-") || strings.HasPrefix(name, "X-Forwarded-") {
			delete(r.Header, name)
		}
	}
	d.answer(w, r, q)
}

// answer has a question decided and answers it over HTTP.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, q *question) {
	came := q.header.Clone()
	a := d.advise(r.Context(), q, gateway.Carries{})
	if a.Forward == nil {
		d.say(w, a)
		return
	}
	h := w.Header()
	for _, name := range []string{gateway.HeaderContext, "Traceparent"} {
		if values := a.Forward.Header[name]; len(values) > 0 {
			h[name] = values
		}
	}
	h.Set(gateway.HeaderDecision, a.Forward.Decision)
	h.Set(headerRemove, strings.Join(removed(came, a.Forward.Header), ","))
	w.WriteHeader(http.StatusOK)
}

// say answers the caller in place of the agent. The proxies take every status below 300
// for a yes.
func (d *Door) say(w http.ResponseWriter, a gateway.Advice) {
	h := w.Header()
	for name, values := range a.Header {
		if !hopByHop[name] {
			h[name] = values
		}
	}
	if a.Status < http.StatusMultipleChoices {
		a.Status = http.StatusForbidden
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the proxy has gone: there is no caller to tell
}
