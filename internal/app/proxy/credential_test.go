package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
)

// A secret that persons consent to is kept by a server: without one, the gateway does not start,
// and the error names the other program.
func TestConsentedSecretsNeedAServer(t *testing.T) {
	agent := config.Agent{ID: "documents"}
	agent.Credential.OAuth = config.CredentialOAuth{TokenURL: "https://login.example/token", Grant: "refresh_token", ClientID: "powerbox"}
	p := &Proxy{Config: &config.Config{}, Now: func() time.Time { return time.Unix(1_790_000_000, 0) }}
	if placed, err := p.credential(agent); err == nil || !strings.Contains(err.Error(), "documents") || !strings.Contains(err.Error(), "powerbox serve") {
		t.Errorf("placed %v, %v", placed, err)
	}
}
