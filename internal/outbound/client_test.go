package outbound_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/outbound"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestGetReturnsTheAnswer(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		io.WriteString(w, r.Header.Get("Accept")+" "+r.Header.Get("Accept-Encoding"))
	})
	c := outbound.New(outbound.Policy{AllowLoopback: true})
	body, header, err := c.Get(t.Context(), address, "application/json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("application/json ", string(body)); diff != "" {
		t.Error("body, no compression asked for:", diff)
	}
	if header.Get("ETag") != `"1"` {
		t.Errorf("header = %v; want the ETag", header)
	}
}

// Every line of testdata/addresses.txt is one address, and whether a policy
// that names loopback and 10.1.0.0/16 lets it be dialled. Nothing answers
// there: what counts is who refused.
func TestATK15_Addresses(t *testing.T) {
	f, err := os.Open("testdata/addresses.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	policies := map[string]outbound.Policy{
		"public": {},
		"named":  {AllowLoopback: true, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
		"wide":   {AllowPrivate: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}},
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		policy, address, rule := fields[0], fields[1], strings.Join(fields[2:], " ")
		t.Run(policy+" "+address, func(t *testing.T) {
			err := outbound.CheckAddress(policies[policy], strings.HasPrefix(address, "http:"), address[strings.Index(address, "//")+2:])
			switch {
			case rule == "ok" && err != nil:
				t.Errorf("refused: %v", err)
			case rule != "ok" && !errors.Is(err, outbound.ErrAddress):
				t.Errorf("err = %v; want ErrAddress", err)
			case rule != "ok" && !strings.Contains(err.Error(), rule):
				t.Errorf("err = %v; want it to name the rule %q", err, rule)
			}
		})
	}
}

func TestATK15_LoopbackRefusedByDefault(t *testing.T) {
	called := false
	address := serve(t, func(http.ResponseWriter, *http.Request) { called = true })
	for _, p := range []outbound.Policy{{}, {AllowPrivate: outbound.PrivateNetworks()}} {
		_, _, err := outbound.New(p).Get(t.Context(), address+"/jwks?secret=1", "*/*")
		if !errors.Is(err, outbound.ErrAddress) || called {
			t.Errorf("err = %v, called = %v; want ErrAddress and no call", err, called)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v repeats the query", err)
		}
	}
}

// The name resolves to loopback: what counts is the address that is dialled.
func TestATK16_NameThatResolvesToLoopback(t *testing.T) {
	address := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	_, _, err := outbound.New(outbound.Policy{}).Get(t.Context(), "https://localhost:"+port, "*/*")
	if !errors.Is(err, outbound.ErrAddress) {
		t.Errorf("err = %v; want ErrAddress", err)
	}
}

func TestATK15_NoRedirects(t *testing.T) {
	called := false
	target := serve(t, func(http.ResponseWriter, *http.Request) { called = true })
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusFound)
	})
	_, _, err := outbound.New(outbound.Policy{AllowLoopback: true}).Get(t.Context(), address, "*/*")
	if err == nil || !strings.Contains(err.Error(), "redirect (302)") || called {
		t.Errorf("err = %v, called = %v; want a refused redirect", err, called)
	}
}

func TestATK15_SizeAndTimeAreBounded(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			io.WriteString(w, strings.Repeat("x", 100))
		case "/large":
			io.WriteString(w, strings.Repeat("x", 101))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 1<<16))
			z.Close()
		case "/slow":
			<-r.Context().Done()
		case "/missing":
			http.NotFound(w, r)
		}
	})
	c := outbound.New(outbound.Policy{AllowLoopback: true, MaxBytes: 100})
	brief := outbound.New(outbound.Policy{AllowLoopback: true, Timeout: 100 * time.Millisecond})
	for path, want := range map[string]string{
		"/exact":   "",
		"/large":   "larger than 100 bytes",
		"/slow":    "Timeout",
		"/missing": "the answer is 404; want 200",
	} {
		of := c
		if path == "/slow" {
			of = brief
		}
		_, _, err := of.Get(t.Context(), address+path, "*/*")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: err = %v; want %q", path, err, want)
		}
	}
	body, _, err := c.Get(t.Context(), address+"/bomb", "*/*")
	if err != nil || len(body) > 100 {
		t.Errorf("a compressed body was unpacked: %d bytes, %v", len(body), err)
	}
}

func TestGetRefusesWhatIsNoAddress(t *testing.T) {
	c := outbound.New(outbound.Policy{AllowLoopback: true})
	for address, want := range map[string]string{
		"":                          "not an absolute http or https URL",
		"file:///etc/passwd":        "not an absolute http or https URL",
		"gopher://127.0.0.1":        "not an absolute http or https URL",
		"https:127.0.0.1":           "not an absolute http or https URL",
		"https://":                  "not an absolute http or https URL",
		"https://u:secret@host/":    "carries a user name",
		"https://host:secret%zz/":   "not a URL",
		"https://127.0.0.1:1/x?a=s": "GET https://127.0.0.1:1/x: ",
	} {
		_, _, err := c.Get(t.Context(), address, "*/*")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: err = %v; want %q", address, err, want)
		}
	}
}

func TestProxyFromTheEnvironmentIsIgnored(t *testing.T) {
	proxied := false
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { proxied = true })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	outbound.New(outbound.Policy{AllowLoopback: true}).Get(t.Context(), "http://192.0.2.1/", "*/*")
	if proxied {
		t.Error("the call went through the proxy")
	}
}

func TestTransportKeepsToThePolicy(t *testing.T) {
	address := serve(t, func(http.ResponseWriter, *http.Request) {})
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	_, err := outbound.New(outbound.Policy{}).Transport().RoundTrip(request)
	if !errors.Is(err, outbound.ErrAddress) {
		t.Errorf("err = %v; want ErrAddress", err)
	}
	transport := outbound.New(outbound.Policy{AllowLoopback: true}).Transport()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if transport.MaxIdleConnsPerHost != 256 || !transport.DisableCompression || transport.Proxy != nil {
		t.Error("transport is not tuned for upstreams")
	}
}

func TestPostReturnsWhateverTheStatusIs(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			io.WriteString(w, strings.Repeat("x", 2000))
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type")+" "+string(body))
	})
	c := outbound.New(outbound.Policy{AllowLoopback: true, MaxBytes: 1000})
	status, body, err := c.Post(t.Context(), address, "text/plain", []byte("hello"))
	if err != nil || status != http.StatusConflict || string(body) != "POST text/plain hello" {
		t.Errorf("%d %q %v", status, body, err)
	}
	if _, _, err := c.Post(t.Context(), address+"/long?secret", "text/plain", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a long answer: %v", err)
	}
	if _, _, err := outbound.New(outbound.Policy{}).Post(t.Context(), address, "text/plain", nil); err == nil {
		t.Error("loopback is reached by a policy that does not name it")
	}
	if _, _, err := c.Post(t.Context(), "ftp://x", "text/plain", nil); err == nil {
		t.Error("ftp")
	}
}
