package config

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"
)

// checkDoors wants doors that only their gateway can use, with routes to agents that calls
// can be forwarded to.
func (k checker) checkDoors() {
	doors := k.Doors
	k.unique("doors", "name", len(doors), func(i int) string { return doors[i].Name })
	for i, d := range doors {
		at := fmt.Sprintf("doors[%d]", i)
		if d.TokenFile == "" && d.Listen != "" && !isLoopback(d.Listen) {
			k.place(at+".token_file", "is missing, and %s is reached from other machines; name a file with a token (head -c 32 /dev/urandom | base64), or listen on 127.0.0.1", d.Listen)
		}
		if d.TokenFile == "" && d.PeerCertificates {
			k.place(at+".token_file", "is missing, and peer_certificates is on: any process of this machine could report the certificate of another caller; name a file with a token (head -c 32 /dev/urandom | base64)")
		}
		if len(d.Routes) == 0 {
			k.place(at+".routes", "is empty, so that the door would deny every request; name the agent of a path, such as {path: /agents/notes, agent: notes}")
		}
		k.unique(at+".routes", "path", len(d.Routes), func(j int) string { return d.Routes[j].Host + strings.ToLower(d.Routes[j].Path) })
		for j, r := range d.Routes {
			k.checkDoorRoute(fmt.Sprintf("%s.routes[%d]", at, j), r)
		}
	}
}

func (k checker) checkDoorRoute(at string, r DoorRoute) {
	if !strings.HasPrefix(r.Path, "/") || path.Clean(r.Path) != strings.TrimSuffix(r.Path, "/") && r.Path != "/" || strings.ContainsAny(r.Path, "?#%\\;") {
		k.place(at+".path", "%q is not a plain path; want one such as /agents/notes", r.Path)
	}
	if r.Host != strings.ToLower(r.Host) || strings.ContainsAny(r.Host, ":/*,@ ") || strings.HasSuffix(r.Host, ".") {
		k.place(at+".host", "%q is not a host name in lower case, without a port and a dot at its end", r.Host)
	}
	if !k.known(at+".agent", "agent", r.Agent, k.agents) {
		return
	}
	for _, a := range k.Agents {
		switch {
		case a.ID != r.Agent:
		case a.Protocol == "local":
			k.place(at+".agent", "calls to %q are not decided by this server: it is inside a program", r.Agent)
		case a.GatewayURL != "":
			k.place(at+".agent", "calls to %q are decided by its remote gateway; start that with --door-listen, and remove the route here", r.Agent)
		}
	}
}

// isLoopback reports whether an address is reached from this machine alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
