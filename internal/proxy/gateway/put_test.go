package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// A request that others could take for two has its connection for itself, by the headers
// that came, and none of these reaches the agent (ATK-31).
func TestATK31_HeadersThatCameEndTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		alone  bool
	}{
		"nothing":                  {func(*http.Request) {}, false},
		"an expectation":           {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, true},
		"chunks":                   {func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, true},
		"a length by another name": {func(r *http.Request) { r.Header["Content_Length"] = []string{"5"} }, true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/agents/a", strings.NewReader("{}"))
		r.Header.Set("X-Other", "1")
		c.change(r)
		i := &identified{received: &received{request: r, binding: a2a.JSONRPC}}
		f := &forwardable{
			decided: &decided{decoded: &decoded{identified: i, mode: gate.Require}},
			url:     &url.URL{Scheme: "http", Host: "agent"}, method: http.MethodPost, body: []byte("{}"), header: http.Header{"X-Ours": {"1"}},
		}
		in := f.plain(r)
		out := in.Clone(t.Context())
		f.put(&httputil.ProxyRequest{In: in, Out: out})
		if out.Close != c.alone || len(out.Header) != 1 || out.Header.Get("X-Ours") != "1" {
			t.Errorf("%s: the connection ends: %v, with the headers %v", name, out.Close, out.Header)
		}
	}
}
