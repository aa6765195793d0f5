package e2e

import (
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// straight sends requests to one address, under whatever name they are for.
type straight struct{ address string }

func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host, r.URL.Host = r.URL.Host, s.address
	return http.DefaultTransport.RoundTrip(r)
}

// through has the town's requests go to one address, "" for the one that their URL names.
func (w *town) through(address string) *town {
	at := *w
	if address != "" {
		at.client = &http.Client{Transport: straight{address}}
	}
	return &at
}

// TestATK128_ACallersProofIsUsedOnceForWhatever uses the proof that comes with a session twice,
// for each pair of requests, at one remote gateway and at two. The gateway decides calls, and the
// server answers requests for capabilities.
func TestATK128_ACallersProofIsUsedOnceForWhatever(t *testing.T) {
	w, all := startRemote(t, 2, options{mode: "prefer"})
	alice, at := w.caller(aliceToken), w.agentURL("documents")
	ask := map[string]any{
		"grants": []string{"documents:read"}, "purpose": "Summarize quarterly reports",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	}
	requests := map[string][]byte{
		"a call that reads":          data("search_documents", map[string]any{"query": "x"}),
		"a call that may change":     text("SendMessage", "hello"),
		"a request for capabilities": rpc("a2a/capabilities/request", ask),
		"a list of capabilities":     rpc("a2a/capabilities/list", map[string]any{}),
	}
	for first, before := range requests {
		for second, after := range requests {
			for n := range all {
				h := alice.headers(at)
				allowed(t, w.through(all[0].address).post(at, before, h.Clone()))
				a := w.through(all[n].address).post(at, after, h.Clone())
				if reason := a.reason(); reason != "proof_replayed" && reason != "unauthenticated" {
					t.Errorf("ATK-128 the proof of %s, then for %s at gateway %d: %s", first, second, n, a.Raw)
				}
			}
		}
	}
	if a := w.through(all[1].address).post(at, requests["a list of capabilities"], alice.headers(at)); a.Error != nil {
		t.Errorf("ATK-128 a new proof: %s", a.Raw)
	}
}

// TestATK128_ServerAndGateway uses proofs at the server and at a remote gateway of an agent
// that no gateway_url leads to, so that both take calls under one URL.
func TestATK128_ServerAndGateway(t *testing.T) {
	w := start(t, options{mode: "prefer", issuer: "  feed: {heartbeat: 100ms}"})
	r := &replica{w: w, state: filepath.Join(t.TempDir(), "state"), address: "127.0.0.1:" + freePort(t)}
	r.enroll()
	r.boot()
	alice, at := w.caller(aliceToken), w.agentURL("documents")
	held := alice.reports()
	body := data("search_documents", map[string]any{})
	for _, way := range [][2]string{{"", r.address}, {r.address, ""}} {
		for kind, h := range map[string]http.Header{
			"capability": alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}),
			"session":    alice.headers(at),
		} {
			allowed(t, w.through(way[0]).post(at, body, h.Clone()))
			if a := w.through(way[1]).post(at, body, h.Clone()); a.reason() != "proof_replayed" {
				t.Errorf("ATK-128 the proof of a %s at %q, then at %q: %s", kind, way[0], way[1], a.Raw)
			}
		}
	}
}

// beside is a town whose agent "again" has powerbox attach in front of it.
type beside struct {
	*town
	in     string // address of the inbound side
	config string
	key    *token.PrivateKey
	attach *attached
	alice  *caller
	held   granted // of "again"
}

func startBeside(t *testing.T) *beside {
	b := &beside{in: address(t), key: newKey(t)}
	file := filepath.Join(t.TempDir(), "again.yaml")
	text := "agents:\n  - {id: again, upstream: \"http://" + b.in + "\", mode: require}\n" +
		"offers:\n  again: [{id: again:read, operations: [search]}]\n" +
		"skills:\n  again: [{skill: search_documents, grant: again:read, operation: search}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.town = start(t, options{extra: "include: [" + file + "]\n", policies: defaultPolicies + `
permit(principal == User::"user:alice", action in Action::"again/again:read", resource == Agent::"again");`})
	b.alice = b.caller(aliceToken)
	b.config = documentsThrough(b.town) + "    floor: [search_documents]\n" +
		"inbound: {listen: \"" + b.in + "\", forward: \"" + b.documents.url + "\", agent: \"" + b.agentURL("again") + "\"}\n"
	b.run()
	reachable(t, b.agentURL("again")+cardPath)
	return b
}

// run starts attach, again where it ran.
func (b *beside) run() {
	if b.attach != nil {
		_ = b.attach.end()
	}
	b.attach = b.town.attach("again", b.key, b.config, "--session-file", b.sessionFile())
}

// called makes a call through the gateway at a time, and returns what the agent got.
func (b *beside) called(t *testing.T, at time.Time) received {
	t.Helper()
	b.documents.forget()
	if b.held.Token == "" {
		b.held = b.alice.request("again", map[string]any{"grants": []string{"again:read"}, "purpose": "p"})[0]
	}
	body, args := data("search_documents", map[string]any{"query": "x"}), map[string]any{"query": "x"}
	allowed(t, b.alice.present("again", body, proven{chain: []string{b.held.Token}, operation: "again/again:read/search", arguments: args, at: at}))
	got := b.documents.got()
	if len(got) != 1 {
		t.Fatalf("the agent got %d calls\n%s", len(got), b.attach.out)
	}
	return got[0]
}

// again sends a call past the gateway, with the context that it came with.
func (b *beside) again(call received) answer {
	return b.post("http://"+b.in, call.body, http.Header{"Powerbox-Context": {call.header.Get("Powerbox-Context")}})
}

// TestATK129_AContextIsUsedOnce presents a signed context that attach has seen, at once and
// after attach was started again.
func TestATK129_AContextIsUsedOnce(t *testing.T) {
	b := startBeside(t)
	call := b.called(t, time.Time{})
	b.documents.forget()
	if a := b.again(call); a.reason() != "context" || !strings.Contains(a.Error.Message, "used before") {
		t.Errorf("ATK-129 a context for the second time: %s", a.Raw)
	}
	b.run()
	if a := b.again(call); a.reason() != "context" || !strings.Contains(a.Error.Message, "made before this process began") {
		t.Errorf("ATK-129 a context from before the start: %s", a.Raw)
	}
	if n := len(b.documents.got()); n > 0 {
		t.Errorf("ATK-129 %d of them reached the agent", n)
	}
	b.called(t, time.Time{}) // at once: the first second is waited for
}

// TestATK129_TheClockOfAttachJumps moves the clocks of server and attach ahead and back, with
// a call in between, at which ended contexts are forgotten.
func TestATK129_TheClockOfAttachJumps(t *testing.T) {
	b := startBeside(t)
	ahead := b.moves(nil)
	b.run()
	call := b.called(t, time.Time{})
	ahead("120s")
	b.called(t, time.Now().Add(2*time.Minute))
	ahead("0s")
	if a := b.again(call); a.reason() != "context" || !strings.Contains(a.Error.Message, "used before") {
		t.Errorf("ATK-129 a used context after the jump: %s", a.Raw)
	}
}

// TestATK130_HeadersOfOneConnection has a client of attach name headers in Connection. Some are
// those that attach puts on, and some those by which it reads the call. Attach and the proxy in
// front of the gateway take off what Connection names.
func TestATK130_HeadersOfOneConnection(t *testing.T) {
	w, _ := startRemote(t, 1, options{})
	attach := w.attach("attach", newKey(t), documentsThrough(w)+"    floor: [search_documents]\n"+
		"inbound: {listen: \""+address(t)+"\", forward: \""+w.mail.url+"\", agent: \""+w.agentURL("mail")+"\"}\n", "--session-file", w.sessionFile())
	body := data("search_documents", map[string]any{"query": "x"})
	for _, named := range []string{"close", "Powerbox-Purpose", "powerbox-capability, POWERBOX-PROOF", "close, A2A-Extensions, X", "Content-Length", "Accept"} {
		w.documents.forget()
		a := attach.post(attach.where.Proxy+"/agents/documents", body, http.Header{"Connection": {named}})
		allowed(t, a)
		d := w.decided(a)
		if d.Decision != "ALLOW" || d.Intent.Purpose != "uncorrelated" || d.Powerbox.Capability == "" || len(w.documents.got()) != 1 {
			t.Errorf("ATK-130 Connection: %s: %+v", named, d)
		}
	}
}

// otherwise writes the signature of a compact JWS of ES256 in the other way there is: of r
// and s, n-s verifies as well.
func otherwise(t *testing.T, compact string) string {
	t.Helper()
	i := strings.LastIndexByte(compact, '.') + 1
	signature, err := base64.RawURLEncoding.DecodeString(compact[i:])
	if err != nil || len(signature) != 64 {
		t.Fatalf("a signature of %d bytes: %v", len(signature), err)
	}
	s := new(big.Int).SetBytes(signature[32:])
	s.Sub(elliptic.P256().Params().N, s).FillBytes(signature[32:])
	return compact[:i] + base64.RawURLEncoding.EncodeToString(signature)
}

// TestATK131_ASignatureIsWrittenInTwoWays presents a context of ES256 to attach a second time,
// with its signature written otherwise. The gateway is one whose keys are held by a service
// without Ed25519.
func TestATK131_ASignatureIsWrittenInTwoWays(t *testing.T) {
	key, err := token.GenerateKey(token.ES256, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := strings.Replace(key.Public().JWK().String(), "{", `{"kid":"`+key.Public().Thumbprint()+`",`, 1)
	gateway := httpServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"keys":[`+jwk+`]}`) })
	w, in := start(t, options{}), address(t)
	a := w.attach("again", newKey(t), documentsThrough(w)+"inbound: {listen: \""+in+"\", forward: \""+w.documents.url+"\", agent: \""+gateway+"/agents/again\"}\n")
	for n := range 2 {
		body, now := data("search_documents", map[string]any{"query": fmt.Sprint(n)}), time.Now()
		compact, err := token.SignContext(key, token.Context{
			Issuer: gateway + "/agents/again", Audience: "again", IssuedAt: now, Expires: now.Add(time.Minute), Mode: "require", Basis: "capability",
			Digest: token.DigestOf(body), Decision: fmt.Sprintf("rec_%d", n),
		})
		if err != nil {
			t.Fatal(err)
		}
		ways := []string{compact, otherwise(t, compact)}
		if n == 1 {
			ways[0], ways[1] = ways[1], ways[0]
		}
		w.documents.forget()
		allowed(t, w.post("http://"+in, body, http.Header{"Powerbox-Context": {ways[0]}}))
		again := w.post("http://"+in, body, http.Header{"Powerbox-Context": {ways[1]}})
		if again.reason() != "context" || !strings.Contains(again.Error.Message, "used before") || len(w.documents.got()) != 1 {
			t.Errorf("ATK-131 the second way, %d: %s\n%s", n, again.Raw, a.out)
		}
	}
}
