package gateway

import (
	"net/http"
	"strconv"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// codeStopping is the code of what a server that ends does not take any more.
const codeStopping = "server_stopping"

// retryStopping is after how many seconds another server, or this one again, may
// be there.
const retryStopping = 2

// Drain has no new streams begin from now on. Other calls are still served.
func (g *Gateway) Drain() { g.draining.Store(true) }

// Draining reports whether the gateway is about to end.
func (g *Gateway) Draining() bool { return g.draining.Load() }

// EndStreams ends every open stream, with an event that says why.
func (g *Gateway) EndStreams() { g.endStreams() }

// stopping is why streams end with the server.
func stopping() evidence.Reason {
	return evidence.Reason{Code: codeStopping, Message: "this server is being stopped"}
}

// interrupted words for the caller why a stream ends that was allowed to begin. What
// changed something is not to be repeated because a stream ended.
func (g *Gateway) interrupted(x *decided, why evidence.Reason) a2a.Denial {
	d := g.because(x, why)
	if why.Code != codeStopping && !passes(why.Code) {
		return d
	}
	d.Retryable = !x.writes()
	_, d.Fix = x.by().gone()
	return d
}

// leaving refuses a new stream while the server is about to end, and reports
// whether it did.
func (g *Gateway) leaving(w http.ResponseWriter, x *decoded) bool {
	if !g.Draining() || !x.call.Streaming {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(retryStopping))
	g.deny(w, x, a2a.Denial{Reason: codeStopping, Message: "this server is being stopped and begins no streams", Retryable: true})
	return true
}
