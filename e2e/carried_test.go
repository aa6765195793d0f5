package e2e

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"
)

// SEP-18: in observe the gateway carries whatever HTTP can, as it came: other
// methods, and bodies that the gateway cannot read. Everywhere else they are
// refused.
func TestSEP18_WhatIsNoCallIsCarriedInObserve(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"SendMessage"}`))
	_ = z.Close()
	for mode, carried := range map[string]bool{"observe": true, "require": false} {
		w := start(t, options{mode: mode})
		w.documents.answers(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Access-Control-Allow-Origin", "*")
			rw.WriteHeader(http.StatusTeapot)
			body, _ := io.ReadAll(r.Body)
			_, _ = rw.Write(append([]byte(r.Method+" "+r.Header.Get("Content-Encoding")+" "), body...))
		})
		for _, c := range []struct {
			method, encoding string
			body             []byte
			refused          int
		}{
			{http.MethodOptions, "", nil, http.StatusMethodNotAllowed},
			{http.MethodPut, "", []byte("text"), http.StatusMethodNotAllowed},
			{http.MethodGet, "", nil, http.StatusMethodNotAllowed},
			{http.MethodPost, "gzip", zipped.Bytes(), http.StatusUnsupportedMediaType},
		} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, w.agentURL("documents"), bytes.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.encoding != "" {
				req.Header.Set("Content-Encoding", c.encoding)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			want := append([]byte(c.method+" "+c.encoding+" "), c.body...)
			if carried && (res.StatusCode != http.StatusTeapot || !bytes.Equal(got, want) || res.Header.Get("Powerbox-Decision") == "") {
				t.Errorf("%s %s %s: %d %q; want it carried as it is, and recorded", mode, c.method, c.encoding, res.StatusCode, got)
			}
			if !carried && res.StatusCode != c.refused {
				t.Errorf("%s %s %s: %d %q; want %d", mode, c.method, c.encoding, res.StatusCode, got, c.refused)
			}
		}
		if reached := len(w.documents.got()); !carried && reached > 0 {
			t.Errorf("%s: %d requests reached the agent", mode, reached)
		}
	}
}
