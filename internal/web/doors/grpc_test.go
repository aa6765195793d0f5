package doors_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const (
	typeGRPC    = "application/grpc"
	serviceGRPC = "/lf.a2a.v1.A2AService/"
)

// notesGRPC is the agent "notes" by gRPC, on the stock service.
type notesGRPC struct {
	v1.UnimplementedA2AServiceServer
}

func done() *v1.Message {
	return &v1.Message{MessageId: "a", Role: v1.Role_ROLE_AGENT, Parts: []*v1.Part{{Content: &v1.Part_Text{Text: "done"}}}}
}

func (notesGRPC) SendMessage(context.Context, *v1.SendMessageRequest) (*v1.SendMessageResponse, error) {
	return &v1.SendMessageResponse{Payload: &v1.SendMessageResponse_Message{Message: done()}}, nil
}

func (notesGRPC) SendStreamingMessage(_ *v1.SendMessageRequest, s grpc.ServerStreamingServer[v1.StreamResponse]) error {
	return s.Send(&v1.StreamResponse{Payload: &v1.StreamResponse_Message{Message: done()}})
}

// speaksGRPC starts the agent and returns its address.
func speaksGRPC(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	v1.RegisterA2AServiceServer(s, notesGRPC{})
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// framed is a message in its frame.
func framed(message []byte) string {
	return string(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

// overGRPC is a call by the stock definition, of a message in its JSON form.
func overGRPC(method, message, text string) call {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("lf.a2a.v1." + message))
	if err != nil {
		panic(err)
	}
	m := kind.New().Interface()
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		panic(err)
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return call{method: http.MethodPost, path: serviceGRPC + method, body: framed(raw), header: http.Header{"Content-Type": {typeGRPC}, "Te": {"trailers"}}}
}

// malformedGRPC is a call that the gateway cannot read.
func malformedGRPC(r *rand.Rand, text string) call {
	c := overGRPC("SendMessage", "SendMessageRequest", text)
	switch r.IntN(7) {
	case 0:
		c.body = "\x01" + c.body[1:] // compressed
	case 1:
		c.body += c.body // two messages
	case 2:
		c.body = c.body[:len(c.body)-1]
	case 3:
		c.body += "\x00"
	case 4:
		c.body = framed([]byte{0x0a, 0x7f, 0x01})
	case 5:
		c.path = serviceGRPC + "VendorOwn"
	default:
		c.header.Set("Content-Type", "application/grpc+json")
	}
	return c
}

// grpcReason is the code of a denial in the details of a status.
func grpcReason(t testing.TB, h http.Header) string {
	t.Helper()
	raw, err := base64.RawStdEncoding.DecodeString(h.Get("Grpc-Status-Details-Bin"))
	if err != nil {
		t.Error(err)
	}
	said, info := &rpcstatus.Status{}, &errdetails.ErrorInfo{}
	if err := proto.Unmarshal(raw, said); err != nil || len(said.GetDetails()) != 1 {
		t.Errorf("details: %v, %v", said, err)
		return ""
	}
	if err := said.GetDetails()[0].UnmarshalTo(info); err != nil {
		t.Error(err)
	}
	return info.GetMetadata()["code"]
}
