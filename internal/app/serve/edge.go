package serve

import (
	"log/slog"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/peer"
)

// Edge stands before every front of a process.
type Edge struct {
	TLS     *TLS // nil for none
	Proxies *peer.Proxies
	Limits  config.Limits
	Log     *slog.Logger
}

// Before puts the limits of connections, TLS and the reading of addresses before fronts. Over
// TLS, the first takes HTTP/1.1, and the others take HTTP/2 too. A plain front gets the limits
// alone.
func (e Edge) Before(fronts []Front) []Front {
	out := make([]Front, len(fronts))
	for n, f := range fronts {
		if out[n] = f; f.Plain {
			out[n].Listener = Limited(f.Listener, nil, e.Limits)
			continue
		}
		var protocols []string
		if n > 0 {
			protocols = []string{"h2"}
		}
		out[n].Listener = e.TLS.On(Limited(Shedding(f.Listener, e.TLS != nil, e.Log), e.Proxies, e.Limits), protocols...)
		out[n].Handler = e.Proxies.Handler(f.Handler)
	}
	return out
}
