package gateway

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// GRPC returns the handler for the gRPC of one agent. Its paths name no agent,
// so that every agent needs its own address.
func (g *Gateway) GRPC(id string) (http.Handler, error) {
	if _, ok := g.all()[id]; !ok {
		return nil, fmt.Errorf("gateway: there is no agent %q", id)
	}
	serve := g.timely(g.serve(a2a.GRPC))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := g.all()[id]
		if !ok {
			http.Error(w, "no such agent", http.StatusNotFound)
			return
		}
		kinds := r.Header.Values("Content-Type")
		if r.ProtoMajor != 2 || r.Method != http.MethodPost || len(kinds) != 1 || kinds[0] != typeGRPC && kinds[0] != typeGRPC+"+proto" {
			http.Error(w, "this address takes gRPC over HTTP/2 with protobuf", http.StatusUnsupportedMediaType)
			return
		}
		serve(w, r, a, "")
	}), nil
}

// URL returns the public URL of an agent, "" where there is none of that id.
func (g *Gateway) URL(id string) string {
	if a, ok := g.all()[id]; ok {
		return a.URL
	}
	return ""
}

// grpcAnswer is answer for gRPC: one message, or a stream of them, and a status
// behind.
func (g *Gateway) grpcAnswer(r *http.Response, x *forwardable) error {
	if x.call.Streaming && r.Header.Get("Grpc-Status") == "" && (isOfGRPC(r) || x.mode == gate.Observe) {
		r.Body = g.stream(r, x.decided)
		return nil
	}
	body, err := whole(r)
	if err != nil {
		return err
	}
	if len(body) > 0 { // whatever the status says, as clients differ in that
		if body, err = g.grpcLearn(r, x, body); err != nil {
			return err
		}
	}
	done, err := g.grpcEnded(r, x)
	if err != nil {
		return err
	}
	r.Header.Del("Content-Length")
	if done.body(r, body); len(body) > 0 || len(r.Trailer) > 0 {
		r.ContentLength = -1 // otherwise the headers say it all
	}
	return nil
}

// grpcEnded records the outcome of a call by the status of its answer in one message.
func (g *Gateway) grpcEnded(r *http.Response, x *forwardable) (*concluded, error) {
	stripOurs(r.Trailer)
	became, err := grpcOutcome(r)
	if err != nil && x.mode != gate.Observe {
		return nil, err
	}
	g.grpcUnserved(r, x.decided)
	if became.status == evidence.Achieved {
		if err := g.behaved(x.decided, nil, false); err != nil {
			return nil, err
		}
	}
	done, err := g.finish(x, became)
	if err == nil && became.status == evidence.Achieved {
		g.receiptedTrailer(r, done)
	}
	return done, err
}

// grpcUnserved notes what the status of an answer says that the agent does not serve. An answer
// that is none of gRPC comes from another server than the card says.
func (g *Gateway) grpcUnserved(r *http.Response, x *decided) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), typeGRPC) {
		g.noInterface(x)
		return
	}
	from := r.Trailer
	if from.Get("Grpc-Status") == "" {
		from = r.Header // where there is no message
	}
	details, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(from.Get("Grpc-Status-Details-Bin"), "="))
	code, refused := a2a.GRPCRefusal(from.Get("Grpc-Status"), details)
	g.unserved(x, code, refused)
}

// grpcLearn is learn for one message in its frame. What cannot be read passes
// in observe alone.
func (g *Gateway) grpcLearn(r *http.Response, x *forwardable, body []byte) ([]byte, error) {
	message, err := a2apb.Unframe(body)
	if err == nil {
		err = x.oneMessage(message)
	}
	if err == nil && x.call.Method == a2a.GetExtendedCard {
		if message, err = a2apb.RewriteCard(x.call.Wire, message, func(card []byte) ([]byte, error) { return g.inFront(x.agent, "", card) }); err == nil {
			return a2apb.Frame(message), nil
		}
		return nil, err // it would lead past the gateway, in every mode
	}
	if err != nil || x.call.Method == a2a.Unknown {
		return passing(x.decoded, body, err)
	}
	ctx := x.request.Context()
	if x.call.Method == a2a.ListTasks {
		if x.mode == gate.Observe {
			return body, nil
		}
		if message, err = g.page(r, x, message); err != nil {
			return nil, err
		}
		return a2apb.Frame(message), nil
	}
	if x.call.Method == a2a.CreatePushConfig || x.call.Method == a2a.GetPushConfig || x.call.Method == a2a.ListPushConfigs {
		if message, err = g.restored(r, x.decided, message); err != nil {
			return nil, err
		}
		body = a2apb.Frame(message)
	}
	payload, err := a2apb.JSON(x.call.Wire, message)
	if err != nil {
		return passing(x.decoded, body, err)
	}
	return body, g.bind(ctx, x.decided, a2a.ReadResponse(payload))
}

// oneMessage returns why kits may take a message of an answer for different ones.
func (x *decoded) oneMessage(message []byte) error {
	if x.mode == gate.Observe {
		return nil
	}
	return a2apb.OneReading(x.call.Wire, message)
}

func passing(x *decoded, body []byte, err error) ([]byte, error) {
	if x.mode == gate.Observe {
		return body, nil
	}
	return body, err
}
