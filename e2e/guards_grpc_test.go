package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/guard"
	"github.com/powerbox-project/powerbox/holder/guard/guardgrpc"
)

// filesOfGRPC is a service with a method of every kind, as in generated code,
// which notes what its methods got.
type filesOfGRPC struct {
	mu  sync.Mutex
	got []string
}

func (f *filesOfGRPC) note(method string, m *wrapperspb.StringValue) *wrapperspb.StringValue {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, strings.TrimSpace(method+" "+m.GetValue()))
	return m
}

func (f *filesOfGRPC) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got
}

var filesService = grpc.ServiceDesc{
	ServiceName: "test.Files", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Read", Handler: func(srv any, ctx context.Context, dec func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		run := func(_ context.Context, m any) (any, error) {
			if m.(*wrapperspb.StringValue).GetValue() == "/none" {
				return nil, status.Error(grpccodes.NotFound, "no such file")
			}
			return srv.(*filesOfGRPC).note("Read", m.(*wrapperspb.StringValue)), nil
		}
		if next == nil {
			return run(ctx, in)
		}
		return next(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/test.Files/Read"}, run)
	}}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Follow", ServerStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
			in := new(wrapperspb.StringValue)
			if err := stream.RecvMsg(in); err != nil {
				return err
			}
			return stream.SendMsg(srv.(*filesOfGRPC).note("Follow", in))
		}},
		{StreamName: "Put", ClientStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
			var put []string
			for {
				in := new(wrapperspb.StringValue)
				err := stream.RecvMsg(in)
				if errors.Is(err, io.EOF) {
					return stream.SendMsg(srv.(*filesOfGRPC).note("Put", wrapperspb.String(strings.Join(put, " "))))
				}
				if err != nil {
					srv.(*filesOfGRPC).note("Put broke off after", wrapperspb.String(strings.Join(put, " ")))
					return err
				}
				put = append(put, srv.(*filesOfGRPC).note("Put took", in).GetValue())
			}
		}},
		{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
			srv.(*filesOfGRPC).note("Talk", nil)
			for {
				in := new(wrapperspb.StringValue)
				if err := stream.RecvMsg(in); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return errors.New("whatever the method makes of it")
				}
				if err := stream.SendMsg(srv.(*filesOfGRPC).note("Talk", in)); err != nil {
					return err
				}
			}
		}},
	},
}

// readsAndDeletes is what messages of the service try: names that begin with rm
// delete. The opening of a stream is the right to read the root.
func readsAndDeletes(_ context.Context, method string, message any) (guard.Attempt, error) {
	path := "/"
	if m, ok := message.(*wrapperspb.StringValue); ok {
		path = m.GetValue()
	}
	skill := "read_file"
	if strings.HasPrefix(path, "rm ") {
		skill = "delete_file"
	}
	if strings.Contains(path, "?") || !strings.HasPrefix(method, "/test.Files/") {
		return guard.Attempt{}, errors.New("no such file name")
	}
	args, err := json.Marshal(map[string]string{"path": path})
	return guard.Attempt{From: "triage", To: "files", Skill: skill, Arguments: args}, err
}

// serveFiles serves the service, and returns a client of it.
func serveFiles(t *testing.T, f *filesOfGRPC, server []grpc.ServerOption, client []grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(server...)
	s.RegisterService(&filesService, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	cc, err := grpc.NewClient(l.Addr().String(), append(client, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// talk calls a method of the service with messages, and returns what came back.
func talk(t *testing.T, cc *grpc.ClientConn, method string, messages ...string) (answers []string, err error) {
	t.Helper()
	if method == "Read" {
		out := new(wrapperspb.StringValue)
		err = cc.Invoke(t.Context(), "/test.Files/Read", wrapperspb.String(messages[0]), out)
		return []string{out.GetValue()}, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	desc := &filesService.Streams[slices.IndexFunc(filesService.Streams, func(d grpc.StreamDesc) bool { return d.StreamName == method })]
	stream, err := cc.NewStream(ctx, desc, "/test.Files/"+method)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if err := stream.SendMsg(wrapperspb.String(m)); err != nil {
			return answers, err
		}
		if !desc.ClientStreams {
			_ = stream.CloseSend()
		}
		out := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(out); err != nil {
			return answers, err
		}
		answers = append(answers, out.GetValue())
	}
	_ = stream.CloseSend()
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		return answers, err
	}
	return answers, nil
}

// Calls of gRPC in and out are asked about: a refused call reaches no method and
// has its reasons in the status, and every attempt is on record with its outcome.
func TestGATE6_CallsOfGRPC(t *testing.T) {
	asGiven(t)
	for _, side := range []string{"server", "client"} {
		t.Run(side, func(t *testing.T) {
			w := guardTown(t, "scoped")
			f := &filesOfGRPC{}
			g := &guardgrpc.Guard{Gate: w.gate(), Attempt: readsAndDeletes}
			cc := serveFiles(t, f, g.ServerOptions(), nil)
			if side == "client" {
				cc = serveFiles(t, f, nil, g.DialOptions())
			}
			for _, q := range []struct {
				method   string
				messages []string
				reached  []string
				code     grpccodes.Code
			}{
				{"Read", []string{"/a"}, []string{"Read /a"}, grpccodes.OK},
				{"Read", []string{"/none"}, nil, grpccodes.NotFound},
				{"Read", []string{"rm /a"}, nil, grpccodes.PermissionDenied},
				{"Read", []string{"?"}, nil, grpccodes.PermissionDenied},
				{"Follow", []string{"/b"}, []string{"Follow /b"}, grpccodes.OK},
				{"Follow", []string{"rm /b"}, nil, grpccodes.PermissionDenied},
				{"Talk", []string{"/c", "/d"}, []string{"Talk", "Talk /c", "Talk /d"}, grpccodes.OK},
				{"Talk", []string{"/e", "rm /e", "/f"}, []string{"Talk", "Talk /e"}, grpccodes.PermissionDenied},
			} {
				_, err := talk(t, cc, q.method, q.messages...)
				if status.Code(err) != q.code || !slices.Equal(f.took(), q.reached) {
					t.Errorf("%s %q: %v", q.method, q.messages, err)
				}
				if strings.HasPrefix(q.messages[len(q.messages)-1], "rm") {
					saysWhy(t, side, err)
				}
			}
			statuses := map[string]int{}
			eventually(t, patience, func() string { return fmt.Sprint("on record: ", statuses) }, func() bool {
				clear(statuses)
				for _, r := range w.records("agent=files") {
					statuses[r.Decision+" "+r.Status]++
				}
				// Read 2, Follow 1, Talk 3 and 2, of which one file is not there and one stream is
				// given up; three denials, and one call without a question.
				return statuses["ALLOW PENDING"] == 8 && statuses["ALLOW ACHIEVED"] == 6 && statuses["ALLOW FAILED"] == 2 && statuses["DENY "] == 3
			})
		})
	}
}

// A stream of which a message is refused is broken off: its peer does not take what
// went before for all that there was, also where the caller continues or goes away.
func TestGATE6_StreamsAreNotCutShort(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	f := &filesOfGRPC{}
	g := &guardgrpc.Guard{Gate: w.gate(), Attempt: readsAndDeletes}
	cc := serveFiles(t, f, nil, g.DialOptions())
	desc := &filesService.Streams[slices.IndexFunc(filesService.Streams, func(d grpc.StreamDesc) bool { return d.StreamName == "Put" })]
	for _, messages := range [][]string{{"/a", "/b"}, {"/a", "rm /a"}} {
		stream, err := cc.NewStream(t.Context(), desc, "/test.Files/Put")
		if err != nil {
			t.Fatal(err)
		}
		refused := strings.HasPrefix(messages[1], "rm")
		if err := stream.SendMsg(wrapperspb.String(messages[0])); err != nil {
			t.Fatal(err)
		}
		// What breaks a stream off overtakes what the method has not taken yet.
		eventually(t, atOnce, func() string { return "the first message does not reach the method" }, func() bool { return len(f.took()) > 0 })
		if err := stream.SendMsg(wrapperspb.String(messages[1])); (status.Code(err) == grpccodes.PermissionDenied) != refused {
			t.Errorf("%q: %v", messages, err)
		}
		out := new(wrapperspb.StringValue)
		closing, reading := stream.CloseSend(), stream.RecvMsg(out)
		if refused {
			_, header := stream.Header()
			for what, err := range map[string]error{"closing": closing, "reading": reading, "header": header, "sending": stream.SendMsg(wrapperspb.String("/c"))} {
				if status.Code(err) != grpccodes.PermissionDenied {
					t.Errorf("%s: %v", what, err)
				}
			}
		} else if closing != nil || reading != nil || out.GetValue() != "/a /b" {
			t.Errorf("%q: %v, %v, %v", messages, closing, reading, out)
		}
		var got []string
		want := map[bool][]string{false: {"Put took /b", "Put /a /b"}, true: {"Put broke off after /a"}}[refused]
		eventually(t, patience, func() string { return fmt.Sprintf("%q reached the method; want %q", got, want) }, func() bool {
			got = append(got, f.took()...)
			return len(got) >= len(want)
		})
		if !slices.Equal(got, want) {
			t.Errorf("%q: the method got %q; want %q", messages, got, want)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	stream, err := cc.NewStream(ctx, desc, "/test.Files/Put")
	if err == nil {
		err = stream.SendMsg(wrapperspb.String("/d"))
	}
	if err != nil {
		t.Fatal(err)
	}
	leave()
	statuses := map[string]int{}
	eventually(t, patience, func() string { return fmt.Sprint("on record: ", statuses) }, func() bool {
		clear(statuses)
		for _, r := range w.records("agent=files") {
			statuses[r.Decision+" "+r.Status]++
		}
		// An opening and two messages; an opening, which failed, and one; both of the caller who left.
		return statuses["ALLOW PENDING"] == 7 && statuses["ALLOW ACHIEVED"] == 4 && statuses["ALLOW FAILED"] == 3 && statuses["DENY "] == 1
	})
}

// saysWhy wants a refusal with its reasons.
func saysWhy(t *testing.T, side string, err error) {
	t.Helper()
	s := status.Convert(err)
	if s.Message() != "Capability scope violation: {files/files/delete}" || len(s.Details()) != 1 {
		t.Fatalf("%v %v", s.Message(), s.Details())
	}
	info, ok := s.Details()[0].(*errdetails.ErrorInfo)
	if !ok || info.Metadata["missing"] != `["files/files/delete"]` || info.Metadata["code"] != "outside_caller_scope" || info.Metadata["decision"] == "" || info.Metadata["retryable"] != "false" {
		t.Errorf("%v", s.Details()[0])
	}
	if side == "client" && !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("%v is no denial", err)
	}
}

// Where the gate does not answer nothing is let through.
func TestGATE6_CallsOfGRPCWithoutAGate(t *testing.T) {
	asGiven(t)
	f := &filesOfGRPC{}
	gate := (&town{url: "http://127.0.0.1:9"}).gate()
	for name, of := range map[string]struct {
		server []grpc.ServerOption
		client []grpc.DialOption
	}{
		"server": {server: (&guardgrpc.Guard{Gate: gate, Attempt: readsAndDeletes}).ServerOptions()},
		"client": {client: (&guardgrpc.Guard{Gate: gate, Attempt: readsAndDeletes}).DialOptions()},
	} {
		cc := serveFiles(t, f, of.server, of.client)
		for _, method := range []string{"Read", "Follow", "Talk"} {
			if _, err := talk(t, cc, method, "/a"); status.Code(err) != grpccodes.Unavailable {
				t.Errorf("%s, %s: %v", name, method, err)
			}
		}
	}
	if got := f.took(); len(got) != 0 {
		t.Errorf("reached %q", got)
	}
}
