package main

import (
	"fmt"
	"net"

	"golang.org/x/net/netutil"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/peer"
)

// limited bounds the connections of a listener: in all, further ones wait, and of one
// client address, further ones are closed at once.
func limited(l net.Listener, proxies *peer.Proxies, limits config.Limits) net.Listener {
	return netutil.LimitListener(proxies.Listener(l, limits.PerAddress, limits.HeaderTime), limits.Connections)
}

// proxiesOf are the proxies that a configuration believes.
func proxiesOf(c config.Proxies) (*peer.Proxies, error) {
	p, err := peer.New(c.Trusted, c.Address)
	if err != nil {
		return nil, fmt.Errorf("proxies: %w", err)
	}
	return p, nil
}
