package powerboxa2a

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/holder"
)

// ServerOptions are what [Inbound.Handler] is for HTTP, for a grpc.Server with
// a listener of its own: calls of A2A's services are refused without the
// gateway's context, others pass. They bring a codec of their own, which keeps
// the bytes of a message until they are compared with the signed context. A
// compressed message is refused, since nothing has its bytes any more.
func (in *Inbound) ServerOptions() []grpc.ServerOption {
	kept := &keeping{}
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(kept),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if !isA2A(info.FullMethod) {
				return next(ctx, req)
			}
			ctx, err := in.admitMessage(ctx, kept.take(req))
			if err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if !isA2A(info.FullMethod) {
				return next(srv, stream)
			}
			return next(srv, &admitting{ServerStream: stream, in: in, kept: kept, ctx: stream.Context()})
		}),
	}
}

func isA2A(method string) bool {
	return strings.HasPrefix(method, "/lf.a2a.v1.") || strings.HasPrefix(method, "/a2a.v1.")
}

// admitMessage verifies the context of a call, whose body is one message in its
// frame.
func (in *Inbound) admitMessage(ctx context.Context, message []byte) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	task, err := in.admit(ctx, strings.Join(md.Get(HeaderContext), ","), frame)
	if err != nil {
		in.config.Log.WarnContext(ctx, "a call is refused: it did not come through the gateway", "error", err)
		code, text := refusal(err)
		s := status.New(codes.Unauthenticated, text)
		detailed, wrong := s.WithDetails(&errdetails.ErrorInfo{
			Reason: "UNAUTHENTICATED", Domain: "a2a-protocol.org", Metadata: map[string]string{"code": string(code), "retryable": retryable(code)},
		})
		if wrong != nil {
			return ctx, s.Err() // without its details it says the same
		}
		return ctx, detailed.Err()
	}
	task.receiveHeader(ctx, strings.Join(md.Get(holder.HeaderDelegation), ","))
	md = md.Copy()
	md.Delete(HeaderContext)
	md.Delete(holder.HeaderDelegation)
	return withTask(metadata.NewIncomingContext(ctx, md), task), nil
}

// admitting is a stream whose one request is verified as it is read, before the
// handler has it.
type admitting struct {
	grpc.ServerStream
	in   *Inbound
	kept *keeping
	ctx  context.Context
	read bool
}

func (s *admitting) Context() context.Context { return s.ctx }

func (s *admitting) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	message := s.kept.take(m)
	if s.read {
		return status.Error(codes.InvalidArgument, "a call has one message")
	}
	s.read = true
	var err error
	s.ctx, err = s.in.admitMessage(s.ctx, message)
	return err
}

// keeping is the codec of protobuf, which keeps the bytes of messages of A2A until
// they are taken. It keeps them in the message itself, as an unknown field behind all
// others. Bytes that are never taken, as of a call that was cancelled or that another
// interceptor refused, are freed with their message.
type keeping struct{ codec }

// keptField is the number of that field, the highest that there is.
const keptField = protowire.MaxValidNumber

func (keeping) Unmarshal(data mem.BufferSlice, v any) error {
	raw := data.Materialize()
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("powerbox: %T is no protobuf message", v)
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		return err
	}
	if r := m.ProtoReflect(); isA2A("/" + string(r.Descriptor().FullName())) {
		sent := r.GetUnknown()
		kept := make([]byte, 0, len(sent)+len(raw)+16)
		kept = protowire.AppendTag(append(kept, sent...), keptField, protowire.BytesType)
		r.SetUnknown(protowire.AppendBytes(kept, raw))
	}
	return nil
}

// take returns the bytes of a message, and removes them from it.
func (keeping) take(v any) []byte {
	m, ok := v.(proto.Message)
	if !ok {
		return nil
	}
	unknown := m.ProtoReflect().GetUnknown()
	for at := 0; at < len(unknown); {
		number, kind, n := protowire.ConsumeTag(unknown[at:])
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(number, kind, unknown[at+n:])
		if size < 0 {
			return nil
		}
		// A sender can use the number, too: ours is the last field.
		if end := at + n + size; end == len(unknown) && number == keptField && kind == protowire.BytesType {
			raw, _ := protowire.ConsumeBytes(unknown[at+n:])
			m.ProtoReflect().SetUnknown(unknown[:at:at])
			return raw
		}
		at += n + size
	}
	return nil
}

// codec is that of protobuf, with messages that are bytes already.
type codec struct{}

// message is a message as it goes out.
type message []byte

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.(message); ok {
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("powerbox: %T is no protobuf message", v)
	}
	raw, err := proto.Marshal(m)
	return mem.BufferSlice{mem.SliceBuffer(raw)}, err
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("powerbox: %T is no protobuf message", v)
	}
	return proto.Unmarshal(data.Materialize(), m)
}
