package link

import (
	"net/url"
	"strings"
)

// PathStatusLists is where the Token Status Lists of agents are at the server, each under
// its agent's name.
const PathStatusLists = "/v1/status-lists/"

// StatusAddress is where peers ask for the status of an agent's capabilities: the
// revocation_endpoint of its card.
func StatusAddress(server, agent string) string {
	return strings.TrimSuffix(server, "/") + PathStatusLists + url.PathEscape(agent)
}

// PathResource is where the metadata of protected resources is at the server (RFC 9728). The
// path of a resource follows.
const PathResource = "/.well-known/oauth-protected-resource"

// ResourceMetadata is the address of the metadata of a resource at a URL.
func ResourceMetadata(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + PathResource + u.Path
}
