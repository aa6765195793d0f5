// Package proxy has the parts of every process that a gateway runs in, the server and remote
// gateways: agents as the gateway takes them, who is believed, key rings and limits. It knows
// neither a store nor policies, so that a program without them can be built (ADR 145).
package proxy

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
)

// Proxy is what a process knows about the agents behind its gateway.
type Proxy struct {
	Config *config.Config
	// Read reads a file that the configuration refers to; os.ReadFile where it is nil.
	Read    func(string) ([]byte, error)
	Rereads serve.Rereads // files that are read again
	Now     func() time.Time
	// Consented returns the source of the secrets that persons consented to at an agent. It is
	// nil without a store, which keeps them.
	Consented func(config.Agent) (credential.Source, error)
	// Earned are the paths of results that rules name, by operation; nil for those of Config.
	Earned map[string][]string
}

// URLOf is the public URL of a configured agent at the gateway.
func (p *Proxy) URLOf(c *config.Agent) string {
	return strings.TrimSuffix(cmp.Or(c.GatewayURL, p.Config.Issuer.URL), "/") + "/agents/" + c.ID
}

// ReadFile reads a file that the configuration refers to.
func (p *Proxy) ReadFile(name string) ([]byte, error) {
	if p.Read != nil {
		return p.Read(name)
	}
	return os.ReadFile(name)
}
