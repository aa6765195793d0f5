package powerboxa2a

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
)

// GRPC is the option with which [Peer.NewClient] makes clients that speak gRPC.
// The connection must lead to the host of the peer's public URL.
func (p *Peer) GRPC(options ...grpc.DialOption) a2aclient.FactoryOption {
	return a2agrpc.WithGRPCTransport(append(options, grpc.WithChainUnaryInterceptor(p.unary), grpc.WithChainStreamInterceptor(p.stream))...)
}

func (p *Peer) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, raw, err := p.signedMessage(ctx, cc, method, req)
	if err != nil {
		return err
	}
	return invoke(ctx, method, raw, reply, cc, append(options, grpc.ForceCodecV2(codec{}))...)
}

func (p *Peer) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	options = append(options, grpc.ForceCodecV2(codec{}))
	return &late{ctx: ctx, open: func(req any) (grpc.ClientStream, error) {
		signed, raw, err := p.signedMessage(ctx, cc, method, req)
		if err != nil {
			return nil, err
		}
		stream, err := open(signed, desc, cc, method, options...)
		if err != nil {
			return nil, err
		}
		return stream, stream.SendMsg(raw)
	}}, nil
}

// signedMessage makes the bytes of a call and puts capability and proof for
// them in its metadata.
func (p *Peer) signedMessage(ctx context.Context, cc *grpc.ClientConn, method string, req any) (context.Context, message, error) {
	o, ok := ctx.Value(outgoingKey{}).(*outgoing)
	if !ok || o.peer != p {
		return ctx, nil, errNoInterceptor
	}
	m, ok := req.(proto.Message)
	if !ok {
		return ctx, nil, fmt.Errorf("powerbox: the call with a %T cannot be signed", req)
	}
	if err := o.unchangedMessage(m); err != nil {
		return ctx, nil, err
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return ctx, nil, err
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	maps.DeleteFunc(md, func(name string, values []string) bool {
		return isOurHeader(name) || len(values) == 1 && cameIn(ctx, name, values[0])
	})
	if p.Agent.Negotiates {
		if err := p.forHost(cc.Target()); err != nil {
			return ctx, nil, err
		}
		h := http.Header{}
		if values := md.Get("authorization"); len(values) > 0 {
			h.Set("Authorization", values[0])
		}
		if err := o.present(ctx, h, http.MethodPost, base(p.Agent.Issuer)+method, raw); err != nil {
			return ctx, nil, err
		}
		for name, values := range h {
			md.Set(name, values...)
		}
	}
	return metadata.NewOutgoingContext(ctx, md), raw, nil
}

// forHost refuses a connection to another host than that of the peer: its port
// is all that a card can say of where gRPC is.
func (p *Peer) forHost(target string) error {
	issuer, err := url.Parse(p.Agent.Issuer)
	if err != nil {
		return err
	}
	address := target[strings.LastIndex(target, "/")+1:]
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host != issuer.Hostname() {
		return fmt.Errorf("powerbox: the call goes to %s, which is not %s; nothing is signed for it", target, issuer.Hostname())
	}
	return nil
}

// unchangedMessage is outgoing.unchanged for protobuf.
func (o *outgoing) unchangedMessage(m proto.Message) error {
	var metadata, ofMessage *structpb.Struct
	switch m := m.(type) {
	case *a2apb.SendMessageRequest:
		metadata, ofMessage = m.GetMetadata(), m.GetMessage().GetMetadata()
	case *a2apb.CancelTaskRequest:
		metadata = m.GetMetadata()
	}
	var found powerbox.Value
	for name, value := range metadata.GetFields() {
		if !isOurMember(name) {
			continue
		}
		var err error
		if found, err = valueOf(value.AsInterface()); err != nil || name != holder.ExtensionURI {
			return errAdded
		}
	}
	for name := range ofMessage.GetFields() {
		if isOurMember(name) {
			return errAdded
		}
	}
	if !found.Equal(o.metadata) {
		return errAdded
	}
	return nil
}

// late is a stream that is opened by its request: the metadata that open it
// carry a proof of that.
type late struct {
	grpc.ClientStream // nil until then
	ctx               context.Context
	open              func(req any) (grpc.ClientStream, error)
}

var errLate = errors.New("powerbox: the stream has not been opened; send its request first")

func (s *late) SendMsg(req any) error {
	if s.ClientStream != nil {
		return errors.New("powerbox: a call has one message")
	}
	stream, err := s.open(req)
	s.ClientStream = stream
	return err
}

func (s *late) RecvMsg(m any) error {
	if s.ClientStream == nil {
		return errLate
	}
	return s.ClientStream.RecvMsg(m)
}

func (s *late) CloseSend() error {
	if s.ClientStream == nil {
		return errLate
	}
	return s.ClientStream.CloseSend()
}

func (s *late) Header() (metadata.MD, error) {
	if s.ClientStream == nil {
		return nil, errLate
	}
	return s.ClientStream.Header()
}

func (s *late) Trailer() metadata.MD {
	if s.ClientStream == nil {
		return nil
	}
	return s.ClientStream.Trailer()
}

func (s *late) Context() context.Context {
	if s.ClientStream == nil {
		return s.ctx
	}
	return s.ClientStream.Context()
}
