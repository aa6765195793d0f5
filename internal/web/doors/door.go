package doors

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// HeaderToken is the header, or the metadata of gRPC, in which a proxy shows the token of a
// door.
const HeaderToken = "Powerbox-Door"

// minToken is the length of the shortest token of a door, in bytes.
const minToken = 32

// Door answers the proxies of one listener.
type Door struct {
	Name  string
	Token string // that the proxy shows; "" where the listener is on loopback
	// PeerCertificates says that the client certificates which the proxy reports are
	// verified by it.
	PeerCertificates bool
	Routes           []Route
	Gateway          Decider
	BodyLimit        int
	BodyTime         time.Duration // in which a question has to come
	// Current waits until this node knows what others have written, before a question that
	// [Door.GRPC] takes is decided; nil for a node alone.
	Current func(context.Context) error
	Log     *slog.Logger
}

// Decider is the gateway whose decisions a door tells.
type Decider interface {
	Advise(r *http.Request, c gateway.Carries) gateway.Advice
	AdviseGRPC(agent string, r *http.Request, c gateway.Carries) gateway.Advice
}

// Handler answers every form of question. Paths below /ext_authz are Envoy's over HTTP,
// /forward_auth and /forward_auth/body are those of Caddy, nginx and Traefik, and gRPC is
// Envoy's.
func (d *Door) Handler() (http.Handler, error) {
	if d.Token != "" && len(d.Token) < minToken {
		return nil, fmt.Errorf("the token has %d bytes; want at least %d", len(d.Token), minToken)
	}
	if d.BodyTime <= 0 {
		return nil, errors.New("doors: BodyTime must be positive")
	}
	d.Routes = inOrder(d.Routes)
	server := d.grpcServer(func(context.Context) error { return nil }) // what stands before this handler looked
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lasts := r.ProtoMajor == 2 && r.URL.Path == proc.ExternalProcessor_Process_FullMethodName; !lasts {
			if err := gateway.Timely(w, r, d.BodyTime); err != nil {
				d.Log.ErrorContext(r.Context(), "no deadline for a question", slog.String("door", d.Name), slog.Any("error", err))
				http.Error(w, "this server cannot bound the time of a question", http.StatusInternalServerError)
				return
			}
		}
		if !d.mayAsk(r) {
			http.Error(w, wantsToken, http.StatusUnauthorized)
			return
		}
		r.Header.Del(HeaderToken)
		switch rest, envoy := strings.CutPrefix(r.RequestURI, pathEnvoy); { // as the proxy forwards it
		case envoy && strings.HasPrefix(rest, "/"): // with the caller's Content-Type, which may be that of gRPC
			d.envoyHTTP(w, r, rest)
		case r.URL.Path == pathForward, r.URL.Path == pathBody:
			d.forwardAuth(w, r, r.URL.Path == pathBody)
		case r.ProtoMajor == 2 && isGRPC(r.Header):
			server.ServeHTTP(w, r)
		default:
			http.Error(w, "there is nothing here; want gRPC, "+pathEnvoy+"/ or "+pathForward, http.StatusNotFound)
		}
	}), nil
}

// mayAsk reports whether a request is that of the proxy.
func (d *Door) mayAsk(r *http.Request) bool {
	if d.Token == "" {
		return true
	}
	shown := r.Header.Values(HeaderToken)
	return len(shown) == 1 && subtle.ConstantTimeCompare([]byte(shown[0]), []byte(d.Token)) == 1
}

// advise has the gateway decide a question.
func (d *Door) advise(ctx context.Context, q *question, c gateway.Carries) gateway.Advice {
	r, route, wrong := d.asked(ctx, q)
	if wrong != nil {
		d.Log.DebugContext(ctx, "a question of a proxy cannot be decided", slog.String("door", d.Name), slog.String("reason", wrong.Reason))
		return answered(q, wrong)
	}
	if isGRPC(r.Header) {
		return d.Gateway.AdviseGRPC(route.Agent, r, c)
	}
	return d.Gateway.Advise(r, c)
}

// removed are the names of headers that came and are removed.
func removed(came, on http.Header) []string {
	var out []string
	for name := range came {
		if _, stays := on[name]; !stays && !ofRequest[name] {
			out = append(out, strings.ToLower(name))
		}
	}
	slices.Sort(out)
	return out
}

// ofRequest are headers that the proxy sets for what it forwards, and that no filter may
// remove.
var ofRequest = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true}

// hopByHop are headers of our answer that are no answer of the proxy's.
var hopByHop = map[string]bool{"Connection": true, "Content-Length": true, "Trailer": true, "Transfer-Encoding": true}
