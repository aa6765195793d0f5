package serve

import (
	"fmt"
	"net"

	"golang.org/x/net/netutil"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/peer"
)

// Limited bounds the connections of a listener: in all, further ones wait, and of one
// client address, further ones are closed at once.
func Limited(l net.Listener, proxies *peer.Proxies, limits config.Limits) net.Listener {
	return netutil.LimitListener(proxies.Listener(l, limits.PerAddress, limits.HeaderTime), limits.Connections)
}

// ProxiesOf are the proxies that a configuration believes.
func ProxiesOf(c config.Proxies) (*peer.Proxies, error) {
	p, err := peer.New(c.Trusted, c.Address)
	if err != nil {
		return nil, fmt.Errorf("proxies: %w", err)
	}
	return p, nil
}
