package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// The values that a zero [Policy] stands for.
const (
	defaultTimeout  = 10 * time.Second
	defaultDial     = 5 * time.Second
	defaultMaxBytes = 1 << 20
)

// Policy says what may be called. The zero Policy allows public addresses over
// HTTPS only.
type Policy struct {
	// AllowLoopback admits 127.0.0.0/8 and ::1. Optional; for experiments and
	// for upstreams on the same machine.
	AllowLoopback bool
	// AllowPrivate admits these networks although they are private. Optional.
	AllowPrivate []netip.Prefix
	// Timeout bounds one Get from dialling to the last byte. Optional, default
	// [defaultTimeout].
	Timeout time.Duration
	// Dial bounds the making of a connection. Optional, default [defaultDial].
	Dial time.Duration
	// MaxBytes bounds the body of an answer. Optional, default
	// [defaultMaxBytes].
	MaxBytes int64
	// TLS has the authorities to believe and the certificate to show. Optional, default the system's
	// authorities and no certificate. With it nothing goes out in the clear.
	TLS *tls.Config
	// Bearer is shown with every Get. Optional. The caller sees to it that the address is the
	// one that it is for; redirects are not followed.
	Bearer string
}

// PrivateNetworks returns the networks that organisations number themselves:
// RFC 1918 and RFC 4193. It is for upstreams that an operator configured.
func PrivateNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("fc00::/7"),
	}
}

// ErrAddress is the root of every refusal of an address. Trying again does not
// help: the operator has to allow the network, or the address has to change.
var ErrAddress = errors.New("address refused")

// AddressError says which address was refused and by which rule. It is
// [ErrAddress].
type AddressError struct {
	Address string // host and port as dialled, after resolution
	Rule    string
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("address %s is refused: %s", e.Address, e.Rule)
}

// Is reports whether target is [ErrAddress].
func (e *AddressError) Is(target error) bool { return target == ErrAddress }

// control is the type of [net.Dialer.Control].
type control func(network, address string, conn syscall.RawConn) error

// allowed lists the networks that the policy names.
func (p Policy) allowed() []netip.Prefix {
	named := slices.Clone(p.AllowPrivate)
	if p.AllowLoopback {
		named = append(named, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	}
	return named
}

// guard returns the check of one dialled address. With namedOnly it admits
// nothing but the networks that the policy names.
func (p Policy) guard(namedOnly bool) control {
	named := p.allowed()
	var v4, v6 []netip.Prefix
	for _, n := range named {
		if n.Addr().Is4() {
			v4 = append(v4, n)
		} else {
			v6 = append(v6, n)
		}
	}
	guardian := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return func(network, address string, conn syscall.RawConn) error {
		if rule := neverRule(address); rule != "" {
			return &AddressError{address, rule}
		}
		if namedOnly && !within(named, address) {
			return &AddressError{address, "plain http goes only to loopback or private networks that the policy names; use https"}
		}
		if err := guardian.Safe(network, address, conn); err != nil {
			return &AddressError{address, err.Error()}
		}
		return nil
	}
}

// Check returns why an address may not be called, as it is resolved now; who
// calls it has to look again. Every address of a name must be allowed.
func (p Policy) Check(ctx context.Context, address string) error {
	u, err := parse(address)
	if err != nil {
		return err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil || len(ips) == 0 {
		return fmt.Errorf("the host %q cannot be resolved", u.Hostname())
	}
	guard := p.guard(u.Scheme == "http")
	for _, ip := range ips {
		network := "tcp6"
		if ip = ip.Unmap(); ip.Is4() {
			network = "tcp4"
		}
		if err := guard(network, net.JoinHostPort(ip.String(), port), nil); err != nil {
			return fmt.Errorf("the host %q: %w", u.Hostname(), err)
		}
	}
	return nil
}

// neverRule names the rule by which an address is refused whatever the policy
// says, and is empty where there is none.
func neverRule(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "it is not an IP address and port"
	}
	ip := at.Addr().Unmap()
	switch {
	case ip.IsLinkLocalUnicast(), ip == netip.MustParseAddr("fd00:ec2::254"):
		return "link-local addresses, where clouds serve credentials, are never called"
	case ip.IsMulticast(), ip.IsUnspecified():
		return "multicast and unspecified addresses are never called"
	}
	return ""
}

func within(networks []netip.Prefix, address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(at.Addr()) })
}

func (p Policy) dialer(namedOnly bool) *net.Dialer {
	return &net.Dialer{Timeout: min(p.Timeout, p.Dial), KeepAlive: 30 * time.Second, Control: p.guard(namedOnly)}
}
