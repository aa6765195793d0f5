package doors

import (
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// The paths of the forms over HTTP. The proxy names one in its own settings, so that no
// header of a caller chooses the request that is read. At pathBody the proxy sets headerBody itself, over
// what a caller sent.
const (
	pathEnvoy   = "/ext_authz"
	pathForward = "/forward_auth"
	pathBody    = "/forward_auth/body"
)

const (
	headerBody   = "Powerbox-Body" // the body, in base64
	headerRemove = "X-Envoy-Auth-Headers-To-Remove"
	settingBody  = "a proxy that can send it in base64 asks at " + pathBody + " and sets " + headerBody + " (docs/how-to/other-gateways.md); for others, use Envoy or the gateway"
)

// envoyHTTP answers ext_authz over HTTP: the request itself, with its path below a prefix.
func (d *Door) envoyHTTP(w http.ResponseWriter, r *http.Request, target string) {
	q := &question{method: r.Method, host: r.Host, target: target, header: r.Header, setting: settingEnvoy}
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

// forwardAuth answers a proxy that tells of the request in headers, as Caddy and Traefik do
// and nginx can.
func (d *Door) forwardAuth(w http.ResponseWriter, r *http.Request, withBody bool) {
	q := &question{header: r.Header, setting: settingBody}
	for name, to := range map[string]*string{"X-Forwarded-Method": &q.method, "X-Forwarded-Uri": &q.target, "X-Forwarded-Host": &q.host} {
		values := r.Header.Values(name)
		if len(values) != 1 || values[0] == "" {
			d.say(w, answered(q, problem(codeRoute, "the proxy tells of no request: it has to send X-Forwarded-Method, X-Forwarded-Uri and X-Forwarded-Host, each once")))
			return
		}
		*to = values[0]
	}
	if withBody {
		sent := r.Header.Values(headerBody)
		if len(sent) > 1 {
			d.say(w, answered(q, problem(codeCut, "the proxy sent two bodies")))
			return
		}
		var err error
		if q.body, err = base64.StdEncoding.Strict().DecodeString(strings.Join(sent, "")); err != nil {
			d.say(w, answered(q, problem(codeCut, "%s is not base64", headerBody)))
			return
		}
	}
	// The request that asks has no body, and is not the one that is asked about.
	for name := range r.Header {
		if name == headerBody || name == "Content-Length" || strings.HasPrefix(name, "X-Forwarded-") {
			delete(r.Header, name)
		}
	}
	d.answer(w, r, q)
}

// answer has a question decided and answers it over HTTP.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, q *question) {
	// Some proxies keep this header although the door names it for removal. Nothing of what follows would be decided.
	if slices.ContainsFunc(q.header.Values("Upgrade"), func(to string) bool { return !strings.EqualFold(to, "h2c") }) {
		d.say(w, answered(q, problem(codeUpgrade, "the request asks to switch protocols, and the proxy that asks may do so; send it without the header Upgrade")))
		return
	}
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
