package attach

import (
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
)

// guard refuses what does not come from a program of this machine that was
// told about us (ATK-16): the name of the host is checked against DNS
// rebinding, what browsers say of pages against pages that call us blindly,
// and the secret, where there is one, against other users of the machine.
func (a *Attach) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Origin") != "", fromPage(r.Header):
			http.Error(w, "this address is for programs, not for pages in a browser", http.StatusForbidden)
		case !r.URL.IsAbs() && r.Method != http.MethodConnect && !a.isOurs(r):
			http.Error(w, "the Host of the request is not this address; use 127.0.0.1 or localhost with its port", http.StatusForbidden)
		case !a.knows(r.Header):
			w.Header().Set("Proxy-Authenticate", `Basic realm="powerbox attach"`)
			http.Error(w, "send the secret of this process in Proxy-Authorization, as Bearer or as the password of Basic", http.StatusProxyAuthRequired)
		default:
			next.ServeHTTP(w, ofRequest(r))
		}
	})
}

// fromPage reports whether a browser says that a page made the request. Node
// sends Sec-Fetch-Mode, and browsers alone Sec-Fetch-Site.
func fromPage(h http.Header) bool {
	site := h.Get("Sec-Fetch-Site")
	return site != "" && site != "none"
}

// isOurs reports whether the host that a client named is the loopback address
// that it came to.
func (a *Attach) isOurs(r *http.Request) bool {
	host, port, err := net.SplitHostPort(r.Host)
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if err != nil || !ok {
		return false
	}
	_, own, err := net.SplitHostPort(local.String())
	return err == nil && port == own && isLoopback(host)
}

// knows reports whether the secret was sent, if one is wanted.
func (a *Attach) knows(h http.Header) bool {
	if a.config.Secret == "" {
		return true
	}
	scheme, sent, _ := strings.Cut(h.Get("Proxy-Authorization"), " ")
	if strings.EqualFold(scheme, "Basic") {
		decoded, err := base64.StdEncoding.DecodeString(sent)
		if err != nil {
			return false
		}
		_, sent, _ = strings.Cut(string(decoded), ":")
	} else if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(sent), []byte(a.config.Secret)) == 1
}
