package a2a

import (
	"github.com/powerbox-project/powerbox"
)

// GRPCRequest is a request of the binding gRPC (A2A 1.0, section 10) after its
// message was read. This package knows no protobuf; see internal/wire/a2apb.
type GRPCRequest struct {
	Path    string // /lf.a2a.v1.A2AService/SendMessage
	Method  Method
	Version string // of the service that the path names
	Params  []byte // the message in its JSON form
	Message []byte // the message as it was written again, without unknown fields
}

// DecodeGRPC reads one request of gRPC, as [Decode] does of JSON-RPC.
func DecodeGRPC(r GRPCRequest, header Header, limits powerbox.Limits) (Call, *Error) {
	c := Call{Binding: GRPC, Wire: r.Path, Method: r.Method, Version: r.Version, Extensions: header.extensions(), Params: powerbox.Object()}
	c.Streaming = c.Method == SendStreamingMessage || c.Method == SubscribeToTask
	if header.Version != "" {
		if version, ok := header.version(); !ok || version != r.Version {
			return c, &Error{CodeVersionNotSupported, ReasonVersion, "A2A-Version is not that of the gRPC service; this one speaks " + r.Version}
		}
	}
	if c.Method == Unknown {
		return c, nil
	}
	if len(r.Params) > limits.Bytes {
		return c, invalidRequest(ReasonTooLarge, "request has %d bytes in its JSON form; want at most %d", len(r.Params), limits.Bytes)
	}
	v, err := powerbox.DecodeValue(r.Params, limits)
	if err != nil {
		return c, &Error{CodeParse, ReasonSyntax, err.Error()}
	}
	c.Params, c.Written = v, HTTPRequest{Body: r.Message}
	if wrong := CheckCase(v); wrong != nil {
		return c, wrong
	}
	return c, c.parse(false)
}
