package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestATK26_WhatCachesKeepUnasked: where an agent says nothing of caches, what they would
// keep all the same is not to be kept, and everything else continues as it came.
func TestATK26_WhatCachesKeepUnasked(t *testing.T) {
	for _, c := range []struct{ method, body, name, said, want string }{
		{http.MethodGet, "{}", "", "", "no-store"},
		{http.MethodGet, "", "", "", ""},
		{http.MethodPost, "{}", "", "", ""},
		{http.MethodDelete, "", "", "", ""},
		{http.MethodPost, "{}", "Expires", "Thu, 01 Dec 2044 16:00:00 GMT", "no-store"},
		{http.MethodPost, "{}", "Cache-Control", "max-age=60", "no-store"},
		{http.MethodPost, "{}", "Cache-Control", "no-cache", "no-cache"},
	} {
		h := http.Header{}
		if c.name != "" {
			h.Set(c.name, c.said)
		}
		unkept(&http.Response{Header: h, Request: &http.Request{Method: c.method}, Body: io.NopCloser(strings.NewReader(c.body)), ContentLength: int64(len(c.body))})
		if got := h.Get("Cache-Control"); got != c.want {
			t.Errorf("ATK-26 %+v: Cache-Control is %q", c, got)
		}
	}
}
