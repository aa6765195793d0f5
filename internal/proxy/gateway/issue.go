package gateway

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// issue answers the extension's methods that ask for capabilities or end them.
// They need a session like every other method (SEP-23). To narrow a held capability
// the holder is enough: it could do so offline; and to end a link of a chain that
// it shows, which it may have made offline.
func (g *Gateway) issue(w http.ResponseWriter, x *decoded) {
	if !x.caller.Token.IsZero() {
		g.deny(w, x, a2a.Denial{Reason: codeToken, Message: "an access token is a capability and asks for no others; authorize again with a wider scope, or narrow it by token exchange"})
		return
	}
	alone := x.call.Method == a2a.CapabilitiesAttenuate || x.call.Method == a2a.CapabilitiesRevoke && x.call.Revoke.Chain != nil
	if x.caller.Holder.ID == "" || x.caller.Principal == "" && !alone {
		g.deny(w, x, a2a.Denial{
			Code: a2a.CodeUnauthenticated, Reason: "unauthenticated",
			Message: "this method needs a valid access token of the user for this agent, and a holder: a DPoP proof, a client certificate or a client id",
		})
		return
	}
	if why := g.config.Gate.UseCaller(x.ID, g.gateCaller(x.identified)); len(why) > 0 {
		g.deny(w, x, spent(why[0]))
		return
	}
	result, err := shed.Within(g.config.Patience, func() (any, error) { return g.issued(x) })
	if errors.Is(err, shed.ErrUnderWay) {
		g.unavailable(w, x, "the server could not make this durable in time; it may still take effect, and it is safe to ask again", err)
		return
	}
	if err != nil {
		g.refused(w, x, err)
		return
	}
	answer, err := a2a.Result(x.call.ID, result)
	if err != nil {
		g.unavailable(w, x, "the answer could not be written", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(answer) // the client has gone: there is no caller to tell
}

// spent words why the proof of a caller does not serve.
func spent(why evidence.Reason) a2a.Denial {
	d := a2a.Denial{Code: a2a.CodeUnauthenticated, Reason: why.Code, Message: why.Message, Retryable: true, Fix: "sign a new proof"}
	if why.Code != gate.CodeReplay {
		d.Code, d.Away = a2a.CodeInternal, true
	}
	return d
}

// issued asks the issuer. The type of what it returns is that of the method.
func (g *Gateway) issued(x *decoded) (any, error) {
	ctx := x.request.Context()
	switch x.call.Method {
	case a2a.CapabilitiesRequest:
		result, err := g.config.Issuing.Request(ctx, x.ID, x.caller, *x.call.Request)
		g.beyondScope(x, result.Capabilities)
		return result, err
	case a2a.CapabilitiesAttenuate:
		return g.config.Issuing.Attenuate(ctx, x.ID, x.caller, *x.call.Attenuate)
	case a2a.CapabilitiesRevoke:
		return g.config.Issuing.Revoke(ctx, x.ID, x.caller, *x.call.Revoke)
	default:
		return g.config.Issuing.List(ctx, x.ID, x.caller)
	}
}

// beyondScope notes the operations of issued capabilities that calls of their holder would be
// denied for: the configured scope of the caller does not reach them.
func (g *Gateway) beyondScope(x *decoded, issued []a2a.Capability) {
	scopeOf := g.config.scopeAt(x.ID)
	if scopeOf == nil || x.mode == gate.Observe {
		return
	}
	scope := scopeOf(cmp.Or(g.config.Origin(x.caller.Holder.ID), x.caller.Agent))
	for i, c := range issued {
		for _, name := range c.Operations {
			op, err := powerbox.ParseOperation(x.ID + "/" + c.Grant + "/" + name)
			if _, within := scope.Shape(op); err == nil && !within {
				issued[i].OutsideScope = append(issued[i].OutsideScope, name)
			}
		}
	}
}
