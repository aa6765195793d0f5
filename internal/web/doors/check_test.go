package doors_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestEnvoyAsksAboutARequest: what the gateway would allow, Envoy may forward, with the
// signed context and without headers that only a proxy may set.
func TestEnvoyAsksAboutARequest(t *testing.T) {
	w := newTown(t, "scoped")
	c := w.signs(t, post("notes", skill("read_note", 1)))
	c.header.Set("X-Forwarded-User", "admin")
	c.header.Set("Powerbox-Context", "forged")
	a := w.check(t, c.checkRequest())
	ok := a.GetOkResponse()
	if a.GetStatus().GetCode() != int32(codes.OK) || ok == nil {
		t.Fatalf("denied: %v", a)
	}
	for _, name := range []string{"dpop", "x-forwarded-user", "x-forwarded-for", "x-request-id"} {
		if !slices.Contains(ok.GetHeadersToRemove(), name) {
			t.Errorf("%s reaches the agent; removed are %v", name, ok.GetHeadersToRemove())
		}
	}
	context := ""
	for _, h := range ok.GetHeaders() {
		if h.GetHeader().GetKey() == "powerbox-context" {
			context = h.GetHeader().GetValue()
			if h.GetAppendAction() != core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
				t.Error("the signed context goes beside that of the caller")
			}
		}
	}
	if strings.Count(context, ".") != 2 {
		t.Errorf("the context is %q", context)
	}
	id := a.GetDynamicMetadata().GetFields()["decision"].GetStringValue()
	if r := w.onRecord(t, id); r.Decision != "ALLOW" || r.Status != "PENDING" {
		t.Errorf("on record: %+v", r)
	}
	if got, _ := w.notes.took(); len(got) != 0 {
		t.Errorf("a door called the agent: %v", got)
	}
}

// TestADoorDeniesAsTheGatewayDoes: a denial has the gateway's status, headers and body.
func TestADoorDeniesAsTheGatewayDoes(t *testing.T) {
	w := newTown(t, "scoped")
	a := w.check(t, w.signs(t, post("notes", skill("delete_note", 1))).checkRequest())
	denied := a.GetDeniedResponse()
	if a.GetStatus().GetCode() != int32(codes.PermissionDenied) || denied.GetStatus().GetCode() != http.StatusOK || reason(denied.GetBody()) != "outside_caller_scope" {
		t.Fatalf("%v", a)
	}
	for _, want := range []string{`"decision":"rec_`, `"doc":"https://`} {
		if !strings.Contains(denied.GetBody(), want) {
			t.Errorf("%s is not in %s", want, denied.GetBody())
		}
	}
	for _, h := range denied.GetHeaders() {
		if h.GetHeader().GetKey() == "powerbox-decision" {
			if r := w.onRecord(t, h.GetHeader().GetValue()); r.Decision != "DENY" || r.Details.Requester != "assistant" && r.Details.Gate.Origin != "assistant" {
				t.Errorf("on record: %+v", r)
			}
			return
		}
	}
	t.Error("the denial names no record")
}

// TestWhatADoorCannotDecideIsDenied: bodies that the proxy withholds, requests without a
// route, and calls that would need more than the proxy can do.
func TestWhatADoorCannotDecideIsDenied(t *testing.T) {
	w := newTown(t, "scoped")
	read := skill("read_note", 1)
	unknown := strings.Replace(read, `"messageId"`, `"vendor":1,"messageId"`, 1)
	type change = func(*auth.AttributeContext_HttpRequest)
	for name, c := range map[string]struct {
		call   call
		change change
		code   string
		says   string
	}{
		"no body": {post("notes", read), func(h *auth.AttributeContext_HttpRequest) {
			h.RawBody = nil
			delete(h.Headers, "x-envoy-auth-partial-body")
		}, "body_not_sent", "with_request_body"},
		"no body and no length":      {post("notes", ""), nil, "body_not_sent", "with_request_body"},
		"a body cut short":           {post("notes", read), func(h *auth.AttributeContext_HttpRequest) { h.Headers["x-envoy-auth-partial-body"] = "true" }, "body_cut_short", "max_request_bytes"},
		"a body of another length":   {post("notes", read), func(h *auth.AttributeContext_HttpRequest) { h.RawBody = h.RawBody[:40] }, "body_cut_short", "Content-Length"},
		"two bodies":                 {post("notes", read), func(h *auth.AttributeContext_HttpRequest) { h.Body = skill("delete_note", 1) }, "body_cut_short", ""},
		"no route for the path":      {post("mail", read), nil, "route_unknown", "doors.routes"},
		"a longer name":              {post("notesx", read), nil, "route_unknown", ""},
		"a path with dot segments":   {post("notes", read), func(h *auth.AttributeContext_HttpRequest) { h.Path = "/agents/tools/../notes" }, "path", ""},
		"an encoded slash":           {post("notes", read), func(h *auth.AttributeContext_HttpRequest) { h.Path = "/agents/notes/a%2fb" }, "path", ""},
		"an unknown member":          {post("notes", unknown), nil, "not_as_decided", "vendor"},
		"a member that is null":      {post("notes", strings.Replace(read, `"messageId"`, `"taskId":null,"messageId"`, 1)), nil, "not_as_decided", ""},
		"a query that is left out":   {post("notes", read), func(h *auth.AttributeContext_HttpRequest) { h.Path += "?tenant=other" }, "not_as_decided", "query"},
		"a list of tasks":            {post("notes", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`), nil, "answer_not_seen", "ext_proc"},
		"the extended card":          {post("notes", `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard","params":{}}`), nil, "answer_not_seen", ""},
		"a task of another":          {post("notes", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"task-9"}}`), nil, "", "task not found"},
		"a name twice":               {post("notes", strings.Replace(read, `"messageId":"m1"`, `"messageId":"m1","messageId":"m2"`, 1)), nil, "syntax", ""},
		"a batch":                    {post("notes", "["+read+"]"), nil, "batch_not_accepted", ""},
		"a skill as a method":        {post("notes", `{"jsonrpc":"2.0","id":1,"method":"a2a/skill/invoke","params":{"skill":"read_note","arguments":{}}}`), nil, "not_as_decided", "replace a body"},
		"a method that tools forbid": {post("tools", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}`), nil, "method_unmapped", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []change
			if c.change != nil {
				changes = append(changes, c.change)
			}
			a := w.check(t, w.signs(t, c.call).checkRequest(changes...))
			body := a.GetDeniedResponse().GetBody()
			if a.GetStatus().GetCode() == int32(codes.OK) || reason(body) != c.code || !strings.Contains(body, c.says) {
				t.Errorf("%v\nwant %s", a, c.code)
			}
		})
	}
}

// TestOnlyTheProxyMayAsk: a door beyond loopback answers the proxy that shows its token,
// once.
func TestOnlyTheProxyMayAsk(t *testing.T) {
	w := newTown(t, "observe")
	client := auth.NewAuthorizationClient(dial(t, w.far))
	for name, c := range map[string]struct {
		shown []string
		code  codes.Code
	}{
		"no token":      {nil, codes.Unauthenticated},
		"another token": {[]string{"x" + doorToken[1:]}, codes.Unauthenticated},
		"two tokens":    {[]string{doorToken, doorToken}, codes.Unauthenticated},
		"its token":     {[]string{doorToken}, codes.OK},
	} {
		ctx := t.Context()
		for _, shown := range c.shown {
			ctx = metadata.AppendToOutgoingContext(ctx, "powerbox-door", shown)
		}
		if _, err := client.Check(ctx, post("notes", skill("read_note", 1)).checkRequest()); status.Code(err) != c.code {
			t.Errorf("%s: %v; want %v", name, err, c.code)
		}
	}
}

// TestAClientCertificateThatTheProxyReportsIsAnIdentity: only at a door whose
// configuration says that the proxy verifies certificates.
func TestAClientCertificateThatTheProxyReportsIsAnIdentity(t *testing.T) {
	w := newTown(t, "scoped")
	sent := certificateOf(t, "spiffe://example.org/robot")
	for _, c := range []struct {
		door, reason string
	}{{w.far, ""}, {w.edge, "outside_caller_scope"}} {
		r := post("notes", skill("delete_note", 1)).checkRequest()
		r.Attributes.Source = &auth.AttributeContext_Peer{Certificate: sent}
		a, err := auth.NewAuthorizationClient(dial(t, c.door)).Check(metadata.AppendToOutgoingContext(t.Context(), "powerbox-door", doorToken), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := reason(a.GetDeniedResponse().GetBody()); got != c.reason {
			t.Errorf("reason %q; want %q\n%v", got, c.reason, a)
		}
	}
	r := post("notes", skill("delete_note", 1)).checkRequest()
	r.Attributes.Source = &auth.AttributeContext_Peer{Certificate: "none"}
	a, err := auth.NewAuthorizationClient(dial(t, w.far)).Check(metadata.AppendToOutgoingContext(t.Context(), "powerbox-door", doorToken), r)
	if err != nil || reason(a.GetDeniedResponse().GetBody()) != "unauthenticated" {
		t.Errorf("a certificate that cannot be read: %v %v", a, err)
	}
}

// certificateOf makes a certificate as Envoy reports it.
func certificateOf(t *testing.T, id string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), URIs: []*url.URL{u}}, &x509.Certificate{SerialNumber: big.NewInt(1)}, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return url.PathEscape(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

// TestAnApprovalAtADoorIsForTheSameCallOnce: the caller gets the page and keeps the call.
// The gateway makes no call of its own.
func TestAnApprovalAtADoorIsForTheSameCallOnce(t *testing.T) {
	w := newTown(t, "scoped")
	c := post("notes", skill("archive_note", 1))
	ask := func(c call) (allowed bool, body string) {
		a := w.check(t, w.signs(t, c).checkRequest())
		return a.GetStatus().GetCode() == int32(codes.OK), a.GetDeniedResponse().GetBody()
	}
	_, body := ask(c)
	_, page, found := strings.Cut(body, `"approvalUrl":"`)
	page, _, _ = strings.Cut(page, `"`)
	if reason(body) != "approval_required" || !found {
		t.Fatalf("%s", body)
	}
	if allowed, body := ask(c); allowed || reason(body) != "approval_required" {
		t.Errorf("before the approval: %s", body)
	}
	w.approve(t, page)
	if allowed, body := ask(post("notes", skill("archive_note", 2))); allowed {
		t.Errorf("another call is allowed by the approval: %s", body)
	}
	if allowed, body := ask(c); !allowed {
		t.Errorf("after the approval: %s", body)
	}
	if allowed, _ := ask(c); allowed {
		t.Error("the approval is used twice")
	}
	if got, _ := w.notes.took(); len(got) != 0 {
		t.Errorf("the gateway called the agent: %v", got)
	}
}

// TestObserveForwardsWhatCame: in mode observe all bytes pass, except those that the gateway
// would replace with a message of its own.
func TestObserveForwardsWhatCame(t *testing.T) {
	w := newTown(t, "observe")
	odd := strings.Replace(skill("delete_note", 1), `"messageId"`, `"vendor":1,"messageId"`, 1)
	if a := w.check(t, post("notes", odd).checkRequest()); a.GetStatus().GetCode() != int32(codes.OK) {
		t.Errorf("%v", a)
	}
	invoke := `{"jsonrpc":"2.0","id":1,"method":"a2a/skill/invoke","params":{"skill":"read_note","arguments":{}}}`
	if a := w.check(t, post("notes", invoke).checkRequest()); a.GetStatus().GetCode() == int32(codes.OK) {
		t.Error("a method that the agent does not know may go on as it came")
	}
}
