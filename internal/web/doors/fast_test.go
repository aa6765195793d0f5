package doors_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/doors"
)

// TestADoorOfGRPCAlone decides as any door does, for the proxy that shows its token, and
// answers no HTTP. Others are refused before their message is read.
func TestADoorOfGRPCAlone(t *testing.T) {
	w := newTown(t, "scoped")
	shows := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "powerbox-door", doorToken)
	}
	conn, err := grpc.NewClient(w.fast, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, q, a any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
			return call(shows(ctx), method, q, a, c, o...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, of *grpc.StreamDesc, c *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(shows(ctx), of, c, method, o...)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w.conn = conn
	if a := w.check(t, w.signs(t, post("notes", skill("read_note", 1))).checkRequest()); a.GetOkResponse() == nil {
		t.Errorf("a good call: %v", a)
	}
	if a := w.check(t, w.signs(t, post("notes", skill("delete_note", 1))).checkRequest()); reason(a.GetDeniedResponse().GetBody()) != "outside_caller_scope" {
		t.Errorf("a call that is not allowed: %v", a)
	}
	if p := w.process(t, w.signs(t, asksGRPC("read_note")), buffered, 200, headGRPC, begunGRPC(t, "task-7"), good); p.refusal != nil || p.back.Get("Powerbox-Decision") == "" {
		t.Errorf("ext_proc: %v %v", p.refusal, p.back)
	}
	large := post("notes", strings.Repeat("a", 6<<20)).checkRequest()
	if _, err := auth.NewAuthorizationClient(conn).Check(t.Context(), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is too large: %v", err)
	}
	for name, shown := range map[string][]string{"no token": nil, "another token": {"x" + doorToken[1:]}, "two tokens": {doorToken, doorToken}} {
		ctx := t.Context()
		for _, one := range shown {
			ctx = metadata.AppendToOutgoingContext(ctx, "powerbox-door", one)
		}
		if _, err := auth.NewAuthorizationClient(dial(t, w.fast)).Check(ctx, large); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s, and a message that is too large: %v", name, err)
		}
	}
	if a, err := http.Post("http://"+w.fast+"/ext_authz/agents/notes", "application/json", strings.NewReader("{}")); err == nil {
		a.Body.Close()
		t.Errorf("HTTP is answered with %s", a.Status)
	}
}

// asker is a gateway that a door asks. It notes whom a question is from.
type asker struct{ from func(string) }

func (a asker) Advise(r *http.Request, _ gateway.Carries) gateway.Advice {
	a.from(peer.Of(r).Network())
	if until, ok := r.Context().Deadline(); ok {
		panic("the time of a message bounds its decision: " + until.String())
	}
	return gateway.Advice{Status: http.StatusForbidden}
}

func (a asker) AdviseGRPC(string, *http.Request, gateway.Carries) gateway.Advice {
	return gateway.Advice{}
}

// TestADoorOfGRPCAloneKeepsWhatStandsBeforeIt: the address of the caller is read as of HTTP,
// a node that knows too little decides nothing, and a panic ends its call alone.
func TestADoorOfGRPCAloneKeepsWhatStandsBeforeIt(t *testing.T) {
	proxies, err := peer.New([]string{"127.0.0.0/8"}, peer.ForwardedFor)
	if err != nil {
		t.Fatal(err)
	}
	var from string
	var behind error
	d := &doors.Door{
		Name: "fast", Routes: []doors.Route{{Path: "/agents/notes", Agent: "notes"}}, BodyLimit: 1 << 20, BodyTime: time.Minute, Log: slog.New(slog.DiscardHandler),
		Gateway: asker{func(address string) {
			if from = address; address == "192.0.2.8" {
				panic("of a test")
			}
		}},
		Current: func(context.Context) error { return behind },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := d.GRPC(proxies.Handler(d.Admit()))
	go s.Serve(l)
	t.Cleanup(s.Stop)
	client := auth.NewAuthorizationClient(dial(t, l.Addr().String()))
	for _, c := range []struct {
		name, address string
		behind        error
		code          codes.Code
		from          string
	}{
		{"a caller behind the proxy", "192.0.2.7", nil, codes.OK, "192.0.2.7"},
		{"a panic", "192.0.2.8", nil, codes.Internal, "192.0.2.8"},
		{"after the panic", "192.0.2.9", nil, codes.OK, "192.0.2.9"},
		{"a node that knows too little", "192.0.2.7", errors.New("no store"), codes.Unavailable, ""},
	} {
		from, behind = "", c.behind
		_, err := client.Check(metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", c.address), post("notes", "{}").checkRequest())
		if status.Code(err) != c.code || from != c.from {
			t.Errorf("%s: %v, from %q; want %v, from %q", c.name, err, from, c.code, c.from)
		}
	}
}
