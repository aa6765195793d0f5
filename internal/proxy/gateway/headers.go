package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// stripOurs deletes the headers under our names, however they are spelled.
func stripOurs(h http.Header) {
	var room [64]byte
	for name := range h {
		if bytes.HasPrefix(folded(room[:0], name), own) {
			delete(h, name)
		}
	}
}

var own = []byte("powerbox-")

// folded appends the name of a header as it is compared: in lower case, and with
// dashes, since a server that hands headers on as environment variables takes an
// underscore for one.
func folded(to []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '_':
			c = '-'
		}
		to = append(to, c)
	}
	return to
}

// Headers pass to an agent by an allowlist, since frameworks and proxies believe hundreds
// of names: who calls, from where, and the called URL instead of that of the request
// says (ATK-29, ATK-32). docs/how-to/clients.md has the list.
var (
	// carriedOn are the protocols' own, content negotiation and tracing.
	carriedOn = map[string]bool{
		"Accept": true, "Accept-Language": true, "Content-Type": true, "Te": true, "Grpc-Timeout": true,
		"Traceparent": true, "Tracestate": true,
		"A2a-Version": true, "A2a-Extensions": true, "X-A2a-Extensions": true,
		"Mcp-Session-Id": true, "Mcp-Protocol-Version": true, "Last-Event-Id": true, "Mcp-Method": true, "Mcp-Name": true,
	}
	// decisive are headers by which the call was read, with what could be taken for them.
	decisive = map[string]bool{
		"content-type": true, "content-encoding": true, "content-length": true, "transfer-encoding": true, "grpc-encoding": true,
		"a2a-version": true, "a2a-extensions": true, "x-a2a-extensions": true, "mcp-session-id": true, "mcp-protocol-version": true, "last-event-id": true,
	}
)

// mcpParam begins the headers that repeat an argument of a tool, each of which was held
// to its argument.
const mcpParam = "Mcp-Param-"

// maxHeader bounds one value of a header that continues and that the call was not read by, in
// bytes. Credentials for the agent may be longer.
const maxHeader = 4 << 10

// allowedHeader are the headers of the caller that continue to the agent where calls are
// decided on.
func (x *decided) allowedHeader() http.Header {
	out, in := http.Header{}, x.request.Header
	for name, values := range in {
		param := bindingOf(x.binding).mirrors(x.decoded, name)
		if !carriedOn[name] && !param && !slices.Contains(x.Headers, name) && !x.asksFor(name) {
			continue
		}
		if slices.ContainsFunc(values, func(v string) bool { return len(v) > maxHeader }) && !decisive[strings.ToLower(name)] {
			continue
		}
		out[name] = slices.Clone(values)
	}
	if !x.consumed && in["Authorization"] != nil {
		out["Authorization"] = slices.Clone(in["Authorization"])
		if !x.strayProof(in) && in["Dpop"] != nil {
			out["Dpop"] = slices.Clone(in["Dpop"])
		}
	}
	if x.lastEvent != "" {
		out.Set(headerLastEvent, x.lastEvent)
	}
	stripOwnCookies(out)
	out.Set("User-Agent", "powerbox")
	if x.binding != a2a.GRPC {
		out.Del("Te")
		if out.Del("Content-Type"); len(x.body) > 0 {
			out.Set("Content-Type", typeOf(in))
		}
	}
	return out
}

// asksFor reports whether the agent's card has clients show an API key in a header.
func (x *decoded) asksFor(name string) bool {
	return slices.Contains(x.view.card.KeyHeaders, name) && CheckHeader(name) == nil
}

// typeOf is the type of a body, which is JSON in UTF-8, without parameters.
func typeOf(h http.Header) string {
	kind, err := kindOf(h.Get("Content-Type"))
	if err != nil {
		return typeJSON
	}
	return kind
}

// kindOf is a type without its parameters.
func kindOf(value string) (string, error) {
	if value == typeJSON {
		return value, nil // as nearly all say it
	}
	kind, _, err := mime.ParseMediaType(value)
	return kind, err
}

// CheckHeader returns why a header that an operator names cannot pass to an agent, nil
// where it can.
func CheckHeader(name string) error {
	is := string(folded(nil, name))
	switch {
	case name != http.CanonicalHeaderKey(name) || strings.ContainsAny(name, "_ "):
		return fmt.Errorf("want %s", http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")))
	case strings.HasPrefix(is, string(own)):
		return errors.New("headers that begin with Powerbox- are the gateway's own")
	case decisive[is], ofConnection[is]:
		return errors.New("the gateway sets this header itself")
	}
	return nil
}

// ofConnection are headers of one connection alone (RFC 9110, section 7.6.1), and those
// of what the gateway consumes.
var ofConnection = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "proxy-authenticate": true, "proxy-authorization": true, "te": true, "trailer": true,
	"upgrade": true, "host": true, "expect": true, "authorization": true, "dpop": true,
}

// keepDecisive puts back headers by which the call was read. A caller may say that they
// are of its connection alone (RFC 9110, section 7.6.1), and without them the agent would
// read another call.
func keepDecisive(out, came http.Header) {
	if len(came["Connection"]) == 0 {
		return
	}
	var room [64]byte
	for name, values := range came {
		is := folded(room[:0], name)
		ofBody := bytes.Equal(is, []byte("content-length")) || bytes.Equal(is, []byte("transfer-encoding"))
		if decisive[string(is)] && !ofBody || bytes.HasPrefix(is, []byte("mcp-")) {
			out[name] = slices.Clone(values)
		}
	}
}

// coding is how a body is packed, "" where it comes as it is. One field of several
// that says so is enough (ATK-30).
func coding(h http.Header) string {
	for _, said := range h["Content-Encoding"] {
		if said != "" && said != "identity" {
			return said
		}
	}
	return ""
}

// The pages on which people approve may be at the same origin as the agents: to a
// browser an agent's answer is then one of ours (ATK-47). What follows keeps the
// two apart: an agent gets and sets no cookie of ours, and what it answers acts
// for no one.

// stripOwnCookies leaves the cookies under our names out of what goes to an
// agent: that of a person's session is as good as the person.
func stripOwnCookies(h http.Header) {
	lines, ok := h["Cookie"]
	if !ok {
		return
	}
	kept := lines[:0]
	for _, line := range lines {
		if line = withoutOwn(line); line != "" {
			kept = append(kept, line)
		}
	}
	if h["Cookie"] = kept; len(kept) == 0 {
		delete(h, "Cookie")
	}
}

// withoutOwn is a line of cookies without those under our names. A line without
// them stays as it is.
func withoutOwn(line string) string {
	own := func(one string) bool {
		name, _, _ := strings.Cut(one, "=")
		return isOwnCookie(name)
	}
	all := strings.Split(line, ";")
	kept := slices.DeleteFunc(slices.Clone(all), own)
	if len(kept) == len(all) {
		return line
	}
	return strings.TrimSpace(strings.Join(kept, ";"))
}

// isOwnCookie reports whether a cookie is under our names, with one of the
// prefixes that browsers know or without.
func isOwnCookie(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, prefix := range []string{"__host-", "__secure-"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return strings.HasPrefix(name, "powerbox-")
}

// ofOrigin are headers by which one answer speaks for every other one of its
// origin, or of its host.
var ofOrigin = []string{"Alt-Svc", "Clear-Site-Data", "Nel", "Report-To", "Service-Worker-Allowed", "Strict-Transport-Security"}

// toProxies are headers by which a proxy in front of us, which takes them for our word,
// sends something of its own instead of the answer, such as a file.
var toProxies = []string{"X-Accel-Redirect", "X-Sendfile", "X-Lighttpd-Send-File", "X-Lighttpd-Send-Tempfile", "X-Reproxy-Url"}

// beyond are all of those.
var beyond = slices.Concat(ofOrigin, toProxies)

// toCaches are those that caches go by before Cache-Control (RFC 9213).
var toCaches = []string{"Surrogate-Control", "Cdn-Cache-Control", "Cloudflare-Cdn-Cache-Control", "X-Accel-Expires"}

// contained holds an answer to what may continue of it, where calls are decided on: what
// can be looked at, is for this caller, and leads nowhere else.
func (x *decoded) contained(r *http.Response) error {
	if x.mode == gate.Observe {
		return nil
	}
	if err := final(r); err != nil {
		return err
	}
	kind, err := readable(r)
	if err != nil || x.call.Binding == a2a.GRPC {
		return err
	}
	unkept(r)
	if x.inEvents(kind) {
		x.asRead(r, typeEvents)
		r.Body = a2a.NewLines(r.Body)
	}
	return nil
}

// readable returns the type of an answer. An answer that clients could read differently
// is an error (ATK-30): a compressed one that was not requested, one
// in another charset than UTF-8, and one with two types. Old servers say ISO-8859-1
// of JSON, in which it reads as in UTF-8 except for letters beyond ASCII.
func readable(r *http.Response) (kind string, err error) {
	if !hasBody(r) {
		return "", nil
	}
	if packed := coding(r.Header); packed != "" {
		return "", fmt.Errorf("the agent packs its answers as %.32q, which it was asked not to, so that the gateway cannot read them", packed)
	}
	types := r.Header["Content-Type"]
	if len(types) == 0 {
		return "", nil
	}
	if len(types) == 1 && types[0] == typeJSON {
		return typeJSON, nil // as nearly all say it
	}
	kind, params, err := mime.ParseMediaType(types[0])
	switch charset := strings.ToLower(params["charset"]); {
	case err != nil || len(types) > 1:
		return "", fmt.Errorf("the agent's answer is of the type %.64q, which readers take differently", strings.Join(types, ", "))
	case !slices.Contains([]string{"", "utf-8", "utf8", "us-ascii"}, charset) && (charset != "iso-8859-1" || kind == typeEvents):
		return "", fmt.Errorf("the agent answers in the characters %.32q; want utf-8", charset)
	}
	return kind, nil
}

// unkept forbids caches to keep an answer, which could go to another caller, or to this one
// when it may not have it any more (ATK-26): each request must come here.
// Where the agent says nothing of it, caches keep answers to GET alone (RFC 9111, sections 3
// and 4.2.2).
func unkept(r *http.Response) {
	h := r.Header
	for _, name := range toCaches {
		delete(h, name)
	}
	for _, line := range h["Cache-Control"] {
		for said := range strings.SplitSeq(line, ",") {
			switch strings.ToLower(strings.TrimSpace(said)) {
			case "no-store", "no-cache":
				return
			}
		}
	}
	silent := len(h["Cache-Control"]) == 0 && len(h["Expires"]) == 0
	if silent && (r.Request.Method != http.MethodGet || !hasBody(r)) {
		return
	}
	h.Set("Cache-Control", "no-store")
}

// contain has an answer of an agent be, to a browser, that answer and no more. One
// that a browser might show as a page is shown without scripts, as an origin of
// its own. What agents answer is none, and passes with the headers that it has.
func contain(r *http.Response) {
	h := r.Header
	if lines, ok := h["Set-Cookie"]; ok {
		h["Set-Cookie"] = slices.DeleteFunc(lines, func(line string) bool {
			// One without a name comes back as what its value says.
			name, _, _ := strings.Cut(strings.TrimLeft(line, " \t="), "=")
			return isOwnCookie(name)
		})
	}
	for _, name := range beyond {
		delete(h, name)
	}
	if hasBody(r) && !isData(h["Content-Type"]) {
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
	}
}

// hasBody reports whether something may come behind the headers of an answer.
func hasBody(r *http.Response) bool {
	return r.ContentLength != 0 && r.Body != http.NoBody && r.Request.Method != http.MethodHead
}

// isData reports whether an answer says that it is what agents answer, or text, of
// which no browser makes a page, and in an unambiguous way: the last
// type of a list counts for browsers.
func isData(types []string) bool {
	if len(types) != 1 || strings.Contains(types[0], ",") {
		return false
	}
	kind, _, _ := strings.Cut(types[0], ";")
	switch kind = strings.TrimSpace(kind); kind {
	case typeJSON, "text/plain", typeEvents, typeGRPC, typeGRPC + "+proto":
		return true
	}
	return strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}
