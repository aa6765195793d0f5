// Package peer reads from which address a request comes. It is the only reader: limits,
// pages and records all use its answer. A proxy in front of Powerbox is believed only if
// the configuration names its network, and only in the one way that the configuration
// names. Everything else that a request says about addresses changes nothing.
package peer

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// The ways in which a trusted proxy tells the address of its client. Only one of them is
// read: a proxy that sets one of the headers passes the other on as the client sent it.
const (
	ForwardedFor  = "x-forwarded-for" // the last value that the proxy appended
	Forwarded     = "forwarded"       // RFC 7239
	ProxyProtocol = "proxy-protocol"  // versions 1 and 2, before the first byte of the connection
)

// maxHops bounds how many trusted proxies a request may have come through.
const maxHops = 32

// Proxies are the proxies that are believed. The zero value believes none.
type Proxies struct {
	trusted []netip.Prefix
	way     string
}

// New returns the proxies of some networks, each an address or a CIDR prefix, which tell
// addresses in one way.
func New(networks []string, way string) (*Proxies, error) {
	p := &Proxies{way: way}
	if !slices.Contains([]string{ForwardedFor, Forwarded, ProxyProtocol}, way) {
		return nil, fmt.Errorf("%q is no way in which a proxy tells addresses; want %s, %s or %s", way, ForwardedFor, Forwarded, ProxyProtocol)
	}
	for _, n := range networks {
		prefix, err := ParseNetwork(n)
		if err != nil {
			return nil, err
		}
		p.trusted = append(p.trusted, prefix)
	}
	return p, nil
}

// ParseNetwork reads the network of a proxy.
func ParseNetwork(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a network; want one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7", s)
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is IPv4 written as IPv6; want it as IPv4", s)
	case prefix.Masked() != prefix:
		return netip.Prefix{}, fmt.Errorf("%q has bits behind its prefix; want %s", s, prefix.Masked())
	case prefix.Bits() == 0:
		return netip.Prefix{}, fmt.Errorf("%q is every address, so that every client could claim any address; want the networks of the proxies alone", s)
	}
	return prefix, nil
}

// trusts reports whether an address is that of a proxy that is believed.
func (p *Proxies) trusts(ip netip.Addr) bool {
	if p == nil {
		return false
	}
	return ip.IsValid() && slices.ContainsFunc(p.trusted, func(n netip.Prefix) bool { return n.Contains(ip.Unmap().WithZone("")) })
}

// Address is where a request comes from.
type Address struct {
	ip   netip.Addr
	text string // of a peer that has no IP address, such as a Unix socket
	// unsure says that the address may be that of a proxy, and silent that it is that of
	// a proxy that is believed and has named no client.
	unsure, silent bool
}

// Recorded is the address for the record of a request. It is empty if it is
// surely that of a proxy. What a client writes into its own request never empties it.
func (a Address) Recorded() string {
	if a.silent {
		return ""
	}
	return a.String()
}

// String is the address, for limits that count one address.
func (a Address) String() string {
	if a.ip.IsValid() {
		return a.ip.String()
	}
	return a.text
}

// Network is the address as limits count clients: for IPv6 the network of 64 bits, since
// one customer has all of its addresses.
func (a Address) Network() string {
	if n, ok := network(a.ip); ok {
		if n.Addr().Is4() {
			return n.Addr().String()
		}
		return n.String()
	}
	return a.text
}

// Shown is the address as pages may show and compare it. It is empty if the address may be
// that of a proxy, which says nothing about the client.
func (a Address) Shown() string {
	if a.unsure {
		return ""
	}
	return a.String()
}

// network is what counts as one client.
func network(ip netip.Addr) (netip.Prefix, bool) {
	if !ip.IsValid() {
		return netip.Prefix{}, false
	}
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	n, err := ip.Prefix(bits)
	return n, err == nil
}

// networkOf is the client at the other end of a connection, and false for a Unix socket.
func networkOf(a net.Addr) (netip.Prefix, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	return network(tcp.AddrPort().Addr())
}

type key struct{}

// Handler reads the address of every request once, before h sees it.
func (p *Proxies) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, p.read(r))))
	})
}

// From returns a request that came on a connection which net/http does not serve, from the
// address of its other end.
func From(r *http.Request, at net.Addr) *http.Request {
	r = r.WithContext(r.Context())
	r.RemoteAddr = at.String()
	return r
}

// Told returns a request of which another proxy tells, as coming from an address. The
// connection on which it was told is that of the proxy.
func Told(r *http.Request, from string) *http.Request {
	r.RemoteAddr = from
	return r.WithContext(context.WithValue(r.Context(), key{}, Address{ip: parse(r.RemoteAddr).ip, text: r.RemoteAddr}))
}

// Of returns where a request comes from. Without [Proxies.Handler] before it, that is the
// other end of the connection.
func Of(r *http.Request) Address {
	if a, ok := r.Context().Value(key{}).(Address); ok {
		return a
	}
	return (*Proxies)(nil).read(r)
}

// OfConn returns the other end of a connection, before there is a request.
func OfConn(c net.Conn) Address { return parse(c.RemoteAddr().String()) }

// read is the one reading of an address.
func (p *Proxies) read(r *http.Request) Address {
	at := parse(r.RemoteAddr)
	if !p.trusts(at.ip) {
		at.unsure = forwarded(r.Header) || at.ip.IsLoopback() && !localHost(r.Host)
		return at
	}
	hops, ok := p.hops(r.Header)
	if len(hops) > 0 {
		at.ip = hops[0] // a proxy that is believed named it
	}
	at.unsure = !ok || len(hops) == 0
	at.silent = at.unsure
	return at
}

// forwarded reports whether a request says that it came through a proxy.
func forwarded(h http.Header) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if len(h.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// localHost reports whether a client calls a server on its own machine. If it does not and
// the peer is on this machine, the peer is a proxy.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback() || host == "" || strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// parse reads host:port.
func parse(remote string) Address {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		return Address{ip: at.Addr().Unmap()}
	}
	return Address{text: remote, unsure: true}
}

// hops are the addresses that trusted proxies name, the nearest last: the first is the
// client. What stands before one that is not trusted, or that cannot be read, counts for
// nothing. It is false if it ends at one that cannot be read.
func (p *Proxies) hops(h http.Header) ([]netip.Addr, bool) {
	var named []string
	switch p.way {
	case ForwardedFor:
		named = strings.Split(strings.Join(h.Values("X-Forwarded-For"), ","), ",")
	case Forwarded:
		named = forwardedFor(strings.Join(h.Values("Forwarded"), ","))
	default:
		return nil, true // the connection said it, and RemoteAddr is the client's
	}
	var hops []netip.Addr
	for _, text := range slices.Backward(named) {
		ip, ok := hop(strings.TrimSpace(text))
		if !ok || len(hops) == maxHops {
			slices.Reverse(hops)
			return hops, false
		}
		hops = append(hops, ip)
		if !p.trusts(ip) {
			break // what stands before was the client's to write
		}
	}
	slices.Reverse(hops)
	return hops, true
}

// hop reads one address, with a port or without.
func hop(s string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		s = strings.TrimSuffix(inner, "]")
	}
	ip, err := netip.ParseAddr(s)
	return ip.Unmap().WithZone(""), err == nil
}

// forwardedFor are the values of for in a Forwarded header, one for each of its elements,
// "" where an element has none or cannot be read.
func forwardedFor(s string) []string {
	var all []string
	for _, element := range split(s, ',') {
		var of []string
		for _, pair := range split(element, ';') {
			name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
			if found && strings.EqualFold(name, "for") {
				of = append(of, unquote(value))
			}
		}
		if len(of) != 1 {
			of = []string{""}
		}
		all = append(all, of[0])
	}
	return all
}

// split splits at a separator outside of quoted strings. A quote that stays open, or that
// does not begin a value, ends in one piece that reads as nothing.
func split(s string, at byte) []string {
	var parts []string
	quoted, from := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == at && !quoted:
			parts, from = append(parts, s[from:i]), i+1
		}
	}
	if quoted {
		return append(parts, "")
	}
	return append(parts, s[from:])
}

// unquote reads a token or a quoted string. An address needs no escapes.
func unquote(s string) string {
	if inner, ok := strings.CutPrefix(s, `"`); ok {
		if inner, ok = strings.CutSuffix(inner, `"`); ok && !strings.ContainsAny(inner, `"\`) {
			return inner
		}
		return ""
	}
	return s
}
