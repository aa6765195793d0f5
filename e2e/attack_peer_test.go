package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// words is a message of gRPC with one text.
func words(text string) *v1.SendMessageRequest {
	return &v1.SendMessageRequest{Message: &v1.Message{
		MessageId: "m-" + text[:1], Role: v1.Role_ROLE_USER, Parts: []*v1.Part{{Content: &v1.Part_Text{Text: text}}},
	}}
}

// says sends words to an address of gRPC.
func says(ctx context.Context, at, text string) error {
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = v1.NewA2AServiceClient(conn).SendMessage(metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0"), words(text))
	return err
}

// claiming serves the card of a peer that claims to be another agent.
func claiming(t *testing.T, card map[string]any) string {
	return httpServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(card)
	})
}

func claims(name, issuer string, interfaces ...map[string]any) map[string]any {
	return map[string]any{
		"name": name, "description": name, "version": "1", "defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
		"skills": []any{}, "supportedInterfaces": interfaces,
		"capabilities": map[string]any{"extensions": []any{map[string]any{"uri": extension, "params": map[string]any{"issuer": issuer}}}},
	}
}

// TestATK156_ACardSpeaksForItsOwnURL has a peer of attach whose card names another agent as the
// issuer. The proof of a call of gRPC names the issuer and the method, and no address. So the peer
// would present the session and proof of a call to it at the other agent, with its own words.
func TestATK156_ACardSpeaksForItsOwnURL(t *testing.T) {
	w := start(t, options{on: wire{overGRPC, "1.0"}, mode: "prefer"})
	var replayed atomic.Int32
	peer := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		for _, name := range []string{"Authorization", "DPoP"} {
			ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(name), r.Header.Get(name))
		}
		if err := says(ctx, w.grpc["documents"], "the peer's own words"); err != nil {
			t.Logf("the peer's call: %v", err)
		} else {
			replayed.Add(1)
		}
		out.Header().Set("Content-Type", "application/grpc")
		out.Header().Set("Grpc-Status", "13")
	})}
	peer.Protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = peer.Serve(l) }()
	t.Cleanup(func() { _ = peer.Close() })
	issuer := w.agentURL("documents")
	card := claiming(t, claims("peer", issuer, map[string]any{"url": l.Addr().String(), "protocolBinding": "GRPC", "protocolVersion": "1.0"}))
	at := address(t)
	a := w.attach("attach", newKey(t), "agents:\n  - {name: peer, card: \""+card+"\", grpc: \""+at+"\"}\n", "--session-file", w.sessionFile())
	err = says(t.Context(), at, "hello, peer")
	if replayed.Load() > 0 || len(w.documents.got()) > 0 {
		t.Errorf("ATK-156 the peer made %d calls as alice: %s", replayed.Load(), w.documents.got()[0].body)
	}
	if err == nil || !strings.Contains(err.Error(), "speaks for") {
		t.Errorf("ATK-156 the client's call: %v\n%s", err, a.out)
	}
}

// TestATK156_ACardLeadsToNoOtherAgent is the same over JSON-RPC: the peer's card leads to another
// agent, for which attach would sign the call as the client's own.
func TestATK156_ACardLeadsToNoOtherAgent(t *testing.T) {
	w := start(t, options{})
	for name, issuer := range map[string]string{"its issuer": w.agentURL("documents"), "an issuer above both": w.url} {
		card := claiming(t, claims("peer", issuer, map[string]any{"url": w.agentURL("documents"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}))
		config := documentsThrough(w) + "  - {name: peer, card: \"" + card + "\"}\n"
		a := w.attach("attach", newKey(t), config, "--session-file", w.sessionFile())
		w.documents.forget()
		allowed(t, a.post(a.agentURL("documents"), data("search_documents", map[string]any{}), http.Header{}))
		got := a.post(a.agentURL("peer"), text("SendMessage", "hello, peer"), http.Header{})
		if n := len(w.documents.got()); n != 1 || got.reason() != "attach" || !strings.Contains(got.Error.Message, "speaks for") {
			t.Errorf("ATK-156 %s: the other agent got %d calls; %s", name, n, got.Raw)
		}
	}
}

// TestATK156_NoInterfaceLeadsToAnotherAgent has a card that speaks for its own URL, one of whose
// interfaces is another agent's.
func TestATK156_NoInterfaceLeadsToAnotherAgent(t *testing.T) {
	w := start(t, options{mode: "observe"})
	card := map[string]any{}
	peer := claiming(t, card)
	maps.Copy(card, claims("peer", peer, map[string]any{"url": peer, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
		map[string]any{"url": w.agentURL("documents"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}))
	a := w.attach("attach", newKey(t), "agents:\n  - {name: peer, card: \""+peer+"\"}\n", "--session-file", w.sessionFile())
	body := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello, peer"}]}}`
	status, said := plain(t, http.MethodPost, a.agentURL("peer")+"/message:send", []byte(body), nil)
	if n := len(w.documents.got()); n > 0 || !strings.Contains(said, "is not a URL of") {
		t.Errorf("ATK-156 the other agent got %d calls: %d %s", n, status, said)
	}
}

// TestATK156_AURLThatTwoCardsClaim has a peer claim the URL of another one, whose card is at another
// address than its calls. A client that uses attach as its proxy would send its calls to the first.
func TestATK156_AURLThatTwoCardsClaim(t *testing.T) {
	w := start(t, options{})
	rpc := func(url, version string) map[string]any {
		return map[string]any{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}
	}
	card := func(interfaces ...map[string]any) string {
		c := claims("any", "", interfaces...)
		delete(c, "capabilities")
		return claiming(t, c)
	}
	good, evil := newStock(t, "good"), newStock(t, "evil")
	a := w.attach("attach", newKey(t), "agents:\n  - {name: good, card: \""+card(rpc(good.url+"/invoke", "1.0"), rpc(good.url+"/invoke", "0.3"))+"\"}\n"+
		"  - {name: a-peer, card: \""+card(rpc(good.url+"/invoke", "1.0"), rpc(evil.url+"/invoke", "0.3"))+"\"}\n")
	proxy, err := url.Parse(a.where.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, good.url+"/invoke", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"for the good one"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	status, said := do(t, &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}, r)
	if n := len(evil.got()); n > 0 || status != http.StatusForbidden {
		t.Errorf("ATK-156 another agent got %d calls: %d %s", n, status, said)
	}
}

// TestATK158_CookiesOfAnAgentGoToItAlone has an agent set cookies. To a client of attach, all
// agents are at one host.
func TestATK158_CookiesOfAnAgentGoToItAlone(t *testing.T) {
	w := start(t, options{})
	var got sync.Map // the Cookie header, by agent
	config := "agents:\n"
	for _, name := range []string{"good", "evil"} {
		card := map[string]any{}
		at := httpServer(t, func(out http.ResponseWriter, r *http.Request) {
			out.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet {
				_ = json.NewEncoder(out).Encode(card)
				return
			}
			got.Store(name, r.Header.Get("Cookie"))
			for _, more := range []string{"", "; Path=/", "; Path=/agents/evil", "; Domain=127.0.0.1; Path=/"} {
				out.Header().Add("Set-Cookie", name+strconv.Itoa(len(more))+"=secret; HttpOnly"+more)
			}
			_, _ = io.WriteString(out, `{"jsonrpc":"2.0","id":1,"result":`+readEvent+`}`)
		})
		maps.Copy(card, claims(name, "", map[string]any{"url": at, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}))
		delete(card, "capabilities")
		config += "  - {name: " + name + ", card: \"" + at + "\"}\n"
	}
	a := w.attach("attach", newKey(t), config)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"good", "evil", "good"} {
		r, err := http.NewRequest(http.MethodPost, a.agentURL(name), bytes.NewReader(text("SendMessage", "hello")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		if status, said := do(t, &http.Client{Jar: jar}, r); status != http.StatusOK || !strings.Contains(said, "READ") {
			t.Fatalf("%s: %d %s", name, status, said)
		}
	}
	for name, other := range map[string]string{"good": "evil", "evil": "good"} {
		if sent, _ := got.Load(name); strings.Contains(sent.(string), other) {
			t.Errorf("ATK-158 %s got the cookies %s", name, sent)
		}
	}
	if sent, _ := got.Load("good"); strings.Count(sent.(string), "=secret") != 4 {
		t.Errorf("ATK-158 an agent does not get its own cookies: %s", sent)
	}
}
