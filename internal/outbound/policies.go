package outbound

import (
	"crypto/x509"
	"fmt"
)

// Authorities reads the certificates of authorities, in PEM form, of a file.
func Authorities(pem []byte, file string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// Configured is for addresses that the operator names: of the agents behind, of
// the server, of witnesses.
func Configured() Policy {
	return Policy{AllowLoopback: true, AllowPrivate: PrivateNetworks()}
}

// Strangers is for addresses that the card of an agent names and the operator
// does not (ATK-15).
func Strangers() Policy { return Policy{} }
