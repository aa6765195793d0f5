package config_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/config"
)

// TestATK98_ReportedCertificatesNeedTheTokenOfTheDoor: every process of the machine reaches a
// door on loopback, an agent too, and could report the certificate of another caller.
func TestATK98_ReportedCertificatesNeedTheTokenOfTheDoor(t *testing.T) {
	for more, want := range map[string]string{
		"peer_certificates: true": "peer_certificates is on", "peer_certificates: true, token_file: door.token": "", "peer_certificates: false": "",
	} {
		text := "agents: [{id: notes, upstream: http://127.0.0.1:9001}]\ndoors: [{name: edge, listen: 127.0.0.1:8710, routes: [{agent: notes}], " + more + "}]\n"
		_, err := config.Load("powerbox.yaml", func(name string) ([]byte, error) {
			if name == "powerbox.yaml" {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}, nil)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("ATK-98 %s: %v; want %q", more, err, want)
		}
	}
}
