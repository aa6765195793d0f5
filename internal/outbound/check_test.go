package outbound

import (
	"context"
	"errors"
	"testing"
)

// ATK-17: where events may be posted to is checked before an agent is told.
func TestATK17_Check(t *testing.T) {
	private := Policy{AllowLoopback: true, AllowPrivate: PrivateNetworks()}
	for _, c := range []struct {
		policy  Policy
		address string
		refused bool
	}{
		{Policy{}, "https://127.0.0.1/", true},
		{Policy{}, "https://localhost:8443/", true},
		{Policy{}, "http://[::1]/", true},
		{Policy{}, "https://10.1.2.3/", true},
		{Policy{}, "https://[::ffff:10.1.2.3]/", true},
		{Policy{}, "https://169.254.169.254/", true},
		{Policy{}, "http://8.8.8.8/", true}, // without TLS
		{Policy{}, "https://8.8.8.8/", false},
		{private, "http://127.0.0.1:9/hook", false},
		{private, "https://localhost/", false},
		{private, "http://10.1.2.3/", false},
		{private, "http://169.254.169.254/", true},
		{private, "http://8.8.8.8/", true},
	} {
		err := c.policy.Check(t.Context(), c.address)
		if (err != nil) != c.refused || c.refused && !errors.Is(err, ErrAddress) {
			t.Errorf("ATK-17 %s under %+v: %v", c.address, c.policy, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range []string{"ftp://8.8.8.8/", "https://a@8.8.8.8/", "", "https://no-such-host.invalid/"} {
		if err := (Policy{}).Check(ended, address); err == nil {
			t.Errorf("ATK-17 %q is admitted", address)
		}
	}
}
