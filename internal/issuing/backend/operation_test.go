package backend_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/backend"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestATK15_ArgumentsChooseNoAddress: where a request goes and who makes it is the
// operator's.
func TestATK15_ArgumentsChooseNoAddress(t *testing.T) {
	good := backend.Operation{Method: "POST", URL: "https://x.example/a/{id}?k=1", Query: []string{"q"}, Header: []string{"X-A"}, Body: []string{"b"}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*backend.Operation){
		"a host":         func(o *backend.Operation) { o.URL = "https://{id}/a" },
		"a part of one":  func(o *backend.Operation) { o.URL = "https://x.{id}.example/a" },
		"a query":        func(o *backend.Operation) { o.URL = "https://x.example/a?{id}" },
		"a brace":        func(o *backend.Operation) { o.URL = "https://x.example/{a/b}" },
		"a login":        func(o *backend.Operation) { o.URL = "https://u:p@x.example/{id}" },
		"a scheme":       func(o *backend.Operation) { o.URL = "file:///etc/{id}" },
		"who it is":      func(o *backend.Operation) { o.Header = []string{"authorization"} },
		"the context":    func(o *backend.Operation) { o.Header = []string{"powerbox-context"} },
		"the host again": func(o *backend.Operation) { o.Header = []string{"Host"} },
		"two places":     func(o *backend.Operation) { o.Query = []string{"id"} },
		"two bodies":     func(o *backend.Operation) { o.Whole = "w" },
		"a GET's body":   func(o *backend.Operation) { o.Method = "GET" },
	} {
		o := good
		change(&o)
		if o.Check() == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// noWay is a transport that nothing may go through.
type noWay struct{ t *testing.T }

func (n noWay) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("%s %s went out", r.Method, r.URL)
	return nil, errors.New("no")
}

// TestAAPC9_ArgumentsHaveAPlace: what would be judged and then not be sent is refused.
func TestAAPC9_ArgumentsHaveAPlace(t *testing.T) {
	o := backend.Operation{
		HTTP: backend.HTTP{
			Client: &http.Client{Transport: noWay{t}}, Limit: 100, Time: time.Second,
			Context: func(provider.Execution, []byte) (string, error) { return "signed", nil },
		},
		Method: "GET", URL: "https://x.example/a/{id}", Query: []string{"q"}, Header: []string{"X-A"},
	}
	for _, text := range []string{`{}`, `{"id":"1","more":1}`, `{"id":null}`, `{"id":{}}`, `{"id":""}`, `{"id":"."}`, `{"id":"1","q":{"a":1}}`, `{"id":"1","X-A":["a"]}`, `{"id":"1","X-A":"a\nb"}`} {
		v, err := powerbox.ParseValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out, err := o.Execute(t.Context(), provider.Execution{Capability: &provider.Capability{Name: "a"}, Arguments: v})
		if err != nil || out.Failed == nil || out.Failed.Code != agentauth.CodeInvalidRequest {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
}
