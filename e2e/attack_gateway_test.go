package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestATK16_OtherNamesOfThisMachine asks for the local address under the name
// that a page in a browser would have, and from such a page.
func TestATK16_OtherNamesOfThisMachine(t *testing.T) {
	w := start(t, options{mode: "prefer", on: wire{overGRPC, "1.0"}})
	host := strings.TrimPrefix(w.url, "http://")
	_, port, _ := net.SplitHostPort(host)
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{host, "", http.StatusOK},
		{"localhost:" + port, "", http.StatusOK},
		{host, w.url, http.StatusOK},
		{"attacker.example", "", http.StatusMisdirectedRequest},
		{"attacker.example:" + port, "", http.StatusMisdirectedRequest},
		{"127.0.0.1.attacker.example:" + port, "", http.StatusMisdirectedRequest},
		{"", "", http.StatusMisdirectedRequest},
		{host, "https://attacker.example", http.StatusMisdirectedRequest},
		{host, "null", http.StatusMisdirectedRequest},
		{host, "http://attacker.example:" + port, http.StatusMisdirectedRequest},
	} {
		for _, target := range []string{w.agentURL("documents"), w.agentURL("documents") + "/message:send", "http://" + w.grpc["documents"] + "/x"} {
			req, err := http.NewRequest(http.MethodPost, target, strings.NewReader(string(data("search_documents", nil))))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			if c.host == "" {
				req.Host = "x"
			}
			if c.want == http.StatusOK && strings.Contains(target, w.grpc["documents"]) {
				continue
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("A2A-Version", "1.0")
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if refused := res.StatusCode == http.StatusMisdirectedRequest; refused != (c.want == http.StatusMisdirectedRequest) {
				t.Errorf("ATK-16 Host %q, Origin %q at %s: %d; want %d", c.host, c.origin, target, res.StatusCode, c.want)
			}
		}
	}
}

// TestATK20_AProofIsUsedOnce sends one proof twice, in every binding, and that
// of one binding in another.
func TestATK20_AProofIsUsedOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		held := alice.reports()
		body := data("search_documents", map[string]any{})
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		allowed(t, w.post(w.agentURL("documents"), body, h.Clone()))
		w.documents.forget()
		w.repel(t, attack{"ATK-20 the same again", "proof_replayed", func() answer { return w.post(w.agentURL("documents"), body, h.Clone()) }})
		if on != (wire{}) {
			other := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			w.repel(t, attack{"ATK-20 in another binding", "proof_request", func() answer {
				w.on = wire{}
				defer func() { w.on = on }()
				return w.post(w.agentURL("documents"), body, other)
			}})
		}
		// Twenty at once: one gets through.
		var through, refused int
		var mu sync.Mutex
		var all sync.WaitGroup
		h = alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		for range 20 {
			all.Go(func() {
				a := w.post(w.agentURL("documents"), body, h.Clone())
				mu.Lock()
				defer mu.Unlock()
				if a.Error == nil {
					through++
				} else if a.reason() == "proof_replayed" {
					refused++
				}
			})
		}
		all.Wait()
		if through != 1 || refused != 19 || len(w.documents.got()) != 1 {
			t.Errorf("ATK-20 of 20 at once %d got through and %d were refused as replays", through, refused)
		}
	})
}

// TestATK23_RevokedIsRevoked revokes while calls are made: none that begins
// after the revocation was answered is let through, whatever was verified before.
func TestATK23_RevokedIsRevoked(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		held := alice.reports()
		call := func() answer {
			body := data("search_documents", map[string]any{})
			return alice.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		}
		allowed(t, call()) // its signatures are remembered from here on
		stop := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						call()
					}
				}
			})
		}
		w.operator(http.MethodPost, "/v1/revocations", map[string]string{"target": held.ID})
		for range 20 {
			if a := call(); a.reason() != "revoked" {
				t.Errorf("ATK-23 after the revocation was answered: %s", a.Raw)
			}
		}
		close(stop)
		all.Wait()
	})
}

// TestATK30_BodiesThatAreNotRead sends bodies that are too long, and such that
// must be unpacked first.
func TestATK30_BodiesThatAreNotRead(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(data("delete_document", nil))
	_ = z.Close()
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, mode: "prefer"})
		r, _ := w.encode(w.agentURL("documents"), data("search_documents", map[string]any{"query": "x"}))
		kind, client := "application/json", http.DefaultClient
		if on.binding == overGRPC {
			kind, client = "application/grpc", h2
		}
		for name, c := range map[string]struct {
			body   string
			header map[string]string
			want   int
		}{
			"5 MiB":             {strings.Repeat(" ", 5<<20), nil, http.StatusRequestEntityTooLarge},
			"gzip":              {zipped.String(), map[string]string{"Content-Encoding": "gzip"}, http.StatusUnsupportedMediaType},
			"an unknown one":    {string(r.body), map[string]string{"Content-Encoding": "x"}, http.StatusUnsupportedMediaType},
			"several of them":   {string(r.body), map[string]string{"Content-Encoding": "identity, gzip"}, http.StatusUnsupportedMediaType},
			"one of two fields": {zipped.String(), map[string]string{"Content-Encoding": "identity\ngzip"}, http.StatusUnsupportedMediaType},
			"deflate in gRPC":   {"\x01" + string(frame(r.body)[1:]), map[string]string{"Grpc-Encoding": "deflate"}, http.StatusBadRequest},
			"twice as declared": {string(frame(append(append([]byte{}, r.body...), r.body...))[:5+len(r.body)]), nil, http.StatusBadRequest},
		} {
			if (name == "deflate in gRPC" || name == "twice as declared") && on.binding != overGRPC {
				continue
			}
			h := http.Header{"Content-Type": {kind}, "Te": {"trailers"}, "A2a-Version": {on.version}}
			for k, v := range c.header {
				h[k] = strings.Split(v, "\n")
			}
			status, header, _, out := w.raw(client, http.MethodPost, r.dial, h, c.body)
			client.CloseIdleConnections() // after a body that is too long the server ends the connection
			good := status == c.want
			if on.binding == overGRPC {
				good = status == http.StatusOK && header.Get("Grpc-Status") == "3"
			}
			if !good || len(w.documents.got()) > 0 {
				t.Errorf("ATK-30 %s: %d %v %s; %d calls reached the agent", name, status, header, out, len(w.documents.got()))
				w.documents.forget()
			}
		}
	})
}

// TestATK31_Smuggling sends requests whose end readers see in different places:
// none of them brings a second request to the agent behind.
func TestATK31_Smuggling(t *testing.T) {
	w := start(t, options{mode: "prefer"})
	w.documents.sees(hinting)
	harmless := string(data("search_documents", map[string]any{"query": "x"}))
	hidden := "POST /agents/documents/message:send HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	host := strings.TrimPrefix(w.url, "http://")
	chunk := func(s, end string) string { return fmt.Sprintf("%x%s%s\r\n", len(s), end, s) }
	for name, c := range map[string]struct{ headers, body string }{
		"length and chunks":                {fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked", len(harmless)), chunk(harmless, "\r\n") + "0\r\n\r\n" + hidden},
		"chunks and length":                {fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d", len(harmless)), chunk(harmless, "\r\n") + "0\r\n\r\n" + hidden},
		"two lengths":                      {fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d", len(harmless), len(harmless)+len(hidden)), harmless + hidden},
		"a list of lengths":                {fmt.Sprintf("Content-Length: %d, %d", len(harmless), len(harmless)+1), harmless + hidden},
		"a signed length":                  {fmt.Sprintf("Content-Length: +%d", len(harmless)), harmless + hidden},
		"chunks by another name":           {"Transfer-Encoding: xchunked", chunk(harmless, "\r\n") + "0\r\n\r\n" + hidden},
		"chunks twice":                     {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", chunk(harmless, "\r\n") + "0\r\n\r\n" + hidden},
		"chunks with a space":              {"Transfer-Encoding : chunked", chunk(harmless, "\r\n") + "0\r\n\r\n" + hidden},
		"a bare line feed":                 {"Transfer-Encoding: chunked", chunk(harmless, "\n") + "0\r\n\r\n" + hidden},
		"a bare line feed in an extension": {"Transfer-Encoding: chunked", chunk(harmless, ";a\n"+hidden+"\r\n") + "0\r\n\r\n"},
		"a folded header":                  {"X: y\r\n Transfer-Encoding: chunked", chunk(harmless, "\r\n") + "0\r\n\r\n" + hidden},
		"a null in a header":               {fmt.Sprintf("X: \x00\r\nContent-Length: %d", len(harmless)), harmless + hidden},
		"chunks in HTTP/1.0":               {fmt.Sprintf("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: %d", len(harmless)), harmless + hidden},
		"an expectation":                   {"Expect: 100-continue\r\nTransfer-Encoding: chunked", chunk(harmless, "\r\n") + "0\r\n\r\n" + hidden},
		"a chunk of another size":          {"Transfer-Encoding: chunked", endless + "\r\n" + harmless + "\r\n0\r\n\r\n" + hidden},
	} {
		t.Run("ATK-31 "+name, func(t *testing.T) {
			w.documents.forget()
			text := "POST /agents/documents HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n" + c.headers + "\r\n\r\n" + c.body
			if strings.HasSuffix(name, "HTTP/1.0") {
				text = strings.Replace(text, "HTTP/1.1", "HTTP/1.0", 1)
			}
			out, closed := smuggle(t, host, strings.ReplaceAll(text, "HOST", host))
			if !closed && name != "a folded header" { // it is a value: no body, and then no request
				t.Errorf("the connection stays open\n%s", out)
			}
			got := w.documents.got()
			for _, r := range got {
				if !sameJSON(t, r.body, []byte(harmless)) || !strings.Contains(out, "Powerbox-Decision:[rec_") {
					t.Errorf("the agent got %q %v, and the answer is %s", r.body, r.header, out)
				}
			}
			if len(got) > 1 {
				t.Errorf("%d requests reached the agent\n%s", len(got), out)
			}
		})
	}
}

// endless is the size of a chunk that does not come to its end.
const endless = "ffffffffffffffff"

// smuggle sends a request with another one in or behind its body, and says what
// the answer was and whether the connection ended with it. Where it did not, the
// next answer must be that to a request which is sent after the first answer.
// A chunk that is longer than all that comes has no answer before the end.
func smuggle(t *testing.T, host, text string) (string, bool) {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, endless) {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	for err == nil && res.StatusCode == http.StatusContinue && len(res.Header) == 0 {
		res, err = http.ReadResponse(in, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Close {
		// Both fail where the server ended the connection over what it was sent.
		_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		if next, err := http.ReadResponse(in, nil); err == nil && !next.Close {
			t.Errorf("ATK-31 what was hidden was answered: HTTP %d %v", next.StatusCode, next.Header)
		} else if err == nil {
			_, _ = io.Copy(io.Discard, next.Body)
		}
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Errorf("ATK-31 one more answer: %s", rest)
	}
	return fmt.Sprintf("HTTP %d %v %s", res.StatusCode, res.Header, body), res.Close
}

// TestATK32_IdentityHeaders says who it is in headers that others believe: here
// they decide nothing, and those that are ours do not reach the agent behind.
func TestATK32_IdentityHeaders(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, mode: "scoped", extra: "scopes:\n  reader: {documents: [documents:read/search]}", callersOf: func(w *town) string {
			return "  callers:\n    - {agent: reader, key: " + w.reader.key.Public().Thumbprint() + "}"
		}})
		stranger := w.caller(aliceToken)
		body := data("search_documents", map[string]any{})
		forged := http.Header{
			"X-Agent-Id": {"reader"}, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-User": {"alice"}, "X-Remote-User": {"alice"},
			"X-Forwarded-Client-Cert": {"URI=spiffe://x/reader"}, "X-Spiffe-Id": {"spiffe://x/reader"}, "X-Real-Ip": {"127.0.0.1"},
			"Powerbox-Context": {"forged"}, "Powerbox-Agent": {"reader"}, "Powerbox-Decision": {"rec_forged"}, "Forwarded": {"for=127.0.0.1"},
			"Powerbox_context": {"forged"}, "X-Forwarded-Host": {"other"}, "X-Forwarded-Anything": {"x"}, "X_Forwarded_For": {"127.0.0.1"}, "X-Client-Ip": {"127.0.0.1"}, "True-Client-Ip": {"127.0.0.1"},
			"Remote-User": {"alice"}, "X-Remote-Group": {"admins"}, "X-Auth-Request-Email": {"alice"}, "X-Ssl-Client-S-Dn": {"CN=reader"}, "Client-Cert": {":AA==:"}, "X_agent-id": {"reader"},
			"X-Http-Method-Override": {"DELETE"}, "X-Http-Method": {"DELETE"}, "X-Method-Override": {"DELETE"}, "X-Original-Url": {"/admin"}, "X-Rewrite-Url": {"/admin"},
			"Content_Encoding": {"gzip"}, "A2a_version": {"9"}, "Mcp_Session_Id": {"another"},
		}
		lies := forged.Clone()
		for name, v := range stranger.headers(w.agentURL("documents")) {
			forged[name] = v
		}
		w.repel(t, attack{"ATK-32 as another agent", "outside_caller_scope", func() answer { return w.post(w.agentURL("documents"), body, forged) }})
		a := w.reader.send("documents", body)
		allowed(t, a)
		got := w.documents.got()
		if len(got) != 1 || got[0].header.Get("Powerbox-Context") == "" || got[0].header.Get("Powerbox-Context") == "forged" {
			t.Fatalf("ATK-32 %v", got)
		}
		h := forged.Clone()
		h.Del("Authorization")
		for name, v := range w.reader.headers(w.agentURL("documents")) {
			h[name] = v
		}
		h["X-Forwarders"], h["X_own"] = []string{"not named"}, []string{"not named"}
		w.documents.forget()
		allowed(t, w.post(w.agentURL("documents"), body, h))
		for name := range lies {
			if values, ok := w.documents.got()[0].header[name]; ok && name != "Powerbox-Context" {
				t.Errorf("ATK-32 the agent got %s: %s", name, values)
			}
		}
		for _, name := range []string{"X-Forwarders", "X_own"} {
			if w.documents.got()[0].header[name] != nil {
				t.Errorf("ATK-32 the agent got %s, which no operator named", name)
			}
		}
		for name, values := range w.documents.got()[0].header {
			if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "powerbox-") && (name != "Powerbox-Context" || values[0] == "forged") {
				t.Errorf("ATK-32 the agent got %s: %v", name, values)
			}
		}
	})
}

// TestATK33_EventsOfOurs has names with line ends in them said back in a stream:
// they stay inside the one event, or the one status, that a denial is.
func TestATK33_EventsOfOurs(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		held := alice.reports()
		for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\u2028", "\u0085"} {
			injected := "x" + end + `data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"injected"}}}` + end + "event: x" + end
			body := bytes.Replace(data(injected, map[string]any{}), []byte(`"SendMessage"`), []byte(`"SendStreamingMessage"`), 1)
			r, _ := w.encode(w.agentURL("documents"), body)
			h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			if on == (wire{}) {
				h.Set("A2A-Version", "1.0")
			}
			res := w.send(r, h)
			raw, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.FieldsFunc(string(raw), func(r rune) bool { return r == '\n' || r == '\r' })
			if len(lines) > 1 || strings.Contains(res.Header.Get("Grpc-Message"), end) {
				t.Errorf("ATK-33 %q: %q %v", end, raw, res.Header)
			}
			if on.binding == overGRPC && res.Header.Get("Grpc-Status") != "7" || on.binding != overGRPC && !strings.Contains(string(raw), "skill_unmapped") {
				t.Errorf("ATK-33 %q: %q %v", end, raw, res.Header)
			}
		}
	})
}

// TestATK33_EventsOfTheAgent has an agent whose events end lines in every way
// that the standard knows: the task that any of them names is bound to the
// caller, so that other callers cannot reach it.
func TestATK33_EventsOfTheAgent(t *testing.T) {
	for name, end := range map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n"} {
		t.Run("ATK-33 "+name, func(t *testing.T) {
			agent := newRawAgent(t)
			task := "task-" + name
			agent.call = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, ": a comment"+end+"id: 7"+end+`data: {"jsonrpc":"2.0","id":1,"result":{"task":`+end+`data: {"id":"`+task+`","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}`+end+end)
			}
			w := start(t, options{mode: "prefer"})
			w.again(func() { w.rewrite("powerbox.yaml", w.documents.url, agent.url) })
			alice, bob := w.settled(aliceToken), w.settled(bobToken)
			allowed(t, alice.send("documents", streaming()))
			if a := bob.send("documents", rpc("GetTask", map[string]any{"id": task})); a.Error == nil || a.Error.Code != -32001 {
				t.Errorf("another user gets the task: %s", a.Raw)
			}
			agent.says("application/json", `{"jsonrpc":"2.0","id":1,"result":{"id":"`+task+`","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`)
			allowed(t, alice.send("documents", rpc("GetTask", map[string]any{"id": task})))
		})
	}
}
