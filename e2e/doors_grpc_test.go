package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// grpcDoors are two doors for the same agent. That of gRPC alone is served by gRPC's own
// transport, and the other by net/http.
type grpcDoors struct{ usual, alone string }

func newGRPCDoors(t *testing.T) grpcDoors {
	return grpcDoors{usual: "127.0.0.1:" + freePort(t), alone: "127.0.0.1:" + freePort(t)}
}

// lines configure the doors.
func (d grpcDoors) lines() string {
	return fmt.Sprintf(`doors:
  - {name: usual, listen: %q, routes: [{path: /agents/documents, agent: documents}]}
  - {name: alone, listen: %q, grpc_only: true, routes: [{path: /agents/documents, agent: documents}]}
`, d.usual, d.alone)
}

// each does the same with both doors.
func (d grpcDoors) each(t *testing.T, what string, do func(t *testing.T, at string)) {
	t.Helper()
	t.Run(what+", usual", func(t *testing.T) { do(t, d.usual) })
	t.Run(what+", gRPC alone", func(t *testing.T) { do(t, d.alone) })
}

// asEnvoy opens a connection to a door, as Envoy does.
func asEnvoy(t *testing.T, at string, settings *tls.Config) *grpc.ClientConn {
	t.Helper()
	secured := insecure.NewCredentials()
	if settings != nil {
		secured = credentials.NewTLS(settings.Clone())
	}
	c, err := grpc.NewClient(at, grpc.WithTransportCredentials(secured))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// toldByEnvoy is a request as Envoy tells of it.
func toldByEnvoy(body []byte, header http.Header) *auth.CheckRequest {
	h := &auth.AttributeContext_HttpRequest{
		Method: http.MethodPost, Host: "edge.example.com", Path: "/agents/documents", RawBody: body,
		Headers: map[string]string{"content-type": "application/json", "a2a-version": "1.0", "content-length": strconv.Itoa(len(body)), "x-envoy-auth-partial-body": "false"},
	}
	for name, values := range header {
		h.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: h}}}
}

// ownWords are the time of a denial and the name of a door.
var ownWords = regexp.MustCompile(`"timestamp":"[^"]*"|door (usual|alone) `)

// doorAnswer is an answer of a door: what its client sees, except for the parts that differ each time.
type doorAnswer struct {
	Code    grpccodes.Code
	Status  int
	Headers map[string]string
	Removed []string
	Body    string
	id      string // of the record
}

func (o doorAnswer) reason() string { return o.Headers["powerbox-reason"] }

func toldOf(a *auth.CheckResponse) doorAnswer {
	ok, denied := a.GetOkResponse(), a.GetDeniedResponse()
	o := doorAnswer{Code: grpccodes.Code(a.GetStatus().GetCode()), Status: int(denied.GetStatus().GetCode()), Headers: map[string]string{}, Removed: ok.GetHeadersToRemove(), Body: denied.GetBody()}
	for _, all := range [][]*core.HeaderValueOption{ok.GetHeaders(), ok.GetResponseHeadersToAdd(), denied.GetHeaders()} {
		for _, h := range all {
			o.Headers[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
		}
	}
	o.id = o.Headers["powerbox-decision"]
	if o.Headers["powerbox-context"] != "" {
		o.Headers["powerbox-context"] = "signed"
	}
	if o.id != "" {
		o.Headers["powerbox-decision"] = "recorded"
		o.Body = strings.ReplaceAll(o.Body, o.id, "recorded")
	}
	o.Body = ownWords.ReplaceAllString(o.Body, "")
	return o
}

// askedAt has a door decide a request.
func askedAt(t *testing.T, c *grpc.ClientConn, r *auth.CheckRequest) doorAnswer {
	t.Helper()
	a, err := auth.NewAuthorizationClient(c).Check(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return toldOf(a)
}

// search is a call that alice may make, with a new proof.
func (d grpcDoors) search(c *caller, held granted) *auth.CheckRequest {
	body := data("search_documents", map[string]any{})
	return toldByEnvoy(body, c.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}))
}

// refusedCall checks that a door took no call.
func refusedCall(t *testing.T, what string, c *grpc.ClientConn, want grpccodes.Code) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	if _, err := auth.NewAuthorizationClient(c).Check(ctx, toldByEnvoy(data("search_documents", map[string]any{}), nil)); status.Code(err) != want || ctx.Err() != nil {
		t.Errorf("%s: %v; want %s", what, err, want)
	}
}

// TestADoorOfGRPCAloneDecidesAsOthersDo asks both doors the same: answer and record are the
// same.
func TestADoorOfGRPCAloneDecidesAsOthersDo(t *testing.T) {
	d := newGRPCDoors(t)
	w := start(t, options{extra: d.lines()})
	alice := w.caller(aliceToken)
	held := alice.reports()
	usual, alone := asEnvoy(t, d.usual, nil), asEnvoy(t, d.alone, nil)
	searches := data("search_documents", map[string]any{})
	used := alice.proof("documents", searches, proven{chain: []string{held.Token}, operation: opSearch})
	for _, c := range []struct {
		name, reason string // "" for an allowed call
		made         func() *auth.CheckRequest
	}{
		{"a good call", "", func() *auth.CheckRequest { return d.search(alice, held) }},
		{"no capability", "capability_required", func() *auth.CheckRequest { return toldByEnvoy(searches, alice.headers(w.agentURL("documents"))) }},
		{"another operation", "operation_not_granted", func() *auth.CheckRequest {
			body := data("delete_document", map[string]any{})
			return toldByEnvoy(body, alice.proof("documents", body, proven{chain: []string{held.Token}, operation: "documents/documents:write/delete"}))
		}},
		{"a proof of another body", "proof_arguments", func() *auth.CheckRequest {
			body := data("search_documents", map[string]any{"query": "x"})
			return toldByEnvoy(body, alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch, body: searches}))
		}},
		{"a stranger", "capability_required", func() *auth.CheckRequest { return toldByEnvoy(searches, nil) }},
		{"no JSON", "", func() *auth.CheckRequest { return toldByEnvoy([]byte("{"), alice.headers(w.agentURL("documents"))) }},
		{"no route", "route_unknown", func() *auth.CheckRequest {
			r := d.search(alice, held)
			r.GetAttributes().GetRequest().GetHttp().Path = "/elsewhere"
			return r
		}},
	} {
		a, b := askedAt(t, usual, c.made()), askedAt(t, alone, c.made())
		if diff := cmp.Diff(a, b, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "id" }, cmp.Ignore())); diff != "" {
			t.Errorf("%s: the answers differ:\n%s", c.name, diff)
		}
		if c.name != "no JSON" && b.reason() != c.reason || (b.Code == grpccodes.OK) != (c.name == "a good call") {
			t.Errorf("%s: %+v; want the reason %q", c.name, b, c.reason)
		}
		if (a.id == "") != (b.id == "") || a.id != "" && a.id == b.id {
			t.Errorf("%s: the records are %q and %q", c.name, a.id, b.id)
		} else if a.id != "" {
			if diff := cmp.Diff(exceptOwn(w.record(a.id)), exceptOwn(w.record(b.id))); diff != "" {
				t.Errorf("%s: the records differ:\n%s", c.name, diff)
			}
		}
	}
	if first, again := askedAt(t, usual, toldByEnvoy(searches, used)), askedAt(t, alone, toldByEnvoy(searches, used)); first.Code != grpccodes.OK || again.reason() != "proof_replayed" {
		t.Errorf("a proof that the other door has seen: %+v, then %+v", first, again)
	}
}

// exceptOwn is a record without what differs for each.
func exceptOwn(r recorded) recorded {
	r.ID, r.Timestamp, r.Prev, r.Hash, r.Signature = "", "", "", "", ""
	r.Powerbox.Sequence, r.Powerbox.TraceID = 0, ""
	return r
}

// TestADoorOfGRPCAloneSpeaksTLS: with the certificate of the server, which is read again, and
// for clients that have a certificate of the configured authority or none.
func TestADoorOfGRPCAloneSpeaksTLS(t *testing.T) {
	old, renewed := newAuthority(t), newAuthority(t)
	cert, key, _ := old.issue(x509.ExtKeyUsageServerAuth)
	_, _, known := old.issue(x509.ExtKeyUsageClientAuth)
	_, _, stranger := renewed.issue(x509.ExtKeyUsageClientAuth)
	d, settings := newGRPCDoors(t), &tls.Config{RootCAs: pool(old.cert), MinVersion: tls.VersionTLS12}
	w := start(t, options{
		scheme: "https", tls: settings, issuer: "  tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}", extra: d.lines(),
		files: map[string]string{"server.pem": string(cert), "server.key": string(key), "ca.pem": string(pemOf("CERTIFICATE", old.cert.Raw))},
	})
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: settings.Clone()}, Timeout: stepTime}
	t.Cleanup(w.client.CloseIdleConnections)
	alice := w.caller(aliceToken)
	held := alice.reports()
	with := func(own ...tls.Certificate) *tls.Config {
		s := settings.Clone()
		s.Certificates = own
		return s
	}
	for name, s := range map[string]*tls.Config{"no certificate": with(), "one of the authority": with(known)} {
		if a := askedAt(t, asEnvoy(t, d.alone, s), d.search(alice, held)); a.Code != grpccodes.OK || a.id == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	refusedCall(t, "a certificate of another authority", asEnvoy(t, d.alone, with(stranger)), grpccodes.Unavailable)
	refusedCall(t, "no TLS", asEnvoy(t, d.alone, nil), grpccodes.Unavailable)
	refusedCall(t, "an authority that the client does not trust", asEnvoy(t, d.alone, &tls.Config{RootCAs: pool(renewed.cert), MinVersion: tls.VersionTLS12}), grpccodes.Unavailable)
	if log := w.log.String(); !strings.Contains(log, "TLS handshake error") {
		t.Errorf("the log does not tell of connections that failed:\n%s", log)
	}
	for name, c := range map[string]struct{ url, want string }{
		"HTTP over TLS":    {"https://" + d.alone + "/forward_auth", "404 this address answers gRPC alone; ask over gRPC, or remove grpc_only from the door\n"},
		"HTTP without TLS": {"http://" + d.alone + "/forward_auth", "400 this address answers over TLS alone\n"},
	} {
		if got := overHTTP(t, w.client, c.url, ""); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
	cert, key, _ = renewed.issue(x509.ExtKeyUsageServerAuth)
	w.write("server.key", string(key))
	w.write("server.pem", string(cert))
	settings.RootCAs = pool(renewed.cert)
	becomes(t, "the new certificate is used", func() bool {
		a, err := auth.NewAuthorizationClient(asEnvoy(t, d.alone, settings)).Check(t.Context(), d.search(alice, held))
		return err == nil && a.GetOkResponse() != nil
	})
}

// overHTTP is the status and the body of an answer, and no answer fails the test.
func overHTTP(t *testing.T, c *http.Client, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return strconv.Itoa(a.StatusCode) + " " + string(said)
}

// TestADoorOfGRPCAloneRefusesHTTP: a gateway that asks over HTTP is told the reason, and
// never gets an answer that it takes for a yes.
func TestADoorOfGRPCAloneRefusesHTTP(t *testing.T) {
	d := newGRPCDoors(t)
	w := start(t, options{extra: d.lines(), mode: "observe"})
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: stepTime}
	body := string(data("search_documents", map[string]any{}))
	const want = "404 this address answers gRPC alone; ask over gRPC, or remove grpc_only from the door\n"
	for name, c := range map[string]struct{ path, body string }{
		"ext_authz":    {"/ext_authz/agents/documents", body},
		"forward_auth": {"/forward_auth", ""},
		"a large body": {"/ext_authz/agents/documents", strings.Repeat("x", 32<<10)},
	} {
		if got := overHTTP(t, direct, "http://"+d.alone+c.path, c.body); got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
	two := &http.Transport{Protocols: new(http.Protocols)}
	two.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(two.CloseIdleConnections)
	if got := overHTTP(t, &http.Client{Transport: two, Timeout: stepTime}, "http://"+d.alone+"/ext_authz/agents/documents", body); !strings.HasPrefix(got, "415 ") {
		t.Errorf("HTTP/2 without gRPC: %q; want 415", got)
	}
	if n := len(w.records("agent=documents&limit=10")); n != 0 {
		t.Errorf("%d records of calls that were not decided", n)
	}
	if got := overHTTP(t, direct, "http://"+d.usual+"/ext_authz/agents/documents", body); !strings.HasPrefix(got, "200 ") {
		t.Errorf("the other door: %q", got)
	}
}

// TestADoorOfGRPCAloneEndsInOrder: after SIGTERM a question that is under way is answered and
// recorded, and no other is taken.
func TestADoorOfGRPCAloneEndsInOrder(t *testing.T) {
	d := newGRPCDoors(t)
	w := start(t, options{extra: d.lines()})
	alice := w.caller(aliceToken)
	held := alice.reports()
	d.each(t, "end", func(t *testing.T, at string) {
		conn := asEnvoy(t, at, nil)
		open, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, auth.Authorization_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := proc.NewExternalProcessorClient(conn).Process(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The server reads a connection in order: with this answer it has the calls before it.
		if a := askedAt(t, conn, d.search(alice, held)); a.Code != grpccodes.OK {
			t.Fatalf("%+v", a)
		}
		question := d.search(alice, held)
		pid := w.process.Process.Pid
		if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, stepTime, func() string { return "the door still takes connections" }, func() bool {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
			if err == nil {
				_ = c.Close()
			}
			return err != nil
		})
		eventually(t, stepTime, func() string { return "a new call is taken" }, func() bool {
			_, err := auth.NewAuthorizationClient(conn).Check(t.Context(), d.search(alice, held))
			return status.Code(err) == grpccodes.Unavailable
		})
		if err := errors.Join(open.SendMsg(question), open.CloseSend()); err != nil {
			t.Fatal(err)
		}
		answered := new(auth.CheckResponse)
		if err := open.RecvMsg(answered); err != nil {
			t.Fatalf("the call under way: %v\n%s", err, w.log)
		}
		a := toldOf(answered)
		if a.Code != grpccodes.OK {
			t.Errorf("the call under way: %+v", a)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the exchange under way: %v", err)
		}
		eventually(t, stepTime, func() string { return "the server does not end\n" + w.log.String() }, func() bool { return syscall.Kill(pid, 0) != nil })
		if log := w.log.String(); strings.Contains(log, "cut off") {
			t.Errorf("the log tells of calls that were cut off:\n%s", log)
		}
		w.boot()
		if r := w.record(a.id); r.Decision != "ALLOW" {
			t.Errorf("the record of the call under way: %+v", r)
		}
	})
}

// TestDoorsOfGRPCHaveLimits: both kinds keep to the same limits.
func TestDoorsOfGRPCHaveLimits(t *testing.T) {
	const connections, streams = 4, 250
	d := newGRPCDoors(t)
	w := start(t, options{extra: d.lines() + fmt.Sprintf("limits: {denials: 0, connections_per_address: %d, header: 16KiB, header_time: 1s, body_time: 2s}\ndefaults: {body_limit: 64KiB}\n", connections)})
	alice := w.caller(aliceToken)
	held := alice.reports()
	good := func(t *testing.T, what string, c *grpc.ClientConn) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), stepTime)
		defer cancel()
		// The places of connections that a client has closed come back a moment later.
		a, err := auth.NewAuthorizationClient(c).Check(ctx, d.search(alice, held), grpc.WaitForReady(true))
		if err != nil || a.GetOkResponse() == nil {
			t.Fatalf("%s: %v %v", what, a, err)
		}
	}
	d.each(t, "messages", func(t *testing.T, at string) {
		conn := asEnvoy(t, at, nil)
		client := auth.NewAuthorizationClient(conn)
		large := toldByEnvoy(bytes.Repeat([]byte{'x'}, 64<<10+1<<20), nil)
		if _, err := client.Check(t.Context(), large); status.Code(err) != grpccodes.ResourceExhausted {
			t.Errorf("a message over the limit: %v", err)
		}
		long := metadata.AppendToOutgoingContext(t.Context(), "long", strings.Repeat("x", 32<<10))
		if _, err := client.Check(long, d.search(alice, held)); err == nil {
			t.Error("a header over limits.header is taken")
		}
		good(t, "after what was refused", conn)

		late, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, auth.Authorization_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		if err := endsSoon(t, func() error { return late.RecvMsg(new(auth.CheckResponse)) }); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("a message that does not come within limits.body_time: %v", err)
		}
		good(t, "after a message that did not come", conn)

		silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if err := endsSoon(t, func() error { _, err := io.Copy(io.Discard, silent); return err }); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("a connection on which nothing comes within limits.header_time: %v", err)
		}
	})
	d.each(t, "streams", func(t *testing.T, at string) {
		conn := asEnvoy(t, at, nil)
		good(t, "a call", conn)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for n := range streams {
			if _, err := proc.NewExternalProcessorClient(conn).Process(ctx); err != nil {
				t.Fatalf("stream %d: %v", n, err)
			}
		}
		short, done := context.WithTimeout(ctx, time.Second)
		defer done()
		if _, err := proc.NewExternalProcessorClient(conn).Process(short); status.Code(err) != grpccodes.DeadlineExceeded {
			t.Errorf("a stream over the limit of a connection: %v", err)
		}
	})
	d.each(t, "connections", func(t *testing.T, at string) {
		var open []*grpc.ClientConn
		for n := range connections {
			open = append(open, asEnvoy(t, at, nil))
			good(t, fmt.Sprintf("connection %d", n), open[n])
		}
		refusedCall(t, "a connection over limits.connections_per_address", asEnvoy(t, at, nil), grpccodes.Unavailable)
		_ = open[0].Close()
		eventually(t, stepTime, func() string { return "no place for a connection that was closed" }, func() bool {
			_, err := auth.NewAuthorizationClient(asEnvoy(t, at, nil)).Check(t.Context(), d.search(alice, held))
			return err == nil
		})
	})
}

// endsSoon fails the test if something lasts longer than what a step may take.
func endsSoon(t *testing.T, do func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(atOnce):
		t.Fatal("it does not end")
		return nil
	}
}

// TestASlowQuestionOverHTTPEnds: limits.body_time holds for doors that are asked over HTTP.
func TestASlowQuestionOverHTTPEnds(t *testing.T) {
	d := newGRPCDoors(t)
	w := start(t, options{extra: d.lines() + "limits: {denials: 0, body_time: 1s}\n"})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.usual)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /ext_authz/agents/documents HTTP/1.1\r\nHost: edge.example.com\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	err = endsSoon(t, func() error {
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if a.StatusCode != http.StatusForbidden || a.Header.Get("Powerbox-Reason") != "body_cut_short" {
			t.Errorf("%d %v", a.StatusCode, a.Header)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v\n%s", err, w.log)
	}
}

// TestADoorOfGRPCAloneAtARemoteGateway: the door has the TLS and the limits of the gateway.
func TestADoorOfGRPCAloneAtARemoteGateway(t *testing.T) {
	const connections = 20
	ca := newAuthority(t)
	cert, key, _ := ca.issue(x509.ExtKeyUsageServerAuth)
	address, door, secret := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t), strings.Repeat("t", 32)
	w := start(t, options{
		agent: "    enforces: context\n    gateway_url: https://" + address, issuer: "  feed: {heartbeat: 100ms}",
		extra: fmt.Sprintf("limits: {denials: 0, connections_per_address: %d}\n", connections),
	})
	for name, content := range map[string]string{"server.pem": string(cert), "server.key": string(key), "door.token": secret + "\n"} {
		w.write(name, content)
	}
	r := &replica{
		w: w, state: t.TempDir() + "/state", address: address, tls: &tls.Config{RootCAs: pool(ca.cert), MinVersion: tls.VersionTLS12},
		flags: []string{
			"--tls-certificate", w.dir + "/server.pem", "--tls-key", w.dir + "/server.key",
			"--door-listen", door, "--door-grpc-only", "--door-token-file", w.dir + "/door.token",
		},
	}
	r.enroll()
	r.boot()
	w.apart, w.client = "https://"+address, r.client()
	alice := w.caller(aliceToken)
	held := alice.reports()
	shows := metadata.AppendToOutgoingContext(t.Context(), "powerbox-door", secret)
	search := func(ctx context.Context, settings *tls.Config) (doorAnswer, error) {
		a, err := auth.NewAuthorizationClient(asEnvoy(t, door, settings)).Check(ctx, grpcDoors{}.search(alice, held))
		return toldOf(a), err
	}
	if a, err := search(shows, r.tls); err != nil || a.Code != grpccodes.OK || w.record(a.id).Decision != "ALLOW" {
		t.Errorf("a good call: %+v %v\n%s", a, err, r.log)
	}
	if a, err := search(t.Context(), r.tls); status.Code(err) != grpccodes.Unauthenticated {
		t.Errorf("without the token: %+v %v", a, err)
	}
	if a, err := search(shows, nil); status.Code(err) != grpccodes.Unavailable {
		t.Errorf("the token was taken without TLS: %+v %v", a, err)
	}
	for n := range 2 * connections {
		if a, err := search(shows, r.tls); err != nil {
			if status.Code(err) != grpccodes.Unavailable || n < connections-10 {
				t.Errorf("connection %d: %+v %v", n, a, err)
			}
			return
		}
	}
	t.Errorf("%d connections of one address are open; want at most %d", 2*connections, connections)
}
