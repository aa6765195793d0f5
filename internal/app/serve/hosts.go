package serve

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// GuardHosts refuses requests to an address of this machine that do not mean it:
// a page in a browser can be made to look like any host there is (DNS
// rebinding), but not to say that it is not itself (ATK-16). Where others listen
// in front, beyond loopback, the names that they are reached by are theirs.
func GuardHosts(listener net.Addr, next http.Handler, named ...string) http.Handler {
	if !Loopback(listener) {
		return next
	}
	_, port, err := net.SplitHostPort(listener.String())
	if err != nil {
		return next
	}
	allowed := []string{listener.String()}
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		allowed = append(allowed, net.JoinHostPort(host, port))
	}
	for _, name := range named {
		if u, err := url.Parse(name); err == nil && u.Host != "" {
			name = u.Host
		}
		allowed = append(allowed, name)
	}
	means := func(host string) bool { return slices.Contains(allowed, strings.ToLower(host)) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, err := url.Parse(r.Header.Get("Origin"))
		foreign := r.Header.Get("Origin") != "" && (err != nil || !means(origin.Host))
		if !means(r.Host) || foreign {
			http.Error(w, "this address of the local machine was asked for under another name; use the configured URL", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
