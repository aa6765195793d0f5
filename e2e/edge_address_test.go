package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

// callerFrom is a client whose connections come from an address of this machine. What it
// sends carries a header. With hello, every connection begins with that.
func callerFrom(t *testing.T, address, hello string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, to)
		if err == nil && hello != "" {
			_, err = io.WriteString(c, hello)
		}
		return c, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// statusOf sends one request and returns the status of the answer. A refusal by a limit is
// 429 on every binding: JSON-RPC says it in the body.
func statusOf(t *testing.T, c *http.Client, method, to, body string, header ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(header); n += 2 {
		r.Header.Add(header[n], header[n+1])
	}
	response, err := c.Do(r)
	if errors.Is(err, syscall.ECONNRESET) { // the server answered what it did not understand, and closed
		return http.StatusBadRequest
	}
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // closed as above, after the head was read
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"rate_limited"`) {
		return http.StatusTooManyRequests
	}
	return response.StatusCode
}

// The addresses of this machine that are a proxy in front, and a client that is none.
const proxyAddress, otherAddress = "127.0.0.2", "127.0.0.1"

// lies are what a client can write into a request to look like another.
func lies(n int) []string {
	at := fmt.Sprintf("198.51.100.%d", n)
	return []string{"X-Forwarded-For", at, "Forwarded", "for=" + at, "X-Real-IP", at, "True-Client-IP", at, "CF-Connecting-IP", at, "X-Client-IP", at, "Via", "1.1 " + at}
}

// register is the header of a registration by a new host.
func (b *bank) registration() (token, body string) {
	return b.host(newOKP(b.t), fact{"agent_public_key": newOKP(b.t).jwk}), `{"name":"Helper","capabilities":["check_balance"]}`
}

// TestATK66_EveryEntranceCountsTheClientOfATrustedProxy sends requests through a trusted
// proxy and past it, at each entrance that has a limit by address.
func TestATK66_EveryEntranceCountsTheClientOfATrustedProxy(t *testing.T) {
	const rate = 3
	b := newBank(t, bankOptions{
		conf:         "      introspections: 1",
		capabilities: fmt.Sprintf("\nproxies: {trusted: [%s]}\ndefaults: {request_rate: %d}\n", proxyAddress, rate),
	})
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "unknown_hosts: 0", "unknown_hosts: 3", 1))
	})
	w, apart := startRemote(t, 1, options{extra: fmt.Sprintf("defaults: {request_rate: %d}\n", rate)}, "--trusted-proxy", proxyAddress)
	call := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}`
	for name, once := range map[string]func(c *http.Client, header ...string) int{
		"registrations of strangers": func(c *http.Client, header ...string) int {
			token, body := b.registration()
			return statusOf(t, c, http.MethodPost, b.url+"/agent/register", body, append(header, "Authorization", "Bearer "+token, "Content-Type", "application/json")...)
		},
		"introspections": func(c *http.Client, header ...string) int {
			return statusOf(t, c, http.MethodPost, b.url+"/agent/introspect", `{"token":"x"}`, append(header, "Content-Type", "application/json")...)
		},
		"calls to the gateway": func(c *http.Client, header ...string) int {
			return statusOf(t, c, http.MethodPost, b.url+"/agents/bank", call, append(header, "Content-Type", "application/json")...)
		},
		"calls to a remote gateway": func(c *http.Client, header ...string) int {
			return statusOf(t, c, http.MethodPost, "http://"+apart[0].address+"/agents/documents", call, append(header, "Content-Type", "application/json", "Host", w.url)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, direct := callerFrom(t, proxyAddress, ""), callerFrom(t, otherAddress, "")
			exhaust := func(what string, c *http.Client, header func(n int) []string) {
				t.Helper()
				for n := range 200 {
					if once(c, header(n)...) == http.StatusTooManyRequests {
						return
					}
				}
				t.Errorf("ATK-66 %s is never limited", what)
			}
			// What a client writes before the address that the proxy appends is the client's.
			exhaust("one client of the proxy", proxy, func(n int) []string {
				return []string{"X-Forwarded-For", fmt.Sprintf("192.0.2.%d, 203.0.113.1", n), "Forwarded", fmt.Sprintf("for=192.0.2.%d", n)}
			})
			if status := once(proxy, "X-Forwarded-For", "203.0.113.2"); status == http.StatusTooManyRequests {
				t.Error("ATK-66 another client of the proxy shares the limit")
			}
			exhaust("a client that says it is others", direct, lies)
		})
	}
}

// TestATK66_PagesShowTheClientOfATrustedProxy looks at an approval from the same address,
// from another one, and through a proxy that says nothing or that is not believed.
func TestATK66_PagesShowTheClientOfATrustedProxy(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: fmt.Sprintf("\nproxies: {trusted: [%s]}\n", proxyAddress)})
	page := func(address, path string, header ...string) string {
		t.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		v := &visitor{t, b.url, callerFrom(t, address, ""), http.Header{"Sec-Fetch-Site": {"same-origin"}}}
		v.http.Jar = jar
		for n := 0; n < len(header); n += 2 {
			v.header.Add(header[n], header[n+1])
		}
		if status, text := v.post("/login", url.Values{"user": {"alice"}}); status != http.StatusSeeOther {
			t.Fatalf("login: HTTP %d %s", status, text)
		}
		status, text := v.get(v.open(path))
		if status != http.StatusOK {
			t.Fatalf("HTTP %d %s", status, text)
		}
		return text
	}
	token, body := b.registration()
	r := b.ask(http.MethodPost, "/agent/register", token, body) // from otherAddress
	direct := codeOf(r)
	proxied := func(header ...string) string {
		t.Helper()
		token, body := b.registration()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/agent/register", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
		for n := 0; n < len(header); n += 2 {
			request.Header.Add(header[n], header[n+1])
		}
		response, err := callerFrom(t, proxyAddress, "").Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return codeOf(decodeReply(t, response))
	}
	through, silent := proxied("X-Forwarded-For", "198.51.100.9, 203.0.113.1"), proxied()
	const same, another, from = "the same address as yours", "another address than yours", "From where"
	for name, c := range map[string]struct {
		text        string
		says, never []string
	}{
		"the same client":                      {page(proxyAddress, through, "X-Forwarded-For", "192.0.2.9, 203.0.113.1"), []string{same, "203.0.113.1"}, []string{another, proxyAddress, "198.51.100.9"}},
		"another client":                       {page(proxyAddress, through, "X-Forwarded-For", "203.0.113.2"), []string{another}, []string{same}},
		"the agent came past the proxy":        {page(proxyAddress, direct, "X-Forwarded-For", "203.0.113.2"), []string{another, otherAddress}, []string{same}},
		"a proxy that names no visitor":        {page(proxyAddress, through), nil, []string{same, another, from, "203.0.113.1"}},
		"a proxy that named no agent":          {page(proxyAddress, silent, "X-Forwarded-For", "203.0.113.1"), nil, []string{same, from, proxyAddress}},
		"a proxy that is not believed":         {page(otherAddress, direct, "X-Forwarded-For", "127.0.0.1"), nil, []string{same, another, from, "registered from"}},
		"a visitor who is nobody's client":     {page(otherAddress, direct), []string{same, otherAddress}, []string{another}},
		"a visitor with a header of the agent": {page(otherAddress, through, "X-Forwarded-For", "203.0.113.1"), nil, []string{same, another, from}},
	} {
		for _, want := range c.says {
			if !strings.Contains(c.text, want) {
				t.Errorf("ATK-66 %s: the page does not say %q", name, want)
			}
		}
		for _, bad := range c.never {
			if strings.Contains(c.text, bad) {
				t.Errorf("ATK-66 %s: the page says %q", name, bad)
			}
		}
	}
}

// TestATK66_ProxyProtocolInFrontOfTheServer has a proxy that is trusted speak the PROXY
// protocol, and another peer try the same.
func TestATK66_ProxyProtocolInFrontOfTheServer(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: fmt.Sprintf("\nproxies: {trusted: [%s], address: proxy-protocol}\n", proxyAddress)})
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "unknown_hosts: 0", "unknown_hosts: 1", 1))
	})
	hello := func(client string) string { return "PROXY TCP4 " + client + " 127.0.0.1 4711 8700\r\n" }
	register := func(c *http.Client, header ...string) int {
		t.Helper()
		token, body := b.registration()
		return statusOf(t, c, http.MethodPost, b.url+"/agent/register", body, append(header, "Authorization", "Bearer "+token, "Content-Type", "application/json")...)
	}
	for n, c := range []struct {
		client string
		header []string
		want   int
	}{
		{"203.0.113.1", nil, http.StatusOK},
		{"203.0.113.1", lies(1), http.StatusTooManyRequests},
		{"203.0.113.2", lies(1), http.StatusOK},
	} {
		if status := register(callerFrom(t, proxyAddress, hello(c.client)), c.header...); status != c.want {
			t.Errorf("ATK-66 registration %d, of %s: HTTP %d; want %d", n, c.client, status, c.want)
		}
	}
	if status := register(callerFrom(t, otherAddress, hello("203.0.113.3"))); status != http.StatusBadRequest {
		t.Errorf("ATK-66 PROXY from a peer that is not trusted: HTTP %d; want 400", status)
	}
	if status := register(callerFrom(t, otherAddress, "")); status != http.StatusOK {
		t.Errorf("ATK-66 past the proxy: HTTP %d; want 200", status)
	}
}

func decodeReply(t *testing.T, response *http.Response) (out reply) {
	t.Helper()
	data, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(data, &out.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
